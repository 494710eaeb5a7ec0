package vector

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/internal/format"
)

// random returns a vector of length 1.
func random(rng *rand.Rand, dim int) []float32 {
	v := make([]float32, dim)
	sum := 0.0
	for i := range v {
		v[i] = float32(rng.NormFloat64())
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func digestOf(n uint64) format.Digest {
	return format.DigestOf(binary.LittleEndian.AppendUint64(nil, n))
}

const ids = 60 // of TestSet

// TestSet changes a set at random and compares each search with one over all vectors.
func TestSet(t *testing.T) {
	const dim = 24
	rng := rand.New(rand.NewPCG(1, 2))
	s := New("m", dim)
	model := map[uint64][][]float32{}
	most := 0 // rows at a time
	for step := range 600 {
		id := 1 + rng.Uint64N(ids)
		if rng.IntN(4) == 0 {
			s.Remove(id)
			delete(model, id)
		} else {
			vectors := make([][]float32, rng.IntN(4))
			for i := range vectors {
				vectors[i] = random(rng, dim)
			}
			s.Put(id, digestOf(id), vectors)
			model[id] = vectors
		}
		if most = max(most, s.Rows()); len(s.rows) != most {
			t.Fatalf("place for %d rows, want %d", len(s.rows), most)
		}
		if step%10 == 0 {
			compare(t, s, model, rng)
			compare(t, s.Clone(), model, rng)
			compare(t, reread(t, s), model, rng)
		}
	}
}

// compare checks all methods of s that do not change it.
func compare(t *testing.T, s *Set, model map[uint64][][]float32, rng *rand.Rand) {
	t.Helper()
	q := NewQuery(random(rng, s.dim))
	odd := func(id uint64) bool { return id%2 == 1 || id == 0 }
	var want []Match
	rows, empty := 0, 0
	other := 1 + rng.Uint64N(ids)
	for id, vectors := range model {
		if len(vectors) == 0 {
			empty++
		}
		best, similar := math.Inf(-1), false
		for _, v := range vectors {
			if c, ok := s.Cosine(NewQuery(v), other); ok {
				best, similar = max(best, c), true
			}
		}
		if c, ok := s.Similarity(id, other); ok != similar || ok && c != best {
			t.Fatalf("similarity of %d and %d: %v, %v, want %v", id, other, c, ok, best)
		}
		if d, ok := s.Digest(id); !ok || d != digestOf(id) {
			t.Fatalf("digest of %d: %v, %v", id, d, ok)
		}
		m := Match{ID: id, Cosine: math.Inf(-1)}
		for _, v := range vectors {
			rows++
			x := make([]int8, s.dim)
			scale := Quantize(x, v)
			m.Cosine = max(m.Cosine, float64(Dot(q.values, x))*float64(q.scale)*float64(scale))
		}
		c, ok := s.Cosine(q, id)
		if ok != (len(vectors) > 0) || ok && c != m.Cosine {
			t.Fatalf("cosine of %d: %v, %v, want %v", id, c, ok, m.Cosine)
		}
		if len(vectors) > 0 && odd(id) {
			want = append(want, m)
		}
	}
	if s.Len() != len(model) || s.Rows() != rows || s.Empty() != empty {
		t.Fatalf("%d entries and %d rows, want %d and %d", s.Len(), s.Rows(), len(model), rows)
	}
	slices.SortFunc(want, func(a, b Match) int { return cmp.Or(cmp.Compare(b.Cosine, a.Cosine), cmp.Compare(a.ID, b.ID)) })
	for _, k := range []int{0, 1, 5, ids + 1} {
		if got := s.Search(q, k, odd); !slices.Equal(got, want[:min(k, len(want))]) {
			t.Fatalf("best %d: %v, want %v", k, got, want[:min(k, len(want))])
		}
	}
}

// reread writes and reads a set.
func reread(t *testing.T, s *Set) *Set {
	t.Helper()
	b := encode(t, s)
	got, err := Read(bytes.NewReader(b), int64(len(b)), s.model, s.dim)
	if err != nil || got.Model() != s.model || got.Dim() != s.dim {
		t.Fatalf("%v: %v", got, err)
	}
	if again := encode(t, got); !bytes.Equal(again, b) {
		t.Fatal("another file after it is read")
	}
	return got
}

func encode(t testing.TB, s *Set) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Write(&b); err != nil || int64(b.Len()) != s.Size() {
		t.Fatalf("wrote %d bytes of %d: %v", b.Len(), s.Size(), err)
	}
	return b.Bytes()
}

// TestSearchEqual checks the order of entries with equal vectors, in sets with more rows
// than one block.
func TestSearchEqual(t *testing.T) {
	v := []float32{1, 0, 0}
	s := New("m", 3)
	for id := uint64(3000); id > 0; id-- {
		s.Put(id, format.Digest{}, [][]float32{v, {0, 1, 0}})
	}
	got := reread(t, s).Search(NewQuery(v), 3000, func(id uint64) bool { return id > 2 })
	if len(got) != 2998 {
		t.Errorf("%d matches", len(got))
	}
	for i, m := range got {
		if m.ID != uint64(i)+3 || math.Abs(m.Cosine-1) > 1e-6 {
			t.Errorf("%d: %v", i, m)
		}
	}
}

// TestReadDamaged changes each byte of a file, and then corrects the checksum.
func TestReadDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, dim := range []int{1, 5} {
		s := New("model", dim)
		for id := range uint64(4) {
			s.Put(id+1, digestOf(id), [][]float32{random(rng, dim), random(rng, dim)}[:id%3])
		}
		good := encode(t, s)
		read := func(b []byte) (*Set, error) { return Read(bytes.NewReader(b), int64(len(b)), "model", dim) }
		for n := range good {
			if _, err := read(good[:n]); err == nil {
				t.Fatalf("a file of %d bytes is valid", n)
			}
			if _, err := Read(bytes.NewReader(good[:n]), int64(len(good)), "model", dim); !errors.Is(err, io.EOF) {
				t.Fatalf("a file that ends after %d bytes: %v", n, err)
			}
			if err := s.Write(&shortWriter{n}); err != io.ErrShortWrite {
				t.Fatalf("wrote %d of %d bytes: %v", n, len(good), err)
			}
		}
		forged := 0
		for i := range good {
			for _, flip := range []byte{1, 0x80, 0xff} {
				b := slices.Clone(good)
				b[i] ^= flip
				if _, err := read(b); err == nil {
					t.Fatalf("byte %d: no error", i)
				}
				sign(b)
				if x, err := read(b); err == nil {
					if i < headerSize+len("model") {
						t.Fatalf("byte %d of the header: no error", i)
					}
					forged++
					x.Search(NewQuery(random(rng, dim)), 3, func(uint64) bool { return true })
					encode(t, x)
				}
			}
		}
		if forged == 0 {
			t.Error("no forged file is valid")
		}
		scale := headerSize + len("model") + 4*entrySize
		for x, valid := range map[float32]bool{0: true, 1: true, -0.1: false, 1.1: false, float32(math.NaN()): false} {
			b := slices.Clone(good)
			binary.LittleEndian.PutUint32(b[scale:], math.Float32bits(x))
			sign(b)
			if _, err := read(b); (err == nil) != valid {
				t.Errorf("scale %v: %v", x, err)
			}
		}
		for _, wrong := range []struct {
			model string
			dim   int
		}{{"model", dim + 1}, {"modem", dim}, {"models", dim}} {
			if _, err := Read(bytes.NewReader(good), int64(len(good)), wrong.model, wrong.dim); err == nil {
				t.Errorf("vectors of another model: %v", wrong)
			}
		}
	}
}

// sign corrects the checksum of a file.
func sign(b []byte) {
	end := len(b) - sumSize
	binary.LittleEndian.PutUint32(b[end:], crc32.Checksum(b[:end], format.Castagnoli()))
}

// shortWriter fails once, after so many bytes.
type shortWriter struct{ left int }

func (w *shortWriter) Write(b []byte) (int, error) {
	if n := w.left; n < len(b) {
		w.left = math.MaxInt
		return n, io.ErrShortWrite
	}
	w.left -= len(b)
	return len(b), nil
}

func TestKey(t *testing.T) {
	// The SHA-256 of abc begins with ba7816bf8f01cfea414140de5dae2223.
	if id, digest := Key("abc"); id != 0xeacf018fbf1678ba || !strings.HasPrefix(fmt.Sprintf("%x", digest.Append(nil)), "414140de5dae2223") {
		t.Errorf("%x %x", id, digest)
	}
}

// FuzzRead reads files with a correct checksum.
func FuzzRead(f *testing.F) {
	s := New("m", 3)
	s.Put(1, digestOf(1), [][]float32{{1, 0, 0}, {0, 1, 0}})
	s.Put(7, digestOf(7), nil)
	var w bytes.Buffer
	if err := s.Write(&w); err != nil {
		f.Fatal(err)
	}
	f.Add(w.Bytes()[:w.Len()-4])
	f.Fuzz(func(t *testing.T, b []byte) {
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, format.Castagnoli()))
		x, err := Read(bytes.NewReader(b), int64(len(b)), "m", 3)
		if err != nil {
			return
		}
		if again := encode(t, x); !bytes.Equal(again, b) {
			t.Error("another file after it is read")
		}
		x.Search(NewQuery([]float32{1, 1, 0}), 3, func(uint64) bool { return true })
	})
}
