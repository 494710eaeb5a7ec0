package op

import (
	"context"
	"strings"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/fusion"
	"crabmem/crmem/metadata"
	"crabmem/crmem/recall"
	"crabmem/daemon/errtable"
	"crabmem/daemon/timetext"
)

// Question is a search.
type Question struct {
	Query string `json:"query"`
	Limit int    `json:"limit,omitempty"` // hits; 0: all
	FilterArgs
	Fields   []metadata.Field `json:"meta,omitempty"`      // only entries with these values of the metadata
	Syntax   bool             `json:"syntax,omitempty"`    // the query has clauses
	Analyzer string           `json:"analyzer,omitempty"`  // standard or plain; empty: standard
	MinShare float64          `json:"min_share,omitempty"` // drop hits below this share of the best score
	Sort     string           `json:"sort,omitempty"`      // score, recent, or important; empty: score
	Expand   int              `json:"expand,omitempty"`    // 1: add the entries that the hits link to
	Diverse  bool             `json:"diverse,omitempty"`   // prefer hits that are not similar to better ones
	HalfLife string           `json:"half_life,omitempty"` // the age at which a score is halved, such as 30d
	Semantic bool             `json:"semantic,omitempty"`  // rank by meaning, too
	Explain  bool             `json:"explain,omitempty"`   // how each score came about
	Weights  bool             `json:"weights,omitempty"`   // of the terms of each hit
	WhyNot   string           `json:"why_not,omitempty"`   // the name of an entry: explain why it is not a hit
	Budget   int              `json:"budget,omitempty"`    // limit in tokens of names and texts; 0: complete contents
}

// least is the least half-life.
const least = time.Hour

// Parse returns the query, without Semantic, at a time.
func (in *Question) Parse(now time.Time) (q crmem.Query, err error) {
	switch {
	case in.Limit < 0:
		return q, errtable.Invalidf("limit %d: want 0 or more", in.Limit)
	case in.Budget < 0:
		return q, errtable.Invalidf("budget %d: want 0 or more", in.Budget)
	case !(in.MinShare >= 0 && in.MinShare <= 1):
		return q, errtable.Invalidf("min-share %v: want a number from 0 to 1", in.MinShare)
	case in.Expand != 0 && in.Expand != 1:
		return q, errtable.Invalidf("expand %d: want 0 or 1", in.Expand)
	}
	q = crmem.Query{Text: in.Query, Limit: in.Limit, Syntax: in.Syntax, MinShare: in.MinShare, Expand: in.Expand == 1, Diverse: in.Diverse, Count: true}
	if in.HalfLife != "" {
		if q.HalfLife, err = timetext.ParseAge(in.HalfLife); err != nil || q.HalfLife < least {
			return q, errtable.Invalidf("half-life %q: want an age from 1h on, such as 30d, 12w, or 36h", in.HalfLife)
		}
	}
	if q.Sort, err = crmem.ParseSort(in.Sort); err != nil {
		return q, errtable.Invalidf("sort %v", err)
	}
	if err := in.Apply(&q, now); err != nil {
		return q, err
	}
	q.Filter.Fields = in.Fields
	if in.Analyzer != "" {
		if q.Analyzer, err = analysis.ParseAnalyzer(in.Analyzer); err != nil {
			return q, errtable.Invalidf("analyzer: %v", err)
		}
	}
	return q, nil
}

var Recall = Add(errtable.Store, Op[Store, Question, *recall.Answer]{
	Name: "entries.recall", Does: "Search entries.", Effect: Reads, Need: NeedRead,
	Run: func(ctx context.Context, s Store, in *Question) (*recall.Answer, error) { return in.answer(ctx, s) },
})

// answer carries out a search.
func (in *Question) answer(ctx context.Context, s Store) (*recall.Answer, error) {
	q, err := in.Parse(s.now())
	if err != nil {
		return nil, err
	}
	if in.Semantic {
		q.Semantic = SemanticRequest(s.Semantic)
	}
	a, err := recall.Search(ctx, s.Store, q, recall.Options{Explain: in.Explain, Weights: in.Weights, WhyNot: in.WhyNot, Budget: in.Budget})
	if err != nil {
		return nil, err
	}
	NoteModel(a.Meaning, s.Semantic)
	for i := range a.Hits {
		if !in.Weights {
			a.Hits[i].Weights = nil
		}
	}
	return a, nil
}

// SemanticRequest returns a request that uses a model as model says. nil: no model.
func SemanticRequest(model *fusion.Request) *fusion.Request {
	if model == nil {
		return &fusion.Request{}
	}
	r := *model
	return &r
}

// NoteModel adds the reason to the result of a semantic request without a model.
func NoteModel(m *fusion.Meaning, model *fusion.Request) {
	if m != nil && model == nil {
		m.Reason = noModel
	}
}

// noModel is why a daemon without an embedding model searches by words only.
const noModel = "the daemon has no embedding model: check [embedder] in config.toml, then run crabmem daemon restart"

// FilterArgs are the arguments of the tools that search entries: those of agents and
// of the MCP server.
type FilterArgs struct {
	Kind   string   `json:"kind,omitempty" jsonschema:"only notes, or only archives of conversations" op:"words=note|archive"`
	Type   string   `json:"type,omitempty" jsonschema:"only entries of this type, such as decision"`
	Tags   []string `json:"tags,omitempty" jsonschema:"only entries with all of these tags" op:"filled"`
	After  string   `json:"after,omitempty" jsonschema:"only entries created at or after this time: a day, month, year, time, or an age such as 30d"`
	Before string   `json:"before,omitempty" jsonschema:"only entries created before this time"`
}

// Apply sets the kinds and the filter of a query.
func (a *FilterArgs) Apply(q *crmem.Query, now time.Time) (err error) {
	if a.Kind != "" {
		q.Kinds = make([]crmem.Kind, 1)
		if err := q.Kinds[0].UnmarshalText([]byte(a.Kind)); err != nil {
			return errtable.Invalidf("%v", err)
		}
	}
	q.Filter.Type = strings.TrimSpace(a.Type)
	for _, tag := range a.Tags {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "#"); tag != "" {
			q.Filter.Tags = append(q.Filter.Tags, tag)
		}
	}
	if q.Filter.After, err = boundary(a.After, now); err != nil {
		return errtable.Invalidf("after %v", err)
	}
	if q.Filter.Before, err = boundary(a.Before, now); err != nil {
		return errtable.Invalidf("before %v", err)
	}
	return nil
}

// boundary returns a time in unix seconds, or 0 for an empty text or a time before 1970.
func boundary(s string, now time.Time) (uint64, error) {
	t, err := timetext.Parse(s, false, now)
	if err != nil || s == "" {
		return 0, err
	}
	return uint64(max(t.Unix(), 0)), nil
}
