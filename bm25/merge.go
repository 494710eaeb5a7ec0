package bm25

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// A merge makes one segment of several, without the documents that are dead when
// it begins. Each change of the index does one step. Until the merge is complete,
// searches use the sources.
type merge struct {
	sources []*source
	out     *segment
	doc     int // next source to copy documents of
	word    int // next word of present to copy postings of
	union   []uint64
	post    uint32
}

type source struct {
	*segment
	// to is the new number of each document, or deletedDoc. It is nil for a source
	// without dead documents: all move up by base.
	to   []uint32
	base uint32
	next int // next of start
	esc  int // next of escapes
}

const deletedDoc = math.MaxUint32

// mergeShare is the number of postings that a change copies per posting of its
// own. A posting is copied about once for each level of segment sizes.
const mergeShare = 8

// mergeFan is the number of segments, with sizes within a factor of mergeFan, that
// are merged into one.
const mergeFan = 4

// maxPostings is the largest number of postings of sources of one merge.
var maxPostings = math.MaxInt32 // only tests change it

// freeze turns the tail into a segment.
func (x *Index) freeze() {
	if len(x.tail.where) == 0 {
		x.tail.reset()
		return
	}
	x.segments = append(x.segments, x.tail.freeze())
	x.unsettled = true
}

// maintain does a part of the due merging, after a change of so many postings.
func (x *Index) maintain(postings int) {
	if x.stored != nil {
		return // a search may need the numbers of terms
	}
	if x.merge == nil {
		x.shrink()
		if !x.unsettled {
			return
		}
		sources := x.due()
		if sources == nil {
			x.unsettled = false
			return
		}
		x.merge = newMerge(sources)
	}
	if x.merge.step(mergeShare*postings + 256) {
		x.finishMerge()
	}
}

// sparse reports whether a segment has so many dead documents that it must be
// rewritten.
func (s *segment) sparse() bool {
	return s.deadDocs > 64 && 4*s.deadDocs > len(s.ids) || s.deadDocs == len(s.ids)
}

// due returns segments to merge into one, or nil.
func (x *Index) due() []*segment {
	for _, s := range x.segments {
		if s.sparse() {
			return []*segment{s}
		}
	}
	size := func(s *segment) int { return len(s.ids) - s.deadDocs }
	list := slices.Clone(x.segments)
	slices.SortStableFunc(list, func(a, b *segment) int { return cmp.Compare(size(a), size(b)) })
	for i := range list {
		j, docs, postings := i, 0, 0
		for j < len(list) && j-i < 2*mergeFan && size(list[j]) <= mergeFan*size(list[i])+tailDocs {
			docs += size(list[j])
			postings += len(list[j].postings)
			if docs > maxDocs || postings > maxPostings {
				break
			}
			j++
		}
		if j-i >= mergeFan || j-i >= 2 && docs > maxDocs*3/4 {
			return list[i:j]
		}
	}
	return nil
}

func newMerge(segments []*segment) *merge {
	m := &merge{out: &segment{}}
	slices.SortStableFunc(segments, func(a, b *segment) int { return cmp.Compare(a.minID, b.minID) })
	docs, postings, words, termBytes := 0, 0, 0, 0
	for _, s := range segments {
		src := &source{segment: s, base: uint32(docs)}
		if s.deadDocs == 0 {
			termBytes += len(s.terms)
		} else {
			src.to = make([]uint32, len(s.ids))
			at := uint32(docs)
			for d := range src.to {
				if s.isDead(uint16(d)) {
					src.to[d] = deletedDoc
					continue
				}
				src.to[d] = at
				at++
				termBytes += int(s.termsAt[d+1] - s.termsAt[d])
			}
		}
		docs += len(s.ids) - s.deadDocs
		postings += len(s.postings) - s.deadPost
		words = max(words, len(s.present))
		m.sources = append(m.sources, src)
	}
	m.union = make([]uint64, words)
	for _, s := range segments {
		for w, word := range s.present {
			m.union[w] |= word
		}
	}
	union := 0
	for _, word := range m.union {
		union += bits.OnesCount64(word)
	}
	o := m.out
	o.ids = make([]uint64, 0, docs)
	o.class = make([]uint8, 0, docs)
	o.terms = make([]byte, 0, termBytes)
	o.termsAt = make([]uint32, 1, docs+1)
	o.present = make([]uint64, words)
	o.start = make([]uint32, 0, union+1)
	o.postings = make([]uint32, postings)
	return m
}

// step copies about budget postings and reports whether the merge is complete.
func (m *merge) step(budget int) bool {
	for ; m.doc < len(m.sources); m.doc++ {
		if budget <= 0 {
			return false
		}
		budget -= m.copyDocs(m.sources[m.doc])
	}
	for ; m.word < len(m.union); m.word++ {
		if budget <= 0 {
			return false
		}
		budget -= m.copyWord()
	}
	return true
}

// copyDocs copies the documents of a source and returns the cost.
func (m *merge) copyDocs(s *source) int {
	o := m.out
	if s.to == nil {
		o.ids = append(o.ids, s.ids...)
		o.class = append(o.class, s.class...)
		base := uint32(len(o.terms))
		o.terms = append(o.terms, s.terms...)
		for _, at := range s.termsAt[1:] {
			o.termsAt = append(o.termsAt, base+at)
		}
		return len(s.ids)
	}
	for d, to := range s.to {
		if to == deletedDoc {
			continue
		}
		o.ids = append(o.ids, s.ids[d])
		o.class = append(o.class, s.class[d])
		o.terms = append(o.terms, s.terms[s.termsAt[d]:s.termsAt[d+1]]...)
		o.termsAt = append(o.termsAt, uint32(len(o.terms)))
	}
	return 4 * len(s.ids)
}

// copyWord copies the postings of the terms of one word of present and returns the
// cost.
func (m *merge) copyWord() int {
	o := m.out
	cost := 1
	for word := m.union[m.word]; word != 0; word &= word - 1 {
		bit := word & -word
		from := m.post
		for _, s := range m.sources {
			cost++
			if m.word >= len(s.present) || s.present[m.word]&bit == 0 {
				continue
			}
			list := s.postings[s.start[s.next]:s.start[s.next+1]]
			cost += len(list)
			m.copyList(s, list)
			s.next++
		}
		if m.post > from {
			o.present[m.word] |= bit
			o.start = append(o.start, from)
		}
	}
	return cost
}

func (m *merge) copyList(s *source, list []uint32) {
	out := m.out.postings[m.post:]
	at := uint32(0)
	escapes := s.esc < len(s.escapes) && s.escapes[s.esc].pos < s.start[s.next+1]
	switch {
	case s.to == nil && !escapes:
		shift := s.base << 16
		out = out[:len(list)]
		for i, p := range list {
			out[i] = p + shift
		}
		at = uint32(len(list))
	default:
		for _, p := range list {
			to := p>>16 + s.base
			if s.to != nil {
				to = s.to[p>>16]
			}
			if p&0xffff == escaped {
				if to != deletedDoc {
					e := s.escapes[s.esc]
					m.out.escapes = append(m.out.escapes, escape{m.post + at, e.tf, e.dl})
				}
				s.esc++
			}
			if to != deletedDoc {
				out[at] = to<<16 | p&0xffff
				at++
			}
		}
	}
	m.post += at
}

// finishMerge replaces the sources with the merged segment.
func (x *Index) finishMerge() {
	m := x.merge
	x.merge = nil
	o := m.out
	o.start = append(o.start, m.post)
	o.buildRank()
	o.sortIDs()
	for _, src := range m.sources {
		src.markLateDeletes(o)
	}
	x.segments = slices.DeleteFunc(x.segments, func(s *segment) bool {
		return slices.ContainsFunc(m.sources, func(src *source) bool { return src.segment == s })
	})
	if len(o.ids) > o.deadDocs {
		x.segments = append(x.segments, o)
	}
}

// markLateDeletes marks the documents in out that died in the source after the
// beginning of the merge.
func (s *source) markLateDeletes(out *segment) {
	for d := range s.ids {
		at := s.base + uint32(d)
		if s.to != nil {
			at = s.to[d]
		}
		if at == deletedDoc || !s.isDead(uint16(d)) {
			continue
		}
		out.kill(uint16(at))
		_, terms := out.lenAndTerms(uint16(at))
		for _, b := range terms {
			if b < 0x80 { // the last byte of a number
				out.deadPost++
			}
		}
	}
}
