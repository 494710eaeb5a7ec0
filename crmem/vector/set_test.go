package vector

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
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

// TestSet changes a set at random and compares each search with one over all vectors.
func TestSet(t *testing.T) {
	const dim, ids = 24, 60
	rng := rand.New(rand.NewPCG(1, 2))
	s := New("m", dim)
	model := map[uint64][][]float32{}
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
		if step%10 == 0 {
			compare(t, s, model, rng)
			compare(t, s.Clone(), model, rng)
			compare(t, reread(t, s), model, rng)
		}
	}
	if len(s.free) == 0 {
		t.Error("no row is free: the test removes no entry")
	}
}

// compare checks all methods of s that do not change it.
func compare(t *testing.T, s *Set, model map[uint64][][]float32, rng *rand.Rand) {
	t.Helper()
	q := NewQuery(random(rng, s.dim))
	odd := func(id uint64) bool { return id%2 == 1 }
	var want []Match
	rows, empty := 0, 0
	for id, vectors := range model {
		if len(vectors) == 0 {
			empty++
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
	for _, k := range []int{0, 1, 5, ids(model)} {
		if got := s.Search(q, k, odd); !slices.Equal(got, want[:min(k, len(want))]) {
			t.Fatalf("best %d: %v, want %v", k, got, want[:min(k, len(want))])
		}
	}
}

func ids(model map[uint64][][]float32) int { return len(model) + 1 }

// reread writes and reads a set.
func reread(t *testing.T, s *Set) *Set {
	t.Helper()
	b := encode(t, s)
	got, err := Read(bytes.NewReader(b), int64(len(b)), s.model, s.dim)
	if err != nil {
		t.Fatal(err)
	}
	if again := encode(t, got); !bytes.Equal(again, b) {
		t.Fatal("another file after it is read")
	}
	return got
}

func encode(t testing.TB, s *Set) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := s.WriteTo(&b)
	if err != nil || n != int64(b.Len()) || n != s.Size() {
		t.Fatalf("wrote %d bytes of %d, announced %d: %v", n, b.Len(), s.Size(), err)
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
	got := reread(t, s).Search(NewQuery(v), 5, func(id uint64) bool { return id > 2 })
	for i, m := range got {
		if m.ID != uint64(i)+3 || math.Abs(m.Cosine-1) > 1e-6 {
			t.Errorf("%d: %v", i, m)
		}
	}
	if c, ok := s.Similarity(7, 9); !ok || math.Abs(c-1) > 1e-6 {
		t.Errorf("similarity %v, %v", c, ok)
	}
	s.Put(8, format.Digest{}, nil)
	if _, ok := s.Similarity(7, 8); ok {
		t.Error("an entry without a vector has a similarity")
	}
}

// TestReadDamaged changes each byte of a file, and then corrects the checksum.
func TestReadDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s := New("model", 5)
	for id := range uint64(4) {
		s.Put(id+1, digestOf(id), [][]float32{random(rng, 5), random(rng, 5)}[:id%3])
	}
	good := encode(t, s)
	read := func(b []byte) (*Set, error) { return Read(bytes.NewReader(b), int64(len(b)), "model", 5) }
	for n := range good {
		if _, err := read(good[:n]); err == nil {
			t.Fatalf("a file of %d bytes is valid", n)
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
			end := len(b) - 4
			binary.LittleEndian.PutUint32(b[end:], crc32.Checksum(b[:end], format.Castagnoli()))
			if x, err := read(b); err == nil {
				forged++
				x.Search(NewQuery(random(rng, 5)), 3, func(uint64) bool { return true })
				encode(t, x)
			}
		}
	}
	if forged == 0 {
		t.Error("no forged file is valid")
	}
	for _, wrong := range []struct {
		model string
		dim   int
	}{{"model", 4}, {"modem", 5}, {"models", 5}} {
		if _, err := Read(bytes.NewReader(good), int64(len(good)), wrong.model, wrong.dim); err == nil {
			t.Errorf("vectors of another model: %v", wrong)
		}
	}
}

// FuzzRead reads files with a correct checksum.
func FuzzRead(f *testing.F) {
	s := New("m", 3)
	s.Put(1, digestOf(1), [][]float32{{1, 0, 0}, {0, 1, 0}})
	s.Put(7, digestOf(7), nil)
	var w bytes.Buffer
	if _, err := s.WriteTo(&w); err != nil {
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
