package vector

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// plainDot is Dot without machine instructions of its own.
func plainDot(a, b []int8) (sum int64) {
	for i := range a {
		sum += int64(a[i]) * int64(b[i])
	}
	return sum
}

// TestDots compares inner products of all dimensions, alignments, and numbers of rows.
func TestDots(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	buffer := make([]int8, 9*MaxDim+64)
	query := make([]int8, MaxDim+64)
	dst := make([]int32, 9)
	check := func(dim, rows, align int) {
		t.Helper()
		q, r, d := query[align:align+dim], buffer[align:align+dim*rows], dst[:rows]
		Dots(d, q, r)
		for i := range d {
			row := r[i*dim : (i+1)*dim]
			if want := plainDot(q, row); int64(d[i]) != want || int64(Dot(q, row)) != want {
				t.Fatalf("dimension %d, row %d of %d, alignment %d: %d and %d, want %d", dim, i, rows, align, d[i], Dot(q, row), want)
			}
		}
	}
	for dim := range 600 {
		for i := range query {
			query[i] = int8(rng.Uint32())
		}
		for i := range buffer[:9*dim+64] {
			buffer[i] = int8(rng.Uint32())
		}
		for rows := range 10 {
			check(dim, rows, rng.IntN(64))
		}
	}
	for _, extreme := range [][2]int8{{127, 127}, {-127, 127}, {-128, -128}, {-128, 127}} {
		for i := range query {
			query[i] = extreme[0]
		}
		for i := range buffer {
			buffer[i] = extreme[1]
		}
		check(MaxDim, 9, 1)
	}
	defer func() {
		if recover() == nil {
			t.Error("Dots reads after the end of the rows")
		}
	}()
	Dots(dst[:4], query[:16], make([]int8, 4*16-1))
}

// TestQuantize checks the largest error of a component.
func TestQuantize(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		v := random(rng, 100)
		x := make([]int8, 100)
		scale := Quantize(x, v)
		for i := range v {
			if d := v[i] - scale*float32(x[i]); d > scale*0.501 || d < -scale*0.501 || x[i] == -128 {
				t.Fatalf("component %v is stored as %d times %v", v[i], x[i], scale)
			}
		}
	}
	for _, c := range []struct {
		least float32
		want  int8
	}{{0, 0}, {9.9e-31, 0}, {1e-30, 127}, {2e-30, 127}} {
		x := []int8{1, 2}
		scale := Quantize(x, []float32{0, -c.least})
		if x[0] != 0 || x[1] != -c.want || (scale > 0) != (c.want > 0) {
			t.Errorf("%v is stored as %v times %v", c.least, x, scale)
		}
	}
}

// FuzzDots compares inner products.
func FuzzDots(f *testing.F) {
	f.Add([]byte{1, 2, 255, 128}, []byte{4, 5, 6, 7}, 0)
	f.Fuzz(func(t *testing.T, a, b []byte, from int) {
		n := min(len(a), len(b), MaxDim)
		if from < 0 || from > n {
			from = 0
		}
		x, y := valuesOf(a[from:n]), valuesOf(b[from:n])
		if got, want := Dot(x, y), plainDot(x, y); int64(got) != want {
			t.Errorf("%d, want %d", got, want)
		}
	})
}

func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(n, "x256"), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(9, 10))
			s := New("m", 256)
			v := random(rng, 256)
			for id := range uint64(n) {
				v[id%256] = float32(rng.NormFloat64() / 16)
				s.Put(id+1, digestOf(id), [][]float32{v})
			}
			q := NewQuery(random(rng, 256))
			for b.Loop() {
				s.Search(q, 100, func(uint64) bool { return true })
			}
		})
	}
}
