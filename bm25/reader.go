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
	terms    []queryTerm // that are looked for
	sequence []word
	starts   startSet
	single   [4]uint64 // the terms of one byte: how longer words of them begin
	high     bool      // a term has characters of three bytes
	highest  float64   // no score exceeds it but by being named
	scanner  analysis.Scanner
	alone    bool // each term of the run in hand is at a place of its own
	touched  byte
	at       uint32 // place of the latest word, from 1, over all fields
	field    int

	// Of the document in hand:
	first    []uint32 // by term: its first place; 0 = none
	exact    []bool   // by term: it is there as the query has it
	fields   []int    // by term: the field of it
	last     []uint32 // by term: its latest place in the field in hand; 0 = none
	distance []uint32 // by word of the sequence: the least to the next one

	surfaces [][]byte // by term: as the query has it
	run      []byte   // in hand

	ask, see func(term []byte)
}

// A word of the query, which may stand in it several times.
type word struct {
	term  int    // in terms
	place uint32 // in the query, other words counted
}

// prepare sets the reader up for the query that s has parsed. Terms of scripts
// without spaces are left out: they are neighbours as they are.
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
	for i := 0; i+1 < len(edges); i += 2 {
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

// start notes how words begin that may have a term: as it does, up to three
// bytes, of which the stemmer may have made the last one an i.
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

// addQueryTerm takes a term of the query: the first of each word that some document
// has.
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

// number returns the number of a term in r.terms, or -1.
func (r *reader) number(id uint32) int {
	return slices.IndexFunc(r.terms, func(t queryTerm) bool { return t.id == id })
}

// touch loads the beginnings of texts into the caches: that of one text need not
// wait for the words of another, and a search takes a tenth less.
func (r *reader) touch(texts []string) {
	const most, line = 1 << 10, 64
	for _, text := range texts {
		for at := 0; at < min(len(text), most); at += line {
			r.touched += text[at]
		}
	}
}

// read takes the texts of a document.
func (r *reader) read(texts []string) {
	clear(r.first)
	clear(r.exact)
	for i := range r.distance {
		r.distance[i] = differentFields
	}
	left := maxRead
	r.at = 0
	for i, text := range texts {
		if len(text) > left {
			text = text[:left]
		}
		left -= len(text)
		clear(r.last)
		r.field = i
		r.walk(text)
	}
}

// walk takes one text of a document. Most words are passed over for how they
// begin, and the terms of the others are mostly known.
func (r *reader) walk(text string) {
	s := &r.scanner
	s.Scan(text)
	buf, edges := s.Runs()
	for i := 0; i+1 < len(edges); i += 2 {
		start, end := edges[i], edges[i+1]
		run := buf[start:end:end]
		r.alone, r.run = false, run
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
		r.alone = !analysis.IsASCII(run)
		s.Terms(run, r.see)
	}
}

// mayBegin reports whether a run that starts with an ASCII character may have a
// term of the query: it begins like one, or may have parts.
func (r *reader) mayBegin(buf []byte, start, end uint32) bool {
	word, n := binary.LittleEndian.Uint64(buf[start:]), end-start
	key := word & lowBytes(min(n, 3))
	if key&highs != 0 {
		return true
	}
	// The case of letters is one bit, which digits have set.
	key |= key >> 1 & 0x202020
	if r.starts.has(uint32(key)) || r.single[key>>6&3]>>(key&63)&1 != 0 {
		return true
	}
	if n <= 8 && (word^smalls*ones)&(0xe0*ones-0x20)&lowBytes(n) == 0 {
		return false // most have but small letters, the first perhaps a capital
	}
	// Has it but small letters behind the first, but capitals, or but digits?
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

// seen takes a term of a run that is analyzed.
func (r *reader) seen(term []byte) {
	if r.alone {
		r.at++
	}
	if id, ok := r.lexer.Dict().Find(term); ok {
		r.found(id)
	}
}

// found takes a term of the document.
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
			// What is between them in the query may be between them here.
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
