package bm25

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"crabmem/bm25/analysis"
)

// Search returns the best documents for the query.
func (x *Index) Search(q Query) Result {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := searchers.Get().(*searcher)
	defer searchers.Put(s)
	s.parse(x, q)
	return s.search(x, q)
}

// search is Search for the parsed query. The caller holds x.mu.
func (s *searcher) search(x *Index, q Query) Result {
	c := &s.collector
	base := q
	if x.reranks(q) && q.Limit > 0 {
		base.Limit = max(q.Limit, RerankLimit)
	}
	c.reset(base)
	if len(s.terms) > 0 {
		s.norms = x.norms.of(x.avgLen(), &x.codes)
		s.avgdl = x.avgLen()
		for _, seg := range x.segments {
			s.segment(seg)
		}
		s.tail(&x.tail)
	}
	r := c.result()
	r.Corrections = s.corrections
	if x.reranks(q) && len(r.Hits) > 0 {
		r.Hits = s.rerank(x, q, r.Hits)
	}
	if q.Explain {
		r.Explanations = make([]Explanation, len(r.Hits))
		for i, h := range r.Hits {
			m, _ := x.match(h.ID)
			r.Explanations[i] = s.explain(x, q, m, h.ID, i < RerankLimit && x.reranks(q))
		}
	}
	return r
}

// reranks reports whether a search re-ranks its best matches.
func (x *Index) reranks(q Query) bool { return q.Texts != nil && x.analyzer == analysis.Standard }

// A searcher is the scratch space of one search.
type searcher struct {
	scanner analysis.Scanner
	terms   []queryTerm // terms that a document contains, ascending by their bytes
	lists   []list

	corrections []Correction
	text        []byte
	collector   collector
	reader      reader
	norms       *[1 << 16]float64
	avgdl       float64
	// scores are the scores in the current segment, by document. All are zero
	// between segments.
	scores [maxDocs]float64
}

var searchers = sync.Pool{New: func() any { return new(searcher) }}

// A queryTerm is a term of the query that the dict contains.
type queryTerm struct {
	prefix uint64 // its first eight bytes, for comparisons
	id     uint32
	df     uint32
	weight float64
	idf    float64 // times the weight
}

// A list is the postings of a term in a segment.
type list struct {
	postings []uint32
	escapes  []escape
	first    uint32 // position of postings[0] in the segment
	idf      float64
}

// parse sets s.terms and s.corrections.
func (s *searcher) parse(x *Index, q Query) {
	s.terms, s.corrections = s.terms[:0], nil
	d := x.lexer.Dict()
	content, stop, unknown := false, 0, false
	s.scanner.Query(x.analyzer, q.Text, func(term []byte, weight float64) {
		isStop := x.analyzer == analysis.Standard && analysis.IsStopWord(term)
		content = content || !isStop
		id, ok := d.Find(term)
		if !ok || x.df[id] == 0 {
			unknown = unknown || !isStop
			return
		}
		s.addTerm(x, term, id, weight)
		if last := len(s.terms) - 1; isStop {
			// Stop words to the front.
			s.terms[last], s.terms[stop] = s.terms[stop], s.terms[last]
			stop++
		}
	})
	if content {
		s.terms = append(s.terms[:0], s.terms[stop:]...)
	}
	if unknown && q.Correct && x.analyzer == analysis.Standard {
		s.corrections = s.correct(x)
	}
	slices.SortFunc(s.terms, func(a, b queryTerm) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		if a.id == b.id {
			return cmp.Compare(b.weight, a.weight)
		}
		s.text = d.AppendTerm(s.text[:0], a.id)
		n := len(s.text)
		s.text = d.AppendTerm(s.text, b.id)
		return bytes.Compare(s.text[:n], s.text[n:])
	})
	s.terms = slices.CompactFunc(s.terms, func(a, b queryTerm) bool { return a.id == b.id })
	for i := range s.terms {
		s.terms[i].idf = float64(s.terms[i].weight * idf(x.counted, int(s.terms[i].df)))
	}
}

func (s *searcher) addTerm(x *Index, term []byte, id uint32, weight float64) {
	var prefix [8]byte
	copy(prefix[:], term)
	s.terms = append(s.terms, queryTerm{prefix: binary.BigEndian.Uint64(prefix[:]), id: id, df: x.df[id], weight: weight})
}

// segment scores the documents of a segment. It adds posting list after posting
// list, in the order of the terms, so that each score is the exact sum. One pass
// adds and collects the last list.
func (s *searcher) segment(seg *segment) {
	s.lists = s.lists[:0]
	for _, t := range s.terms {
		if from, to := seg.list(t.id); from < to {
			s.lists = append(s.lists, list{seg.postings[from:to], seg.escapesIn(from, to), from, t.idf})
		}
	}
	if len(s.lists) == 0 {
		return
	}
	c := &s.collector
	c.segment(seg)
	last := len(s.lists) - 1
	for _, l := range s.lists[:last] {
		s.add(l)
	}
	s.addLast(s.lists[last])
	for _, l := range s.lists[:last] {
		s.collect(l.postings)
	}
}

// add adds a list to the scores.
func (s *searcher) add(l list) {
	scores, norms := &s.scores, s.norms
	w := l.idf
	for _, p := range l.postings {
		scores[uint16(p>>16)] += contribution(w, norms[uint16(p)])
	}
	s.addEscapes(l)
}

func (s *searcher) addEscapes(l list) {
	for _, e := range l.escapes {
		s.scores[l.postings[e.pos-l.first]>>16] += contribution(l.idf, tfNorm(int(e.tf), lenNorm(int(e.dl), s.avgdl)))
	}
}

// addLast adds a list, collects its documents and zeroes their scores.
func (s *searcher) addLast(l list) {
	s.addEscapes(l)
	scores, norms := &s.scores, s.norms
	w := l.idf
	c := &s.collector
	floor, class, mask, classes, n := c.floor, c.class, c.classMask, c.classes, uint64(0)
	for _, p := range l.postings {
		d := uint16(p >> 16)
		v := scores[d] + contribution(w, norms[uint16(p)])
		scores[d] = 0
		n += classes >> (class[d&mask] & 63) & 1
		if v >= floor {
			c.offer(d, v)
			floor = c.floor
		}
	}
	c.total += int(n)
}

// collect collects the documents of a list that still have a score. It zeroes
// their scores.
func (s *searcher) collect(postings []uint32) {
	scores := &s.scores
	c := &s.collector
	floor, class, mask, classes, n := c.floor, c.class, c.classMask, c.classes, uint64(0)
	for _, p := range postings {
		d := uint16(p >> 16)
		v := scores[d]
		scores[d] = 0
		b := math.Float64bits(v) // no branch: a CPU cannot predict it
		n += (b | -b) >> 63 & (classes >> (class[d&mask] & 63))
		if v >= floor {
			c.offer(d, v)
			floor = c.floor
		}
	}
	c.total += int(n)
}

// tail scores the documents of the tail.
func (s *searcher) tail(t *tail) {
	if len(t.nodes) == 0 {
		return // head may lack the query's terms
	}
	c := &s.collector
	c.ids, c.class = t.ids, t.class
	for _, q := range s.terms {
		for i := t.head[q.id]; i > 0; i = t.nodes[i-1].prev {
			n := t.nodes[i-1]
			v := s.norms[n.code]
			if n.code == escaped {
				tf, dl := t.pair(i - 1)
				v = tfNorm(tf, lenNorm(dl, s.avgdl))
			}
			s.scores[n.doc] += contribution(q.idf, v)
		}
	}
	for _, q := range s.terms {
		for i := t.head[q.id]; i > 0; i = t.nodes[i-1].prev {
			d := t.nodes[i-1].doc
			v := s.scores[d]
			s.scores[d] = 0
			if v > 0 {
				c.total += int(c.classes >> c.class[d] & 1)
			}
			if v >= c.floor {
				c.offer(d, v)
			}
		}
	}
}
