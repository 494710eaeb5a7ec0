package bm25

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"crabmem/bm25/analysis"
)

// Limits and weights of spelling correction. A query word that no document
// contains is replaced by terms of documents: terms that it begins, or else terms
// of which it is a misspelling. It is also joined with the word before or after.
const (
	maxCorrected = 4 // corrected words of a query
	maxChoices   = 4 // terms for one word
	minCorrected = 5 // letters
	minJoined    = 3 // bytes of each of two words
	correctedBy  = 0.7
	joinedBy     = 0.7
)

// A Correction is a query word and the words that the search used instead.
type Correction struct {
	Word  string   `json:"word"` // word of the query, folded; two words if Kind is joined
	Kind  string   `json:"kind" op:"words=prefix|typo|joined"`
	Words []string `json:"words"` // words of documents
	// Weight is the weight of each word. The words share the weight of one.
	Weight float64 `json:"weight"`
}

// correct adds terms for the words of the query in s.scanner that no document
// contains. It returns the corrections.
func (s *searcher) correct(x *Index) []Correction {
	var done []Correction
	sc := &s.scanner
	var before string
	var beforeKnown bool
	looked := 0
	buf, edges := sc.Runs()
	for i := 0; i < min(len(edges), 2*maxSequence); i += 2 {
		start, end := edges[i], edges[i+1]
		if sc.IsContraction(start, end) {
			continue
		}
		run := buf[start:end:end]
		word := sc.Letters(run)
		known := word == ""
		sc.Terms(run, func(term []byte) {
			if !known && !analysis.IsStopWord(term) {
				_, known = x.lookUp(term, false)
				return
			}
			known = true
		})
		here := known
		if !(known && beforeKnown) {
			if c, ok := s.joined(x, before, word); ok {
				done = append(done, c)
				known = true
			}
		}
		before, beforeKnown = word, here
		if known || looked == maxCorrected {
			continue
		}
		looked++
		if c, ok := s.correction(x, word); ok {
			done = append(done, c)
		}
	}
	return done
}

// joined adds the term of two words written as one, if a document contains it.
func (s *searcher) joined(x *Index, a, b string) (c Correction, ok bool) {
	if len(a) < minJoined || len(b) < minJoined {
		return Correction{}, false
	}
	c = Correction{Word: a + " " + b, Kind: "joined", Weight: joinedBy}
	s.scanner.Terms([]byte(a+b), func(term []byte) {
		if id, found := x.lookUp(term, false); found {
			s.addTerm(x, term, id, joinedBy)
			c.Words = []string{a + b}
		}
	})
	return c, len(c.Words) > 0
}

// A choice is a term that may replace a word.
type choice struct {
	id    uint32
	form  uint32 // the word form that resembles the word
	stem  int    // 1 if form may be only a stem, not a word
	edits int
}

// correction adds the terms that replace a word.
func (s *searcher) correction(x *Index, word string) (c Correction, ok bool) {
	n := utf8.RuneCountInString(word)
	if n < minCorrected {
		return Correction{}, false
	}
	p := newPattern(word, n)
	if x.stored != nil {
		x.stored.similar(p)
	}
	var begun, misspelled []choice
	l := x.lexer
	var text []byte
	for _, b := range x.initials.of(l.Dict(), word[0]) {
		if !p.mayMatch(b.letters) {
			continue
		}
		f := b.id
		t, ok := x.termOf(f)
		if !ok {
			continue
		}
		stem := 0
		if !l.Analyzed(f) {
			stem = 1
		}
		text = compared(l.Dict().AppendTerm(text[:0], f))
		switch isBegun, isMisspelled, edits := p.match(text); {
		case isBegun:
			begun = append(begun, choice{t, f, stem, 0})
		case isMisspelled:
			misspelled = append(misspelled, choice{t, f, stem, edits})
		}
	}
	c = Correction{Word: word, Kind: "prefix"}
	choices := begun
	if len(begun) == 0 {
		c.Kind, choices = "typo", misspelled
	}
	slices.SortFunc(choices, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.edits, b.edits), cmp.Compare(x.df[b.id], x.df[a.id]), cmp.Compare(a.stem, b.stem),
			bytes.Compare(l.Dict().AppendTerm(nil, a.form), l.Dict().AppendTerm(nil, b.form)))
	})
	seen := map[uint32]bool{}
	choices = slices.DeleteFunc(choices, func(ch choice) bool {
		again := seen[ch.id] || len(seen) == maxChoices || ch.edits > choices[0].edits
		seen[ch.id] = true
		return again
	})
	c.Weight = correctedBy / float64(len(choices))
	for _, ch := range choices {
		s.addTerm(x, l.Dict().AppendTerm(nil, ch.id), ch.id, c.Weight)
		c.Words = append(c.Words, strings.ToLower(string(l.Dict().AppendTerm(nil, ch.form))))
	}
	return c, len(c.Words) > 0
}

// termOf returns the term of documents that a word form or term stands for. It reports
// false if no document contains it.
func (x *Index) termOf(f uint32) (t uint32, ok bool) {
	x.settle(f)
	if x.df[f] > 0 {
		return f, true
	}
	if t, ok = x.lexer.Term(f); !ok {
		return 0, false
	}
	x.settle(t)
	return t, x.df[t] > 0
}

// initials lists the terms of a dict by their first bytes: each ASCII letter has a
// list, and all other bytes share one. Searches that need it fill it.
type initials struct {
	mu    sync.Mutex
	dict  *analysis.Dict
	known int
	lists [utf8.RuneSelf + 1][]listed
	text  []byte
}

// A listed is a term's number and its set of letters.
type listed struct{ id, letters uint32 }

// of returns the terms whose first byte is like first.
func (n *initials) of(d *analysis.Dict, first byte) []listed {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dict != d {
		n.dict, n.known = d, 0
		clear(n.lists[:])
	}
	for ; n.known < d.Len(); n.known++ {
		id := uint32(n.known)
		n.text = compared(d.AppendTerm(n.text[:0], id))
		list := &n.lists[initial(n.text[0])]
		*list = append(*list, listed{id, letters(n.text)})
	}
	return n.lists[initial(first)]
}

// compared returns a term in lower case, which spelling correction compares. It
// may overwrite the term.
func compared(term []byte) []byte {
	if term[0] >= utf8.RuneSelf {
		return bytes.ToLower(term)
	}
	for i, b := range term {
		if 'A' <= b && b <= 'Z' {
			term[i] |= 0x20
		}
	}
	return term
}

// letters returns a set of the letters of a word. Some letters share a bit. An
// edit changes two bits at most.
func letters(word []byte) uint32 {
	set := uint32(0)
	for _, r := range string(word) {
		set |= 1 << (r & 31)
	}
	return set
}

// initial returns the list number of a first byte, the same for both cases.
func initial(b byte) byte {
	if b >= utf8.RuneSelf {
		return utf8.RuneSelf
	}
	return b | 0x20
}

func (n *initials) bytes() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	sum := 0
	for _, list := range n.lists {
		sum += 8 * cap(list)
	}
	return sum
}
