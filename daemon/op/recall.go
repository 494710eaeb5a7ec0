package op

import (
	"cmp"
	"context"
	"reflect"
	"strings"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/fusion"
	"crabmem/crmem/metadata"
	"crabmem/crmem/recall"
	"crabmem/daemon/errtable"
	"crabmem/daemon/timetext"
	"crabmem/sessionlog/search"
)

// Question is a search.
type Question struct {
	Query string `json:"query"`
	Limit int    `json:"limit,omitempty"` // hits; 0: all, of messages at most 20
	FilterArgs
	RankArgs
	Fields   []metadata.Field `json:"meta,omitempty"`     // only entries with these values of the metadata
	Syntax   bool             `json:"syntax,omitempty"`   // the query has clauses
	Analyzer string           `json:"analyzer,omitempty"` // standard or plain; empty: standard
	Semantic bool             `json:"semantic,omitempty"` // rank by meaning, too
	Explain  bool             `json:"explain,omitempty"`  // how each score came about
	Weights  bool             `json:"weights,omitempty"`  // of the terms of each hit
	WhyNot   string           `json:"why_not,omitempty"`  // the name of an entry: explain why it is not a hit
	Present  string           `json:"present,omitempty"`  // the present project, as crmem.Query.Project
	Budget   int              `json:"budget,omitempty"`   // limit in tokens of names and texts; 0: complete contents
}

// RankArgs are how a search ranks: the options of the command, of the tools of agents and
// of MCP clients, and of HTTP. Models pay for each word of the descriptions.
type RankArgs struct {
	In         string  `json:"in,omitempty" jsonschema:"notes (default), sessions, or both" op:"words=notes|sessions|both"`
	MinShare   float64 `json:"min_share,omitempty" jsonschema:"least share of the best score, 0 to 1" op:"max=1"`
	Sort       string  `json:"sort,omitempty" jsonschema:"score, recent, or important" op:"words=score|recent|important"`
	Importance float64 `json:"importance,omitempty" jsonschema:"its weight, 0 to 1" op:"max=1"`
	HalfLife   string  `json:"half_life,omitempty" jsonschema:"age that halves scores, such as 30d"`
	Diverse    bool    `json:"diverse,omitempty" jsonschema:"avoid similar hits"`
	Lambda     float64 `json:"lambda,omitempty" jsonschema:"weight of scores in diverse" op:"max=1"`
	Fusion     string  `json:"fusion,omitempty" jsonschema:"convex or reciprocal_rank" op:"words=convex|reciprocal_rank"`
	Expand     int     `json:"expand,omitempty" jsonschema:"links to follow, 0 to 3" op:"max=3"`
}

// maxExpand limits the links from a hit to an entry that a search adds.
const maxExpand = 3

// apply sets the options of a query, without Fusion.
func (in *RankArgs) apply(q *crmem.Query) (err error) {
	for i, x := range []float64{in.MinShare, in.Importance, in.Lambda} {
		if !(x >= 0 && x <= 1) {
			return errtable.Invalidf("%s %v: want a number from 0 to 1", []string{"min-share", "importance", "lambda"}[i], x)
		}
	}
	if in.Expand < 0 || in.Expand > maxExpand {
		return errtable.Invalidf("expand %d: want 0 to %d", in.Expand, maxExpand)
	}
	if in.HalfLife != "" {
		if q.HalfLife, err = timetext.ParseAge(in.HalfLife); err != nil || q.HalfLife < least {
			return errtable.Invalidf("half-life %q: want an age from 1h on, such as 30d, 12w, or 36h", in.HalfLife)
		}
	}
	if q.Sort, err = crmem.ParseSort(in.Sort); err != nil {
		return errtable.Invalidf("sort %v", err)
	}
	if _, err = fusion.ParseMethod(in.Fusion); err != nil {
		return errtable.Invalidf("fusion %v", err)
	}
	q.MinShare, q.Importance, q.Diverse, q.Lambda, q.Expand = in.MinShare, in.Importance, in.Diverse, in.Lambda, in.Expand
	return nil
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
	}
	q = crmem.Query{Text: in.Query, Limit: in.Limit, Syntax: in.Syntax, Count: true, Project: in.Present}
	if err := in.RankArgs.apply(&q); err != nil {
		return q, err
	}
	if err := in.Apply(&q, now); err != nil {
		return q, err
	}
	q.Filter.Fields = append(q.Filter.Fields, in.Fields...)
	switch in.In {
	case "", InNotes:
	case InSessions, InBoth:
		if q.Sort != crmem.ByScore || in.Kind != "" || in.Type != "" || len(in.Tags)+len(q.Filter.Fields) > 0 || in.Syntax || in.Analyzer == analysis.Plain.String() {
			return q, errtable.Invalidf("in %q: sort, kind, type, tags, project, meta, syntax, and analyzer select notes: leave them out, or search in notes", in.In)
		}
	default:
		return q, errtable.Invalidf("in %q: want notes, sessions, or both", in.In)
	}
	if in.Analyzer != "" {
		if q.Analyzer, err = analysis.ParseAnalyzer(in.Analyzer); err != nil {
			return q, errtable.Invalidf("analyzer: %v", err)
		}
	}
	return q, nil
}

var Recall = Add(errtable.Store, Op[Store, Question, *recall.Answer]{
	Name: "entries.recall", Does: "Search entries.", Effect: Reads, Need: NeedRead, Path: "POST /v1/memories/recall",
	Run: func(ctx context.Context, s Store, in *Question) (*recall.Answer, error) {
		if s.As.Name != "" {
			if err := in.bound(); err != nil {
				return nil, err
			}
		}
		return in.answer(ctx, s)
	},
})

// maxHits limits the hits of a [Question] of an identity.
const maxHits = 1000

// bound refuses a question that is too large for an identity, and limits the hits.
func (in *Question) bound() error {
	if n := len(in.Query); n > MaxSearchQuery {
		return errtable.Invalidf("query has %d bytes, want at most %d", n, MaxSearchQuery)
	}
	if in.Budget > maxSearchBudget {
		return errtable.Invalidf("budget: want 0 to %d", maxSearchBudget)
	}
	if in.Limit == 0 {
		in.Limit = maxHits
	}
	in.Limit = min(in.Limit, maxHits)
	return nil
}

// Weigh sets the weights of the hits that have none, as those over HTTP, by the query.
func Weigh(a *recall.Answer) {
	weights := weightsOf(a)
	for i := range a.Hits {
		if a.Hits[i].Weights == nil {
			a.Hits[i].Weights = weights
		}
	}
}

// answer carries out a search.
func (in *Question) answer(ctx context.Context, s Store) (*recall.Answer, error) {
	q, err := in.Parse(s.now())
	if err != nil {
		return nil, err
	}
	if in.Semantic || in.Fusion != "" {
		q.Semantic = SemanticRequest(s.Semantic)
		if in.Fusion != "" {
			q.Semantic.Fusion, _ = fusion.ParseMethod(in.Fusion)
		}
	}
	var found []*recall.Answer
	if in.In != InSessions {
		a, err := recall.Search(ctx, s.Store, q, recall.Options{Explain: in.Explain, Weights: in.Weights || in.Budget > 0, WhyNot: in.WhyNot})
		if err != nil {
			return nil, err
		}
		found = append(found, a)
	}
	if in.In == InSessions || in.In == InBoth {
		a, err := messages(ctx, s.Messages, &q)
		if err != nil {
			return nil, err
		}
		found = append(found, a)
	}
	a := recall.Merge(found, in.Limit)
	if in.Budget > 0 {
		a.Spend(in.Budget, q.Analyzer)
	}
	NoteModel(a.Meaning, s.Semantic)
	for i := range a.Hits {
		if !in.Weights {
			a.Hits[i].Weights = nil
		}
	}
	return a, nil
}

// The values of RankArgs.In.
const (
	InNotes    = "notes" // the default
	InSessions = "sessions"
	InBoth     = "both"
)

// A MessageSearcher searches the messages of the sessions that a caller may read.
type MessageSearcher func(context.Context, search.Query) (*search.Result, error)

// messages searches messages as a query does entries. A time selects sessions, because
// messages have no times.
func messages(ctx context.Context, find MessageSearcher, q *crmem.Query) (*recall.Answer, error) {
	if find == nil {
		return nil, errtable.Invalidf("in: this store has no sessions: search in notes")
	}
	x := search.Query{Text: q.Text, Limit: min(cmp.Or(q.Limit, search.MaxHits), search.MaxHits), Window: -1, Semantic: q.Semantic, Since: crmem.UnixTime(q.Filter.After).Time()}
	if q.Filter.Before > 0 {
		x.Until = crmem.UnixTime(q.Filter.Before).Time()
	}
	r, err := find(ctx, x)
	if err != nil {
		return nil, err
	}
	mend(reflect.ValueOf(r))
	a := &recall.Answer{Query: q.Text, Total: r.Total, Searched: r.Searched, Hits: []recall.Hit{}, Corrections: r.Corrections, Meaning: r.Meaning}
	for _, h := range r.Hits {
		if h.Score >= q.MinShare*r.Hits[0].Score {
			a.Hits = append(a.Hits, recall.Hit{Score: h.Score, Snippet: &h.Snippet, Message: &recall.Message{Session: h.ID, Title: h.Title, Agent: h.Agent, Role: h.Role, Line: h.Line}})
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

	Project string `json:"project,omitempty" jsonschema:"only entries of this project"`
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
	if p := strings.TrimSpace(a.Project); p != "" {
		q.Filter.Fields = []metadata.Field{{Key: metadata.Project, Values: []string{p}}}
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
