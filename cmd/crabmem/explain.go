package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"crabmem/bm25"
	"crabmem/crmem"
)

// explanation is how a score came about: adding the contributions in order
// gives it bit for bit.
type explanation struct {
	Score  float64       `json:"score"`
	Docs   int           `json:"docs"`
	AvgLen float64       `json:"avg_len"`
	Len    int           `json:"len"`
	Terms  []explainTerm `json:"terms"`
	Read   bool          `json:"read"`
	Near   []explainNear `json:"near,omitempty"`
	Named  float64       `json:"named,omitempty"`
}

type explainTerm struct {
	Term         string  `json:"term"`
	TF           int     `json:"tf"`
	DF           int     `json:"df"`
	IDF          float64 `json:"idf"`
	Weight       float64 `json:"weight"`
	LengthNorm   float64 `json:"length_norm"`
	Contribution float64 `json:"contribution"`
	Field        string  `json:"field,omitempty"` // of its first word: name, alias or content
	Place        int     `json:"place,omitempty"`
	Early        float64 `json:"early,omitempty"`
	Exact        float64 `json:"exact,omitempty"`
}

type explainNear struct {
	Terms        [2]string `json:"terms"`
	Distance     int       `json:"distance"`
	Contribution float64   `json:"contribution"`
}

// newExplanation takes how many aliases the entry has to tell the fields.
func newExplanation(e bm25.Explanation, aliases int) *explanation {
	x := &explanation{Score: e.Score, Docs: e.Docs, AvgLen: e.AvgLen, Len: e.Len, Terms: []explainTerm{}, Read: e.Read, Named: e.Named}
	for _, t := range e.Terms {
		line := explainTerm{
			Term: t.Term, TF: t.TF, DF: t.DF, IDF: t.IDF, Weight: t.Weight, LengthNorm: t.LengthNorm, Contribution: t.Contribution,
			Place: t.Place, Early: t.Early, Exact: t.Exact,
		}
		switch {
		case t.Place == 0:
		case t.Field == 0:
			line.Field = "name"
		case t.Field <= aliases:
			line.Field = "alias"
		default:
			line.Field = "content"
		}
		x.Terms = append(x.Terms, line)
	}
	for _, n := range e.Near {
		x.Near = append(x.Near, explainNear(n))
	}
	return x
}

func (c *cli) explainText(x explanation) {
	rows := [][]string{{"    term", "tf", "df", "idf", "norm", "score"}}
	if x.Read {
		rows[0] = append(rows[0], "early", "exact", "first in")
	}
	for _, t := range x.Terms {
		row := []string{
			"    " + printable(t.Term), fmt.Sprint(t.TF), fmt.Sprint(t.DF),
			fmt.Sprintf("%.3f", t.IDF*t.Weight), fmt.Sprintf("%.3f", t.LengthNorm), fmt.Sprintf("%.3f", t.Contribution),
		}
		if x.Read {
			where := ""
			if t.Place > 0 {
				where = fmt.Sprintf("%s, word %d", t.Field, t.Place)
			}
			row = append(row, fmt.Sprintf("%.3f", t.Early), fmt.Sprintf("%.3f", t.Exact), where)
		}
		rows = append(rows, row)
	}
	c.table(c.out, rows, "1234567")
	for _, n := range x.Near {
		fmt.Fprintf(c.out, "    near: %s, %s at distance %d: %.3f\n", printable(n.Terms[0]), printable(n.Terms[1]), n.Distance, n.Contribution)
	}
	if x.Named > 0 {
		fmt.Fprintf(c.out, "    the query is its name: %.3f\n", x.Named)
	}
	fmt.Fprintf(c.out, "    %s\n", c.dim(fmt.Sprintf("score %.3f; %d terms here, %.1f on average in %s",
		x.Score, x.Len, x.AvgLen, plural(x.Docs, "entry", "entries"))))
}

// whyNot says why an entry is not among the hits, or that it is.
type whyNot struct {
	Name    string       `json:"name"`
	Reason  string       `json:"reason"` // hit, limit, filtered, no_match, no_entry
	Message string       `json:"message"`
	Rank    int          `json:"rank"` // among all matches, from 1; 0 when it does not match
	Score   float64      `json:"score"`
	Explain *explanation `json:"explain,omitempty"`
}

func (c *cli) whyNot(ctx context.Context, s *crmem.Store, q crmem.Query, name string) (*whyNot, error) {
	w := &whyNot{Name: name}
	e, err := s.Get(name)
	if errors.Is(err, crmem.ErrNotFound) {
		w.Reason, w.Message = "no_entry", "why not "+quoted(name)+": there is no such entry"
		return w, nil
	} else if err != nil {
		return nil, err
	}
	w.Name = e.Name
	passes := len(q.Kinds) == 0
	for _, k := range q.Kinds {
		passes = passes || k == e.Kind
	}
	if !passes {
		w.Reason, w.Message = "filtered", fmt.Sprintf("why not %s: it is a %s, and --kind leaves those out", quoted(e.Name), e.Kind)
		return w, nil
	}
	all := q
	all.Limit = 0
	r, err := s.Search(ctx, all)
	if err != nil {
		return nil, err
	}
	for i, h := range r.Hits {
		if h.ID == e.ID {
			w.Rank, w.Score = i+1, h.Score
		}
	}
	x, _, err := s.Explain(ctx, q, e.ID)
	if err != nil {
		return nil, err
	}
	if w.Rank == 0 && x.Score > 0 {
		w.Reason, w.Message = "filtered", fmt.Sprintf("why not %s: a clause of the query leaves it out", quoted(e.Name))
		return w, nil
	}
	if w.Rank == 0 {
		w.Reason, w.Message = "no_match", fmt.Sprintf("why not %s: none of the query's terms is in it (%s)", quoted(e.Name), terms(q))
		return w, nil
	}
	w.Explain = newExplanation(x, len(e.Aliases))
	if q.Limit == 0 || w.Rank <= q.Limit {
		w.Reason, w.Message = "hit", fmt.Sprintf("why not %s: it is hit %d", quoted(e.Name), w.Rank)
		return w, nil
	}
	w.Reason = "limit"
	w.Message = fmt.Sprintf("why not %s: it is match %d with score %.3f; the last hit shown has %.3f (--limit %d)",
		quoted(e.Name), w.Rank, w.Score, r.Hits[q.Limit-1].Score, q.Limit)
	return w, nil
}

// terms lists what a query is searched for, for a person.
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
		return "it has no terms"
	}
	return strings.Join(list, ", ")
}
