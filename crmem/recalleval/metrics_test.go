package recalleval_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"crabmem/crmem/recalleval"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// misses is a ranking of n documents without a judgment.
func misses(n int) []string {
	r := make([]string, n)
	for i := range r {
		r[i] = fmt.Sprintf("miss %d", i)
	}
	return r
}

// TestScore compares rankings with figures computed by hand. The discounts
// 1/log2(rank+1) of ranks 1 to 10 are 1, .630930, .5, .430677, .386853,
// .356207, .333333, .315465, .301030 and .289065.
func TestScore(t *testing.T) {
	perfect := recalleval.Scores{NDCG10: 1, Recall5: 1, Recall10: 1, Recall100: 1, MRR10: 1, Hit1: 1, Hit5: 1, Hit10: 1}
	eleven := make(map[string]int)
	for i := range 11 {
		eleven[fmt.Sprintf("miss %d", i)] = 1
	}
	for _, c := range []struct {
		name    string
		ranking []string
		grades  map[string]int
		want    recalleval.Scores
		rank    int
	}{
		{"first", []string{"a", "b"}, map[string]int{"a": 1}, perfect, 1},
		{"only", []string{"a"}, map[string]int{"a": 7}, perfect, 1},
		{"no hits", nil, map[string]int{"a": 1}, recalleval.Scores{}, 0},
		{"no relevant hits", misses(100), map[string]int{"a": 1}, recalleval.Scores{}, 0},
		{"no relevant documents", []string{"a"}, map[string]int{"a": 0}, recalleval.Scores{}, 0},
		{"second", []string{"b", "a"}, map[string]int{"a": 1},
			recalleval.Scores{NDCG10: .630930, Recall5: 1, Recall10: 1, Recall100: 1, MRR10: .5, Hit5: 1, Hit10: 1}, 2},
		{"fifth", append(misses(4), "a"), map[string]int{"a": 1},
			recalleval.Scores{NDCG10: .386853, Recall5: 1, Recall10: 1, Recall100: 1, MRR10: .2, Hit5: 1, Hit10: 1}, 5},
		{"sixth", append(misses(5), "a"), map[string]int{"a": 1},
			recalleval.Scores{NDCG10: .356207, Recall10: 1, Recall100: 1, MRR10: 1. / 6, Hit10: 1}, 6},
		{"tenth", append(misses(9), "a"), map[string]int{"a": 1},
			recalleval.Scores{NDCG10: .289065, Recall10: 1, Recall100: 1, MRR10: .1, Hit10: 1}, 10},
		{"eleventh", append(misses(10), "a"), map[string]int{"a": 1}, recalleval.Scores{Recall100: 1}, 11},
		{"hundredth", append(misses(99), "a"), map[string]int{"a": 1}, recalleval.Scores{Recall100: 1}, 100},
		{"after rank 100", append(misses(100), "a"), map[string]int{"a": 1}, recalleval.Scores{}, 101},
		// The gain is the grade, not a power of it: 3·.630930 + 1·1 of 3·1 + 1·.630930.
		{"grades", []string{"low", "high"}, map[string]int{"low": 1, "high": 3},
			recalleval.Scores{NDCG10: 2.892789 / 3.630930, Recall5: 1, Recall10: 1, Recall100: 1, MRR10: 1, Hit1: 1, Hit5: 1, Hit10: 1}, 1},
		// 2·.5 of 2 + .630930 + .5; documents with grades below 0 or 0 do not
		// count.
		{"two of three missing", []string{"zero", "below", "two", "x"}, map[string]int{"two": 2, "one": 1, "other": 1, "zero": 0, "below": -1},
			recalleval.Scores{NDCG10: 1 / 3.130930, Recall5: 1. / 3, Recall10: 1. / 3, Recall100: 1. / 3, MRR10: 1. / 3, Hit5: 1, Hit10: 1}, 3},
		// The best ten are an ideal ten, though an eleventh is relevant.
		{"more relevant than ten", misses(11), eleven,
			recalleval.Scores{NDCG10: 1, Recall5: 5. / 11, Recall10: 10. / 11, Recall100: 1, MRR10: 1, Hit1: 1, Hit5: 1, Hit10: 1}, 1},
	} {
		got, rank := recalleval.Score(c.ranking, c.grades)
		if d := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-6)); d != "" || rank != c.rank {
			t.Errorf("%s: rank %d, want %d: %s", c.name, rank, c.rank, d)
		}
	}
}

// TestMetrics checks that the names, the values and the JSON keys of the
// measures agree.
func TestMetrics(t *testing.T) {
	s := recalleval.Scores{NDCG10: 1, Recall5: 2, Recall10: 3, Recall100: 4, MRR10: 5, Hit1: 6, Hit5: 7, Hit10: 8}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i, v := range s.Values() {
		want = append(want, fmt.Sprintf("%q:%v", recalleval.Metrics[i], v))
	}
	if got := string(b); got != "{"+strings.Join(want, ",")+"}" {
		t.Errorf("%s; want %s", got, want)
	}
}
