package analysis

import (
	"encoding/binary"
	"slices"
)

// A Lexer turns documents into term numbers of its dict, to which it adds new terms.
// The terms equal those of [Analyzer.Tokens], but a Lexer analyzes each word form
// once. It is not safe for concurrent use.
type Lexer struct {
	analyzer Analyzer
	dict     *Dict
	stops    uint32 // term numbers below are Plain's stop words
	scanner  Scanner
	ids      []uint32 // of the current document, with repetitions
	emit     func(term []byte)
	probes   []probe

	// With Standard, dict contains word forms and terms, which often are equal, and
	// forms contains, by number, the term of a form. For a form with another number
	// of terms it is manyTerms plus the position in moreTerms.
	forms     []uint32
	moreTerms []uint32 // for each such form, the number of terms and the terms
	form      []byte   // current form
}

// Values of Lexer.forms that are not terms. Term numbers are smaller.
const (
	manyTerms  = 1 << 31
	unanalyzed = 1<<32 - 1
)

// NewLexer returns a lexer with an empty dict.
func NewLexer(a Analyzer) *Lexer {
	d := newDict()
	l := &Lexer{analyzer: a, dict: d}
	l.emit = func(term []byte) { l.keep(l.dict.Add(term)) }
	if a == Plain {
		for _, w := range plainStopWords {
			d.Add([]byte(w))
		}
		l.stops = uint32(len(plainStopWords))
	}
	return l
}

// Dict returns the lexer's terms. Renumber replaces it.
func (l *Lexer) Dict() *Dict { return l.dict }

// Stops returns the number of stop words. Plain gives them the numbers from 0 on,
// and no document has them.
func (l *Lexer) Stops() uint32 { return l.stops }

func (l *Lexer) keep(id uint32) {
	if id >= l.stops {
		l.ids = append(l.ids, id)
	}
}

// Lex returns the terms of a document, in any order and with repetitions, and its
// length. The slice is valid until the next call.
func (l *Lexer) Lex(fields []string) (terms []uint32, length int) {
	l.ids = l.ids[:0]
	if l.analyzer == Standard {
		l.standard(fields)
	} else {
		l.plain(fields)
	}
	return l.ids, len(l.ids) - l.scanner.extra
}

// plain looks a document's short terms up in two rounds, so that the table's
// cache misses overlap.
func (l *Lexer) plain(fields []string) {
	s := &l.scanner
	s.scan(fields, true)
	d := l.dict
	buf, edges := s.buf, s.edges
	probes := slices.Grow(l.probes[:0], len(edges)/2)
	slots := d.slots
	mask := uint32(len(slots) - 1)
	for i := 0; i < len(edges); i += 2 {
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
		} else if run := buf[start:end]; IsASCII(run) {
			l.keep(d.addLong(run))
			continue
		}
		s.uni.plain(buf[start:end], l.emit)
	}
	ids := slices.Grow(l.ids, len(probes))
	keys := d.keys
	for _, p := range probes {
		id, ok := p.term(keys, mask)
		if !ok {
			id = d.addShort(p.key)
		}
		if id >= l.stops {
			ids = append(ids, id)
		}
	}
	l.probes, l.ids = probes, ids
}

// maxRun is the length of the longest run that is a word form, in bytes.
const maxRun = 64

// standard is plain with word forms instead of terms.
func (l *Lexer) standard(fields []string) {
	s := &l.scanner
	s.scan(fields, false)
	d := l.dict
	buf, edges := s.buf, s.edges
	probes := slices.Grow(l.probes[:0], len(edges)/2)
	slots := d.slots
	mask := uint32(len(slots) - 1)
	done := 0
	for i := 0; i < len(edges); i += 2 {
		start, end := edges[i], edges[i+1]
		if s.IsContraction(start, end) {
			continue
		}
		if (buf[end] != ' ' || buf[start] <= '9') && i >= done && s.compound(i) {
			done = s.compounds(i, l.emit)
		}
		if n := end - start; n <= 8 {
			key := binary.LittleEndian.Uint64(buf[start:]) & prefixMask[n&15]
			if key&(key<<1)&(key<<2)&highs == 0 { // as in IsWordForm: no byte from 0xe0 on
				h := d.hashShort(key)
				probes = append(probes, probe{key, uint32(h), slots[uint32(h>>32)&mask]})
				continue
			}
		} else if run := buf[start:end]; IsWordForm(run) {
			l.addForm(d.addLong(run))
			continue
		}
		s.uni.standard(buf[start:end], l.emit)
	}
	ids := slices.Grow(l.ids, len(probes))
	keys, forms := d.keys, l.forms
	for _, p := range probes {
		f, ok := p.term(keys, mask)
		if !ok {
			f = d.addShort(p.key)
		} else if f < uint32(len(forms)) && forms[f] < manyTerms {
			ids = append(ids, forms[f])
			continue
		}
		l.ids = ids
		l.addForm(f)
		ids = l.ids
	}
	l.probes, l.ids = probes, ids
}

// addForm adds the terms of word form f to the document.
func (l *Lexer) addForm(f uint32) {
	t := uint32(unanalyzed)
	if int(f) < len(l.forms) {
		t = l.forms[f]
	}
	switch {
	case t == unanalyzed:
		l.analyze(f)
	case t < manyTerms:
		l.ids = append(l.ids, t)
	default:
		l.ids = append(l.ids, formTerms(l.moreTerms, t)...)
	}
}

// analyze adds the terms of word form f to the document and stores them.
func (l *Lexer) analyze(f uint32) {
	l.form = l.dict.AppendTerm(l.form[:0], f)
	n := len(l.ids)
	if stemmed(l.form) {
		l.ids = append(l.ids, f)
	} else {
		l.scanner.uni.standard(l.form, l.emit)
	}
	for len(l.forms) < len(l.dict.keys) {
		l.forms = append(l.forms, unanalyzed)
	}
	terms := l.ids[n:]
	if len(terms) == 1 {
		l.forms[f] = terms[0]
		return
	}
	l.forms[f] = manyTerms + uint32(len(l.moreTerms))
	l.moreTerms = append(append(l.moreTerms, uint32(len(terms))), terms...)
}

// Analyze stores the terms of word form f.
func (l *Lexer) Analyze(f uint32) {
	if !l.Analyzed(f) {
		l.ids = l.ids[:0]
		l.analyze(f)
	}
}

// Terms returns the terms of a run. It reports false if the run is not a word form
// that the lexer analyzed.
func (l *Lexer) Terms(run []byte) (terms []uint32, ok bool) {
	if !IsWordForm(run) {
		return nil, false
	}
	f, ok := l.dict.Find(run)
	if !ok || !l.Analyzed(f) {
		return nil, false
	}
	t := l.forms[f]
	if t < manyTerms {
		return l.forms[f : f+1], true
	}
	return formTerms(l.moreTerms, t), true
}

// formTerms returns the terms of a form with several or none: t is its value in
// Lexer.forms, and more is Lexer.moreTerms.
func formTerms(more []uint32, t uint32) []uint32 {
	terms := more[t-manyTerms:]
	return terms[1 : 1+terms[0]]
}

// Analyzed reports whether f is a word form that the lexer analyzed.
func (l *Lexer) Analyzed(f uint32) bool { return int(f) < len(l.forms) && l.forms[f] != unanalyzed }

// Term returns the term of word form f. It reports false if the lexer did not
// analyze f, or if f has several terms or none.
func (l *Lexer) Term(f uint32) (t uint32, ok bool) {
	if int(f) >= len(l.forms) || l.forms[f] >= manyTerms {
		return 0, false
	}
	return l.forms[f], true
}

// Merge adds the terms and word forms of o from number len(remap) on. It appends
// their numbers in l to remap.
func (l *Lexer) Merge(o *Lexer, remap []uint32) []uint32 {
	from := len(remap)
	var term []byte
	for id := from; id < len(o.dict.keys); id++ {
		if key := o.dict.keys[id]; key < longKey {
			remap = append(remap, l.dict.addShort(key))
			continue
		}
		term = o.dict.AppendTerm(term[:0], uint32(id))
		remap = append(remap, l.dict.addLong(term))
	}
	l.learn(o, remap, from)
	return remap
}

// learn stores the word forms that o analyzed, from number from on. remap contains
// the number in l by the number in o.
func (l *Lexer) learn(o *Lexer, remap []uint32, from int) {
	if l.analyzer != Standard {
		return
	}
	for len(l.forms) < len(l.dict.keys) {
		l.forms = append(l.forms, unanalyzed)
	}
	for f := from; f < len(o.forms); f++ {
		switch t, own := o.forms[f], &l.forms[remap[f]]; {
		case t == unanalyzed || *own != unanalyzed:
		case t < manyTerms:
			*own = remap[t]
		default:
			terms := formTerms(o.moreTerms, t)
			*own = manyTerms + uint32(len(l.moreTerms))
			l.moreTerms = append(l.moreTerms, uint32(len(terms)))
			for _, t := range terms {
				l.moreTerms = append(l.moreTerms, remap[t])
			}
		}
	}
}

// IsWordForm reports whether a Lexer stores the terms of a run, which is likely to
// occur again: it is short, and its characters take at most two bytes, as in most
// scripts with spaces.
func IsWordForm(run []byte) bool {
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

// Renumber drops all terms except those that keep selects. It gives these the
// numbers in to, which ascend from 0 to kept-1.
func (l *Lexer) Renumber(keep func(t uint32) bool, to []uint32, kept int) {
	old := l.dict
	l.dict = newDict()
	l.dict.keys = make([]uint64, 0, kept)
	l.dict.resize(tableSize(kept))
	var term []byte
	for t := range to {
		if keep(uint32(t)) {
			term = old.AppendTerm(term[:0], uint32(t))
			l.dict.Add(term)
		}
	}
	forms, more := l.forms, l.moreTerms
	if forms == nil {
		return
	}
	l.forms, l.moreTerms = make([]uint32, kept), nil
	for i := range l.forms {
		l.forms[i] = unanalyzed
	}
	for f, t := range forms {
		if t == unanalyzed || !keep(uint32(f)) {
			continue
		}
		own := &l.forms[to[f]]
		if t < manyTerms {
			if keep(t) {
				*own = to[t]
			}
			continue
		}
		terms := formTerms(more, t)
		complete := true
		for _, t := range terms {
			complete = complete && keep(t)
		}
		if complete { // otherwise the lexer analyzes it again
			*own = manyTerms + uint32(len(l.moreTerms))
			l.moreTerms = append(l.moreTerms, uint32(len(terms)))
			for _, t := range terms {
				l.moreTerms = append(l.moreTerms, to[t])
			}
		}
	}
}

// Snapshot returns a copy of the terms and word forms, which does not change. It cannot
// turn documents into terms.
func (l *Lexer) Snapshot() *Lexer {
	return &Lexer{
		analyzer:  l.analyzer,
		dict:      &Dict{keys: slices.Clip(l.dict.keys), arena: slices.Clip(l.dict.arena)},
		stops:     l.stops,
		forms:     slices.Clone(l.forms),
		moreTerms: slices.Clip(l.moreTerms),
	}
}

// Clip frees memory that growth reserved.
func (l *Lexer) Clip() {
	l.dict.clip()
	l.forms, l.moreTerms = slices.Clone(l.forms), slices.Clone(l.moreTerms)
}

// mostScratch is the largest size of the buffers that Rest keeps, in bytes. Usual
// documents need less.
const mostScratch = 4 << 20

// Rest ends the work on a document. It frees the buffers of a very long one.
func (l *Lexer) Rest() {
	if l.scratch() > mostScratch {
		l.scanner, l.ids, l.probes = Scanner{}, nil, nil
	}
}

func (l *Lexer) scratch() int {
	s := &l.scanner
	return cap(s.buf) + 4*cap(s.edges) + 4*cap(s.atoms) + cap(s.join) + cap(s.uni.text) + 4*cap(l.ids) + 16*cap(l.probes)
}

// Bytes returns the size of the lexer in memory.
func (l *Lexer) Bytes() int {
	return l.dict.bytes() + 4*cap(l.forms) + 4*cap(l.moreTerms) + l.scratch()
}
