package bm25

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// maxDocs is the largest number of documents in a segment: a posting has 16 bits
// for the document.
const maxDocs = 1 << 16

// A posting is a document of the segment (upper 16 bits) and a code for the pair
// that the score depends on: the term's frequency (4 bits) and the document's
// length in terms (12 bits). Pairs that do not fit have the code escaped; the
// segment's escapes contain them.
const (
	lenBits = 12
	maxTF   = 14
	maxLen  = 1<<lenBits - 1
	escaped = 0xffff
)

func code(tf, dl uint32) uint32 {
	if tf > maxTF || dl > maxLen {
		return escaped
	}
	return tf<<lenBits | dl
}

// An escape is the true pair of an escaped posting.
type escape struct {
	pos, tf, dl uint32 // pos: position of the posting
}

// norm returns the saturated term frequency.
func (e escape) norm(pivot float64) float64 { return tfNorm(int(e.tf), lenNorm(int(e.dl), pivot)) }

// compare compares the position of an escape with pos.
func (e escape) compare(pos uint32) int { return cmp.Compare(e.pos, pos) }

// A segment is an immutable part of the index, except for removals. It contains
// the postings of all terms in one array, and the terms of each document.
type segment struct {
	docTable

	present  []uint64 // bit t: term t has postings
	rank     []uint32 // by word of present: number of terms before it
	start    []uint32 // by rank of term: first position of its postings; one more entry
	postings []uint32
	escapes  []escape // ascending pos
	deadPost int      // postings of dead documents

	stored *storedPart // of a segment of an opened index, which has no present, rank, start
}

// A docTable is the part of a segment that is indexed by document.
type docTable struct {
	ids   []uint64
	class []uint8 // removed marks a removed document
	// order lists the documents by ascending ID; nil if they are in that order.
	order        []uint16
	minID, maxID uint64
	deadDocs     int
	// terms contains, for each document, its length, then the ascending numbers of
	// its terms as gaps, all in uvarints. termsAt has one more entry.
	terms   []byte
	termsAt []uint32
	// lens contains the lengths of documents without terms, in an opened index.
	lens []uint32
}

// removed is the class of removed documents. Other classes are smaller.
const removed = 8

func (t *docTable) isDead(d uint16) bool { return t.class[d] == removed }

// find returns the live document with an ID.
func (t *docTable) find(id uint64) (uint16, bool) {
	if id < t.minID || id > t.maxID {
		return 0, false
	}
	var d int
	var ok bool
	if t.order == nil {
		d, ok = slices.BinarySearch(t.ids, id)
	} else {
		d, ok = slices.BinarySearchFunc(t.order, id, func(d uint16, id uint64) int { return cmp.Compare(t.ids[d], id) })
		if ok {
			d = int(t.order[d])
		}
	}
	return uint16(d), ok && !t.isDead(uint16(d))
}

// sortIDs fills order, minID and maxID of a new table from ids.
func (t *docTable) sortIDs() {
	if len(t.ids) == 0 {
		return
	}
	if !slices.IsSorted(t.ids) {
		t.order = make([]uint16, len(t.ids))
		for d := range t.order {
			t.order[d] = uint16(d)
		}
		slices.SortStableFunc(t.order, func(a, b uint16) int { return cmp.Compare(t.ids[a], t.ids[b]) })
	}
	t.minID, t.maxID = slices.Min(t.ids), slices.Max(t.ids)
}

// kill marks a document as removed.
func (t *docTable) kill(d uint16) {
	t.class[d] = removed
	t.deadDocs++
}

// lenAndTerms returns the length of a document and its encoded terms.
func (t *docTable) lenAndTerms(d uint16) (int, []byte) {
	if t.lens != nil {
		return int(t.lens[d]), nil
	}
	b := t.terms[t.termsAt[d]:t.termsAt[int(d)+1]]
	n, size := binary.Uvarint(b)
	return int(n), b[size:]
}

// list returns the first position of a term's postings and the one after the last.
func (s *segment) list(term uint32) (from, to uint32) {
	if s.stored != nil {
		at := s.stored.attached[term]
		return at.from, at.to
	}
	w := int(term >> 6)
	if w >= len(s.present) {
		return 0, 0
	}
	word := s.present[w]
	if word>>(term&63)&1 == 0 {
		return 0, 0
	}
	i := s.rank[w] + uint32(bits.OnesCount64(word&(1<<(term&63)-1)))
	return s.start[i], s.start[i+1]
}

// escapesIn returns the escapes of the postings in [from, to).
func (s *segment) escapesIn(from, to uint32) []escape {
	if len(s.escapes) == 0 {
		return nil
	}
	i, _ := slices.BinarySearchFunc(s.escapes, from, escape.compare)
	j, _ := slices.BinarySearchFunc(s.escapes, to, escape.compare)
	return s.escapes[i:j]
}

func (s *segment) sortEscapes() {
	slices.SortFunc(s.escapes, func(a, b escape) int { return cmp.Compare(a.pos, b.pos) })
}

// code returns the code and the position of a term's posting for a document. The
// code is 0 if there is no posting.
func (s *segment) code(term uint32, d uint16) (c uint16, at uint32) {
	from, to := s.list(term)
	list := s.postings[from:to]
	i, _ := slices.BinarySearch(list, uint32(d)<<16)
	if i == len(list) || list[i]>>16 != uint32(d) {
		return 0, 0
	}
	return uint16(list[i]), from + uint32(i)
}

// buildRank fills rank from present.
func (s *segment) buildRank() {
	s.rank = make([]uint32, len(s.present))
	n := uint32(0)
	for i, w := range s.present {
		s.rank[i] = n
		n += uint32(bits.OnesCount64(w))
	}
}

// eachTerm calls f with each term that has postings, ascending, and its position in
// start.
func (s *segment) eachTerm(f func(term uint32, i int)) {
	i := 0
	for w, word := range s.present {
		for word != 0 {
			f(uint32(w<<6+bits.TrailingZeros64(word)), i)
			word &= word - 1
			i++
		}
	}
}

// buildTerms fills the terms of the documents, whose lengths are lens, from the
// postings. The order of the postings makes each document's terms ascending.
func (s *segment) buildTerms(lens []uint32) {
	type cursor struct{ last, at uint32 }
	docs := make([]cursor, len(lens))
	for d, n := range lens {
		docs[d].at = uint32(uvarintLen(n))
	}
	s.eachTerm(func(term uint32, i int) {
		term++ // a gap is at least 1
		for _, p := range s.postings[s.start[i]:s.start[i+1]] {
			c := &docs[p>>16]
			c.at += uint32(uvarintLen(term - c.last))
			c.last = term
		}
	})
	s.termsAt = make([]uint32, len(lens)+1)
	at := uint32(0)
	for d := range docs {
		n := docs[d].at
		docs[d] = cursor{0, at}
		s.termsAt[d] = at
		at += n
	}
	s.termsAt[len(lens)] = at
	s.terms = make([]byte, at)
	for d, n := range lens {
		docs[d].at += uint32(binary.PutUvarint(s.terms[docs[d].at:], uint64(n)))
	}
	terms := s.terms
	s.eachTerm(func(term uint32, i int) {
		term++
		for _, p := range s.postings[s.start[i]:s.start[i+1]] {
			c := &docs[p>>16]
			gap := term - c.last
			c.last = term
			at := c.at
			for gap >= 0x80 {
				terms[at] = byte(gap) | 0x80
				gap >>= 7
				at++
			}
			terms[at] = byte(gap)
			c.at = at + 1
		}
	})
}

func uvarintLen(n uint32) int { return (bits.Len32(n|1) + 6) / 7 }

func (s *segment) bytes() int {
	return 8*cap(s.ids) + cap(s.class) + 2*cap(s.order) + 4*cap(s.lens) + cap(s.terms) + 4*cap(s.termsAt) +
		8*cap(s.present) + 4*cap(s.rank) + 4*cap(s.start) + 4*cap(s.postings) + 12*cap(s.escapes)
}

// bitWords returns the length of a bit set for n terms.
func bitWords(n int) int { return (n + 63) / 64 }
