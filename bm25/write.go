package bm25

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"slices"

	"crabmem/bm25/analysis"
)

// WriteTo writes the live documents of the index for [Open] and [Load]. Searches
// run concurrently, and changes wait.
func (x *Index) WriteTo(w io.Writer) (int64, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.stored != nil {
		return 0, errors.New("write index: it was opened from storage: load it instead")
	}
	o := &output{index: x, w: w, footer: footer{analyzer: uint64(x.analyzer), docs: uint64(x.live)}}
	o.number()
	table := o.documents()
	o.dictionary()
	for _, b := range [][]byte{o.groups, o.pages, o.top, table} {
		o.write(b)
	}
	f := &o.footer
	f.groups, f.pages, f.top, f.table = uint64(len(o.groups)), uint64(len(o.pages)), uint64(len(o.top)), uint64(len(table))
	o.write(f.append(nil))
	return o.n, o.err
}

// An output is an index that is being written. Documents get numbers in ascending
// order of their IDs.
type output struct {
	footer
	index   *Index
	w       io.Writer
	n       int64
	err     error
	sources []writeSource
	overlap bool // the segments do not follow one another
	lists   []listSpan
	touched uint32
	list    []uint64 // of the current term: document (32 bits), frequency (32 bits)
	buf     []byte   // encoded lists

	groups, pages, top []byte
	last               []byte // latest entry
	// Sizes at the start of the current group and of the current page.
	group, page struct{ entry, groups, pages, postings int }
	separator   [2][]byte // of the current group and of the current page
}

// A writeSource is a segment whose documents get new numbers.
type writeSource struct {
	*segment
	to   []uint32 // new number by document, or deletedDoc; nil: base is added
	base uint32
}

func (o *output) write(b []byte) {
	if o.err == nil {
		n, err := o.w.Write(b)
		o.n += int64(n)
		o.err = err
	}
}

// number sets the sources with the new numbers of their documents.
func (o *output) number() {
	x := o.index
	segments := slices.Clone(x.segments)
	if len(x.tail.where) > 0 {
		t := x.tail
		t.head, t.where = slices.Clone(t.head), nil
		segments = append(segments, t.freeze())
	}
	slices.SortStableFunc(segments, func(a, b *segment) int { return cmp.Compare(a.minID, b.minID) })
	for i, s := range segments {
		o.overlap = o.overlap || s.order != nil || i > 0 && segments[i-1].maxID >= s.minID
		o.sources = append(o.sources, writeSource{segment: s})
	}
	type place struct {
		id          uint64
		source, doc uint32
	}
	var places []place // of live documents, if the segments overlap
	next := uint32(0)
	for i := range o.sources {
		s := &o.sources[i]
		s.base = next
		if !o.overlap && s.deadDocs == 0 {
			next += uint32(len(s.ids))
			continue
		}
		s.to = make([]uint32, len(s.ids))
		for d := range s.ids {
			s.to[d] = deletedDoc
			if s.isDead(uint16(d)) {
				continue
			}
			if s.to[d] = next; o.overlap {
				places = append(places, place{s.ids[d], uint32(i), uint32(d)})
			}
			next++
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.id, b.id) })
	for n, p := range places {
		o.sources[p.source].to[p.doc] = uint32(n)
	}
}

// documents writes the blocks of documents and returns the table of segments.
func (o *output) documents() (table []byte) {
	n := o.index.live
	ids, class, lens := make([]uint64, n), make([]uint8, n), make([]uint32, n)
	for _, s := range o.sources {
		for d, id := range s.ids {
			at := uint32(d) + s.base
			if s.to != nil {
				at = s.to[d]
			}
			if at != deletedDoc {
				length, _ := s.lenAndTerms(uint16(d))
				ids[at], class[at], lens[at] = id, s.class[d], uint32(length)
			}
		}
	}
	var b []byte
	for from := 0; from < n; from += maxDocs {
		to := min(from+maxDocs, n)
		b = b[:0]
		if first, last := ids[from], ids[to-1]; last-first != uint64(to-1-from) {
			for i := from + 1; i < to; i++ {
				b = binary.AppendUvarint(b, ids[i]-ids[i-1]-1)
			}
		}
		b = append(b, class[from:to]...)
		var sum lengths
		for _, dl := range lens[from:to] {
			b = binary.AppendUvarint(b, uint64(dl))
			sum.add(lengthsOf(int(dl)))
		}
		o.write(b)
		o.blocks += uint64(len(b))
		for _, v := range []uint64{ids[from], ids[to-1], uint64(sum.length), sum.inverse, uint64(sum.counted)<<32 | uint64(len(b))} {
			table = binary.LittleEndian.AppendUint64(table, v)
		}
	}
	return table
}

// An item is an entry of the dictionary before it is written.
type item struct {
	prefix   uint64 // of its text
	id       uint32
	flags    uint8
	lists    uint16 // number of its lists
	firstRef uint32 // of its lists
}

// A listSpan is a list in a source.
type listSpan struct{ source, from, to uint32 }

// items returns the entries of the dictionary, by number, and sets their lists.
func (o *output) items() (items []item) {
	x := o.index
	l := x.lexer
	next := make([]int, len(o.sources)) // of start, by source
	for id := l.Stops(); id < uint32(l.Dict().Len()); id++ {
		first := len(o.lists)
		for i := range o.sources {
			s := &o.sources[i]
			if w := int(id >> 6); w < len(s.present) && s.present[w]>>(id&63)&1 != 0 {
				o.lists = append(o.lists, listSpan{uint32(i), s.start[next[i]], s.start[next[i]+1]})
				next[i]++
			}
		}
		flags := uint8(0)
		if x.df[id] > 0 {
			flags = isTerm
		}
		if _, ok := l.Term(id); ok || l.Analyzed(id) && (flags != 0 || !hasCapital(l.Dict(), id)) {
			flags |= isForm
		}
		if flags != 0 {
			items = append(items, item{l.Dict().Prefix(id), id, flags, uint16(len(o.lists) - first), uint32(first)})
		}
	}
	return items
}

// dictionary writes the postings and makes the dictionary.
func (o *output) dictionary() {
	items := o.items()
	d := o.index.lexer.Dict()
	var text []byte
	slices.SortFunc(items, func(a, b item) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		text = d.AppendTerm(text[:0], a.id)
		n := len(text)
		text = d.AppendTerm(text, b.id)
		return bytes.Compare(text[:n], text[n:])
	})
	for group := range slices.Chunk(items, groupEntries) {
		o.touch(group)
		for _, it := range group {
			if byte(it.prefix) == 0 { // the prefix is the text
				text = binary.BigEndian.AppendUint64(text[:0], it.prefix)
				text = text[:8-bits.TrailingZeros64(it.prefix)/8]
			} else {
				text = d.AppendTerm(text[:0], it.id)
			}
			o.entry(text, it.flags, o.lists[it.firstRef:][:it.lists])
		}
	}
	o.endGroup()
	o.endPage()
	o.write(o.buf)
}

// touch loads the beginnings of the lists of a group into the CPU caches, so that the
// loads overlap.
func (o *output) touch(group []item) {
	for _, it := range group {
		if it.lists > 0 {
			o.touched += o.lists[it.firstRef].from
		}
	}
	for _, it := range group {
		for _, l := range o.lists[it.firstRef:][:it.lists] {
			o.touched += o.sources[l.source].postings[l.from]
		}
	}
}

// hasCapital reports whether a word form contains an ASCII capital, so that it is not a
// term. Spelling correction ignores such a form if it has several terms.
func hasCapital(d *analysis.Dict, f uint32) bool {
	return bytes.IndexFunc(d.AppendTerm(nil, f), func(r rune) bool { return 'A' <= r && r <= 'Z' }) >= 0
}

// entry adds an entry to the dictionary.
func (o *output) entry(text []byte, flags byte, lists []listSpan) {
	shared := 0
	for n := min(len(text), len(o.last)); shared < n && text[shared] == o.last[shared]; {
		shared++
	}
	if o.entries%groupEntries == 0 {
		o.endGroup()
		if o.entries%(groupEntries*pageGroups) == 0 {
			o.endPage()
			o.separator[1] = append(o.separator[1][:0], text[:shared+1]...)
		}
		o.separator[0] = append(o.separator[0][:0], text[:shared+1]...)
		shared = 0
	}
	shared = min(shared, mostShared)
	o.entries++
	b := append(o.groups, byte(shared)<<2|flags)
	b = binary.AppendUvarint(b, uint64(len(text)-shared))
	b = append(b, text[shared:]...)
	if flags&isTerm != 0 {
		o.terms++
		df, size := o.encode(lists)
		b = binary.AppendUvarint(b, uint64(df))
		b = binary.AppendUvarint(b, uint64(size-df))
		o.postings += uint64(size)
	}
	o.groups = b
	o.last = append(o.last[:0], text...)
}

// endGroup adds the current group to the group index.
func (o *output) endGroup() {
	if n := len(o.groups); n > o.group.groups {
		o.pages = appendText(o.pages, o.separator[0])
		o.pages = binary.AppendUvarint(o.pages, uint64(n-o.group.groups))
		o.pages = binary.AppendUvarint(o.pages, o.postings-uint64(o.group.postings))
		o.group.groups, o.group.postings = n, int(o.postings)
	}
}

// endPage adds the current page to the index of pages.
func (o *output) endPage() {
	if n := len(o.pages); n > o.page.pages {
		o.top = appendText(o.top, o.separator[1])
		o.top = binary.AppendUvarint(o.top, uint64(len(o.groups)-o.page.groups))
		o.top = binary.AppendUvarint(o.top, o.postings-uint64(o.page.postings))
		o.top = binary.AppendUvarint(o.top, uint64(n-o.page.pages))
		o.page.pages, o.page.groups, o.page.postings = n, len(o.groups), int(o.postings)
	}
}

func appendText(b, text []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// encode writes the postings of a term. It returns their number and size in bytes.
func (o *output) encode(lists []listSpan) (df, size int) {
	list, next := o.list[:0], uint32(0)
	b := o.buf
	before := len(b)
	for _, span := range lists {
		s := &o.sources[span.source]
		escapes := s.escapesIn(span.from, span.to)
		for _, p := range s.postings[span.from:span.to] {
			doc, tf := p>>16+s.base, p>>lenBits&15
			if p&0xffff == escaped {
				tf = escapes[0].tf
				escapes = escapes[1:]
			}
			if s.to != nil {
				if doc = s.to[p>>16]; doc == deletedDoc {
					continue
				}
			}
			if o.overlap {
				list = append(list, uint64(doc)<<32|uint64(tf))
				continue
			}
			b = appendPosting(b, doc-next, tf)
			next = doc + 1
			df++
		}
	}
	slices.Sort(list)
	for _, p := range list {
		doc := uint32(p >> 32)
		b = appendPosting(b, doc-next, uint32(p))
		next = doc + 1
	}
	o.list = list
	df += len(list)
	size = len(b) - before
	if o.buf = b; len(b) >= 1<<16 {
		o.write(b)
		o.buf = b[:0]
	}
	return df, size
}

// appendPosting appends a posting of a frequency, gap documents after the latest one.
func appendPosting(b []byte, gap, tf uint32) []byte {
	switch {
	case tf > 1:
		b = binary.AppendUvarint(b, uint64(gap)<<1|1)
		return binary.AppendUvarint(b, uint64(tf))
	case gap < 0x40:
		return append(b, byte(gap<<1))
	}
	return binary.AppendUvarint(b, uint64(gap)<<1)
}
