package crmem

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem/fusion"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// Query is a search request.
type Query struct {
	Text      string
	Limit     int               // 0: no limit
	Kinds     []Kind            // empty = all
	Analyzer  analysis.Analyzer // Standard searches names too; Plain is the reference's: content and aliases
	Count     bool              // fill Result.Total
	Explain   bool              // fill Result.Explanations
	Syntax    bool              // read Text as words and clauses, see [parseClauses]
	Filter    Filter            // applies before the limit, as Kinds does
	MinShare  float64           // drop hits with less than this share of the best score
	Sort      Sort              // order of the matches; applies before the limit
	Uncounted bool              // do not count reads of the hits
	Semantic  *fusion.Request   // rank by meaning, too; nil: by words only
	Diverse   bool              // prefer hits that are not similar to better ones
	Lambda    float64           // weight of the score against similarity for Diverse, at most 1; 0: 0.7
	HalfLife  time.Duration     // if above 0, scores halve with each HalfLife since the last read, else the last change; not of identities
	Expand    int               // add up to 50 entries within this many links of the hits, after the hits; Limit and Filter do not apply to them

	// Project is the present project: with ByScore, among hits whose scores are equal to
	// three decimals, those with this value of the metadata project come first. "": none.
	Project string

	// Importance is the weight of importance, as Options.ImportanceWeight; 0: as there.
	Importance float64
}

// Hit is an entry that was found.
type Hit struct {
	Entry
	Score float64
	Marks *Marks // nil: none
	// Importance is how importance changed the score. It is nil unless
	// it has a weight and the analyzer is Standard.
	Importance *Importance
	Fused      *fusion.Fused // how words and meaning were combined; nil: by words only
	Decay      float64       // factor for the age; 0: none
	Diversity  *Diversity    // why the hit has its place with Query.Diverse
}

// MarshalJSON writes the entry's keys and "score".
func (h Hit) MarshalJSON() ([]byte, error) {
	return format.MarshalJSON(struct {
		EntryInfo
		Score float64 `json:"score"`
	}{h.Info(true), h.Score})
}

// Result is the result of a search.
type Result struct {
	Hits     []Hit // score descending, then ID ascending
	Total    int   // matches before the limit; with Query.Count
	Searched int   // entries of the requested kinds
	// Corrections are the terms that replaced query words that no entry
	// contains.
	Corrections  []bm25.Correction
	Explanations []bm25.Explanation // of Hits, in their order; with Query.Explain
	Meaning      *fusion.Meaning    // with Query.Semantic
}

// maxNamed is the longest text that is looked up as a name, in bytes.
const maxNamed = 512

func (q *Query) classes() uint8 {
	var c uint8
	for _, k := range q.Kinds {
		c |= 1 << k
	}
	return c
}

// Search returns the entries that match best. The first search builds the
// index, and waits for it.
func (s *Store) Search(ctx context.Context, q Query) (Result, error) {
	for _, k := range q.Kinds {
		if k != Note && k != Archive {
			return Result{}, fmt.Errorf("%w: %v", ErrInvalid, k)
		}
	}
	c, err := q.parse()
	if err != nil {
		return Result{}, err
	}
	var m *fusion.Meaning
	if q.Semantic != nil {
		m = s.mean(ctx, &q, c)
	}
	for {
		r, err := s.search(ctx, q, c, m)
		r.Meaning = m
		if again, err := s.mendedIndex(q.Analyzer, err); !again {
			return r, err
		}
	}
}

// search is Search with the vector of the query.
func (s *Store) search(ctx context.Context, q Query, c clauses, m *fusion.Meaning) (Result, error) {
	weight := s.weightOf(&q)
	if weight > 0 || q.HalfLife > 0 {
		s.loadUsage()
	}
	if q.HalfLife > 0 {
		s.loadChanges()
	}
	ix, err := s.indexed(ctx, q.Analyzer)
	if err != nil {
		return Result{}, err
	}
	defer s.mu.RUnlock()
	x := s.query(ix, q, c)
	rank := s.newRanker(ix)
	x.Limit, x.Explain = s.candidates(&q, rank, m.Query() != nil)
	var found bm25.Result
	var weigh *weigher
	if weight > 0 {
		weigh = s.newWeigher(ix, weight)
		found = weigh.search(ix, x, x.Limit)
	} else {
		found = ix.x.Search(x)
	}
	r := Result{Hits: make([]Hit, 0, len(found.Hits)), Total: found.Total, Searched: s.t.count(q.Kinds), Corrections: found.Corrections}
	for _, h := range found.Hits {
		if m.Query() == nil && h.Score < q.MinShare*found.Hits[0].Score {
			break
		}
		r.Hits = append(r.Hits, Hit{Entry: entryOf(s.found(ix, h.ID)), Score: h.Score})
	}
	if weigh != nil {
		weigh.weigh(r.Hits)
	}
	if m.Query() != nil {
		n := len(r.Hits)
		r.Hits = s.fuse(ix, r.Hits, &q, c, m)
		r.Total += len(r.Hits) - n
		r.Hits = slices.DeleteFunc(r.Hits, func(h Hit) bool { return h.Score < q.MinShare*r.Hits[0].Score })
	}
	if q.HalfLife > 0 {
		s.decay(ix, r.Hits, &q)
	}
	if q.Diverse && q.Sort == ByScore && len(r.Hits) > 1 {
		r.Hits = s.diversify(r.Hits, &q)
	}
	if q.Project != "" && !q.Diverse && q.Sort == ByScore {
		favorProject(r.Hits, q.Project)
	}
	r.Hits = rank.order(r.Hits, q.Sort)
	if q.Limit > 0 {
		r.Hits = r.Hits[:min(len(r.Hits), q.Limit)]
	}
	for i := range r.Hits {
		r.Hits[i].Marks = rank.mark(r.Hits[i].ID)
	}
	if s.opts.CountReads && !q.Uncounted {
		s.countReads(r.Hits)
	}
	r.Hits = rank.expand(r.Hits, q.Expand)
	if q.Explain {
		r.Explanations = s.explanations(ix, x, r.Hits, found.Explanations)
	}
	return r, nil
}

// candidates returns the limit of a search by words, or 0 if any match may become one of
// the first, and whether it explains all hits. fuses is set if meaning counts.
func (s *Store) candidates(q *Query, rank *ranker, fuses bool) (limit int, explain bool) {
	switch {
	case rank.moves || q.Sort != ByScore || q.HalfLife > 0 || q.Limit == 0:
		return 0, q.Explain && q.Limit == 0
	case fuses || q.Diverse || q.Project != "":
		return max(q.Limit, fusion.Least), false
	}
	return q.Limit, q.Explain
}

// explanations returns the score breakdowns of hits by words. found are those of the first
// hits, if they have their order. The caller holds mu for reading.
func (s *Store) explanations(ix *index, x bm25.Query, hits []Hit, found []bm25.Explanation) []bm25.Explanation {
	list := make([]bm25.Explanation, 0, len(hits))
	for i, h := range hits {
		e := bm25.Explanation{ID: h.ID}
		switch {
		case i < len(found) && found[i].ID == h.ID:
			e = found[i]
		case h.Marks == nil || h.Marks.Linked == nil:
			e, _ = ix.x.Explain(x, h.ID)
		}
		s.nameBoosts(ix, &e)
		list = append(list, e)
	}
	return list
}

// parse returns the clauses of a query. Without Syntax, all of Text is text.
func (q *Query) parse() (clauses, error) {
	if !q.Syntax {
		return clauses{text: q.Text}, nil
	}
	return parseClauses(q.Text)
}

// query returns q, whose clauses are c, as a query of the index. The caller holds mu
// for reading.
func (s *Store) query(ix *index, q Query, c clauses) bm25.Query {
	x := bm25.Query{Text: c.text, Limit: q.Limit, Classes: q.classes(), Count: q.Count, Explain: q.Explain}
	if q.Syntax || !q.Filter.empty() {
		x.Filter = s.selects(ix, &q, c)
	}
	if q.Analyzer == analysis.Standard {
		x.Texts = func(id uint64) []string { return texts(s.found(ix, id)) }
		x.Named, x.Correct = s.named(c.text), true
		x.Context = s.context(ix)
		if s.without&partDates == 0 {
			x.FavorDates(s.opts.Now(), func(id uint64) time.Time { return ix.dayOf(s.found(ix, id)) })
		}
	}
	return x
}

// selects returns the filter of a query: clauses, filters, and kinds. The caller holds mu
// for reading, also when it calls the filter.
func (s *Store) selects(ix *index, q *Query, c clauses) func(id uint64) bool {
	return func(id uint64) bool {
		r := s.found(ix, id)
		content, _ := r.Content()
		return (len(q.Kinds) == 0 || slices.Contains(q.Kinds, Kind(r.Kind()))) &&
			q.Filter.Selects(r.CreatedAt(), content) && c.passes(r, q.Analyzer)
	}
}

// texts returns the indexed texts of a record: the name, the aliases, tags and values of
// relations, the text after the front matter, and the other metadata.
func texts(r format.Record) []string {
	content, _ := r.Content()
	names, text, values := metadata.Parts(content)
	list := append(make([]string, 0, 4), r.Name())
	list = append(append(list, r.Aliases()...), names...)
	return append(append(list, text), values...)
}

// named returns the entries that have text, in one of its common spellings, as
// name or alias.
func (s *Store) named(text string) []uint64 {
	if len(text) > maxNamed {
		return nil
	}
	text = strings.TrimSpace(text)
	lower := strings.ToLower(text)
	words := strings.FieldsFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r) })
	var ids []uint64
	tried := make([]string, 0, 7)
	for _, name := range []string{text, lower, strings.ToUpper(text), title(lower), strings.Join(words, " "), strings.Join(words, "-"), strings.Join(words, "_")} {
		if name == "" || slices.Contains(tried, name) {
			continue
		}
		tried = append(tried, name)
		if r := s.t.byName(name); r != "" {
			ids = append(ids, r.ID())
		}
		ids = append(ids, s.t.alias(name)...)
	}
	return ids
}

// title returns text with a capital at the beginning of each word.
func title(text string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		if inWord {
			inWord = !unicode.IsSpace(r)
			return r
		}
		inWord = !unicode.IsSpace(r)
		return unicode.ToTitle(r)
	}, text)
}

// Explain returns the score breakdown of an entry, and whether the entry is in
// the store. A score of 0 means no match.
func (s *Store) Explain(ctx context.Context, q Query, id uint64) (bm25.Explanation, bool, error) {
	c, err := q.parse()
	if err != nil {
		return bm25.Explanation{}, false, err
	}
	for {
		e, ok, err := s.explain(ctx, q, c, id)
		if again, err := s.mendedIndex(q.Analyzer, err); !again {
			return e, ok, err
		}
	}
}

func (s *Store) explain(ctx context.Context, q Query, c clauses, id uint64) (bm25.Explanation, bool, error) {
	ix, err := s.indexed(ctx, q.Analyzer)
	if err != nil {
		return bm25.Explanation{}, false, err
	}
	defer s.mu.RUnlock()
	e, ok := ix.x.Explain(s.query(ix, q, c), id)
	s.nameBoosts(ix, &e)
	return e, ok, nil
}

// nameBoosts sets the names of the neighbors in an explanation. The caller holds mu for
// reading.
func (s *Store) nameBoosts(ix *index, e *bm25.Explanation) {
	for i := range e.Boosts {
		e.Boosts[i].Name = s.found(ix, e.Boosts[i].From).Name()
	}
}

// IndexStats returns the size of an index, building it if need be.
func (s *Store) IndexStats(ctx context.Context, a analysis.Analyzer) (bm25.Stats, error) {
	ix, err := s.indexed(ctx, a)
	if err != nil {
		return bm25.Stats{}, err
	}
	defer s.mu.RUnlock()
	return ix.x.Stats(), nil
}

// Filter selects entries. The zero value selects all. It compares words of metadata
// without regard to case.
type Filter struct {
	Type   string           // of the metadata; empty: any
	Tags   []string         // the entry has all of them
	Fields []metadata.Field // the entry has these values, and perhaps others of these keys
	// After and Before limit CreatedAt, in unix seconds: at or after, and before. 0 is
	// no limit.
	After, Before uint64
}

func (f *Filter) empty() bool {
	return f.Type == "" && len(f.Tags)+len(f.Fields) == 0 && f.After == 0 && f.Before == 0
}

// Selects reports whether the filter selects an entry.
func (f *Filter) Selects(createdAt uint64, content string) bool {
	if createdAt < f.After || f.Before > 0 && createdAt >= f.Before {
		return false
	}
	if f.Type == "" && len(f.Tags)+len(f.Fields) == 0 {
		return true
	}
	m, _, ok := metadata.Parse(content)
	if !ok || f.Type != "" && !strings.EqualFold(f.Type, m.Type()) || !containsAll(m.Tags(), f.Tags) {
		return false
	}
	return !slices.ContainsFunc(f.Fields, func(want metadata.Field) bool { return !containsAll(m.Values(want.Key), want.Values) })
}

func containsAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool {
		return !slices.ContainsFunc(have, func(h string) bool { return strings.EqualFold(h, w) })
	})
}
