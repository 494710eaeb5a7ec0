package recalleval

import (
	"math"
	"testing"
)

// halves returns n queries, every second of which has 1 in each measure.
func halves(n int) []values {
	all := make([]values, n)
	for i := range all {
		for m := range all[i] {
			all[i][m] = float64(i % 2)
		}
	}
	return all
}

func TestIntervals(t *testing.T) {
	// A sample of two queries draws the same query twice in a quarter of the
	// cases.
	if low, high := intervals(halves(2)); low[0] != 0 || high[0] != 1 {
		t.Errorf("of 0 and 1: %v to %v, want 0 to 1", low[0], high[0])
	}
	same := []values{{0.5}, {0.5}, {0.5}}
	if low, high := intervals(same); low[0] != 0.5 || high[0] != 0.5 {
		t.Errorf("of equal values: %v to %v", low[0], high[0])
	}
	// The mean of n tosses has the standard error .5/√n, its interval 1.96 of
	// them on each side.
	for _, n := range []int{100, 1600} {
		low, high := intervals(halves(n))
		want := 1.96 * 0.5 / math.Sqrt(float64(n))
		for m := range low {
			if below, above := 0.5-low[m], high[m]-0.5; math.Abs(below-want) > want/8 || math.Abs(above-want) > want/8 {
				t.Errorf("%d queries: -%.4f +%.4f, want %.4f", n, below, above, want)
			}
		}
	}
	low, high := intervals(halves(99))
	if low2, high2 := intervals(halves(99)); low != low2 || high != high2 {
		t.Error("not the same every time")
	}
}

func TestRandomization(t *testing.T) {
	many := make([]float64, 40)
	for i := range many {
		many[i] = 0.25
	}
	balanced := make([]float64, 40)
	for i := range balanced {
		balanced[i] = float64(i%2) - 0.5
	}
	// Of 100 tosses, 60 heads or more or 40 or less come with probability
	// .0569 (binomial).
	sixty := make([]float64, 100)
	for i := range sixty {
		sixty[i] = 1
		if i >= 60 {
			sixty[i] = -1
		}
	}
	for _, c := range []struct {
		name        string
		differences []float64
		want, near  float64
	}{
		{"no difference", []float64{0, 0, 0}, 1, 0},
		{"one", []float64{0, 0.5}, 1, 0},
		{"three of a size: 2 of 8 outcomes", []float64{0.1, 0, 0.1, 0.1}, 0.25, 0},
		{"four of a size, down: 2 of 16", []float64{-0.1, -0.1, -0.1, -0.1}, 0.125, 0},
		{"sums ±.4 and ±.2: 2 of 4", []float64{0.3, 0.1}, 0.5, 0},
		{"one each way", []float64{1, -1}, 1, 0},
		{"forty of a size: hardly ever", many, 1. / 10_001, 0},
		{"twenty each way", balanced, 1, 0},
		{"sixty against forty", sixty, 0.0569, 0.006},
	} {
		if p := randomization(c.differences); math.Abs(p-c.want) > c.near {
			t.Errorf("%s: p = %v, want %v", c.name, p, c.want)
		}
	}
}
