package static

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
)

// vocabulary is that of the model that the tests make.
var vocabulary = map[string]uint32{"[PAD]": 0, "[UNK]": 1, "car": 2, "##s": 3, "auto": 4, "##mobile": 5, "!": 6, "cafe": 7, "海": 8, "a": 9, "##b": 10}

// tokenizerJSON returns a tokenizer of the vocabulary; edit changes it.
func tokenizerJSON(t testing.TB, edit func(map[string]any)) []byte {
	t.Helper()
	m := map[string]any{
		"normalizer":    map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": nil, "lowercase": true},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"added_tokens":  []any{map[string]any{"id": 0, "content": "[PAD]", "special": true}},
		"model":         map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": maps.Clone(vocabulary)},
	}
	if edit != nil {
		edit(m)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// safetensors returns a file with tensors of 32-bit numbers.
func safetensors(t testing.TB, tensors map[string][][]float32, edit func(map[string]any)) []byte {
	t.Helper()
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		rows := tensors[name]
		from := len(data)
		for _, row := range rows {
			for _, x := range row {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
			}
		}
		shape := []any{len(rows), len(rows[0])}
		if name != "embeddings" {
			shape = shape[:1]
		}
		header[name] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []any{from, len(data)}}
	}
	if edit != nil {
		edit(header)
	}
	b, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b, data)
}

// rows returns a matrix with a row for each token: components 1 at the place of the token.
func rows() [][]float32 {
	list := make([][]float32, len(vocabulary))
	for i := range list {
		list[i] = make([]float32, len(vocabulary))
		list[i][i] = 1
	}
	return list
}

// imported imports a model.
func imported(t testing.TB, tensors, tokenizer []byte) (*Table, error) {
	t.Helper()
	dir := t.TempDir()
	for name, b := range map[string][]byte{"model.safetensors": tensors, "tokenizer.json": tokenizer} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Import(vfs.OS{}, filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "tokenizer.json"))
}

func TestTable(t *testing.T) {
	weights := make([][]float32, len(vocabulary))
	for i := range weights {
		weights[i] = []float32{float32(i)}
	}
	plain, err := imported(t, safetensors(t, map[string][][]float32{"embeddings": rows()}, nil), tokenizerJSON(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	weighted, err := imported(t, safetensors(t, map[string][][]float32{"embeddings": rows(), "weights": weights}, nil), tokenizerJSON(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if plain.Tokens() != 9 || plain.Dim() != 11 || plain.Sum() == weighted.Sum() {
		t.Errorf("%d tokens of %d components, sums %s and %s", plain.Tokens(), plain.Dim(), plain.Sum(), weighted.Sum())
	}
	for text, want := range map[string]map[uint32]float32{
		"Cars!":            {2: 1, 3: 1, 6: 1},
		"automobile CAR":   {4: 1, 5: 1, 2: 1},
		"café cafe\u0301":  {7: 2},
		"海海car":            {8: 2, 2: 1},
		"carx [UNK] [PAD]": {},
		"a\u0000b\u200b":   {9: 1, 10: 1},
		" \n":              {},
		"":                 {},
	} {
		var b bytes.Buffer
		if err := weighted.Write(&b); err != nil {
			t.Fatal(err)
		}
		reread, err := decode(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for name, table := range map[string]*Table{"plain": plain, "weighted": weighted, "reread": reread} {
			list, err := table.Embed(t.Context(), []string{text})
			if err != nil || (list[0] == nil) != (len(want) == 0) {
				t.Errorf("%s: %q: %v, %v", name, text, list, err)
				continue
			}
			for i, x := range list[0] {
				w := want[uint32(i)]
				if name != "plain" {
					w *= float32(i)
				}
				if math.Abs(float64(x-w)) > 1e-5 {
					t.Errorf("%s: %q: component %d is %v, want %v", name, text, i, x, w)
				}
			}
		}
	}
}

// TestLongText checks that a long text costs no more than its first tokens, and that a word
// may be at the end of a piece.
func TestLongText(t *testing.T) {
	table, err := imported(t, safetensors(t, map[string][][]float32{"embeddings": rows()}, nil), tokenizerJSON(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	for n := 240; n < 270; n++ {
		if v := table.vector(strings.Repeat(" ", n) + "cafés 海"); v[7] != 1 || v[3] != 1 || v[8] != 1 {
			t.Errorf("after %d spaces: %v", n, v)
		}
	}
	if v := table.vector(strings.Repeat("car ", 1<<20)); v[2] != maxTokens {
		t.Errorf("%v tokens", v[2])
	}
	if v := table.vector(strings.Repeat("x", 1<<20) + " car"); v[2] != 1 {
		t.Errorf("after a long word: %v", v)
	}
}

// TestTokenizer compares tokens with those of the tokenizers library, which recorded
// testdata/tokens.tsv with testdata/record.py.
func TestTokenizer(t *testing.T) {
	tok := tokenizer{tokens: map[string]uint32{}, lower: true}
	var words []string
	for word := range lines(t, "testdata/vocabulary.txt") {
		tok.tokens[word] = uint32(len(words))
		words = append(words, word)
	}
	delete(tok.tokens, "[UNK]")
	n := 0
	for line := range lines(t, "testdata/tokens.tsv") {
		quoted, want, _ := strings.Cut(line, "\t")
		var text string
		if err := json.Unmarshal([]byte(quoted), &text); err != nil {
			t.Fatal(err)
		}
		var got []string
		tok.tokenize(text, func(token uint32) { got = append(got, words[token]) })
		if strings.Join(got, " ") != want {
			t.Errorf("%s: tokens %q, want %q", quoted, got, want)
		}
		n++
	}
	if n < 200 {
		t.Errorf("%d cases", n)
	}
}

func lines(t *testing.T, name string) func(func(string) bool) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s := bufio.NewScanner(f)
	return func(yield func(string) bool) {
		for s.Scan() && yield(s.Text()) {
		}
	}
}

// newTestTable returns the table of vectors.
func newTestTable(t testing.TB, dim int, vectors map[string][]float32) *Table {
	t.Helper()
	table, err := newTable(slices.Sorted(maps.Keys(vectors)), dim, true, func(token string, v []float32) error {
		copy(v, vectors[token])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestSmallValues checks that components whose scale is no number of full precision are 0.
func TestSmallValues(t *testing.T) {
	if v := newTestTable(t, 2, map[string][]float32{"car": {3e-43, -3e-43}}).vector("car"); v != nil {
		t.Errorf("%v", v)
	}
	v := newTestTable(t, 1, map[string][]float32{"car": {maxValue}}).vector(strings.Repeat("car ", maxTokens))
	if math.IsInf(float64(v[0]), 0) {
		t.Errorf("%v", v)
	}
}

// TestOpenDamaged changes each byte of a file, and then corrects the checksum.
func TestOpenDamaged(t *testing.T) {
	table := newTestTable(t, 2, map[string][]float32{"car": {1, 2}, "##s": {0, 0}, "海": {-1, 1}})
	var w bytes.Buffer
	if err := table.Write(&w); err != nil {
		t.Fatal(err)
	}
	good := w.Bytes()
	for n := range good {
		if _, err := decode(good[:n]); err == nil {
			t.Fatalf("a file of %d bytes is valid", n)
		}
	}
	for i := range good {
		for _, flip := range []byte{1, 0x80, 0xff} {
			b := slices.Clone(good)
			b[i] ^= flip
			if _, err := decode(b); err == nil {
				t.Fatalf("byte %d: no error", i)
			}
			end := len(b) - 4
			binary.LittleEndian.PutUint32(b[end:], crc32.Checksum(b[:end], crc32.MakeTable(crc32.Castagnoli)))
			x, err := decode(b)
			if err != nil {
				continue
			}
			for _, y := range x.vector("cars 海") {
				if math.IsInf(float64(y), 0) || math.IsNaN(float64(y)) {
					t.Fatalf("byte %d: a component is %v", i, y)
				}
			}
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, good := range map[string]bool{"minilm-256": true, "a.b_C": true, "": false, ".x": false, "a/b": false, "..": false, "é": false, strings.Repeat("x", 65): false} {
		if err := CheckName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	var w bytes.Buffer
	if err := newTestTable(f, 2, map[string][]float32{"car": {1, 2}, "##s": {0, 0}}).Write(&w); err != nil {
		f.Fatal(err)
	}
	f.Add(w.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, err := decode(b); err == nil {
			x.vector("cars " + string(b))
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	vectors := make(map[string][]float32)
	for i := range 30_000 {
		vectors[fmt.Sprint("w", i)] = []float32{1}
	}
	var w bytes.Buffer
	if err := newTestTable(b, 256, vectors).Write(&w); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(w.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decode(w.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEmbed(b *testing.B) {
	vectors := make(map[string][]float32)
	for i := range 30_000 {
		v := make([]float32, 256)
		v[i%256] = 1
		vectors[fmt.Sprint("w", i)] = v
	}
	table := newTestTable(b, 256, vectors)
	var words []string
	for i := range 50 {
		words = append(words, fmt.Sprint("w", i*599))
	}
	text := strings.Join(words, " ")
	b.ReportAllocs()
	for b.Loop() {
		table.vector(text)
	}
}
