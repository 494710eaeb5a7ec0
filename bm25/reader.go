package bm25

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"crabmem/bm25/analysis"
)

// A reader finds the words of a query in texts.
type reader struct {
	lexer    *analysis.Lexer
	terms    []queryTerm // terms to find
	sequence []word
	starts   startSet
	single   [4]uint64 // set of the terms of one byte
	high     bool      // a term contains a character of three bytes
	highest  float64   // no score exceeds it, except for named documents
	scanner  analysis.Scanner
	alone    bool // each term of the current run has its own position
	touched  byte
	at       uint32 // position of the latest word over all fields, from 1
	field    int
	long     bool // the query is long

	// Of the current document:
	damping  float64
	first    []uint32 // by term: its first position; 0: none
	exact    []bool   // by term: the document contains the spelling of the query
	fields   []int    // by term: the field of its first position
	last     []uint32 // by term: its latest position in the current field; 0: none
	distance []uint32 // by word of the sequence: the smallest distance to the next one

	surfaces [][]byte // by term: its spelling in the query
	run      []byte   // current run

	ask, see func(term []byte)
}

// A word is a word of the query, which may contain it several times.
type word struct {
	term  int    // in terms
	place uint32 // position in the query, counting all words
}

// prepare sets the reader up for a query. It omits terms of unspaced scripts,
// whose pairs are terms already.
func (r *reader) prepare(l *analysis.Lexer, terms []queryTerm, text string) {
	r.lexer, r.terms, r.high, r.highest = l, r.terms[:0], false, 0
	if r.ask == nil {
		r.ask, r.see = r.addQueryTerm, r.seen
	}
	r.starts, r.single = startSet{}, [4]uint64{}
	var term []byte
	for _, t := range terms {
		r.highest += float64((k1 + 1 + earlyWeight + exactWeight) * t.idf)
		if len(r.terms) == maxSequence {
			continue
		}
		term = l.Dict().AppendTerm(term[:0], t.id)
		if first, _ := utf8.DecodeRune(term); analysis.IsUnspaced(first) {
			continue
		}
		r.terms = append(r.terms, t)
		r.high = r.high || term[0] >= 0xe0
		r.start(term)
		for _, form := range analysis.IrregularForms(term) {
			r.start([]byte(form))
		}
	}
	r.sequence, r.at = r.sequence[:0], 0
	r.surfaces = slices.Grow(r.surfaces[:0], len(r.terms))[:len(r.terms)]
	clear(r.surfaces)
	s := &r.scanner
	s.Scan(text[:min(len(text), maxRead)])
	buf, edges := s.Runs()
	for i := 0; i < len(edges); i += 2 {
		if start, end := edges[i], edges[i+1]; !s.IsContraction(start, end) {
			run := buf[start:end:end]
			if r.alone = !analysis.IsASCII(run); !r.alone {
				r.at++
			}
			r.run = run
			s.Terms(run, r.ask)
		}
	}
	for _, w := range r.sequence {
		r.highest += float64(nearWeight * r.terms[w.term].idf)
	}
	n := len(r.terms)
	r.first, r.last = slices.Grow(r.first[:0], n)[:n], slices.Grow(r.last[:0], n)[:n]
	r.exact = slices.Grow(r.exact[:0], n)[:n]
	r.fields = slices.Grow(r.fields[:0], n)[:n]
	r.distance = slices.Grow(r.distance[:0], len(r.sequence))[:len(r.sequence)]
}

// start adds the first bytes of words that may have a term: the first three bytes
// of the term, where the stemmer may have changed a y to the i in third place.
func (r *reader) start(term []byte) {
	key := uint32(term[0])
	switch {
	case len(term) == 1:
		r.single[term[0]>>6] |= 1 << (term[0] & 63)
	case len(term) == 2:
		key |= uint32(term[1]) << 8
		for third := range uint32(1 << 8) {
			r.starts.add(key | third<<16)
		}
	default:
		key |= uint32(term[1])<<8 | uint32(term[2])<<16
		r.starts.add(key)
		if term[2] == 'i' {
			r.starts.add(key&0xffff | 'y'<<16)
		}
	}
}

// A startSet holds hashes of the first three bytes of words.
type startSet [1 << 14 / 64]uint64

func (s *startSet) add(key uint32) {
	h := key * 0x9e3779b1 >> 18
	s[h>>6] |= 1 << (h & 63)
}

func (s *startSet) has(key uint32) bool {
	h := key * 0x9e3779b1 >> 18
	return s[h>>6]>>(h&63)&1 != 0
}

// addQueryTerm adds a term of the query to the sequence: for each word, the first
// term that a document contains.
func (r *reader) addQueryTerm(term []byte) {
	if r.alone {
		r.at++
	}
	id, ok := r.lexer.Dict().Find(term)
	if !ok || len(r.sequence) == maxSequence {
		return
	}
	if n := len(r.sequence); n > 0 && r.sequence[n-1].place == r.at {
		return
	}
	if k := r.number(id); k >= 0 {
		r.sequence = append(r.sequence, word{k, r.at})
		r.surfaces[k] = bytes.ToLower(r.run)
	}
}

// number returns the position of a term in r.terms, or -1.
func (r *reader) number(id uint32) int {
	return slices.IndexFunc(r.terms, func(t queryTerm) bool { return t.id == id })
}

// touch loads the beginnings of texts into the CPU caches, so that the loads of
// several texts overlap. Without it a search takes a tenth longer.
func (r *reader) touch(texts []string) {
	const most, line = 1 << 10, 64
	for _, text := range texts {
		for at := 0; at < min(len(text), most); at += line {
			r.touched += text[at]
		}
	}
}

// read reads the texts of a document, up to maxRead bytes. damping is a factor of its
// bonuses.
func (r *reader) read(texts []string, damping float64) {
	r.damping = damping
	clear(r.first)
	clear(r.exact)
	for i := range r.distance {
		r.distance[i] = differentFields
	}
	left := maxRead
	r.at = 0
	for i, text := range texts {
		text = text[:min(len(text), left)]
		left -= len(text)
		clear(r.last)
		r.field = i
		r.walk(text)
	}
}

// walk reads one text of a document. It skips most words because of their first
// bytes. For most of the others the lexer stores the terms.
func (r *reader) walk(text string) {
	s := &r.scanner
	s.Scan(text)
	buf, edges := s.Runs()
	for i := 0; i < len(edges); i += 2 {
		start, end := edges[i], edges[i+1]
		run := buf[start:end:end]
		r.run = run
		switch c := run[0]; {
		case c < utf8.RuneSelf:
			if end-start <= 2 && s.IsContraction(start, end) {
				continue
			}
			r.at++
			if !r.mayBegin(buf, start, end) {
				continue
			}
		case c >= 0xe0 && !r.high:
			r.at += uint32(len(run)) / 3
			continue
		}
		if terms, ok := r.lexer.Terms(run); ok {
			if run[0] >= utf8.RuneSelf {
				r.at++
			}
			for _, t := range terms {
				r.found(t)
			}
			continue
		}
		r.alone = !analysis.IsWordForm(run)
		if !r.alone && run[0] >= utf8.RuneSelf {
			r.at++
		}
		s.Terms(run, r.see)
	}
}

// mayBegin reports whether a run that begins with an ASCII character may have a
// term of the query: it begins like one, or it may have parts.
func (r *reader) mayBegin(buf []byte, start, end uint32) bool {
	word, n := binary.LittleEndian.Uint64(buf[start:]), end-start
	key := word & lowBytes(min(n, 3))
	if key&highs != 0 {
		return true
	}
	// Set the bit that makes letters lower case; digits have it set.
	key |= key >> 1 & 0x202020
	if r.starts.has(uint32(key)) || r.single[key>>6&3]>>(key&63)&1 != 0 {
		return true
	}
	if n <= 8 && (word^smalls*ones)&(0xe0*ones-0x20)&lowBytes(n) == 0 {
		return false // only lower-case letters, except perhaps for the first
	}
	// Are all bytes after the first of one kind?
	kind := buf[end-1] & 0xe0
	for at := start + 1; at < end; at += 8 {
		w := (binary.LittleEndian.Uint64(buf[at:]) & (0xe0 * ones)) ^ uint64(kind)*ones
		if n := end - at; n < 8 {
			w &= lowBytes(n)
		}
		if w != 0 {
			return true
		}
	}
	first := buf[start] & 0xe0
	return (first == digits) != (kind == digits) || first == smalls && kind == capitals
}

// lowBytes keeps the first n bytes of a little-endian word.
func lowBytes(n uint32) uint64 { return 1<<(8*n) - 1 }

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// The kinds of ASCII word bytes, by their highest bits.
const (
	digits   = 0x20
	capitals = 0x40
	smalls   = 0x60
)

// seen records a term of a run that the scanner analyzes.
func (r *reader) seen(term []byte) {
	if r.alone {
		r.at++
	}
	if id, ok := r.lexer.Dict().Find(term); ok {
		r.found(id)
	}
}

// found records a term of the document at the current position.
func (r *reader) found(id uint32) {
	k := r.number(id)
	if k < 0 {
		return
	}
	if !r.exact[k] && len(r.surfaces[k]) == len(r.run) {
		r.exact[k] = bytes.EqualFold(r.surfaces[k], r.run)
	}
	p := r.at
	if r.first[k] == 0 {
		r.first[k], r.fields[k] = p, r.field
	}
	for i, w := range r.sequence {
		if w.term != k {
			continue
		}
		if i > 0 {
			before := r.sequence[i-1]
			// Words between them in the query may be between them here.
			if at := r.last[before.term]; at > 0 && before.term != k {
				r.near(i-1, int(p-at)-int(w.place-before.place-1))
			}
		}
		if i+1 < len(r.sequence) {
			if next := r.sequence[i+1].term; r.last[next] > 0 && next != k {
				r.near(i, int(p-r.last[next]))
			}
		}
	}
	r.last[k] = p
}

func (r *reader) near(i, distance int) {
	r.distance[i] = min(r.distance[i], uint32(max(distance, 1)))
}
