package recalleval

import (
	"cmp"
	"math"
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
