package bm25

import (
	"slices"
	"sync"

	"crabmem/bm25/analysis"
)

// Index is an inverted index. It is safe for concurrent use: searches run
// concurrently, and a change excludes all other calls.
//
// An index consists of a tail, which takes new documents, and immutable segments.
// A full tail becomes a segment. Each change does a part of the merging of
// segments of similar size. A removal marks a document, and the next merge drops
// it. The counts in the formula are counts of the complete index and change with
// each document, so scores do not depend on segments.
type Index struct {
	analyzer analysis.Analyzer

	mu       sync.RWMutex // over everything below
	lexer    *analysis.Lexer
	df       []uint32 // by term: live documents that contain it
	live     int      // documents
	lengths  lengths
	tail     tail
	segments []*segment
	merge    *merge // in progress, or nil
	// unsettled is set if there may be segments to merge.
	unsettled bool
	removed   int // postings removed since the latest check of shrink
	looked    int // terms at that check
	codes     codeSet
	stored    *stored // of an opened index; nil for others; never changes

	norms    norms    // has its own lock
	initials initials // has its own lock
}

// New returns an empty index of documents and queries in the terms of a.
func New(a analysis.Analyzer) *Index {
	return &Index{analyzer: a, lexer: analysis.NewLexer(a)}
}

// Add indexes a document and replaces one with the same ID.
func (x *Index) Add(d Doc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	work := x.remove(d.ID)
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
	x.lengths.add(lengthsOf(length))
	if t.full() {
		x.freeze()
	}
	x.maintain(work + len(added))
}

// growDF extends df to the terms of the dict.
func (x *Index) growDF() {
	x.df = append(x.df, make([]uint32, x.lexer.Dict().Len()-len(x.df))...)
}

// Remove removes a document and reports whether the index contained it.
func (x *Index) Remove(id uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	live := x.live
	x.maintain(x.remove(id))
	return x.live < live
}

// remove removes a document if it is present. It returns its number of terms.
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
	if s.stored != nil {
		x.stored.remove(s, d)
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

// forget subtracts a document of dl terms from the counts.
func (x *Index) forget(dl int) {
	x.live--
	x.lengths.subtract(lengthsOf(dl))
}

// locate returns the segment and number of a live document outside the tail.
func (x *Index) locate(id uint64) (*segment, uint16, bool) {
	for _, s := range slices.Backward(x.segments) {
		if s.stored != nil && s.minID <= id && id <= s.maxID {
			x.stored.readDocs(s)
		}
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

// pivot returns the pivot of the lengths. A plain index has the reference's formula,
// whose pivot is the mean.
func (x *Index) pivot() pivot {
	if x.analyzer == analysis.Plain {
		return pivot{length: x.lengths.mean()}
	}
	return x.lengths.pivot()
}

// Stats returns the size of the index.
func (x *Index) Stats() Stats {
	x.rlock()
	defer x.runlock()
	st := Stats{
		Docs:     x.live,
		Postings: len(x.tail.nodes),
		Segments: len(x.segments),
		Bytes:    int64(x.lexer.Bytes() + 4*cap(x.df) + x.tail.bytes() + x.codes.bytes() + x.norms.bytes() + x.initials.bytes()),
	}
	if len(x.tail.ids) > 0 {
		st.Segments++
	}
	for t, n := range x.df {
		if n > 0 && x.stored.lacks(uint32(t)) {
			st.Terms++
		}
	}
	if x.stored != nil {
		st.Terms += int(x.stored.terms)
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

// lookUp returns the number of a term. It reports false if no document contains the
// term. An opened index also attaches the list, if it is not long: otherwise, ok may be
// true because of removed documents.
func (x *Index) lookUp(term []byte, long bool) (id uint32, ok bool) {
	id, ok = x.lexer.Dict().Find(term)
	if s := x.stored; s != nil {
		if !ok || s.looked[id] == nil {
			id, ok = s.find(term)
		}
		if ok && !long {
			s.attach(id)
		}
	}
	return id, ok && x.df[id] > 0
}

// rlock locks the index for a search.
func (x *Index) rlock() {
	if x.stored != nil {
		x.mu.Lock()
	} else {
		x.mu.RLock()
	}
}

func (x *Index) runlock() {
	if x.stored != nil {
		x.mu.Unlock()
	} else {
		x.mu.RUnlock()
	}
}
