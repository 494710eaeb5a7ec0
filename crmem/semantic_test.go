package crmem_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/embed/embedtest"
	"crabmem/crmem/fusion"
)

// semanticStore returns a store in RAM with entries n1, n2, …, and a model for which some
// words mean the same.
func semanticStore(t *testing.T, texts ...string) (*crmem.Store, *embedtest.Model) {
	t.Helper()
	m, model := embedtest.New("car automobile", "sea ocean", "doctor physician")
	s := crmem.New(&crmem.Options{Embed: m, Now: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	t.Cleanup(func() { ok(t, s.Close()) })
	for i, text := range texts {
		_, err := s.Remember(fmt.Sprintf("n%d", i+1), text, nil)
		ok(t, err)
	}
	ok(t, s.EmbedAll(t.Context(), nil))
	return s, model
}

func hitLine(r crmem.Result) string {
	var list []string
	for _, h := range r.Hits {
		list = append(list, h.Name)
	}
	return strings.Join(list, " ")
}

func search(t *testing.T, s *crmem.Store, q crmem.Query) crmem.Result {
	t.Helper()
	r, err := s.Search(t.Context(), q)
	ok(t, err)
	return r
}

func TestSemantic(t *testing.T) {
	s, model := semanticStore(t, "the automobile is in the garage", "a car park", "the ocean is calm", "something else")
	q := crmem.Query{Text: "car", Limit: 2, Count: true, Semantic: &fusion.Request{}}
	for _, method := range []fusion.Method{fusion.Convex, fusion.ReciprocalRank} {
		q.Semantic.Fusion = method
		r := search(t, s, q)
		if hitLine(r) != "n2 n1" || !r.Meaning.Used || r.Meaning.Missing != 0 || r.Meaning.Model == "" || r.Total != 4 {
			t.Errorf("%q: hits %s of %d, %+v", method, hitLine(r), r.Total, r.Meaning)
		}
		for _, h := range r.Hits {
			if h.Fused == nil || h.Fused.Cosine == nil || h.Score != h.Fused.Score() {
				t.Errorf("%q: %s: %v, fused %+v", method, h.Name, h.Score, h.Fused)
			}
		}
	}
	q.Semantic.Fusion = fusion.Convex
	q.MinShare = 0.5
	if r := search(t, s, q); hitLine(r) != "n2" {
		t.Errorf("with a least share: %s", hitLine(r))
	}
	q.MinShare = 0
	model.Fail(func([]string) error { return errors.New("no route") })
	r := search(t, s, q)
	if hitLine(r) != "n2" || r.Meaning.Used || !strings.Contains(r.Meaning.Reason, "no route") || r.Hits[0].Fused != nil {
		t.Errorf("a model that fails: hits %s, %+v", hitLine(r), r.Meaning)
	}
}

// TestSemanticCoverage checks that unknown words make matches by words count less, unless
// the model is static.
func TestSemanticCoverage(t *testing.T) {
	for _, static := range []bool{false, true} {
		m, _ := embedtest.New("car automobile")
		m.Static = static
		s := crmem.New(&crmem.Options{Embed: m})
		t.Cleanup(func() { ok(t, s.Close()) })
		for i, text := range []string{"the automobile is in the garage", "a car park", "a park"} {
			_, err := s.Remember(fmt.Sprintf("n%d", i+1), text, nil)
			ok(t, err)
		}
		ok(t, s.EmbedAll(t.Context(), nil))
		fused := func(text string) *fusion.Fused {
			h := search(t, s, crmem.Query{Text: text, Limit: 1, Semantic: &fusion.Request{}}).Hits[0]
			if h.Name != "n2" {
				t.Errorf("static %v: %q finds %s", static, text, h.Name)
			}
			return h.Fused
		}
		known, unknown := fused("park car"), fused("park car zebra quagga")
		if static && (unknown.Words != 1 || unknown.Weight != fusion.StaticWeight) {
			t.Errorf("static: %+v", unknown)
		}
		if !static && (unknown.Words >= known.Words || unknown.Weight != fusion.DefaultWeight || unknown.Words != unknown.Lexical/unknown.Scores[1] || unknown.Scores[0] != 0) {
			t.Errorf("%+v; with unknown words %+v", known, unknown)
		}
	}
}

// TestSemanticReasons checks that a result by words only says why.
func TestSemanticReasons(t *testing.T) {
	s, _ := semanticStore(t, "the automobile is in the garage", "car car", "the ocean is calm")
	without := crmem.New(nil)
	t.Cleanup(func() { ok(t, without.Close()) })
	for reason, c := range map[string]struct {
		s *crmem.Store
		q crmem.Query
	}{
		"no embedding model is configured":                 {without, crmem.Query{Text: "car", Semantic: &fusion.Request{}}},
		"the analyzer is plain":                            {s, crmem.Query{Text: "car", Semantic: &fusion.Request{}, Analyzer: analysis.Plain}},
		"the hits are not sorted by score":                 {s, crmem.Query{Text: "car", Semantic: &fusion.Request{}, Sort: crmem.ByRecent}},
		"the model does not know the words of the query":   {s, crmem.Query{Text: "…", Semantic: &fusion.Request{}}},
		"no entry that passes the filters has a vector":    {s, crmem.Query{Text: "car", Semantic: &fusion.Request{}, Kinds: []crmem.Kind{crmem.Archive}}},
		"the best match by words leads by a factor of 1.2": {s, crmem.Query{Text: "automobile garage car", Semantic: &fusion.Request{Lead: 1.2}}},
	} {
		r := search(t, c.s, c.q)
		if r.Meaning == nil || r.Meaning.Used || !strings.HasPrefix(r.Meaning.Reason, reason) {
			t.Errorf("%s: %+v", reason, r.Meaning)
		}
		words := c.q
		words.Semantic = nil
		if w := search(t, c.s, words); hitLine(w) != hitLine(r) || w.Meaning != nil {
			t.Errorf("%s: hits %s, by words %s", reason, hitLine(r), hitLine(w))
		}
	}
}

// TestSemanticFilters checks that entries that filters exclude do not displace others.
func TestSemanticFilters(t *testing.T) {
	texts := make([]string, 300)
	for i := range texts {
		texts[i] = "automobile"
	}
	s, _ := semanticStore(t, append(texts, "---\ntags: [rare]\n---\na big ocean", "an automobile and an ocean")...)
	q := crmem.Query{Text: "car", Limit: 5, Semantic: &fusion.Request{}, Filter: crmem.Filter{Tags: []string{"rare"}}}
	if r := search(t, s, q); hitLine(r) != "n301" || !r.Meaning.Used {
		t.Errorf("with a filter: %s, %+v", hitLine(r), r.Meaning)
	}
	if r := search(t, s, crmem.Query{Text: "sea -rare", Syntax: true, Limit: 1, Semantic: &fusion.Request{}}); hitLine(r) != "n302" {
		t.Errorf("with a clause: %s", hitLine(r))
	}
}

// TestSemanticAfterChanges checks that meaning finds present texts only.
func TestSemanticAfterChanges(t *testing.T) {
	s, model := semanticStore(t, "the automobile", "the ocean", "the physician")
	q := crmem.Query{Text: "car", Limit: 1, Semantic: &fusion.Request{}}
	model.Fail(func(texts []string) error {
		if len(texts) == 1 && texts[0] == "car" {
			return nil
		}
		return errors.New("busy")
	})
	_, err := s.Remember("n1", "the ocean again", nil)
	ok(t, err)
	r := search(t, s, q)
	if !r.Meaning.Used || r.Meaning.Missing != 1 || r.Hits[0].Name == "n1" {
		t.Errorf("a changed entry: %s, %+v", hitLine(r), r.Meaning)
	}
	model.Fail(nil)
	_, err = s.Remember("n2", "the car", nil)
	ok(t, err)
	ok(t, s.EmbedAll(t.Context(), nil))
	if r := search(t, s, q); hitLine(r) != "n2" || r.Meaning.Missing != 0 {
		t.Errorf("after EmbedAll: %s, %+v", hitLine(r), r.Meaning)
	}
	ok(t, s.Forget("n2"))
	for _, h := range search(t, s, crmem.Query{Text: "car", Semantic: &fusion.Request{}}).Hits {
		if h.Name == "n2" {
			t.Error("a removed entry is found")
		}
	}
	if st := s.VectorState(); st.Entries != 2 || st.Missing != 0 {
		t.Errorf("%+v", st)
	}
}

// TestLongTexts checks that the best chunk of a text counts.
func TestLongTexts(t *testing.T) {
	filler := strings.Repeat("rope tide signal canvas. ", 200)
	s, _ := semanticStore(t, filler+"\n\nautomobile automobile automobile\n\n"+filler, filler, "automobile rope tide signal canvas rope tide signal canvas rope tide signal canvas")
	r := search(t, s, crmem.Query{Text: "car", Limit: 1, Semantic: &fusion.Request{}})
	if hitLine(r) != "n3" && hitLine(r) != "n1" || s.VectorState().Vectors < 10 {
		t.Errorf("%s, %+v", hitLine(r), s.VectorState())
	}
	if all := search(t, s, crmem.Query{Text: "car", Semantic: &fusion.Request{}}); !strings.HasSuffix(hitLine(all), "n2") {
		t.Errorf("%s", hitLine(all))
	}
}

func TestDiverse(t *testing.T) {
	s, _ := semanticStore(t, "car garage door", "car garage door", "automobile garage door", "car on the ocean ferry")
	q := crmem.Query{Text: "car", Limit: 3, Diverse: true}
	r := search(t, s, q)
	if hitLine(r) != "n1 n4 n2" || r.Hits[1].Diversity == nil {
		t.Errorf("%s", hitLine(r))
	}
	for i, h := range r.Hits {
		d := h.Diversity
		if d.Value != float64(0.7*d.Relevance)-float64((1-0.7)*d.Similarity) || (i == 0) != (d.To == "") {
			t.Errorf("%s: %+v", h.Name, d)
		}
	}
	words := crmem.New(nil) // without vectors
	t.Cleanup(func() { ok(t, words.Close()) })
	for _, e := range []string{"car garage door", "car garage door", "car on the ocean ferry"} {
		_, err := words.Remember(fmt.Sprint("w", words.Len()), e, nil)
		ok(t, err)
	}
	if r := search(t, words, q); hitLine(r) != "w0 w2 w1" || r.Hits[2].Diversity.Similarity != 1 {
		t.Errorf("without vectors: %s, %+v", hitLine(r), r.Hits[2].Diversity)
	}
}

func TestDecay(t *testing.T) {
	s, _ := semanticStore(t, "---\ndate: 2027-01-15\n---\ncar", "---\ndate: 2026-12-16\n---\ncar car", "---\ndate: 2030-01-01\n---\nautomobile")
	q := crmem.Query{Text: "car", HalfLife: 30 * 24 * time.Hour, Limit: 1}
	r := search(t, s, q)
	if hitLine(r) != "n1" || math.Abs(r.Hits[0].Decay-1) > 0.02 {
		t.Errorf("%s, %v", hitLine(r), r.Hits[0].Decay)
	}
	q.Limit, q.Semantic = 0, &fusion.Request{}
	for _, h := range search(t, s, q).Hits {
		if want := map[string]float64{"n1": 1, "n2": 0.5, "n3": 1}[h.Name]; math.Abs(h.Decay-want) > 0.02 || h.Score != h.Fused.Score()*h.Decay {
			t.Errorf("%s: decay %v, want %v; score %v of %v", h.Name, h.Decay, want, h.Score, h.Fused.Score())
		}
	}
}
