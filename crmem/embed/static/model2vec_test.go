package static

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// headed returns a safetensors file with a header.
func headed(header string, data []byte) []byte {
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), []byte(header), data)
}

// TestImportRefuses imports invalid files.
func TestImportRefuses(t *testing.T) {
	model := func(key string, v any) func(map[string]any) {
		return func(m map[string]any) { m["model"].(map[string]any)[key] = v }
	}
	header := func(name, key string, v any) func(map[string]any) {
		return func(m map[string]any) { m[name].(map[string]any)[key] = v }
	}
	nan := rows()
	nan[4][4] = float32(math.NaN())
	good := map[string][][]float32{"embeddings": rows()}
	for _, c := range []struct {
		want    string
		tensors []byte
		tok     []byte
	}{
		{`tokenizer "Unigram" is not supported: use a model with WordPiece`, nil, tokenizerJSON(t, func(m map[string]any) {
			m["model"] = map[string]any{"type": "Unigram", "vocab": []any{[]any{"a", -1.5}}}
		})},
		{`normalizer "Sequence" is not supported`, nil, tokenizerJSON(t, func(m map[string]any) { m["normalizer"] = map[string]any{"type": "Sequence"} })},
		{`pre_tokenizer "Metaspace" is not supported`, nil, tokenizerJSON(t, func(m map[string]any) { m["pre_tokenizer"] = map[string]any{"type": "Metaspace"} })},
		{`continuing_subword_prefix "@@" is not supported`, nil, tokenizerJSON(t, model("continuing_subword_prefix", "@@"))},
		{"strip_accents differs", nil, tokenizerJSON(t, func(m map[string]any) { m["normalizer"].(map[string]any)["strip_accents"] = false })},
		{"a token has 2000 bytes", nil, tokenizerJSON(t, model("vocab", map[string]any{strings.Repeat("x", 2000): 1}))},
		{"has row 11, and there are 11", nil, tokenizerJSON(t, model("vocab", map[string]any{"x": 11}))},
		{`clean_text "false" is not supported`, nil, tokenizerJSON(t, func(m map[string]any) { m["normalizer"].(map[string]any)["clean_text"] = false })},
		{`handle_chinese_chars "false" is not supported`, nil, tokenizerJSON(t, func(m map[string]any) { m["normalizer"].(map[string]any)["handle_chinese_chars"] = false })},
		{`max_input_chars_per_word "50" is not supported`, nil, tokenizerJSON(t, model("max_input_chars_per_word", 50))},
		{"the vocabulary has no token of a text", nil, tokenizerJSON(t, model("vocab", map[string]any{"[UNK]": 1, "[PAD]": 0}))},
		{"parse JSON", nil, []byte(`{"model"`)},
		{"exceeded max depth", nil, bytes.Repeat([]byte{'['}, 1<<20)},
		{"exceeded max depth", headed(strings.Repeat("[", 1<<19), nil), nil},
		{"offset 0: the header has 1048577 bytes: want at most 1048576", headed(strings.Repeat(" ", 1<<20+1), nil), nil},
		{`offset 125: tensor "embeddings" overlaps another or follows a gap: it begins at 1 of the data, want 2`, headed(
			`{"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},`+
				`"embeddings":{"dtype":"I8","shape":[1,2],"data_offsets":[1,3]}}`, []byte{1, 2, 3}), nil},
		{`tensor "embeddings" overlaps another or follows a gap: it begins at 1 of the data, want 0`, headed(
			`{"embeddings":{"dtype":"I8","shape":[1,2],"data_offsets":[1,3]}}`, []byte{1, 2, 3}), nil},
		{"1 bytes follow the last tensor", headed(`{"embeddings":{"dtype":"I8","shape":[1,2],"data_offsets":[0,2]}}`, []byte{1, 2, 3}), nil},
		{"0 bytes: not a safetensors file", []byte{}, nil},
		{"the header has 18446744073709551615 bytes", bytes.Repeat([]byte{255}, 100), nil},
		{"parse the header", slices.Concat([]byte{3, 0, 0, 0, 0, 0, 0, 0}, []byte("{x}")), nil},
		{"no tensor \"embeddings\"", safetensors(t, map[string][][]float32{"weights": {{1}}}, nil), nil},
		{`token "auto": component 4 is NaN: want a number within ±1e+30`, safetensors(t, map[string][][]float32{"embeddings": nan}, nil), nil},
		{"want two within", safetensors(t, good, header("embeddings", "data_offsets", []any{0, int64(1) << 40})), nil},
		{"want two within", safetensors(t, good, header("embeddings", "data_offsets", []any{-4, 8})), nil},
		{"want two within", safetensors(t, good, header("embeddings", "data_offsets", []any{8, 4})), nil},
		{"bytes of data for the shape", safetensors(t, good, header("embeddings", "shape", []any{12, 11})), nil},
		{"the shape [4611686018427387904 11] is invalid", safetensors(t, good, header("embeddings", "shape", []any{int64(1) << 62, 11})), nil},
		{"the shape [-11 -11] is invalid", safetensors(t, good, header("embeddings", "shape", []any{-11, -11})), nil},
		{`tensor "embeddings" has numbers of type "F8", which are not supported: want F32`, safetensors(t, good, header("embeddings", "dtype", "F8")), nil},
		{"weight of token", safetensors(t, map[string][][]float32{"embeddings": rows(), "weights": {{1}}}, nil), nil},
	} {
		if c.tensors == nil {
			c.tensors = safetensors(t, good, nil)
		}
		if c.tok == nil {
			c.tok = tokenizerJSON(t, nil)
		}
		if _, err := imported(t, c.tensors, c.tok); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestImportTooManyNumbers imports a small file from which a large table would be made.
func TestImportTooManyNumbers(t *testing.T) {
	vocabulary := make(map[string]uint32)
	for i := range maxValues/maxDim + 1 {
		vocabulary[fmt.Sprint(i)] = 0
	}
	file := headed(fmt.Sprintf(`{"embeddings":{"dtype":"I8","shape":[1,%d],"data_offsets":[0,%[1]d]}}`, maxDim), make([]byte, maxDim))
	if _, err := importTensors(file, vocabulary, true); err == nil || !strings.Contains(err.Error(), "65537 tokens of 4096 components are more than the limit") {
		t.Error(err)
	}
}

// TestTypes imports a row of each type of numbers.
func TestTypes(t *testing.T) {
	vocabulary := map[string]uint32{"car": 0}
	for kind, data := range map[string][]byte{
		"F64":  {0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0},
		"F32":  {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0},
		"F16":  {0, 0x3c, 0, 0xc0},
		"BF16": {0x80, 0x3f, 0, 0xc0},
		"I8":   {1, 0xfe},
	} {
		header := fmt.Sprintf(`{"embeddings":{"dtype":%q,"shape":[1,2],"data_offsets":[0,%d]}}`, kind, len(data))
		table, err := importTensors(headed(header, data), vocabulary, true)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if v := table.vector("car"); math.Abs(float64(v[0]-1)) > .01 || math.Abs(float64(v[1]+2)) > .01 {
			t.Errorf("%s: %v, want 1, -2", kind, v)
		}
	}
}

// TestMapping imports a model in which tokens share rows.
func TestMapping(t *testing.T) {
	header := `{"embeddings":{"dtype":"I8","shape":[2,1],"data_offsets":[0,2]},"mapping":{"dtype":"I32","shape":[3],"data_offsets":[2,14]}}`
	data := []byte{5, 7, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}
	file := headed(header, data)
	table, err := importTensors(file, map[string]uint32{"car": 0, "auto": 1, "cafe": 2}, true)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]float32{"car": 7, "auto": 5, "cafe": 7} {
		if v := table.vector(text); math.Abs(float64(v[0]-want)) > .01 {
			t.Errorf("%s: %v, want %v", text, v, want)
		}
	}
	copy(file[bytes.Index(file, []byte("I32")):], "F32")
	if _, err := importTensors(file, map[string]uint32{"car": 0}, true); err == nil || !strings.Contains(err.Error(), "want I64 or I32") {
		t.Errorf("a mapping of fractions: %v", err)
	}
}

func TestHalf(t *testing.T) {
	for h, want := range map[uint16]float64{0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 1: math.Ldexp(1, -24), 0x7c00: math.Inf(1)} {
		if got := half(h); got != want {
			t.Errorf("%#x: %v, want %v", h, got, want)
		}
	}
	if !math.IsNaN(half(0x7c01)) {
		t.Error("0x7c01 is a number")
	}
}

func FuzzImport(f *testing.F) {
	f.Add(safetensors(f, map[string][][]float32{"embeddings": rows()}, nil), tokenizerJSON(f, nil))
	f.Fuzz(func(t *testing.T, tensors, tok []byte) {
		vocabulary, lower, err := readTokenizer(tok)
		if err != nil {
			return
		}
		if table, err := importTensors(tensors, vocabulary, lower); err == nil {
			table.vector("cars 海")
		}
	})
}
