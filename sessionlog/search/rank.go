package search

import (
	"cmp"
	"math"
	"slices"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/bm25/clip"
	"crabmem/sessionlog/internal/line"
)

// maxReadLine limits the bytes of a line that are read for re-ranking.
const maxReadLine = 32 << 10

// A ranking is a search.
type ranking struct {
	Result
	hits         []bm25.Hit
	explanations []bm25.Explanation // of hits
	found        []finding          // the best
	unread       []finding          // the messages whose texts it lacks
}

// A finding is a hit with the data for reading its texts.
type finding struct {
	Hit
	doc uint64
	// places are those of the window, those before it up to the message with
	// the calls of its first results, and always that of the hit.
	places      []place
	others      []string
	end         int64    // of the last of places
	at          int      // index of the hit in places; -1 if the hit is the session
	first, last int      // of the window in places
	head        []string // the texts of the session, when it was found
	long        bool     // the text may be longer than a snippet
}

// rank finds the best documents, limit of them. texts are those that were read. A draft
// only finds which texts the ranking needs.
func (x *Index) rank(q *Query, limit int, texts map[uint64][]string, draft bool) (*ranking, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return nil, errIndexClosed
	}
	r := &ranking{}
	query := bm25.Query{Text: q.Text, Limit: limit, Count: !draft, Explain: !draft && !q.Bare}
	if query.Classes, query.Filter, r.Searched = x.filter(q); query.Classes == 0 { // 0 selects all in bm25
		return r, nil
	}
	if !x.ordered {
		query.Ties = x.newer
	}
	if x.analyzer == analysis.Standard {
		query.Correct = x.without&partCorrect == 0
		query.Texts = func(id uint64) []string { return x.textsOf(id, r, q, texts) }
		if x.without&partBoost == 0 {
			query.Context = &bm25.Context{Message: x.message, Weights: bm25.DefaultWeights}
			query.FavorDates(x.folder.Now(), x.day)
		}
	}
	found := x.docs.Search(query)
	if draft {
		return r, nil
	}
	r.hits, r.explanations, r.Total, r.Corrections = found.Hits, found.Explanations, found.Total, found.Corrections
	if query.Filter != nil || query.Classes != math.MaxUint8 {
		r.Corrections = x.passing(r.Corrections, query)
	}
	for _, h := range r.hits[:min(len(r.hits), q.Limit)] {
		r.found = append(r.found, x.find(h.ID, h.Score, q))
	}
	return r, nil
}

// textsOf returns a document's texts, or adds it to r.unread. The caller holds mu.
func (x *Index) textsOf(id uint64, r *ranking, q *Query, texts map[uint64][]string) []string {
	if !x.reads(q) {
		return nil
	}
	list, ok := texts[id]
	if !ok {
		texts[id] = nil
		r.unread = append(r.unread, x.find(id, 0, &Query{}))
	}
	ord, at := placeOf(id)
	if at < 0 {
		return list
	}
	return x.fields(x.entries[ord], at, list...)
}

// find returns the finding of a document. The caller holds mu.
func (x *Index) find(doc uint64, score float64, q *Query) finding {
	ord, at := placeOf(doc)
	e := x.entries[ord]
	f := finding{doc: doc}
	f.Hit = Hit{ID: e.id, File: e.name, Agent: e.agent, CreatedBy: e.sender, Title: clip.Bytes(e.title, maxText),
		Score: score, Window: []Windowed{}}
	if at < 0 {
		f.Role, f.Line, f.Snippet = RoleSession, 1, e.describe()
		f.head = []string{e.head()}
	} else {
		p := e.places[at]
		f.Role, f.Line = roleName(p.role, e.others), int64(p.line)
		f.long = e.end(at)-p.offset > maxText
	}
	f.cut(e, at, q.Window)
	return f
}

// reads reports whether a query's ranking reads texts.
func (x *Index) reads(q *Query) bool {
	return !q.Bare && x.analyzer == analysis.Standard && x.without&partRead == 0
}

// ranked ranks the documents, with their texts. It reads files without mu, between a draft
// and the ranking.
func (x *Index) ranked(q *Query, limit int, v *viewer) (*ranking, error) {
	texts := make(map[uint64][]string)
	if x.reads(q) {
		draft, err := x.rank(q, limit, texts, true)
		if err != nil {
			return nil, err
		}
		for i := range draft.unread {
			f := &draft.unread[i]
			texts[f.doc] = v.indexedTexts(f, maxReadLine)
		}
	}
	return x.rank(q, limit, texts, false)
}

// passing removes words from corrections that only documents outside the
// filters contain, because they must not be disclosed. The caller holds mu.
func (x *Index) passing(list []bm25.Correction, q bm25.Query) []bm25.Correction {
	var passed []bm25.Correction
	for _, c := range list {
		c.Words = slices.DeleteFunc(slices.Clone(c.Words), func(word string) bool {
			one := bm25.Query{Text: word, Limit: 1, Classes: q.Classes, Filter: q.Filter}
			return len(x.docs.Search(one).Hits) == 0
		})
		if len(c.Words) > 0 {
			passed = append(passed, c)
		}
	}
	return passed
}

// newer orders documents of equal scores: the latest created session first, and
// within a session the last message first.
func (x *Index) newer(a, b uint64) int {
	c := 0
	if !x.ordered {
		c = x.entries[^b>>32].compare(x.entries[^a>>32])
	}
	return cmp.Or(c, cmp.Compare(a, b))
}

// sort sorts hits by their scores, equals by newer. Caller holds mu.
func (x *Index) sort(hits []bm25.Hit) {
	slices.SortFunc(hits, func(a, b bm25.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), x.newer(a.ID, b.ID))
	})
}

// Parts of the ranking that tests disable.
const (
	partCorrect = 1 << iota
	partBoost
	partRead
)

// indexedTexts returns the texts of a finding as they are indexed. It reads at most limit
// bytes of a line.
func (v *viewer) indexedTexts(f *finding, limit int) []string {
	if f.at < 0 {
		return f.head
	}
	if !v.loadHit(f, limit) {
		return nil
	}
	r := &v.record
	if f.places[f.at].role == classCompact {
		return []string{r.Summary()}
	}
	texts := []string{r.Text(r.Values[line.KeyContent])}
	for c := range r.Calls {
		texts = append(texts, r.Text(c.Name))
		if v.index.tools {
			texts = append(texts, r.Text(c.Arguments))
		}
	}
	return texts
}

// loadHit reads the line of a finding, up to limit bytes.
func (v *viewer) loadHit(f *finding, limit int) bool {
	file := v.open(f.File)
	p, end := f.places[f.at], f.end
	if f.at+1 < len(f.places) {
		end = f.places[f.at+1].offset
	}
	return file != nil && v.load(file, p, end, limit, f.others)
}
