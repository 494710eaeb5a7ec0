package bm25

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/blevesearch/vellum/levenshtein"

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
	Word  string   `json:"word"`  // word of the query, folded; two words if Kind is joined
	Kind  string   `json:"kind"`  // prefix, typo, or joined
	Words []string `json:"words"` // words of documents
	// Weight is the weight of each word. The words share the weight of one.
	Weight float64 `json:"weight"`
}

// misspellings contains the automata of at most one and two edits. Two swapped
// neighbors are one edit.
var misspellings = [3]func() *levenshtein.LevenshteinAutomatonBuilder{1: automata(1), 2: automata(2)}

func automata(edits uint8) func() *levenshtein.LevenshteinAutomatonBuilder {
	return sync.OnceValue(func() *levenshtein.LevenshteinAutomatonBuilder {
		b, err := levenshtein.NewLevenshteinAutomatonBuilder(edits, true)
		if err != nil {
			panic(err) // of constants
		}
		return b
	})
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
			id, ok := x.lexer.Dict().Find(term)
			known = known || ok && x.df[id] > 0 || analysis.IsStopWord(term)
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
		if id, found := x.lexer.Dict().Find(term); found && x.df[id] > 0 {
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
	edits uint8
}

// correction adds the terms that replace a word.
func (s *searcher) correction(x *Index, word string) (c Correction, ok bool) {
	n := utf8.RuneCountInString(word)
	if n < minCorrected {
		return Correction{}, false
	}
	edits := 1
	if n >= 8 {
		edits = 2
	}
	var dfa *levenshtein.DFA // built for the first candidate
	var begun, misspelled []choice
	l := x.lexer
	var text []byte
	begin := []byte(word)
	set := letters(begin)
	for _, b := range x.initials.of(l.Dict(), word[0]) {
		if set&^b.letters != 0 && bits.OnesCount32(set^b.letters) > 2*edits {
			continue
		}
		f := b.id
		t := f
		if x.df[t] == 0 {
			var ok bool
			if t, ok = l.Term(f); !ok || x.df[t] == 0 {
				continue
			}
		}
		stem := 0
		if !l.Analyzed(f) {
			stem = 1
		}
		text = compared(l.Dict().AppendTerm(text[:0], f))
		if dfa == nil {
			var err error
			if dfa, err = misspellings[edits]().BuildDfa(word, uint8(edits)); err != nil {
				return Correction{}, false
			}
		}
		state := dfa.Start()
		for _, b := range text {
			if !dfa.CanMatch(state) {
				break
			}
			state = dfa.Accept(state, b)
		}
		switch {
		case len(text) > len(word) && bytes.HasPrefix(text, begin):
			begun = append(begun, choice{t, f, stem, 0})
		case dfa.IsMatch(state):
			misspelled = append(misspelled, choice{t, f, stem, dfa.EditDistance(state)})
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
