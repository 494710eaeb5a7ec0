package recalleval

import (
	"cmp"
	"slices"
)

// Comparison sets two runs of a set against each other, over the queries that
// both have.
type Comparison struct {
	Set     string   `json:"set"`
	Old     Setting  `json:"old"`
	New     Setting  `json:"new"`
	Queries int      `json:"queries"`  // of both
	OnlyOld int      `json:"only_old"` // queries that one run has
	OnlyNew int      `json:"only_new"`
	Changes []Change `json:"changes"` // a measure each
	Moved   []Move   `json:"moved"`   // the worst loss of nDCG@10 first, the best gain last
}

// Setting is how a run was made.
type Setting struct {
	Mode     Mode   `json:"mode"`
	Analyzer string `json:"analyzer" op:"words=standard|plain"`
}

// Change is the difference of the means of one measure.
type Change struct {
	Metric     string  `json:"metric" op:"words=ndcg@10|recall@5|recall@10|recall@100|mrr@10|hit@1|hit@5|hit@10"`
	Old        float64 `json:"old"`
	New        float64 `json:"new"`
	Difference float64 `json:"difference"`
	// Interval is the difference's 95 % bootstrap interval, P the value of the
	// two-sided paired randomization test.
	Interval [2]float64 `json:"ci95"`
	P        float64    `json:"p"`
	Won      int        `json:"won"` // queries
	Lost     int        `json:"lost"`
}

// Move is a query whose measures or first relevant rank changed.
type Move struct {
	Query   string  `json:"query"`
	Text    string  `json:"text,omitempty"`
	OldNDCG float64 `json:"old_ndcg@10"`
	NewNDCG float64 `json:"new_ndcg@10"`
	OldRank int     `json:"old_rank"` // 0: not among K
	NewRank int     `json:"new_rank"`
}

// Compare compares a run with an earlier one of the same set.
func Compare(old, new *Result) Comparison {
	c := Comparison{Set: new.Set, Old: Setting{old.Mode, old.Analyzer}, New: Setting{new.Mode, new.Analyzer},
		Changes: []Change{}, Moved: []Move{}}
	before := make(map[string]Answer, len(old.Answers))
	for _, a := range old.Answers {
		before[a.Query] = a
	}
	var olds, news, differences []values
	for _, b := range new.Answers {
		a, both := before[b.Query]
		if !both {
			c.OnlyNew++
			continue
		}
		c.Queries++
		var d values
		for i, v := range b.Values() {
			d[i] = v - a.Values()[i]
		}
		olds, news, differences = append(olds, a.Values()), append(news, b.Values()), append(differences, d)
		if d != (values{}) || a.Rank != b.Rank {
			c.Moved = append(c.Moved, Move{b.Query, b.Text, a.NDCG10, b.NDCG10, a.Rank, b.Rank})
		}
	}
	c.OnlyOld = len(old.Answers) - c.Queries
	if c.Queries == 0 {
		return c
	}
	slices.SortStableFunc(c.Moved, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.NewNDCG-a.OldNDCG, b.NewNDCG-b.OldNDCG), cmp.Compare(place(b), place(a)))
	})
	low, high := intervals(differences)
	oldMean, newMean := mean(olds), mean(news)
	for i, name := range Metrics {
		ch := Change{Metric: name, Old: oldMean[i], New: newMean[i], Difference: newMean[i] - oldMean[i], Interval: [2]float64{low[i], high[i]}}
		one := make([]float64, len(differences))
		for q, d := range differences {
			if one[q] = d[i]; d[i] > 0 {
				ch.Won++
			} else if d[i] < 0 {
				ch.Lost++
			}
		}
		ch.P = randomization(one)
		c.Changes = append(c.Changes, ch)
	}
	return c
}

// place orders moves of equal nDCG: how far down the first relevant document
// went, as a difference of reciprocal ranks.
func place(m Move) float64 {
	reciprocal := func(rank int) float64 {
		if rank == 0 {
			return 0
		}
		return 1 / float64(rank)
	}
	return reciprocal(m.OldRank) - reciprocal(m.NewRank)
}
