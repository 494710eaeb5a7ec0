package recalleval

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Scores are the measures of a query, or their means over queries. The
// definitions are those of trec_eval: the gain is the grade, discounted by the
// binary logarithm of rank + 1; recall counts all relevant documents, including
// those missing from the corpus; a query without hits scores 0.
//
// Documents of equal score rank by ascending ID, as the store returns them.
type Scores struct {
	NDCG10    float64 `json:"ndcg@10"`
	Recall5   float64 `json:"recall@5"`
	Recall10  float64 `json:"recall@10"`
	Recall100 float64 `json:"recall@100"`
	MRR10     float64 `json:"mrr@10"` // 1 / rank of the first relevant document; 0 if the rank is above 10
	Hit1      float64 `json:"hit@1"`  // 1 when one of so many is relevant
	Hit5      float64 `json:"hit@5"`
	Hit10     float64 `json:"hit@10"`
}

// Metrics are the names of the measures, in the order of Values.
var Metrics = [...]string{"ndcg@10", "recall@5", "recall@10", "recall@100", "mrr@10", "hit@1", "hit@5", "hit@10"}

type values [len(Metrics)]float64

// Values returns the measures in the order of Metrics.
func (s Scores) Values() [len(Metrics)]float64 {
	return values{s.NDCG10, s.Recall5, s.Recall10, s.Recall100, s.MRR10, s.Hit1, s.Hit5, s.Hit10}
}

func (v values) scores() Scores { return Scores{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]} }

// Score measures a ranking, best first, against the grades of documents. rank
// is the rank of the first relevant document, or 0 if the ranking has none.
func Score(ranking []string, grades map[string]int) (s Scores, rank int) {
	gains := relevant(grades)
	if len(gains) == 0 {
		return s, 0
	}
	var dcg, ideal float64
	for i, g := range gains[:min(10, len(gains))] {
		ideal += float64(g) / math.Log2(float64(i+2))
	}
	ranks := make([]int, 0, len(gains)) // of the relevant documents
	for i, doc := range ranking {
		grade := grades[doc]
		if grade <= 0 {
			continue
		}
		ranks = append(ranks, i+1)
		if i < 10 {
			dcg += float64(grade) / math.Log2(float64(i+2))
		}
	}
	if len(ranks) == 0 {
		return s, 0
	}
	recall := func(k int) float64 {
		found, _ := slices.BinarySearch(ranks, k+1)
		return float64(found) / float64(len(gains))
	}
	hit := func(k int) float64 {
		if ranks[0] <= k {
			return 1
		}
		return 0
	}
	return Scores{
		NDCG10:  dcg / ideal,
		Recall5: recall(5), Recall10: recall(10), Recall100: recall(100),
		MRR10: hit(10) / float64(ranks[0]),
		Hit1:  hit(1), Hit5: hit(5), Hit10: hit(10),
	}, ranks[0]
}

// relevant returns the grades above 0, highest first.
func relevant(grades map[string]int) []int {
	var gains []int
	for _, g := range grades {
		if g > 0 {
			gains = append(gains, g)
		}
	}
	slices.SortFunc(gains, func(a, b int) int { return cmp.Compare(b, a) })
	return gains
}

// mean returns the means over queries.
func mean(all []values) values {
	var m values
	for _, v := range all {
		for i := range m {
			m[i] += v[i]
		}
	}
	for i := range m {
		m[i] /= float64(len(all))
	}
	return m
}

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
