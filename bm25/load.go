package bm25

import (
	"context"
	"io"
	"slices"
	"sync"

	"crabmem/bm25/analysis"
)

// Load reads what [Index.WriteTo] wrote and returns an index in memory. It uses several
// cores. If ctx ends, Load returns its error.
func Load(ctx context.Context, r io.ReaderAt, size int64, a analysis.Analyzer) (*Index, error) {
	opened, err := Open(r, size, a)
	if err != nil {
		return nil, err
	}
	s := opened.stored
	for _, seg := range s.segments {
		s.readDocs(seg)
	}
	l := &loader{stored: s, x: New(a)}
	l.readEntries(ctx)
	if err := s.err; err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	if a == analysis.Standard {
		wg.Go(func() { l.analyze(ctx) })
	}
	l.readLists(ctx)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.err; err != nil {
		return nil, err
	}
	for _, seg := range l.segments {
		wg.Go(func() { seg.finish() })
	}
	wg.Wait()
	x := l.x
	for _, seg := range l.segments {
		x.segments = append(x.segments, &seg.segment)
	}
	x.live, x.lengths = opened.live, opened.lengths
	x.df = l.df
	x.growDF()
	x.lexer.Clip()
	return x, nil
}

// A loader makes an index of what is stored.
type loader struct {
	*stored
	x        *Index
	df       []uint32 // by number: all entries, after the stop words
	sizes    []uint32 // of the lists in bytes, by number
	forms    []uint32 // entries that are word forms
	segments []*loadedSegment
}

// A loadedSegment is a segment that a loader fills.
type loadedSegment struct {
	segment
	lens []uint32
}

// finish completes a segment with all its postings.
func (s *loadedSegment) finish() {
	s.start = append(s.start, uint32(len(s.postings)))
	s.buildRank()
	s.buildTerms(s.lens)
	s.sortIDs()
}

// readEntries reads the dictionary.
func (l *loader) readEntries(ctx context.Context) {
	d := l.x.lexer.Dict()
	d.Grow(int(l.entries))
	e := entries{uvarints: uvarints{b: l.read(l.groupsAt(), l.groups)}, end: l.postings, docs: l.docs}
	l.df, l.sizes = make([]uint32, d.Len(), d.Len()+int(l.entries)), make([]uint32, d.Len(), d.Len()+int(l.entries))
	var it storedEntry
	for l.err == nil && e.next(&it) {
		if d.Add(it.text) != uint32(len(l.df)) || it.list.size > 1<<32-1 {
			e.bad = true
			break
		}
		if it.flags&isForm != 0 {
			l.forms = append(l.forms, uint32(len(l.df)))
		}
		l.df, l.sizes = append(l.df, it.df), append(l.sizes, uint32(it.list.size))
		if e.read%(1<<16) == 0 && ctx.Err() != nil {
			l.fail(ctx.Err())
		}
	}
	if e.bad || e.read != int(l.entries) || e.at != e.end {
		l.damaged(l.groupsAt(), "the dictionary is not valid")
	}
}

// analyze derives the terms of the word forms.
func (l *loader) analyze(ctx context.Context) {
	for i, f := range l.forms {
		if l.x.lexer.Analyze(f); i%(1<<12) == 0 && ctx.Err() != nil {
			return
		}
	}
}

// readLists fills the segments with the lists of all terms.
func (l *loader) readLists(ctx context.Context) {
	lists := uvarints{b: l.read(l.postingsAt(), l.postings)}
	if l.err != nil {
		return
	}
	total := uint64(0)
	for _, n := range l.df {
		total += uint64(n)
	}
	for _, from := range l.stored.segments {
		s := &loadedSegment{lens: from.lens}
		s.ids, s.class, s.present = from.ids, from.class, make([]uint64, bitWords(len(l.df)))
		s.postings = make([]uint32, 0, int(total*uint64(len(from.ids))/l.docs))
		l.segments = append(l.segments, s)
	}
	for term, n := range l.df {
		if n > 0 && !l.readList(uint32(term), n, listReader{uvarints: uvarints{b: lists.bytes(int(l.sizes[term]))}, docs: l.docs}) {
			l.damaged(l.postingsAt()+l.postings-uint64(len(lists.b)), "the posting list before is not valid")
			return
		}
		if term%(1<<12) == 0 && ctx.Err() != nil {
			return
		}
	}
	for _, s := range l.segments {
		s.postings, s.start = slices.Clip(s.postings), slices.Grow(s.start, 1)
	}
}

// readList adds a list of n postings to the segments and reports whether it is valid.
func (l *loader) readList(term, n uint32, r listReader) bool {
	var s *loadedSegment
	number := ^uint64(0)
	codes := &l.x.codes
	for range n {
		doc, tf := r.next()
		if r.bad {
			return false
		}
		if at := doc / maxDocs; at != number {
			if number, s = at, l.segments[at]; len(s.postings) > mostPostings {
				return false
			}
			s.present[term>>6] |= 1 << (term & 63)
			s.start = append(s.start, uint32(len(s.postings)))
		}
		d := uint16(doc)
		c := code(tf, s.lens[d])
		codes.add(uint16(c))
		if c == escaped {
			s.escapes = append(s.escapes, escape{uint32(len(s.postings)), tf, s.lens[d]})
		}
		s.postings = append(s.postings, uint32(d)<<16|c)
	}
	return len(r.b) == 0
}
