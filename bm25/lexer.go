package bm25

import (
	"encoding/binary"
	"slices"
)

// A probe is a short term and the slot of the dict where it belongs, as it was
// when it was read.
type probe struct {
	key       uint64
	tag, slot uint32
}

// A lexer turns documents into term numbers of its dict, which it extends. It
// gives the terms that scanner.each gives, faster. It is for one goroutine.
type lexer struct {
	analyzer Analyzer
	dict     *dict
	stops    uint32 // term numbers below are Plain's stop words
	scanner  scanner
	ids      []uint32 // of the document in hand, with repetitions
	emit     func(term []byte)
	probes   []probe

	// Standard only: the runs met so far and the terms of each, so that a word
	// form is stemmed once.
	runs     *dict
	runEnds  []uint32 // by run, where its terms end in runTerms
	runTerms []uint32
}

func newLexer(a Analyzer, d *dict) *lexer {
	l := &lexer{analyzer: a, dict: d}
	l.emit = func(term []byte) { l.keep(d.add(term)) }
	switch a {
	case Plain:
		for _, w := range plainStopWords {
			d.add([]byte(w))
		}
		l.stops = uint32(len(plainStopWords))
	case Standard:
		l.runs = newDict()
	}
	return l
}

func (l *lexer) keep(id uint32) {
	if id >= l.stops {
		l.ids = append(l.ids, id)
	}
}

// lex returns the terms of a document, in any order. The slice is valid until the
// next call.
func (l *lexer) lex(fields []string) []uint32 {
	l.ids = l.ids[:0]
	if l.analyzer == Standard {
		l.standard(fields)
	} else {
		l.plain(fields)
	}
	return l.ids
}

// plain looks a document's short terms up in two rounds, so that the table's
// cache misses overlap.
func (l *lexer) plain(fields []string) {
	s := &l.scanner
	s.scan(fields, true)
	d := l.dict
	buf, edges := s.buf, s.edges
	probes := slices.Grow(l.probes[:0], len(edges)/2)
	slots := d.slots
	mask := uint32(len(slots) - 1)
	for i := 0; i+1 < len(edges); i += 2 {
		start, end := edges[i], edges[i+1]
		if n := end - start; n <= 8 {
			key := binary.LittleEndian.Uint64(buf[start:]) & prefixMask[n&15]
			if key&highs == 0 {
				if n > 1 {
					h := d.hashShort(key)
					probes = append(probes, probe{key, uint32(h), slots[uint32(h>>32)&mask]})
				}
				continue
			}
		} else if run := buf[start:end]; ascii(run) {
			l.keep(d.addLong(run))
			continue
		}
		s.uni.plain(buf[start:end], l.emit)
	}
	ids := slices.Grow(l.ids, len(probes))
	keys := d.keys
	for _, p := range probes {
		id := p.slot&mask - 1
		if (p.slot^p.tag)&^mask != 0 || id >= uint32(len(keys)) || keys[id] != p.key {
			id = d.addShort(p.key)
		}
		if id >= l.stops {
			ids = append(ids, id)
		}
	}
	l.probes, l.ids = probes, ids
}

// maxRun is the longest run whose terms are remembered, in bytes.
const maxRun = 64

func (l *lexer) standard(fields []string) {
	s := &l.scanner
	s.scan(fields, false)
	for i := 0; i+1 < len(s.edges); i += 2 {
		start, end := s.edges[i], s.edges[i+1]
		if s.contraction(start, end) {
			continue
		}
		run := s.buf[start:end]
		if !repeats(run) {
			s.uni.standard(run, l.emit)
			continue
		}
		known := len(l.runs.keys)
		r := l.runs.add(run)
		if int(r) == known {
			n := len(l.ids)
			s.uni.standard(run, l.emit)
			l.runTerms = append(l.runTerms, l.ids[n:]...)
			l.runEnds = append(l.runEnds, uint32(len(l.runTerms)))
			continue
		}
		first := uint32(0)
		if r > 0 {
			first = l.runEnds[r-1]
		}
		l.ids = append(l.ids, l.runTerms[first:l.runEnds[r]]...)
	}
}

// repeats reports whether a run is likely to come again: it is short and of a
// script with spaces between words, whose characters take at most two bytes.
func repeats(run []byte) bool {
	if len(run) > maxRun {
		return false
	}
	for _, c := range run {
		if c >= 0xe0 {
			return false
		}
	}
	return true
}

func (l *lexer) bytes() int {
	n := l.dict.bytes() + 4*cap(l.runEnds) + 4*cap(l.runTerms)
	if l.runs != nil {
		n += l.runs.bytes()
	}
	return n
}
