package recalleval_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/embed"
	"crabmem/crmem/embed/embedtest"
	"crabmem/crmem/fusion"
	"crabmem/crmem/recalleval"
)

// fitSet returns a set whose queries name documents by synonyms, or by their words, and
// contain a word of a wrong document.
func fitSet(n int, synonyms bool) (*recalleval.Set, *embed.Model) {
	var same []string
	s := &recalleval.Set{Name: "fit"}
	for i := range n {
		same = append(same, fmt.Sprintf("word%d same%d", i, i))
		content := fmt.Sprintf("word%d topic%d", i, i)
		s.Docs = append(s.Docs, recalleval.Doc{ID: fmt.Sprint(i), Entry: crmem.Entry{ID: uint64(i + 1), Name: fmt.Sprint("n", i), Content: content}})
		text := fmt.Sprintf("same%d same%d topic%d", i, i, (i+1)%n)
		if !synonyms {
			text = fmt.Sprintf("word%d", i)
		}
		s.Queries = append(s.Queries, recalleval.Query{ID: fmt.Sprint(i), Text: text, Grades: map[string]int{fmt.Sprint(i): 1}})
	}
	m, _ := embedtest.New(same...)
	return s, m
}

// requests counts the requests for vectors of single texts.
type requests struct {
	embed.Embedder
	n *int
}

func (r requests) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 1 {
		*r.n++
	}
	return r.Embedder.Embed(ctx, texts)
}

func TestFitWeight(t *testing.T) {
	for _, synonyms := range []bool{true, false} {
		s, m := fitSet(40, synonyms)
		n := 0
		m.Embedder = requests{m.Embedder, &n}
		o := recalleval.Options{Analyzer: analysis.Standard, Embed: m, Semantic: &fusion.Request{Weight: 0.2}}
		fit, r, c, err := recalleval.FitWeight(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		if fit.Old != 0.2 || fit.Queries != 20 || r.Queries != 20 || c.Queries != 20 || n != 40 {
			t.Errorf("%+v, %d others, %d requests for queries", fit, r.Queries, n)
		}
		if synonyms && (fit.Weight < 0.3 || r.NDCG10 < 0.95 || len(c.Moved) == 0 || c.Changes[0].Difference <= 0) {
			t.Errorf("synonyms: %+v, nDCG@10 %.3f, %d moved", fit, r.NDCG10, len(c.Moved))
		}
		if !synonyms && (fit.Weight != 0.2 || len(c.Moved) != 0) {
			t.Errorf("words: %+v, %d moved, without evidence", fit, len(c.Moved))
		}
	}
}

func TestFitWeightNeedsQuestions(t *testing.T) {
	s, m := fitSet(recalleval.LeastQuestions-1, true)
	_, _, _, err := recalleval.FitWeight(t.Context(), s, recalleval.Options{Embed: m, Semantic: &fusion.Request{}})
	if !errors.Is(err, recalleval.ErrFewQuestions) || !strings.HasSuffix(err.Error(), "29 have an entry that answers them, want at least 30") {
		t.Error(err)
	}
}
