package recalleval

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	resamples = 2000   // of the bootstrap
	flips     = 10_000 // of the randomization test
	seed      = 1      // of both: the same figures every time
)

// intervals returns the 95 % percentile bootstrap interval of the mean of each
// measure: it draws the queries with repetition, resamples times.
func intervals(all []values) (low, high values) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var means [len(Metrics)][]float64
	for i := range means {
		means[i] = make([]float64, resamples)
	}
	drawn := make([]values, len(all))
	for r := range resamples {
		for i := range drawn {
			drawn[i] = all[rng.IntN(len(all))]
		}
		for i, m := range mean(drawn) {
			means[i][r] = m
		}
	}
	const tail = resamples / 40
	for i := range means {
		slices.Sort(means[i])
		low[i], high[i] = means[i][tail], means[i][resamples-1-tail]
	}
	return low, high
}

// randomization is the two-sided paired randomization test: how often the mean
// difference is as large as it is, or larger, when each query's two values
// change places by the toss of a coin. With few differences every outcome is
// tried, and the value is exact.
func randomization(differences []float64) (p float64) {
	var moved []float64
	sum := 0.0
	for _, d := range differences {
		if d != 0 {
			moved = append(moved, d)
			sum += d
		}
	}
	// Equal sums may differ in their last bits.
	large := math.Abs(sum) * (1 - 1e-9)
	toss := func(coins func() uint64) bool {
		sum, bits := 0.0, uint64(0)
		for i, d := range moved {
			if i%64 == 0 {
				bits = coins()
			}
			if bits&1 != 0 {
				d = -d
			}
			bits >>= 1
			sum += d
		}
		return math.Abs(sum) >= large
	}
	hits := 0
	if all := 1 << min(len(moved), 62); all <= flips {
		for outcome := range all {
			if toss(func() uint64 { return uint64(outcome) }) {
				hits++
			}
		}
		return float64(hits) / float64(all)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for range flips {
		if toss(rng.Uint64) {
			hits++
		}
	}
	return float64(hits+1) / float64(flips+1)
}
