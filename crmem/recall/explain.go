package recall

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"crabmem/bm25"
	"crabmem/crmem"
	"crabmem/crmem/fusion"
	"crabmem/crmem/metadata"
)

// Explanation is the breakdown of a score. Adding the contributions in order, with the
// factors at their places, gives the score bit for bit.
type Explanation struct {
	Score  float64 `json:"score"`
	Docs   int     `json:"docs"`
	AvgLen float64 `json:"avg_len"`
	Pivot  float64 `json:"pivot"` // the length that the formula does not damp
	Len    int     `json:"len"`
	Terms  []Term  `json:"terms"`
	Read   bool    `json:"read"`
	// Damping is the factor of the bonuses for place, spelling, and nearness, which include
	// it.
	Damping float64     `json:"damping,omitempty"`
	Near    []bm25.Near `json:"near,omitempty"`
	Named   float64     `json:"named,omitempty"`
	// Boosts are by neighbors of a message. The sum of the lines above and of these is
	// multiplied by Prior, if it is set. Conversation is added, and the result is
	// multiplied by Date, if it is set.
	Boosts       []bm25.Boost `json:"boosts,omitempty"`
	Prior        float64      `json:"prior,omitempty"`        // factor for the author of a message
	Conversation float64      `json:"conversation,omitempty"` // share of the score of the conversation
	Date         float64      `json:"date,omitempty"`         // factor of an entry of a time that the query names
	// Importance is set if it changed the score of the hit, which is then Score times
	// its factor.
	Importance *crmem.Importance `json:"importance,omitempty"`
	// Fused is set if the score was combined with one by meaning; Decay is then a factor
	// for the age, if it is not 0. Diversity is the reason for the place of the hit.
	Fused     *fusion.Fused    `json:"fused,omitempty"`
	Decay     float64          `json:"decay,omitempty"`
	Diversity *crmem.Diversity `json:"diversity,omitempty"`
}

// add adds what changed the score of a hit after the search by words.
func (x *Explanation) add(h *crmem.Hit) {
	x.Importance, x.Fused, x.Decay, x.Diversity = h.Importance, h.Fused, h.Decay, h.Diversity
}

// Term is the contribution of a term of the query.
type Term struct {
	Term         string  `json:"term"`
	TF           int     `json:"tf"`
	DF           int     `json:"df"`
	IDF          float64 `json:"idf"`
	Weight       float64 `json:"weight"`
	LengthNorm   float64 `json:"length_norm"`
	Contribution float64 `json:"contribution"`
	Field        string  `json:"field,omitempty" op:"words=name|alias|metadata|content"` // of its first word
	Place        int     `json:"place,omitempty"`
	Early        float64 `json:"early,omitempty"`
	Exact        float64 `json:"exact,omitempty"`
}

// Where returns where the term's first word is, or "" if that is unknown.
func (t *Term) Where() string {
	if t.Place == 0 {
		return ""
	}
	return fmt.Sprintf("%s, word %d", t.Field, t.Place)
}

// Line is one line in a score breakdown, as text for people. A value that is added to the
// score has a label and perhaps a place; the other lines are factors.
type Line struct {
	Text  string
	Label string
	Place string
	Value float64
}

// Lines returns the lines after the terms, in calculation order.
func (x *Explanation) Lines() (lines []Line) {
	adds := func(label, place string, value float64, format string, args ...any) {
		lines = append(lines, Line{fmt.Sprintf(format, args...), label, place, value})
	}
	factor := func(format string, args ...any) { lines = append(lines, Line{Text: fmt.Sprintf(format, args...)}) }
	for _, n := range x.Near {
		adds(n.Terms[0]+" near "+n.Terms[1], "", n.Contribution, "near: %s, %s at distance %d: %.3f", n.Terms[0], n.Terms[1], n.Distance, n.Contribution)
	}
	if x.Named > 0 {
		adds("exact name", "", x.Named, "exact name match: %.3f", x.Named)
	}
	for _, b := range x.Boosts {
		terms := strings.Join(b.Terms, ", ")
		adds(terms, "neighbor "+b.Name, b.Contribution, "neighbor %s: %s: %.3f with weight %.3f", b.Name, terms, b.Contribution, b.Weight)
	}
	if x.Prior > 0 && x.Prior < 1 {
		factor("message of an assistant: × %.3f", x.Prior)
	}
	if x.Conversation > 0 {
		adds("conversation", "", x.Conversation, "conversation: %.3f", x.Conversation)
	}
	if x.Date > 0 {
		factor("time in the query: × %.3f", x.Date)
	}
	if i := x.Importance; i != nil {
		factor("importance: explicit %.2f, access %.2f, recency %.2f, links %.2f: %.3f; with weight %g: %.3f × %.3f = %.3f",
			i.Explicit, i.Access, i.Recency, i.Links, i.Value, i.Weight, x.Score, i.Factor, x.Score*i.Factor)
	}
	if f := x.Fused; f != nil {
		cosine := "no vector"
		if f.Cosine != nil {
			cosine = fmt.Sprintf("cosine %.3f", *f.Cosine)
		}
		factor("words %.3f, meaning %.3f (%s), weight of meaning %g: %.3f", f.Words, f.Meaning, cosine, f.Weight, f.Score())
	}
	if x.Decay > 0 {
		factor("age: × %.3f", x.Decay)
	}
	if d := x.Diversity; d != nil {
		factor("diversity: score %.3f of the best, similarity %.3f: %.3f", d.Relevance, d.Similarity, d.Value)
	}
	return lines
}

// Weights returns the weight of each term, for the selection of snippets.
func (x *Explanation) Weights() map[string]float64 {
	w := make(map[string]float64, len(x.Terms))
	for _, t := range x.Terms {
		w[t.Term] = t.IDF
	}
	return w
}

// explain converts the explanation of an entry.
func explain(e bm25.Explanation, of *crmem.Entry) *Explanation {
	names, _, _ := metadata.Parts(of.Content)
	text := 1 + len(of.Aliases) + len(names) // field of the text
	x := &Explanation{
		Score: e.Score, Docs: e.Docs, AvgLen: e.AvgLen, Pivot: e.Pivot, Len: e.Len, Damping: e.Damping, Terms: []Term{}, Read: e.Read, Near: e.Near, Named: e.Named,
		Boosts: e.Boosts, Prior: e.Prior, Conversation: e.Group, Date: e.Factor,
	}
	for _, t := range e.Terms {
		line := Term{
			Term: t.Term, TF: t.TF, DF: t.DF, IDF: t.IDF, Weight: t.Weight, LengthNorm: t.LengthNorm, Contribution: t.Contribution,
			Place: t.Place, Early: t.Early, Exact: t.Exact,
		}
		switch {
		case t.Place == 0:
		case t.Field == 0:
			line.Field = "name"
		case t.Field <= len(of.Aliases):
			line.Field = "alias"
		case t.Field == text:
			line.Field = "content"
		default:
			line.Field = "metadata"
		}
		x.Terms = append(x.Terms, line)
	}
	return x
}

// WhyNot is the reason why an entry is or is not a hit.
type WhyNot struct {
	Name    string       `json:"name"`
	Reason  string       `json:"reason" op:"words=hit|limit|filtered|no_match|no_entry"`
	Message string       `json:"message"`
	Rank    int          `json:"rank"` // among all matches, from 1; 0 when it does not match
	Score   float64      `json:"score"`
	Explain *Explanation `json:"explain,omitempty"`
}

func whyNot(ctx context.Context, s *crmem.Store, q crmem.Query, name string) (*WhyNot, error) {
	w := &WhyNot{Name: name}
	says := func(reason, format string, args ...any) *WhyNot {
		w.Reason, w.Message = reason, "why not \""+w.Name+"\": "+fmt.Sprintf(format, args...)
		return w
	}
	e, err := s.Get(name)
	if errors.Is(err, crmem.ErrNotFound) {
		return says("no_entry", "no such entry"), nil
	} else if err != nil {
		return nil, err
	}
	w.Name = e.Name
	passes := len(q.Kinds) == 0
	for _, k := range q.Kinds {
		passes = passes || k == e.Kind
	}
	if !passes {
		return says("filtered", "its kind is %s, which --kind excludes", e.Kind), nil
	}
	all := q
	all.Limit, all.Explain, all.Expand, all.Uncounted = 0, false, 0, true
	r, err := s.Search(ctx, all)
	if err != nil {
		return nil, err
	}
	var hit crmem.Hit
	for i, h := range r.Hits {
		if h.ID == e.ID {
			w.Rank, w.Score, hit = i+1, h.Score, h
		}
	}
	x, _, err := s.Explain(ctx, q, e.ID)
	if err != nil {
		return nil, err
	}
	if w.Rank == 0 && x.Score > 0 {
		return says("filtered", "a filter or a clause of the query excludes it"), nil
	}
	if w.Rank == 0 {
		return says("no_match", "it contains no query term (%s)", terms(q)), nil
	}
	w.Explain = explain(x, &e)
	w.Explain.add(&hit)
	if q.Limit == 0 || w.Rank <= q.Limit {
		return says("hit", "it is hit %d", w.Rank), nil
	}
	return says("limit", "it is match %d with score %.3f; the last hit shown has score %.3f (--limit %d)",
		w.Rank, w.Score, r.Hits[q.Limit-1].Score, q.Limit), nil
}

// terms lists the terms of a query for display.
func terms(q crmem.Query) string {
	var list []string
	seen := make(map[string]bool)
	for t := range q.Analyzer.Tokens(q.Text) {
		if !seen[t] {
			seen[t] = true
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return "the query has no terms"
	}
	return strings.Join(list, ", ")
}
