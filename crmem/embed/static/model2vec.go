package static

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"crabmem/crmem/vfs"
)

const (
	maxHeader      = 1 << 20  // bytes of the header of a safetensors file
	maxTokenizer   = 64 << 20 // bytes of tokenizer.json
	maxSafetensors = 1 << 30  // bytes of a safetensors file
)

// Import reads a model of model2vec: a safetensors file and its tokenizer.json. It supports
// WordPiece tokenizers of BERT.
func Import(fsys vfs.FS, safetensors, tokenizerJSON string) (*Table, error) {
	text, err := vfs.ReadFile(fsys, tokenizerJSON, maxTokenizer)
	if err != nil {
		return nil, err
	}
	vocabulary, lower, err := readTokenizer(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tokenizerJSON, err)
	}
	b, err := vfs.ReadFile(fsys, safetensors, maxSafetensors)
	if err != nil {
		return nil, err
	}
	t, err := importTensors(b, vocabulary, lower)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", safetensors, err)
	}
	return t, nil
}

// readTokenizer returns the vocabulary of a tokenizer, and whether it changes letters to
// lower case.
func readTokenizer(text []byte) (vocabulary map[string]uint32, lower bool, err error) {
	var t struct {
		Normalizer struct {
			Type      string `json:"type"`
			Clean     *bool  `json:"clean_text"`
			Chinese   *bool  `json:"handle_chinese_chars"`
			Lowercase bool   `json:"lowercase"`
			Strip     *bool  `json:"strip_accents"`
		} `json:"normalizer"`
		PreTokenizer struct {
			Type string `json:"type"`
		} `json:"pre_tokenizer"`
		Model struct {
			Type   string            `json:"type"`
			Unk    string            `json:"unk_token"`
			Prefix string            `json:"continuing_subword_prefix"`
			Word   *int              `json:"max_input_chars_per_word"`
			Vocab  map[string]uint32 `json:"vocab"`
		} `json:"model"`
		Added []struct {
			ID      uint32 `json:"id"`
			Content string `json:"content"`
			Special bool   `json:"special"`
		} `json:"added_tokens"`
	}
	if err := json.Unmarshal(text, &t); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && t.Model.Type != "" && t.Model.Type != "WordPiece" {
			return nil, false, unsupported("tokenizer", t.Model.Type, "WordPiece")
		}
		return nil, false, fmt.Errorf("parse JSON: %w", err)
	}
	n := &t.Normalizer
	switch {
	case t.Model.Type != "WordPiece":
		return nil, false, unsupported("tokenizer", t.Model.Type, "WordPiece")
	case n.Type != "BertNormalizer":
		return nil, false, unsupported("normalizer", n.Type, "BertNormalizer")
	case t.PreTokenizer.Type != "BertPreTokenizer":
		return nil, false, unsupported("pre_tokenizer", t.PreTokenizer.Type, "BertPreTokenizer")
	case t.Model.Prefix != continued:
		return nil, false, unsupported("continuing_subword_prefix", t.Model.Prefix, continued)
	case n.Strip != nil && *n.Strip != n.Lowercase:
		return nil, false, errors.New("strip_accents differs from lowercase, which is not supported")
	case n.Clean != nil && !*n.Clean:
		return nil, false, unsupported("clean_text", "false", "true")
	case n.Chinese != nil && !*n.Chinese:
		return nil, false, unsupported("handle_chinese_chars", "false", "true")
	case t.Model.Word != nil && *t.Model.Word != maxWord:
		return nil, false, unsupported("max_input_chars_per_word", strconv.Itoa(*t.Model.Word), strconv.Itoa(maxWord))
	}
	delete(t.Model.Vocab, t.Model.Unk)
	for _, a := range t.Added { // the tokenizer finds them in no text
		if a.Special {
			delete(t.Model.Vocab, a.Content)
		}
	}
	if len(t.Model.Vocab) == 0 {
		return nil, false, errors.New("the vocabulary has no token of a text")
	}
	for token := range t.Model.Vocab {
		if len(token) > maxToken {
			return nil, false, fmt.Errorf("a token has %d bytes, more than the limit of %d", len(token), maxToken)
		}
	}
	return t.Model.Vocab, n.Lowercase, nil
}

func unsupported(what, got, want string) error {
	return fmt.Errorf("%s %.100q is not supported: use a model with %s", what, got, want)
}

// A tensor describes a tensor of a safetensors file.
type tensor struct {
	Type    string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"`

	name string
	data []byte
	at   int64 // offset of data in the file
}

// importTensors returns the table of the tensor embeddings, with a row for each token, and
// of weights and mapping, if there are any: a factor and a row number for each token.
func importTensors(b []byte, vocabulary map[string]uint32, lower bool) (*Table, error) {
	tensors, err := readTensors(b)
	if err != nil {
		return nil, err
	}
	e, ok := tensors["embeddings"]
	if !ok || len(e.Shape) != 2 {
		return nil, errors.New(`no tensor "embeddings" with two dimensions: it is not a model of model2vec`)
	}
	rows, dim := e.Shape[0], e.Shape[1]
	switch {
	case rows < 1 || dim < 1 || dim > maxDim:
		return nil, fmt.Errorf("embeddings have the shape %v: want at least 1 row, and 1 to %d components", e.Shape, maxDim)
	case int64(len(vocabulary))*dim > maxValues:
		return nil, fmt.Errorf("%d tokens of %d components are more than the limit of %d numbers", len(vocabulary), dim, maxValues)
	}
	weights, weighted := tensors["weights"]
	mapping, mapped := tensors["mapping"]
	return newTable(slices.Sorted(maps.Keys(vocabulary)), int(dim), lower, func(token string, v []float32) error {
		id := int64(vocabulary[token])
		row, weight := id, 1.0
		if weighted {
			if weight, err = weights.number(id); err != nil {
				return fmt.Errorf("weight of token %.100q: %w", token, err)
			}
		}
		if mapped {
			if row, err = mapping.index(id); err != nil {
				return fmt.Errorf("mapping of token %.100q: %w", token, err)
			}
		}
		if row < 0 || row >= rows {
			return fmt.Errorf("token %.100q has row %d, and there are %d: the tokenizer is of another model", token, row, rows)
		}
		for i := range v {
			n := row*dim + int64(i)
			x, err := e.number(n)
			if err != nil {
				return err
			}
			v[i] = float32(x * weight)
			if y := float64(v[i]); math.IsNaN(y) || math.Abs(y) > maxValue {
				return fmt.Errorf("offset %d: token %.100q: component %d is %v: want a number within ±%g", e.at+n*int64(e.size()), token, i, y, float64(maxValue))
			}
		}
		return nil
	})
}

// readTensors reads the header of a safetensors file. It checks that the tensors follow one
// another, without gaps, to the end of the file.
func readTensors(b []byte) (map[string]tensor, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("%d bytes: not a safetensors file", len(b))
	}
	size := binary.LittleEndian.Uint64(b)
	if size > maxHeader || size > uint64(len(b)-8) {
		return nil, fmt.Errorf("offset 0: the header has %d bytes: want at most %d and those of the file", size, maxHeader)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+size], &raw); err != nil {
		return nil, fmt.Errorf("offset 8: parse the header: %w", err)
	}
	data := b[8+size:]
	tensors := make(map[string]tensor)
	var order []tensor
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if name == "__metadata__" {
			continue
		}
		t := tensor{name: name}
		if err := json.Unmarshal(raw[name], &t); err != nil {
			return nil, fmt.Errorf("offset 8: tensor %.100q: %w", name, err)
		}
		if len(t.Offsets) != 2 || t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] || t.Offsets[1] > int64(len(data)) {
			return nil, fmt.Errorf("offset 8: tensor %.100q: offsets %v: want two within %d bytes", name, t.Offsets, len(data))
		}
		t.data, t.at = data[t.Offsets[0]:t.Offsets[1]], int64(8+size)+t.Offsets[0]
		if err := t.checkShape(); err != nil {
			return nil, fmt.Errorf("offset 8: tensor %.100q: %w", name, err)
		}
		tensors[name] = t
		order = append(order, t)
	}
	slices.SortStableFunc(order, func(a, b tensor) int {
		return cmp.Or(cmp.Compare(a.Offsets[0], b.Offsets[0]), cmp.Compare(a.Offsets[1], b.Offsets[1]))
	})
	end := int64(0)
	for _, t := range order {
		if t.Offsets[0] != end {
			return nil, fmt.Errorf("offset %d: tensor %.100q overlaps another or follows a gap: it begins at %d of the data, want %d", t.at, t.name, t.Offsets[0], end)
		}
		end = t.Offsets[1]
	}
	if end != int64(len(data)) {
		return nil, fmt.Errorf("offset %d: %d bytes follow the last tensor", 8+int64(size)+end, int64(len(data))-end)
	}
	return tensors, nil
}

// checkShape checks that the data has the size of the shape. It accepts any size if the
// type is not supported.
func (t *tensor) checkShape() error {
	n := int64(t.size())
	for _, d := range t.Shape {
		if d < 0 || d > maxSafetensors || d > 0 && n > math.MaxInt64/d {
			return fmt.Errorf("the shape %v is invalid", t.Shape)
		}
		n *= d
	}
	if t.size() > 0 && n != int64(len(t.data)) {
		return fmt.Errorf("%d bytes of data for the shape %v of %s", len(t.data), t.Shape, t.Type)
	}
	return nil
}

// size returns the bytes of a number, or 0 if the type is not supported.
func (t *tensor) size() int {
	switch t.Type {
	case "F64", "I64":
		return 8
	case "F32", "I32":
		return 4
	case "F16", "BF16":
		return 2
	case "I8":
		return 1
	}
	return 0
}

// index returns a number of a tensor of integers.
func (t *tensor) index(i int64) (int64, error) {
	x, err := t.number(i)
	if err == nil && t.Type != "I64" && t.Type != "I32" {
		err = fmt.Errorf("tensor %q has numbers of type %s: want I64 or I32", t.name, t.Type)
	}
	if err != nil || math.Abs(x) > math.MaxInt32 {
		return -1, err
	}
	return int64(x), nil
}

// number returns a number of the tensor.
func (t *tensor) number(i int64) (float64, error) {
	size := int64(t.size())
	switch {
	case size == 0:
		return 0, fmt.Errorf("offset 8: tensor %q has numbers of type %.20q, which are not supported: want F32, F16, BF16, I8, or F64", t.name, t.Type)
	case i < 0 || i >= int64(len(t.data))/size:
		return 0, fmt.Errorf("offset 8: tensor %q has %d numbers, none with index %d", t.name, int64(len(t.data))/size, i)
	}
	b := t.data[i*size:]
	switch t.Type {
	case "F64":
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
	case "I64":
		return float64(int64(binary.LittleEndian.Uint64(b))), nil
	case "F32":
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), nil
	case "I32":
		return float64(int32(binary.LittleEndian.Uint32(b))), nil
	case "BF16":
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)), nil
	case "F16":
		return half(binary.LittleEndian.Uint16(b)), nil
	}
	return float64(int8(b[0])), nil
}

// half returns the value of a 16-bit floating-point number.
func half(h uint16) float64 {
	sign, exp, frac := h>>15, int(h>>10&31), float64(h&1023)
	v := math.Ldexp(frac, -24)
	switch exp {
	case 31:
		v = math.Inf(1)
		if frac != 0 {
			v = math.NaN()
		}
	case 0:
	default:
		v = math.Ldexp(1024+frac, exp-25)
	}
	if sign != 0 {
		v = -v
	}
	return v
}
