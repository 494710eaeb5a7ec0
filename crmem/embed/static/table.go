// Package static contains embedding models without a neural network: the vector of a text
// is the mean of the vectors of its tokens. Such models come from the model2vec project.
package static

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
	"unsafe"

	"crabmem/crmem/vfs"
)

// A Table is a model in memory. It implements [embed.Embedder], and may be used
// concurrently. As in model2vec, a vector depends on the first 512 tokens of a text; the
// rest has no effect. Words without a token have no effect, either.
//
// Its file begins with a header of 32 bytes, little-endian: magic "CREMBED\x00", version
// u32 = 1, components of a vector u32, tokens n u32, bytes of the tokens u32, flags u32 (1:
// lower case without accents), and 4 bytes 0. The ends of the tokens follow, n times u32;
// the tokens, ascending; their scales, n times float32; their components, int8; and the
// CRC-32C of all bytes before.
type Table struct {
	tokenizer
	dim    int
	scales []float32
	values []int8
	sum    uint32
}

const (
	magic      = "CREMBED\x00"
	version    = 1
	headerSize = 32
	flagLower  = 1

	maxDim    = 4096
	maxValues = 1 << 28 // components of all tokens
	maxFile   = 1 << 29
	maxToken  = 1 << 10 // bytes
	maxValue  = 1e30    // magnitude of a component; sums of maxTokens are finite
	minScale  = 1e-30   // smaller scales are 0, because their precision is low
)

// Dim returns the number of components of a vector.
func (t *Table) Dim() int { return t.dim }

// Tokens returns the size of the vocabulary.
func (t *Table) Tokens() int { return len(t.scales) }

// Sum identifies the contents of the table.
func (t *Table) Sum() string { return fmt.Sprintf("%08x", t.sum) }

// Embed returns the vector of each text, or nil for one without a token. It never fails
// unless ctx ends.
func (t *Table) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	list := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		list[i] = t.vector(text)
	}
	return list, nil
}

func (t *Table) vector(text string) []float32 {
	var v []float32
	t.tokenize(text, func(token uint32) {
		if v == nil {
			v = make([]float32, t.dim)
		}
		scale := t.scales[token]
		for i, x := range t.values[int(token)*t.dim:][:t.dim] {
			v[i] += scale * float32(x)
		}
	})
	for _, x := range v {
		if x != 0 {
			return v
		}
	}
	return nil
}

// Open reads a file that [Table.Write] wrote. The table needs as much memory as the file.
func Open(fsys vfs.FS, name string) (*Table, error) {
	b, err := vfs.ReadFile(fsys, name, maxFile)
	if err != nil {
		return nil, err
	}
	t, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// IsTable reports whether a file begins as the file of a table.
func IsTable(b []byte) bool { return bytes.HasPrefix(b, []byte(magic)) }

func decode(b []byte) (*Table, error) {
	if len(b) < headerSize+4 || !IsTable(b) {
		return nil, errors.New("not a static model: want a file that crabmem model add wrote, or a directory with model.safetensors and tokenizer.json")
	}
	number := func(i int) int64 { return int64(binary.LittleEndian.Uint32(b[len(magic)+4*i:])) }
	dim, n, text, flags := number(1), number(2), number(3), number(4)
	switch want := headerSize + n*8 + text + n*dim + 4; {
	case number(0) != version:
		return nil, fmt.Errorf("offset 8: version %d of a static model: want %d", number(0), version)
	case dim < 1 || dim > maxDim || n < 1 || n > maxValues/dim || flags > flagLower || number(5) != 0:
		return nil, fmt.Errorf("offset 12: the header of the static model is invalid: %d tokens of %d components, flags %d and %d", n, dim, flags, number(5))
	case int64(len(b)) != want:
		return nil, fmt.Errorf("the static model has %d bytes, want %d", len(b), want)
	}
	sum := crc32.Checksum(b[:len(b)-4], crc32.MakeTable(crc32.Castagnoli))
	if sum != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, fmt.Errorf("offset %d: the checksum of the static model differs: copy or add it again", len(b)-4)
	}
	t := &Table{dim: int(dim), sum: sum, tokenizer: tokenizer{tokens: make(map[string]uint32, n), lower: flags&flagLower != 0}}
	ends, rest := b[headerSize:headerSize+4*n], b[headerSize+4*n:]
	words, rest := string(rest[:text]), rest[text:]
	t.scales = make([]float32, n)
	from, last := uint32(0), ""
	for i := range t.scales {
		to := binary.LittleEndian.Uint32(ends[4*i:])
		scale := math.Float32frombits(binary.LittleEndian.Uint32(rest[4*i:]))
		if to < from || to-from > maxToken || int64(to) > text || i > 0 && words[from:to] <= last || !(scale >= 0 && scale <= maxValue) {
			return nil, fmt.Errorf("offset %d: token %d of the static model is invalid", headerSize+4*i, i)
		}
		last = words[from:to]
		t.tokens[last] = uint32(i)
		t.scales[i] = scale
		from = to
	}
	values := rest[4*n : len(rest)-4]
	t.values = unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(values))), len(values))
	return t, nil
}

// Write writes the file of the table.
func (t *Table) Write(w io.Writer) error {
	_, err := w.Write(t.encode())
	return err
}

func (t *Table) encode() []byte {
	words := make([]string, len(t.scales))
	for word, i := range t.tokens {
		words[i] = word
	}
	text := strings.Join(words, "")
	b := append(make([]byte, 0, headerSize+8*len(words)+len(text)+len(t.values)+4), magic...)
	flags := 0
	if t.lower {
		flags = flagLower
	}
	for _, n := range []int{version, t.dim, len(words), len(text), flags, 0} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	end := 0
	for _, word := range words {
		end += len(word)
		b = binary.LittleEndian.AppendUint32(b, uint32(end))
	}
	b = append(b, text...)
	for _, s := range t.scales {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(s))
	}
	for _, x := range t.values {
		b = append(b, byte(x))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// newTable returns the table of tokens, which are ascending and unique. vector sets the
// vector of a token.
func newTable(words []string, dim int, lower bool, vector func(token string, v []float32) error) (*Table, error) {
	t := &Table{dim: dim, tokenizer: tokenizer{tokens: make(map[string]uint32, len(words)), lower: lower},
		scales: make([]float32, len(words)), values: make([]int8, len(words)*dim)}
	v := make([]float32, dim)
	for i, word := range words {
		if err := vector(word, v); err != nil {
			return nil, err
		}
		t.tokens[word] = uint32(i)
		most := float32(0)
		for _, x := range v {
			most = max(most, float32(math.Abs(float64(x))))
		}
		scale := most / 127
		if scale < minScale {
			continue
		}
		t.scales[i] = scale
		for j, x := range v {
			t.values[i*dim+j] = int8(math.RoundToEven(float64(x) / float64(scale)))
		}
	}
	b := t.encode()
	t.sum = binary.LittleEndian.Uint32(b[len(b)-4:])
	return t, nil
}

// CheckName returns why the name of an installed model is invalid, or nil.
func CheckName(name string) error {
	switch {
	case name == "" || len(name) > 64:
		return fmt.Errorf("the name of a model has %d bytes: want 1 to 64", len(name))
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" || name[0] == '.':
		return fmt.Errorf("%q is not the name of a model: want letters, digits, '-', '_', and '.', not first", name)
	}
	return nil
}
