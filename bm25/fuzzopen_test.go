package bm25_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/fuzz/race"
)

// storedSeeds returns small stored indexes of both analyzers: without documents, with
// one, and with the words, scripts and escapes of testStored.
func storedSeeds(t testing.TB) [][]byte {
	var seeds [][]byte
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		for _, n := range []int{0, 1, 40} {
			x := bm25.New(a)
			r := rand.New(rand.NewPCG(uint64(n), 4))
			for i := range n {
				d := storedDoc(r, uint64(i*i))
				if i == 7 {
					d.Fields = append(d.Fields, strings.Repeat("walking ", 20)+strings.Repeat("x y z ", 1400))
				}
				x.Add(d)
			}
			seeds = append(seeds, write(t, x))
		}
	}
	return seeds
}

// A boundedReader fails the test if it is read outside its bytes.
type boundedReader struct {
	t testing.TB
	b []byte
}

func (r boundedReader) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 || at+int64(len(b)) > int64(len(r.b)) {
		r.t.Errorf("read of %d bytes at %d of %d", len(b), at, len(r.b))
		return 0, io.EOF
	}
	return copy(b, r.b[at:]), nil
}

// useStored opens, loads, changes, and searches b. The results may be wrong.
func useStored(t testing.TB, b []byte, a analysis.Analyzer) {
	r := boundedReader{t, b}
	var indexes []*bm25.Index
	if x, err := bm25.Open(r, int64(len(b)), a); err == nil {
		indexes = append(indexes, x)
	}
	if x, err := bm25.Load(t.Context(), r, int64(len(b)), a); err == nil {
		indexes = append(indexes, x)
	}
	for _, x := range indexes {
		for i, text := range []string{"walking", "the of", "kuberntes auto vacuum", "数据库 istanbl", "unive hay"} {
			q := bm25.Query{Text: text, Limit: i * 3, Correct: true, Count: true, Explain: true, Named: []uint64{4, 49}, Texts: func(id uint64) []string { return []string{text, "walking runs"} }}
			for k, h := range x.Search(q).Hits {
				if k < 2 {
					x.Explain(q, h.ID)
				}
			}
			q.Context = &bm25.Context{Weights: bm25.DefaultWeights, Message: func(id uint64) (bm25.Message, bool) {
				return bm25.Message{Next: id + 1, HasNext: true}, true
			}}
			x.Search(q)
			x.Remove(uint64(i * i))
			x.Add(bm25.Doc{ID: uint64(i + 1), Fields: []string{"walked " + text}})
		}
		x.Stats()
		x.Len()
		x.Err()
	}
}

// FuzzOpen reads hostile bytes. To get further than the checks of the footer, an input
// is a seed with edits: each is a position, an operation, and a byte.
func FuzzOpen(f *testing.F) {
	seeds := storedSeeds(f)
	f.Add(uint8(0), []byte{})
	f.Add(uint8(2), []byte{0, 10, 0, 255, 1, 44, 1, 0})
	f.Add(uint8(5), []byte{255, 255, 2, 7, 0, 0, 3, 9})
	f.Fuzz(func(t *testing.T, seed uint8, edits []byte) {
		b := bytes.Clone(seeds[int(seed)%len(seeds)])
		for ; len(edits) >= 4 && len(b) > 0; edits = edits[4:] {
			// Positions are relative to the end, where the sections with offsets are.
			at := len(b) - 1 - int(binary.LittleEndian.Uint16(edits))%len(b)
			switch v := edits[3]; edits[2] % 4 {
			case 0:
				b[at] = v
			case 1:
				b[at] += v
			case 2: // moves the bytes up to the next position
				copy(b[at:], b[min(at+int(v), len(b)):])
			case 3:
				b = append(b[:at], b[min(at+int(v), len(b)):]...)
			}
		}
		for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
			useStored(t, b, a)
		}
	})
}

// TestHostile changes bytes of stored indexes, and cuts them: one byte in 11, or each
// with CRABMEM_STORED.
func TestHostile(t *testing.T) {
	race.Skip(t)
	step := 11
	if os.Getenv("CRABMEM_STORED") != "" {
		step = 1
	}
	for i, b := range storedSeeds(t) {
		a := []analysis.Analyzer{analysis.Standard, analysis.Plain}[i/3]
		for at := i % step; at < len(b); at += step {
			if at > 3000 && at < len(b)-3000 && at%37 > 0 {
				continue
			}
			for _, v := range []byte{0, 1, 127, 128, 255} {
				if i%3 == 2 && (at+int(v))%5 > 0 {
					continue
				}
				c := bytes.Clone(b)
				c[at] ^= v
				useStored(t, c, a)
			}
		}
		useStored(t, b[:len(b)/2], a)
	}
}

// TestHostileMemory opens and loads indexes that claim more than they contain.
func TestHostileMemory(t *testing.T) {
	b := storedSeeds(t)[2]
	footer := len(b) - 88
	for field := 1; field < 11; field++ {
		for _, v := range []uint64{1 << 20, 1 << 31, 1<<31 - 1, 1 << 40, 1 << 63, 1<<64 - 1} {
			c := bytes.Clone(b)
			binary.LittleEndian.PutUint64(c[footer+8*field:], v)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			useStored(t, c, analysis.Standard)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("field %d is %d: %d bytes were allocated for %d", field, v, used, len(b))
			}
		}
	}
	if err := func() error { _, err := bm25.Open(boundedReader{t, b}, -1, analysis.Standard); return err }(); err == nil {
		t.Error("a negative size is opened")
	}
}
