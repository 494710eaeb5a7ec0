package recalleval

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/embed"
	"crabmem/crmem/fusion"
)

// Options are how a set is run.
type Options struct {
	Mode     Mode
	Analyzer analysis.Analyzer
	// ImportanceWeight is as in crmem.Options. With Aged, the documents were created
	// one hour apart, the last one now; otherwise all were created at one time.
	ImportanceWeight float64
	Aged             bool
	// Embed and Semantic, if set, rank by meaning, too.
	Embed    *embed.Model
	Semantic *fusion.Request
	// Passes is how often queries are timed, each by its fastest; with 0 no
	// cost is measured at all.
	Passes int
	// CPU returns the CPU time that the process has used. nil: unknown.
	CPU func() time.Duration
	// Progress is called as queries are answered, with done rising to total,
	// by several goroutines.
	Progress func(done, total int)
}

// Result is the result of a set.
type Result struct {
	Set      string `json:"set"`
	Mode     Mode   `json:"mode"`
	Analyzer string `json:"analyzer" op:"words=standard|plain"`
	Embedder string `json:"embedder,omitempty"` // identity of the embedding model
	Docs     int    `json:"docs"`
	Groups   int    `json:"groups"`
	Queries  int    `json:"queries"` // the means are over

	LeftOut        int `json:"queries_left_out"` // without a relevant document
	UnknownDocs    int `json:"unknown_docs"`     // judgments of documents that are not in the corpus
	UnknownQueries int `json:"unknown_queries"`
	Ungrouped      int `json:"ungrouped_queries"`

	Scores
	// Intervals are 95 % bootstrap intervals of the means, by measure.
	Intervals map[string][2]float64 `json:"ci95"`
	Cost      *Cost                 `json:"cost,omitempty"`
	// Categories are the means by category of the queries, ascending, if the set has any.
	Categories []Category `json:"categories,omitempty"`

	Answers []Answer `json:"-"`
}

// Category is a kind of question.
type Category struct {
	Category string `json:"category"`
	Queries  int    `json:"queries"`
	Scores
}

// Answer is the result of a query.
type Answer struct {
	Query    string `json:"query"` // its ID
	Category string `json:"category,omitempty"`
	Rank     int    `json:"rank"` // of the first relevant document; 0: not among K
	Scores
	Text     string     `json:"text,omitempty"`
	Group    string     `json:"group,omitempty"`
	Relevant []Relevant `json:"relevant,omitempty"`
	Hits     []Hit      `json:"hits,omitempty"` // the best ten
}

// Relevant is a document that a query should find.
type Relevant struct {
	Doc   string `json:"doc"`
	Grade int    `json:"grade"`
	Rank  int    `json:"rank"` // 0: not among K
}

// Hit is a document that a query found.
type Hit struct {
	Doc   string  `json:"doc"`
	Score float64 `json:"score"`
	Grade int     `json:"grade"`
}

// Run answers the queries of a set as the store does.
func Run(ctx context.Context, s *Set, o Options) (_ *Result, err error) {
	ss, err := newStoreSet(ctx, s, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, ss.close()) }()
	answers, err := ss.answers(ctx, s.Queries, o.Progress)
	if err != nil {
		return nil, err
	}
	r := o.result(s, ss, answers)
	if r.Cost != nil {
		err = ss.time(ctx, s.Queries, o.Passes)
	}
	return r, err
}

// result returns the result of a set with answers.
func (o *Options) result(s *Set, ss *storeSet, answers []Answer) *Result {
	r := &Result{
		Set: s.Name, Mode: ss.mode, Analyzer: o.Analyzer.String(), Docs: len(s.Docs), Groups: s.Groups, Queries: len(answers), Answers: answers,
		LeftOut: s.LeftOut, UnknownDocs: s.UnknownDocs, UnknownQueries: s.UnknownQueries, Ungrouped: s.Ungrouped,
		Intervals: make(map[string][2]float64), Cost: ss.cost,
	}
	if o.Embed != nil {
		r.Embedder = o.Embed.Identity()
	}
	all := make([]values, len(r.Answers))
	kinds := make(map[string][]values)
	for i, a := range r.Answers {
		all[i] = a.Values()
		if a.Category != "" {
			kinds[a.Category] = append(kinds[a.Category], all[i])
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		r.Categories = append(r.Categories, Category{kind, len(kinds[kind]), mean(kinds[kind]).scores()})
	}
	r.Scores = mean(all).scores()
	low, high := intervals(all)
	for i, name := range Metrics {
		r.Intervals[name] = [2]float64{low[i], high[i]}
	}
	return r
}

// answers runs the queries concurrently.
func (ss *storeSet) answers(ctx context.Context, queries []Query, progress func(done, total int)) ([]Answer, error) {
	answers := make([]Answer, len(queries))
	var next, done atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, runtime.GOMAXPROCS(0))
	for w := range errs {
		wg.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(queries) {
					return
				}
				if answers[i], errs[w] = ss.answer(ctx, queries[i]); progress != nil {
					progress(int(done.Add(1)), len(queries))
				}
			}
		})
	}
	wg.Wait()
	return answers, cmp.Or(errs...)
}

func (ss *storeSet) answer(ctx context.Context, q Query) (Answer, error) {
	hits, err := ss.search(ctx, q)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Query: q.ID, Category: q.Category, Text: q.Text, Group: q.Group}
	ranking := make([]string, len(hits))
	ranks := make(map[string]int, len(hits))
	for i, h := range hits {
		ranking[i] = ss.docs[h.ID].ID
		ranks[ranking[i]] = i + 1
		if i < 10 {
			a.Hits = append(a.Hits, Hit{ranking[i], h.Score, q.Grades[ranking[i]]})
		}
	}
	a.Scores, a.Rank = Score(ranking, q.Grades)
	for doc, grade := range q.Grades {
		if grade > 0 {
			a.Relevant = append(a.Relevant, Relevant{doc, grade, ranks[doc]})
		}
	}
	slices.SortFunc(a.Relevant, func(a, b Relevant) int {
		return cmp.Or(cmp.Compare(b.Grade, a.Grade), cmp.Compare(a.Doc, b.Doc))
	})
	return a, nil
}

// search returns the entries that the store finds for a query in its mode.
func (ss *storeSet) search(ctx context.Context, q Query) ([]crmem.Hit, error) {
	part := ""
	if ss.mode == Group {
		part = q.Group
	}
	store := ss.stores[part]
	if store == nil {
		return nil, nil // a group without documents
	}
	query := crmem.Query{Text: q.Text, Limit: K, Analyzer: ss.analyzer, Semantic: ss.semantic}
	filtered := ss.mode == Filter && q.Group != ""
	if filtered {
		query.Limit = 0
	}
	found, err := store.Search(ctx, query)
	if err == nil {
		err = ctx.Err()
	}
	if m := found.Meaning; err == nil && m != nil && !m.Used && m.Reason != fusion.UnknownWords {
		err = fmt.Errorf("query %s: %s", q.ID, m.Note("entry", "entries"))
	}
	hits := found.Hits
	if filtered {
		hits = slices.DeleteFunc(hits, func(h crmem.Hit) bool { return ss.docs[h.ID].Group != q.Group })
	}
	return hits[:min(K, len(hits))], err
}
