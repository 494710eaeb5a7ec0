package blocks

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

// TestRandomReads reads random ranges of random files, and of the same files with one
// changed bit: a read is right, or it reports the change.
func TestRandomReads(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		want := make([]byte, rng.IntN(5*Size))
		for i := range want {
			want[i] = byte(rng.Uint32())
		}
		var file bytes.Buffer
		w := NewWriter(&file)
		for rest := want; len(rest) > 0; {
			n := min(1+rng.IntN(2*Size), len(rest))
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		sums := w.Sums()
		if int64(len(sums)) != NumSums(int64(len(want))) || w.Len() != int64(len(want)) {
			t.Fatalf("%d bytes of checksums for %d bytes, %d written", len(sums), len(want), w.Len())
		}
		checkReads(t, rng, NewReader(bytes.NewReader(file.Bytes()), w.Len(), sums), want, -1)
		if len(want) > 0 {
			bad := bytes.Clone(want)
			at := rng.IntN(len(bad))
			bad[at] ^= 1 << rng.IntN(8)
			checkReads(t, rng, NewReader(bytes.NewReader(bad), w.Len(), sums), want, at)
			short := NewReader(bytes.NewReader(want[:at]), w.Len(), sums)
			if _, err := short.ReadAt(make([]byte, 1), int64(at)); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("truncated at %d: %v", at, err)
			}
		}
	}
}

// checkReads reads ranges of a file that has changed at a position, or not at all.
func checkReads(t *testing.T, rng *rand.Rand, r *Reader, want []byte, changed int) {
	t.Helper()
	for range 40 {
		off := rng.IntN(len(want) + 10)
		p := make([]byte, rng.IntN(3*Size))
		n, err := r.ReadAt(p, int64(off))
		end := min(off+len(p), len(want))
		first, last := off/Size*Size, (end+Size-1)/Size*Size
		if changed >= first && changed < last && off < end {
			if !errors.Is(err, ErrChanged) {
				t.Fatalf("read of %d bytes at %d, changed at %d: %v", len(p), off, changed, err)
			}
			continue
		}
		if wantN := max(end-off, 0); n != wantN || (err == io.EOF) != (n < len(p)) || err != nil && err != io.EOF {
			t.Fatalf("read of %d bytes at %d of %d: %d, %v", len(p), off, len(want), n, err)
		}
		if n > 0 && !bytes.Equal(p[:n], want[off:off+n]) {
			t.Fatalf("read of %d bytes at %d: wrong bytes", len(p), off)
		}
		if len(r.order) > maxCached || len(r.order) != len(r.cached) {
			t.Fatalf("%d cached blocks in an order of %d", len(r.cached), len(r.order))
		}
	}
}
