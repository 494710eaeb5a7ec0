package recalleval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"crabmem/crmem/embed"
)

// LeastQuestions is how many queries [FitWeight] needs. The nDCG@10 of a query
// changes by about 0.2 with the weight, where it changes. So 15 queries show a difference of
// 0.1, two standard errors, and the other half must show it again.
const LeastQuestions = 30

// ErrFewQuestions is the error of [FitWeight] for fewer than LeastQuestions queries.
var ErrFewQuestions = errors.New("too few questions to fit a weight")

// A Fit is the result of [FitWeight].
type Fit struct {
	Weight  float64 `json:"weight"`
	Old     float64 `json:"old"`     // the weight before
	Queries int     `json:"queries"` // that selected the weight
}

// FitWeight selects the weight of meaning by every other query of a set. The result is that
// of the other queries, with this weight, and its comparison with the weight in o.
//
// Of the weights that are no worse than the best one by more than the standard error of the
// difference, FitWeight selects the one next to the weight in o: few queries must not move
// it without evidence.
func FitWeight(ctx context.Context, s *Set, o Options) (_ *Fit, _ *Result, _ *Comparison, err error) {
	if len(s.Queries) < LeastQuestions {
		return nil, nil, nil, fmt.Errorf("%w: %d have an entry that answers them, want at least %d", ErrFewQuestions, len(s.Queries), LeastQuestions)
	}
	var half, held []Query
	for i, q := range s.Queries {
		if i%2 == 0 {
			half = append(half, q)
		} else {
			held = append(held, q)
		}
	}
	model := *o.Embed
	model.Embedder = &queryMemo{Embedder: model.Embedder, vectors: make(map[string][]float32)}
	o.Embed, o.Passes = &model, 0
	ss, err := newStoreSet(ctx, s, o)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() { err = errors.Join(err, ss.close()) }()
	run := func(queries []Query, weight float64) *Result {
		request := *o.Semantic
		request.Weight = weight
		if ss.semantic = &request; weight == 0 {
			ss.semantic = nil // by words only
		}
		answers, failed := ss.answers(ctx, queries, o.Progress)
		err = cmp.Or(err, failed)
		return o.result(s, ss, answers)
	}
	fit := &Fit{Weight: o.Semantic.Weight, Old: o.Semantic.Weight, Queries: len(half)}
	weights := []float64{fit.Old}
	for i := range 21 {
		weights = append(weights, float64(i)/20)
	}
	slices.SortStableFunc(weights, func(a, b float64) int { return cmp.Compare(math.Abs(a-fit.Old), math.Abs(b-fit.Old)) })
	var runs []*Result
	for _, w := range weights {
		if runs = append(runs, run(half, w)); err != nil {
			return nil, nil, nil, err
		}
	}
	best := slices.MaxFunc(runs, func(a, b *Result) int { return cmp.Compare(a.NDCG10, b.NDCG10) })
	fit.Weight = weights[slices.IndexFunc(runs, func(r *Result) bool { return best.NDCG10-r.NDCG10 <= differenceError(best, r) })]
	old, r := run(held, fit.Old), run(held, fit.Weight)
	if err != nil {
		return nil, nil, nil, err
	}
	c := Compare(old, r)
	return fit, r, &c, nil
}

// differenceError returns the standard error of the difference between two runs' mean
// nDCG@10. Both have the same queries.
func differenceError(a, b *Result) float64 {
	n, sum := float64(len(a.Answers)), 0.0
	for i := range a.Answers {
		d := a.Answers[i].NDCG10 - b.Answers[i].NDCG10 - (a.NDCG10 - b.NDCG10)
		sum += d * d
	}
	return math.Sqrt(sum / (n * (n - 1)))
}

// A queryMemo keeps the vectors of queries, which arrive one by one.
type queryMemo struct {
	embed.Embedder
	mu      sync.Mutex
	vectors map[string][]float32
}

// Embed returns the vectors of texts.
func (m *queryMemo) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) != 1 {
		return m.Embedder.Embed(ctx, texts)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.vectors[texts[0]]; !ok {
		list, err := m.Embedder.Embed(ctx, texts)
		if err != nil || len(list) != 1 {
			return list, err
		}
		m.vectors[texts[0]] = list[0]
	}
	return [][]float32{slices.Clone(m.vectors[texts[0]])}, nil // the caller scales it
}
