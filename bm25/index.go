package bm25

import (
	"slices"
	"sync"

	"crabmem/bm25/analysis"
)

// Index is an inverted index. It is safe for concurrent use: any number of
// searches at a time, or one change.
//
// It is made of a tail that takes new documents and of immutable segments. A
// full tail becomes a segment; segments of like size are merged, a little with
// every change. What is removed is marked, and dropped by the next merge. The
// counts that scores depend on are kept for the index as a whole and change
// with the document, so scores know nothing of all this.
type Index struct {
	analyzer analysis.Analyzer

	mu       sync.RWMutex // over everything below
	lexer    *analysis.Lexer
	df       []uint32 // by term: live documents that have it
	live     int      // documents
	counted  int      // documents with at least one term
	length   int      // terms in all documents
	maxID    uint64   // largest ID ever added
	tail     tail
	segments []*segment
	merge    *merge // in progress, or nil
	// unsettled: there may be segments to merge.
	unsettled bool
	removed   int // postings that were removed since shrink looked
	looked    int // terms there were then
	codes     codeSet

	norms    norms    // has its own lock
	initials initials // has its own lock
}

// New returns an empty index.
func New(a analysis.Analyzer) *Index {
	return &Index{analyzer: a, lexer: analysis.NewLexer(a)}
}

// Add indexes a document. One that is present under the same ID is replaced.
func (x *Index) Add(d Doc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	work := 0
	if d.ID <= x.maxID {
		work = x.remove(d.ID)
	}
	x.maxID = max(x.maxID, d.ID)
	terms, length := x.lexer.Lex(d.Fields)
	x.growDF()
	t := &x.tail
	t.add(d, terms, length, len(x.df), x.df)
	x.lexer.Rest()
	added := t.of(uint16(len(t.ids) - 1))
	for _, n := range added {
		x.codes.add(n.code)
	}
	x.live++
	x.length += length
	if length > 0 {
		x.counted++
	}
	if t.full() {
		x.freeze()
	}
	x.maintain(work + len(added))
}

// growDF gives every term of the dict its count.
func (x *Index) growDF() {
	if n := x.lexer.Dict().Len(); n > len(x.df) {
		x.df = append(x.df, make([]uint32, n-len(x.df))...)
	}
}

// Remove takes a document out and reports whether it was present. It needs no
// text: the index keeps the terms of every document.
func (x *Index) Remove(id uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	live := x.live
	x.maintain(x.remove(id))
	return x.live < live
}

// remove takes a document out if it is present and returns how many terms it
// had.
func (x *Index) remove(id uint64) int {
	if d, ok := x.tail.where[id]; ok {
		nodes := x.tail.of(d)
		for _, n := range nodes {
			x.df[n.term]--
		}
		x.tail.kill(d)
		x.forget(int(x.tail.lens[d]))
		x.removed += len(nodes)
		return len(nodes)
	}
	s, d, ok := x.locate(id)
	if !ok {
		return 0
	}
	dl, terms := s.lenAndTerms(d)
	n := 0
	term := ^uint32(0)
	for i := 0; i < len(terms); n++ {
		gap, shift := uint32(0), 0
		for terms[i] >= 0x80 {
			gap |= uint32(terms[i]&0x7f) << shift
			shift += 7
			i++
		}
		term += gap | uint32(terms[i])<<shift
		i++
		x.df[term]--
	}
	s.kill(d)
	x.removed += n
	s.deadPost += n
	x.unsettled = x.unsettled || s.sparse()
	x.forget(dl)
	return n
}

// forget takes a document of dl terms out of the counts.
func (x *Index) forget(dl int) {
	x.live--
	x.length -= dl
	if dl > 0 {
		x.counted--
	}
}

// locate returns the segment and number of a live document that is not in the
// tail.
func (x *Index) locate(id uint64) (*segment, uint16, bool) {
	for _, s := range slices.Backward(x.segments) {
		if d, ok := s.find(id); ok {
			return s, d, true
		}
	}
	return nil, 0, false
}

// Len returns the number of documents.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.live
}

// avgLen is the mean length of the documents that have terms.
func (x *Index) avgLen() float64 { return float64(x.length) / float64(x.counted) }

// Stats returns the size of the index.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	st := Stats{
		Docs:     x.live,
		Postings: len(x.tail.nodes),
		Segments: len(x.segments),
		Bytes:    int64(x.lexer.Bytes() + 4*cap(x.df) + x.tail.bytes() + x.codes.bytes() + x.norms.bytes() + x.initials.bytes()),
	}
	if len(x.tail.ids) > 0 {
		st.Segments++
	}
	for _, n := range x.df {
		if n > 0 {
			st.Terms++
		}
	}
	for _, s := range x.segments {
		st.Postings += len(s.postings)
		st.Bytes += int64(s.bytes())
	}
	if x.merge != nil {
		st.Bytes += int64(x.merge.out.bytes())
	}
	return st
}
