package bm25

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"crabmem/bm25/analysis"
)

// Search returns the best documents for the query.
func (x *Index) Search(q Query) Result {
	x.rlock()
	defer x.runlock()
	s := searchers.Get().(*searcher)
	defer searchers.Put(s)
	s.parse(x, q)
	if x.hasContext(q) || q.Factor != nil {
		return s.adjusted(x, q)
	}
	return s.search(x, q)
}

// search is Search for the parsed query. The caller holds x.mu.
func (s *searcher) search(x *Index, q Query) Result {
	c := &s.collector
	base := q
	if x.reranks(q) && q.Limit > 0 {
		base.Limit = max(q.Limit, RerankLimit)
	}
	c.reset(base, len(s.terms))
	s.parts, s.all = s.parts[:0], s.all[:0]
	if len(s.terms) > 0 {
		s.pivot = x.pivot()
		s.norms = x.norms.of(s.pivot.length, &x.codes)
		for _, seg := range x.segments {
			s.segment(seg)
		}
		s.rescore()
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
	parts   []part
	all     []list    // of all parts
	lists   []list    // of the current segment, in the order of the terms
	order   []int     // of the lists, by length
	rest    []float64 // by place in order: most that this list and all later ones add

	corrections []Correction
	text        []byte
	collector   collector
	reader      reader
	norms       *normTable
	pivot       pivot
	long        bool // the query is long
	// scores are the approximate scores in the current segment, by document. All are
	// zero between segments.
	scores     [maxDocs]float32
	exact      []float64             // exact scores of candidates
	tailScores []float64             // exact scores in the tail, by document; zero between searches
	seen       *[maxDocs / 64]uint64 // set of documents; empty between segments
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

// abbreviation returns a pattern of what names nothing in a text about a topic.
var abbreviation = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b(?:[Ee]\.g|[Ii]\.e)\.`) })

// parse sets s.terms, s.corrections, and s.long. In a query that is also long without
// them, abbreviations are no words.
func (s *searcher) parse(x *Index, q Query) {
	s.parseText(x, q, q.Text)
	if s.long && (strings.Contains(q.Text, ".g.") || strings.Contains(q.Text, ".e.")) {
		if s.parseText(x, q, abbreviation().ReplaceAllString(q.Text, " ")); !s.long {
			s.parseText(x, q, q.Text)
		}
	}
}

func (s *searcher) parseText(x *Index, q Query, text string) {
	s.terms, s.corrections = s.terms[:0], nil
	d := x.lexer.Dict()
	content, stop, unknown, words := false, 0, false, 0
	s.scanner.Query(x.analyzer, text, func(term []byte, weight float64) {
		isStop := x.analyzer == analysis.Standard && analysis.IsStopWord(term)
		content = content || !isStop
		if first, _ := utf8.DecodeRune(term); weight == 1 && !isStop && !analysis.IsUnspaced(first) {
			words++
		}
		id, ok := x.lookUp(term, isStop)
		if !ok {
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
		s.corrections = s.correct(x, q)
	}
	if x.stored != nil {
		s.attachAll(x)
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
	s.long = x.analyzer == analysis.Standard && words > shortQuery && words <= longQuery
	s.unite()
	for i := range s.terms {
		t := &s.terms[i]
		rarity := idf(x.lengths.counted, int(t.df))
		if s.long {
			if t.prefix<<8 == 0 && t.prefix>>56 >= 'a' {
				t.weight /= 2 // a single letter
			}
			t.weight = float64(t.weight * math.Sqrt(math.Sqrt(rarity)))
		}
		t.idf = float64(t.weight * rarity)
	}
}

// A query of more than shortQuery and at most longQuery words is long: it describes a
// topic.
//
//   - It repeats the words that matter, so each repetition counts.
//   - It contains many general words, which together outweigh the few that name the
//     topic. So a term has the weight of IDF^(1/4), and counts as IDF^(5/4).
//   - Its single letters, as in "e.g.", are mostly no names, so they weigh half.
//   - Some of its words begin any text, so early words do not count.
//
// A question repeats a word by chance, and a longer text is a pasted one. The words of
// unspaced scripts are unknown and do not count.
const (
	shortQuery = 8
	longQuery  = 200
)

// unite unites the occurrences of each term, of which the first has the largest weight.
// In a long query, it adds their weights.
func (s *searcher) unite() {
	united := s.terms[:0]
	for _, t := range s.terms {
		last := len(united) - 1
		switch {
		case last < 0 || united[last].id != t.id:
			united = append(united, t)
		case s.long:
			united[last].weight += t.weight
		}
	}
	s.terms = united
}

func (s *searcher) addTerm(x *Index, term []byte, id uint32, weight float64) {
	var prefix [8]byte
	copy(prefix[:], term)
	s.terms = append(s.terms, queryTerm{prefix: binary.BigEndian.Uint64(prefix[:]), id: id, df: x.df[id], weight: weight})
}

// A part is a segment in which a search found lists.
type part struct {
	*segment
	from, to int // lists in searcher.all
}

// segment scores the documents of a segment approximately to find candidates.
func (s *searcher) segment(seg *segment) {
	first := len(s.all)
	for _, t := range s.terms {
		if from, to := seg.list(t.id); from < to {
			s.all = append(s.all, list{seg.postings[from:to], seg.escapesIn(from, to), from, t.idf})
		}
	}
	if s.lists = s.all[first:]; len(s.lists) == 0 {
		return
	}
	c := &s.collector
	if !c.drop() {
		s.rescore()
	}
	c.segment(seg, len(s.parts))
	s.parts = append(s.parts, part{seg, first, len(s.all)})
	if c.query.Count && c.query.Filter == nil {
		c.total += s.matches()
	}
	s.byLength()
	if n := s.essential(); n == len(s.lists) || !s.partly(n) {
		s.wholly()
	}
}

// wholly finds candidates by adding all lists, the longest last. One pass adds and
// collects the last list.
func (s *searcher) wholly() {
	last := len(s.lists) - 1
	for _, i := range s.order[:last] {
		s.add(&s.lists[i])
	}
	s.warm(last)
	s.addLast(&s.lists[s.order[last]])
	for _, i := range s.order[:last] {
		s.collect(s.lists[i].postings)
	}
}

// warm raises the scores to reach before the first documents are collected: some
// sums of the first n lists are the least that the best scores can be.
func (s *searcher) warm(n int) {
	c := &s.collector
	limit := c.query.Limit
	if len(c.best) > 0 || limit <= 0 || c.some || c.query.Filter != nil {
		return
	}
	for _, i := range s.order[:n] {
		list := s.lists[i].postings
		if len(list) < 2*limit {
			continue
		}
		for _, p := range list[:min(len(list), 10*limit)] {
			c.rank(s.scores[p>>16])
		}
		c.best = c.best[:0]
		return
	}
}

// byLength sets s.order to the numbers of the lists, the shortest first.
func (s *searcher) byLength() {
	s.order = s.order[:0]
	for i := range s.lists {
		s.order = append(s.order, i)
	}
	slices.SortFunc(s.order, func(a, b int) int { return len(s.lists[a].postings) - len(s.lists[b].postings) })
}

// matches returns the number of documents in the lists that are of the query's
// classes.
func (s *searcher) matches() int {
	if s.seen == nil {
		s.seen = new([maxDocs / 64]uint64)
	}
	seen := s.seen
	for _, l := range s.lists {
		for _, p := range l.postings {
			seen[p>>22] |= 1 << (p >> 16 & 63)
		}
	}
	c := &s.collector
	n := 0
	for w, word := range seen[:bitWords(len(c.ids))] {
		if c.some {
			for left := word; left != 0; left &= left - 1 {
				if c.classes>>c.class[w<<6+bits.TrailingZeros64(left)]&1 == 0 {
					n--
				}
			}
		}
		n += bits.OnesCount64(word)
		seen[w] = 0
	}
	return n
}

// rescore replaces the candidates with hits, which have exact scores: the sums in the
// order of the terms.
func (s *searcher) rescore() {
	c := &s.collector
	near := slices.DeleteFunc(c.candidates, func(near candidate) bool { return near.score < c.nearLeast })
	for len(near) > 0 {
		n := 1
		for n < len(near) && near[n].part == near[0].part {
			n++
		}
		s.rescorePart(&s.parts[near[0].part], near[:n])
		near = near[n:]
	}
	c.first = 0
	c.start(0)
}

// rescorePart is rescore for the candidates of one part. Looking many documents up in
// a list and then in the next is faster than the other way round.
func (s *searcher) rescorePart(p *part, near []candidate) {
	exact := slices.Grow(s.exact[:0], len(near))[:len(near)]
	clear(exact)
	for i := p.from; i < p.to; i++ {
		l := &s.all[i]
		for k := range near {
			if at := l.find(near[k].doc, uint64(len(p.ids))); at >= 0 {
				exact[k] += contribution(l.idf, s.norm(l, at))
			}
		}
	}
	for k, score := range exact {
		s.collector.keep(Hit{p.ids[near[k].doc], score})
	}
	s.exact = exact
}

// tail scores the documents of the tail, which are few, exactly.
func (s *searcher) tail(t *tail) {
	if len(t.nodes) == 0 {
		return // head may lack the query's terms
	}
	c := &s.collector
	c.ids, c.class = t.ids, t.class
	if n := len(t.ids); n > len(s.tailScores) {
		s.tailScores = make([]float64, max(n, tailDocs))
	}
	for _, q := range s.terms {
		for i := t.newest(q.id); i > 0; i = t.nodes[i-1].prev {
			n := t.nodes[i-1]
			v := 0.0
			if n.code == escaped {
				v = t.escape(i - 1).norm(s.pivot.length)
			} else {
				v = s.norms.exact(n.code)
			}
			s.tailScores[n.doc] += contribution(q.idf, v)
		}
	}
	for _, q := range s.terms {
		for i := t.newest(q.id); i > 0; i = t.nodes[i-1].prev {
			d := t.nodes[i-1].doc
			v := s.tailScores[d]
			s.tailScores[d] = 0
			if v > 0 {
				c.total += int(c.classes >> c.class[d] & 1)
			}
			if v >= c.floor {
				c.offer(d, v)
			}
		}
	}
}

// hasContext reports whether a search uses q.Context.
func (x *Index) hasContext(q Query) bool { return q.Context != nil && x.reranks(q) }
