package bm25

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"unicode/utf8"

	"crabmem/bm25/analysis"
)

// A ref is a group of entries or, in the top of the dictionary's index, a page: a run
// of groups.
type ref struct {
	separator []byte // at most the first entry
	at, size  [3]uint64
}

// What the offsets and sizes of a ref are of.
const (
	inGroups = iota
	inLists
	inPages // only for a page
)

// parseRefs reads refs that follow one another from offsets at on. It reports false
// unless they fill exactly the sizes.
func parseRefs(b []byte, parts int, at, size [3]uint64) (refs []ref, ok bool) {
	u := uvarints{b: b}
	for len(u.b) > 0 {
		r := ref{separator: u.bytes(int(min(u.next(), math.MaxInt32))), at: at}
		for i := range parts {
			n := u.next()
			if n > size[i] {
				return nil, false
			}
			r.size[i] = n
			at[i] += n
			size[i] -= n
		}
		if u.bad || len(refs) > 0 && bytes.Compare(refs[len(refs)-1].separator, r.separator) >= 0 {
			return nil, false
		}
		refs = append(refs, r)
	}
	return refs, size == [3]uint64{}
}

// readTop reads the pages.
func (s *stored) readTop() {
	if s.pageRefs != nil || s.err != nil {
		return
	}
	b := s.read(s.topAt(), s.top)
	refs, ok := parseRefs(b, 3, [3]uint64{}, [3]uint64{s.groups, s.postings, s.pages})
	if s.pageRefs = refs; !ok {
		s.damaged(s.topAt(), "the top of the dictionary is not valid")
	}
}

// page returns the groups of a page.
func (s *stored) page(i int) []ref {
	if refs, ok := s.groupRefs[i]; ok || s.err != nil {
		return refs
	}
	p := s.pageRefs[i]
	b := s.read(s.pagesAt()+p.at[inPages], p.size[inPages])
	p.size[inPages] = 0
	refs, ok := parseRefs(b, 2, p.at, p.size)
	if s.groupRefs[i] = refs; !ok {
		s.damaged(s.pagesAt()+p.at[inPages], "a page of the dictionary is not valid")
	}
	return refs
}

// group returns the entries of a group.
func (s *stored) group(g ref) entries {
	b := s.read(s.groupsAt()+g.at[inGroups], g.size[inGroups])
	return entries{uvarints: uvarints{b: b}, at: g.at[inLists], end: g.at[inLists] + g.size[inLists], docs: s.docs}
}

// refFor returns the position of the latest ref that may contain a text.
func refFor(refs []ref, text []byte) int {
	return max(sort.Search(len(refs), func(i int) bool { return bytes.Compare(refs[i].separator, text) > 0 })-1, 0)
}

// scan calls f with the entries from a text on, ascending, until f returns false.
func (s *stored) scan(from []byte, f func(it *storedEntry) bool) {
	s.readTop()
	var it storedEntry
	for i := refFor(s.pageRefs, from); i < len(s.pageRefs) && s.err == nil; i++ {
		refs := s.page(i)
		for at := refFor(refs, from); at < len(refs) && s.err == nil; at++ {
			e := s.group(refs[at])
			for e.next(&it) {
				if bytes.Compare(it.text, from) >= 0 && !f(&it) {
					return
				}
			}
			if e.bad || e.at != e.end {
				s.damaged(s.groupsAt()+refs[at].at[inGroups], "an entry of the dictionary is not valid")
			}
		}
	}
}

// A storedTerm is a term that was looked up.
type storedTerm struct {
	df       uint32
	list     listRef
	attached bool // the segments contain the list
}

// find looks a term up that was not looked up before. It reports false if neither
// storage nor the dict contains it.
func (s *stored) find(term []byte) (id uint32, ok bool) {
	s.scan(term, func(it *storedEntry) bool {
		if bytes.Equal(it.text, term) {
			id, ok = s.enter(it), true
		}
		return false
	})
	if !ok {
		if id, ok = s.index.lexer.Dict().Find(term); ok {
			s.looked[id] = &storedTerm{attached: true}
		}
	}
	return id, ok
}

// enter adds an entry to the dict, the document frequencies and the word forms, unless
// it was looked up before.
func (s *stored) enter(it *storedEntry) uint32 {
	x := s.index
	id := x.lexer.Dict().Add(it.text)
	if s.looked[id] != nil {
		return id
	}
	s.looked[id] = &storedTerm{df: it.df, list: it.list, attached: it.flags&isTerm == 0}
	if it.flags&isForm != 0 && x.analyzer == analysis.Standard {
		x.lexer.Analyze(id)
	}
	x.growDF()
	x.df[id] += it.df
	return id
}

// settle makes the document frequency of a term exact. It matters only for an opened
// index.
func (x *Index) settle(id uint32) {
	s := x.stored
	if s == nil {
		return
	}
	if s.looked[id] == nil {
		s.find(x.lexer.Dict().AppendTerm(nil, id))
	}
	if s.dead > 0 {
		s.attach(id)
	}
}

// attach adds the list of a term that was looked up to the segments. It subtracts
// removed documents from the document frequency.
func (s *stored) attach(id uint32) {
	t := s.looked[id]
	if t == nil || t.attached || s.err != nil {
		return
	}
	t.attached = true
	x := s.index
	l := listReader{uvarints: uvarints{b: s.read(s.postingsAt()+t.list.at, t.list.size)}, docs: s.docs}
	var seg *segment
	var from uint32
	dead := uint32(0)
	end := func() {
		if seg != nil {
			seg.stored.attached[id] = span{from, uint32(len(seg.postings))}
		}
	}
	for range t.df {
		doc, tf := l.next()
		if l.bad {
			break
		}
		if at := s.segments[doc/maxDocs]; at != seg {
			end()
			if s.readDocs(at); at.ids == nil || len(at.postings) > mostPostings {
				l.bad = true
				break
			}
			seg, from = at, uint32(len(at.postings))
		}
		d := uint16(doc)
		c := code(tf, seg.lens[d])
		x.codes.add(uint16(c))
		if c == escaped {
			seg.escapes = append(seg.escapes, escape{uint32(len(seg.postings)), tf, seg.lens[d]})
		}
		seg.postings = append(seg.postings, uint32(d)<<16|c)
		if seg.isDead(d) {
			dead++
		}
	}
	end()
	if l.bad || len(l.b) > 0 {
		s.damaged(s.postingsAt()+t.list.at, "a posting list is not valid")
		return
	}
	x.df[id] -= dead
}

// attachAll attaches the lists of the query's terms and drops terms that no document
// contains.
func (s *searcher) attachAll(x *Index) {
	s.terms = slices.DeleteFunc(s.terms, func(t queryTerm) bool {
		x.stored.attach(t.id)
		return x.df[t.id] == 0
	})
	for i := range s.terms {
		s.terms[i].df = x.df[s.terms[i].id]
	}
}

// similar enters the stored entries that resemble a word.
func (s *stored) similar(p *pattern) {
	var text []byte
	for _, r := range initialRanges(p.word) {
		s.scan([]byte(r.from), func(it *storedEntry) bool {
			if r.to != "" && string(it.text) >= r.to {
				return false
			}
			text = compared(append(text[:0], it.text...))
			if p.mayMatch(letters(text)) {
				if begun, misspelled, _ := p.match(text); begun || misspelled {
					s.enter(it)
				}
			}
			return true
		})
	}
}

// A textRange contains the texts from from on and before to; all, if to is empty.
type textRange struct{ from, to string }

// initialRanges returns the ranges of the entries that initials lists with a word, and
// maybe more.
func initialRanges(word string) []textRange {
	c := word[0]
	switch {
	case c >= utf8.RuneSelf:
		return []textRange{{"\x80", ""}}
	case c == 'i': // lower case of İ in Go
		return []textRange{{"I", "J"}, {"i", "j"}, {"İ", "ı"}}
	case c == 'k':
		return []textRange{{"K", "L"}, {"k", "l"}, {"\u212a", "\u212b"}} // the Kelvin sign
	}
	return []textRange{{string(c &^ 0x20), string(c&^0x20 + 1)}, {string(c), string(c + 1)}}
}
