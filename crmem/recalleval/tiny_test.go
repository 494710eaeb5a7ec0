package recalleval_test

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/crmem/recalleval"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// open opens a file of the machine.
func open(name string) (io.ReadCloser, error) { return os.Open(name) }

// tiny is a set of two groups with documents of seven words each. Every cellar
// document contains "tomato", but not "ladder". Of the garden's documents, one
// contains "tomato" and three contain "ladder".
func tiny(t *testing.T) *recalleval.Set {
	t.Helper()
	s, err := recalleval.Load(open, "../../testdata/recall/tiny")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLoadTiny(t *testing.T) {
	s := tiny(t)
	got := *s
	got.Docs, got.Queries = nil, nil
	want := recalleval.Set{Name: "tiny", Groups: 2, LeftOut: 1, UnknownDocs: 1, UnknownQueries: 1}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(s.Docs) != 10 || len(s.Queries) != 3 {
		t.Fatalf("%d documents, %d queries", len(s.Docs), len(s.Queries))
	}
	if q := s.Queries[2]; q.ID != "q3" || q.Group != "garden" {
		t.Errorf("a query without a group: %+v, want that of its document", q)
	}
}

// TestModes compares the three ways to search a grouped set with figures that
// were computed by hand.
func TestModes(t *testing.T) {
	log2 := math.Log2
	// q2 finds cellar-3, which has the word twice, and cellar-4, which has it
	// once; their grades are 1 and 2, and a document of grade 1 does not exist.
	// Pooled, garden-5 has the word once too, and the greater id.
	vinegar := recalleval.Scores{
		NDCG10:  (1/log2(2) + 2/log2(3)) / (2/log2(2) + 1/log2(3) + 1/log2(4)),
		Recall5: 2. / 3, Recall10: 2. / 3, Recall100: 2. / 3, MRR10: 1, Hit1: 1, Hit5: 1, Hit10: 1,
	}
	all := recalleval.Scores{NDCG10: 1, Recall5: 1, Recall10: 1, Recall100: 1, MRR10: 1, Hit1: 1, Hit5: 1, Hit10: 1}
	for _, c := range []struct {
		mode   recalleval.Mode
		tomato []string // the hits of q1
		scores recalleval.Scores
		rank   int
	}{
		// In the garden the tomato is the rarer word.
		{recalleval.Group, []string{"garden-1", "garden-2", "garden-3", "garden-4"}, all, 1},
		// In both groups together the ladder is more frequent.
		{recalleval.Filter, []string{"garden-2", "garden-3", "garden-4", "garden-1"},
			recalleval.Scores{NDCG10: 1 / log2(5), Recall5: 1, Recall10: 1, Recall100: 1, MRR10: 0.25, Hit5: 1, Hit10: 1}, 4},
		// Six tomatoes of one score are in the order of their ids.
		{recalleval.Pooled, []string{"garden-2", "garden-3", "garden-4", "cellar-1", "cellar-2", "cellar-3", "cellar-4", "cellar-5", "garden-1"},
			recalleval.Scores{NDCG10: 1 / log2(10), Recall10: 1, Recall100: 1, MRR10: 1. / 9, Hit10: 1}, 9},
	} {
		for _, a := range []analysis.Analyzer{analysis.Plain} { // BM25 alone, which can be computed by hand
			r, err := recalleval.Run(t.Context(), tiny(t), recalleval.Options{Mode: c.mode, Analyzer: a})
			if err != nil {
				t.Fatal(err)
			}
			var hits []string
			for _, h := range r.Answers[0].Hits {
				hits = append(hits, h.Doc)
			}
			if !slices.Equal(hits, c.tomato) || r.Answers[0].Rank != c.rank {
				t.Errorf("%s, %v: q1 finds %v, the relevant one at %d; want %v, %d", c.mode, a, hits, r.Answers[0].Rank, c.tomato, c.rank)
			}
			close := cmpopts.EquateApprox(0, 1e-12)
			for i, want := range []recalleval.Scores{c.scores, vinegar, all} {
				if d := cmp.Diff(want, r.Answers[i].Scores, close); d != "" {
					t.Errorf("%s, %v: %s: %s", c.mode, a, r.Answers[i].Query, d)
				}
			}
			wantMean := recalleval.Scores{
				NDCG10:  (c.scores.NDCG10 + vinegar.NDCG10 + 1) / 3,
				Recall5: (c.scores.Recall5 + 5./3) / 3, Recall10: (1 + 5./3) / 3, Recall100: (1 + 5./3) / 3,
				MRR10: (c.scores.MRR10 + 2) / 3,
				Hit1:  (c.scores.Hit1 + 2) / 3, Hit5: (c.scores.Hit5 + 2) / 3, Hit10: 1,
			}
			if d := cmp.Diff(wantMean, r.Scores, close); d != "" {
				t.Errorf("%s, %v: means: %s", c.mode, a, d)
			}
			if r.Mode != c.mode || r.Queries != 3 || r.Docs != 10 || r.Groups != 2 || r.LeftOut != 1 {
				t.Errorf("%s, %v: %+v", c.mode, a, r)
			}
		}
	}
}

// TestK checks that results after rank 100 do not count, even if hits of other
// groups are among the first 100.
func TestK(t *testing.T) {
	var corpus, queries, qrels strings.Builder
	for i := range 240 {
		fmt.Fprintf(&corpus, `{"_id":"%03d","text":"tea","metadata":{"group":%d}}`+"\n", i, i%2)
	}
	for i, doc := range []string{"198", "200", "000"} {
		fmt.Fprintf(&queries, `{"_id":"%d","text":"tea","metadata":{"group":0}}`+"\n", i)
		fmt.Fprintf(&qrels, "%d\t%s\t1\n", i, doc)
	}
	s, err := recalleval.Load(files(map[string]string{"d/corpus.jsonl": corpus.String(), "d/queries.jsonl": queries.String(), "d/qrels.tsv": qrels.String()}), "d")
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[recalleval.Mode][3]int{recalleval.Group: {100, 0, 1}, recalleval.Filter: {100, 0, 1}, recalleval.Pooled: {0, 0, 1}} {
		r, err := recalleval.Run(t.Context(), s, recalleval.Options{Mode: mode, Analyzer: analysis.Plain})
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]int{r.Answers[0].Rank, r.Answers[1].Rank, r.Answers[2].Rank}; got != want {
			t.Errorf("%s: ranks %d, want %d", mode, got, want)
		}
	}
}

// TestDefaultMode checks that a grouped set is searched by group, and an
// ungrouped set as one regardless of the mode.
func TestDefaultMode(t *testing.T) {
	s := tiny(t)
	r, err := recalleval.Run(t.Context(), s, recalleval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Mode != recalleval.Group {
		t.Errorf("mode %s", r.Mode)
	}
	for i := range s.Docs {
		s.Docs[i].Group = ""
	}
	s.Groups = 0
	if r, err = recalleval.Run(t.Context(), s, recalleval.Options{Mode: recalleval.Filter, Analyzer: analysis.Plain}); err != nil {
		t.Fatal(err)
	}
	if r.Mode != recalleval.Pooled || r.Answers[0].Rank != 9 {
		t.Errorf("without groups: mode %s, rank %d", r.Mode, r.Answers[0].Rank)
	}
}

// TestUngrouped checks that a query without a group searches all documents
// while other queries search their groups.
func TestUngrouped(t *testing.T) {
	for _, mode := range []recalleval.Mode{recalleval.Group, recalleval.Filter} {
		s := tiny(t)
		s.Queries[0].Group, s.Ungrouped = "", 1
		s.Queries[1].Group = "no such group"
		r, err := recalleval.Run(t.Context(), s, recalleval.Options{Mode: mode, Analyzer: analysis.Plain})
		if err != nil {
			t.Fatal(err)
		}
		if r.Answers[0].Rank != 9 || len(r.Answers[1].Hits) != 0 || r.Answers[1].NDCG10 != 0 || r.Answers[2].Rank != 1 {
			t.Errorf("%s: ranks %d, %d, %d; want 9, 0, 1", mode, r.Answers[0].Rank, r.Answers[1].Rank, r.Answers[2].Rank)
		}
	}
}

// TestSameEveryTime checks that neither the order of documents nor a second
// run changes anything.
func TestSameEveryTime(t *testing.T) {
	s := tiny(t)
	first, err := recalleval.Run(t.Context(), s, recalleval.Options{Mode: recalleval.Pooled})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(s.Docs)
	second, err := recalleval.Run(t.Context(), s, recalleval.Options{Mode: recalleval.Pooled})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, second); d != "" {
		t.Error(d)
	}
	if c := second.Intervals["ndcg@10"]; !(c[0] < second.NDCG10 && second.NDCG10 < c[1]) {
		t.Errorf("the mean %.3f is not inside its interval %.3f", second.NDCG10, c)
	}
}

func TestCost(t *testing.T) {
	r, err := recalleval.Run(t.Context(), tiny(t), recalleval.Options{Passes: 2})
	if err != nil {
		t.Fatal(err)
	}
	c := r.Cost
	if c == nil || c.QueryP50 <= 0 || c.QueryP99 < c.QueryP50 || c.QueryMax < c.QueryP99 || c.IndexWall <= 0 || c.IndexBytes <= 0 || c.TextBytes < 10*40 {
		t.Errorf("%+v", c)
	}
}
