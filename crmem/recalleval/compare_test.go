package recalleval_test

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"

	"crabmem/crmem/recalleval"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func answer(query string, rank int, ndcg float64) recalleval.Answer {
	return recalleval.Answer{Query: query, Rank: rank, Scores: recalleval.Scores{NDCG10: ndcg}}
}

func TestCompare(t *testing.T) {
	old := &recalleval.Result{Set: "s", Mode: recalleval.Pooled, Analyzer: "plain", Answers: []recalleval.Answer{
		answer("same", 1, 1), answer("up", 3, 0.5), answer("down", 1, 1), answer("a little up", 4, 0.25),
		answer("far up", 90, 0), answer("far down", 20, 0), answer("gone", 1, 1),
	}}
	now := &recalleval.Result{Set: "s", Mode: recalleval.Group, Analyzer: "standard", Answers: []recalleval.Answer{
		answer("same", 1, 1), answer("up", 1, 1), answer("down", 2, 0.75), answer("a little up", 3, 0.5),
		answer("far up", 20, 0), answer("far down", 0, 0), answer("new", 1, 1),
	}}
	c := recalleval.Compare(old, now)
	want := recalleval.Comparison{
		Set: "s", Old: recalleval.Setting{Mode: recalleval.Pooled, Analyzer: "plain"}, New: recalleval.Setting{Mode: recalleval.Group, Analyzer: "standard"},
		Queries: 6, OnlyOld: 1, OnlyNew: 1,
		Moved: []recalleval.Move{
			{Query: "down", OldNDCG: 1, NewNDCG: 0.75, OldRank: 1, NewRank: 2},
			{Query: "far down", OldRank: 20},
			{Query: "far up", OldRank: 90, NewRank: 20},
			{Query: "a little up", OldNDCG: 0.25, NewNDCG: 0.5, OldRank: 4, NewRank: 3},
			{Query: "up", OldNDCG: 0.5, NewNDCG: 1, OldRank: 3, NewRank: 1},
		},
	}
	if d := cmp.Diff(want, c, cmpopts.IgnoreFields(recalleval.Comparison{}, "Changes")); d != "" {
		t.Error(d)
	}
	if len(c.Changes) != len(recalleval.Metrics) {
		t.Fatalf("%d measures", len(c.Changes))
	}
	// .5 - .25 + .25 = .5 over six queries. Of the eight outcomes of three
	// tosses ±.5 ±.25 ±.25, six are as far from 0 as .5.
	n := c.Changes[0]
	if n.Metric != "ndcg@10" || n.Old != 2.75/6 || n.New != 3.25/6 || math.Abs(n.Difference-0.5/6) > 1e-12 || n.P != 0.75 || n.Won != 2 || n.Lost != 1 {
		t.Errorf("%+v", n)
	}
	if !(n.Interval[0] < n.Difference && n.Difference < n.Interval[1]) {
		t.Errorf("the difference is not inside its interval: %+v", n)
	}
	for _, m := range c.Changes[1:] {
		if m.Difference != 0 || m.P != 1 || m.Won+m.Lost != 0 {
			t.Errorf("moves without a change: %+v", m)
		}
	}
}

func TestCompareNothing(t *testing.T) {
	c := recalleval.Compare(&recalleval.Result{Set: "s", Answers: []recalleval.Answer{answer("a", 1, 1)}}, &recalleval.Result{Set: "s", Answers: []recalleval.Answer{answer("b", 1, 1)}})
	if c.Queries != 0 || c.OnlyOld != 1 || c.OnlyNew != 1 || len(c.Changes) != 0 {
		t.Errorf("%+v", c)
	}
}

// TestSave saves a run and compares it with itself.
func TestSave(t *testing.T) {
	r, err := recalleval.Run(t.Context(), tiny(t), recalleval.Options{Passes: 1})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := recalleval.Save(&b, []*recalleval.Result{r}); err != nil {
		t.Fatal(err)
	}
	back, err := recalleval.ReadSaved(text(b.String()), "run.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(back) != 1 || len(back[0].Answers) != 3 {
		t.Fatalf("%d sets", len(back))
	}
	if d := cmp.Diff(r, back[0], cmpopts.IgnoreFields(recalleval.Answer{}, "Text", "Group", "Relevant", "Hits")); d != "" {
		t.Error(d)
	}
	c := recalleval.Compare(back[0], r)
	if c.Queries != 3 || len(c.Moved) != 0 || c.Changes[0].P != 1 || c.Changes[0].Difference != 0 {
		t.Errorf("a run against itself: %+v", c)
	}
	for _, wrong := range []string{"", "{}", `{"format":"crabmem recall 9"}`, "[]", b.String()[:b.Len()/2]} {
		if _, err := recalleval.ReadSaved(text(wrong), "run.json"); err == nil || !strings.HasPrefix(err.Error(), "run.json: not a saved run: ") {
			t.Errorf("%.40q: %v", wrong, err)
		}
	}
}

func TestWriteAnswers(t *testing.T) {
	r, err := recalleval.Run(t.Context(), tiny(t), recalleval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := recalleval.WriteAnswers(&b, r); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	const want = `{"set":"tiny","query":"q1","rank":1,"ndcg@10":1,"recall@5":1,"recall@10":1,"recall@100":1,"mrr@10":1,"hit@1":1,"hit@5":1,"hit@10":1,` +
		`"text":"tomato ladder","group":"garden","relevant":[{"doc":"garden-1","grade":1,"rank":1}],"hits":[{"doc":"garden-1","score":`
	if len(lines) != 4 || !strings.HasPrefix(lines[0], want) {
		t.Errorf("%d lines: %s", len(lines), lines[0])
	}
	if !strings.Contains(lines[1], `"relevant":[{"doc":"cellar-4","grade":2,"rank":2},{"doc":"cellar-3","grade":1,"rank":1},{"doc":"cellar-99","grade":1,"rank":0}]`) {
		t.Errorf("%s", lines[1])
	}
}

// text is a file of the text under any name.
func text(s string) recalleval.Open {
	return func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
}
