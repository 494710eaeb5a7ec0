package fusion

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/embed"
)

// TestCombineNormalizesScores checks the parts of scores between the least and the
// largest of each kind.
func TestCombineNormalizesScores(t *testing.T) {
	cosine := func(x float64) *float64 { return &x }
	for _, c := range []struct {
		name           string
		request        Request
		static         bool
		rarity         float64
		list           []Candidate
		words, meaning []float64
		weight         float64
	}{
		{"static", Request{Weight: 0.25}, true, 9,
			[]Candidate{{Lexical: 0.75, Cosine: cosine(-0.5)}, {Lexical: 0.5}, {Lexical: 0.25, Cosine: cosine(-0.25)}, {Cosine: cosine(-0.1)}},
			[]float64{1, 0.5, 0, 0}, []float64{0, 0.5, 0.625, 1}, 0.25},
		{"all words", Request{Weight: 0.25}, false, 0.5,
			[]Candidate{{Lexical: 0.8, Cosine: cosine(0.2)}, {Lexical: 0.4}, {Cosine: cosine(0.6)}}, []float64{1, 0.5, 0}, []float64{0, 0.125, 0.25}, 0.25},
		{"some words", Request{}, false, 0.5,
			[]Candidate{{Lexical: 0.6, Cosine: cosine(0.5)}, {Lexical: 0.3}, {Cosine: cosine(0)}}, []float64{0.8, 0.4, 0}, []float64{0.25, 0.1, 0}, 0.3},
		{"few words", Request{}, false, 2,
			[]Candidate{{Lexical: 0.75, Cosine: cosine(0.5)}, {Lexical: 0.3}, {Cosine: cosine(0)}}, []float64{0.5, 0.2, 0}, []float64{0.25, 0.05, 0}, 0.3},
		{"one text", Request{}, true, 1, []Candidate{{Lexical: 4, Cosine: cosine(0.3)}}, []float64{1}, []float64{1}, 0.07},
		{"one text by meaning", Request{}, false, 1, []Candidate{{Cosine: cosine(0.3)}}, []float64{0}, []float64{1}, 0.3},
		{"no text by words", Request{}, false, 1, []Candidate{{Cosine: cosine(0.4)}, {Cosine: cosine(-0.2)}}, []float64{0, 0}, []float64{0.25, 0}, 0.3},
		{"ranks", Request{Fusion: ReciprocalRank}, false, 1, []Candidate{{Lexical: 0.4, Rank: 2}, {Lexical: 0.3}, {Rank: 1}},
			[]float64{1.0 / 61, 1.0 / 62, 0}, []float64{1.0 / 62, 0, 1.0 / 61}, 0},
	} {
		all := c.request.Combine(&embed.Model{Static: c.static}, c.rarity, c.list)
		if len(all) != len(c.list) {
			t.Errorf("%s: %d texts", c.name, len(all))
		}
		for i, f := range all {
			score := c.words[i] + c.meaning[i]
			if c.request.Fusion == Convex {
				score = (1-c.weight)*c.words[i] + c.weight*c.meaning[i]
			}
			if !near(f.Words, c.words[i]) || !near(f.Meaning, c.meaning[i]) || f.Weight != c.weight || !near(f.Score(), score) {
				t.Errorf("%s: text %d: %+v, score %v; want %v and %v, score %v", c.name, i, f, f.Score(), c.words[i], c.meaning[i], score)
			}
			if ranked := c.request.Fusion == ReciprocalRank; (f.LexicalRank == i+1) != (ranked && f.Lexical > 0) || f.MeaningRank != c.list[i].Rank {
				t.Errorf("%s: text %d: ranks %d and %d", c.name, i, f.LexicalRank, f.MeaningRank)
			}
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

func TestMergeNotesWhatOneResultLacks(t *testing.T) {
	full, some, words := &Meaning{Used: true}, &Meaning{Used: true, Missing: 1}, &Meaning{Reason: "no model", Missing: 2}
	for _, c := range []struct {
		a, b *Meaning
		want string
	}{
		{nil, nil, ""},
		{nil, some, "1 entry only by words: it has no vector yet"},
		{some, nil, "1 entry only by words: it has no vector yet"},
		{full, full, ""},
		{some, some, "2 entries only by words: they have no vectors yet"},
		{full, words, "by words only: no model"},
		{words, full, "by words only: no model"},
	} {
		if got := c.a.Merge(c.b).Note("entry", "entries"); got != c.want {
			t.Errorf("%+v and %+v: %q, want %q", c.a, c.b, got, c.want)
		}
	}
	if sum := some.Merge(words); sum.Missing != 3 || some.Missing != 1 {
		t.Errorf("%+v of %+v", sum, some)
	}
}

func TestParseMethod(t *testing.T) {
	for name, want := range map[string]Method{"": Convex, "convex": Convex, "reciprocal_rank": ReciprocalRank} {
		if got, err := ParseMethod(name); got != want || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	if got, err := ParseMethod("Convex"); err == nil {
		t.Errorf("Convex: %q", got)
	}
}

// lasting is an embedder that keeps the context of its last request.
type lasting struct{ ctx context.Context }

func (l *lasting) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	l.ctx = ctx
	return [][]float32{{1}}, ctx.Err()
}

// TestEmbedReleasesItsContext checks the deadline of a request, which ends with it.
func TestEmbedReleasesItsContext(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{0: defaultTimeout, time.Hour: time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var l lasting
			var m Meaning
			m.Embed(t.Context(), &embed.Model{Embedder: &l, Dim: 1}, "x", timeout)
			if deadline, _ := l.ctx.Deadline(); !m.Used || time.Until(deadline) != want || l.ctx.Err() == nil {
				t.Errorf("timeout %v: %+v, deadline in %v, %v", timeout, m, time.Until(deadline), l.ctx.Err())
			}
		})
	}
}
