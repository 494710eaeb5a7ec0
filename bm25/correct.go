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

// Limits and weights of corrections. A query word that no document contains is replaced by
// terms of documents, of the first kind that exists: related words, terms that it begins,
// terms of which it is a misspelling, or two adjacent words that it joins. Two adjacent
// words are also joined.
const (
	maxCorrected = 4 // corrected words of a query
	maxChoices   = 4 // terms for one word
	minCorrected = 5 // letters of a beginning or a misspelling
	minJoined    = 3 // bytes of each of two words
	correctedBy  = 0.7
	guessedBy    = 0.75 // share of the other words that a misspelling has at most
)

// A Correction is a query word and the words that the search used instead.
type Correction struct {
	Word  string   `json:"word"` // word of the query, folded; two words if Kind is joined
	Kind  string   `json:"kind" op:"words=prefix|typo|joined|related|split"`
	Words []string `json:"words"` // words of documents
	// Weight is the weight of each word. The words share the weight of one.
	Weight float64 `json:"weight"`
}

// A queryWord is a query word.
type queryWord struct {
	text, stem string
	isKnown    bool // a document contains it, or it is a stop word
	isJoined   bool
}

// correct adds terms for the words of the query in s.scanner that no document
// contains. It returns the corrections.
func (s *searcher) correct(x *Index, q Query) []Correction {
	var done []Correction
	sc := &s.scanner
	var words []queryWord
	buf, edges := sc.Runs()
	for i := 0; i < min(len(edges), 2*maxSequence); i += 2 {
		start, end := edges[i], edges[i+1]
		if sc.IsContraction(start, end) {
			continue
		}
		run := buf[start:end:end]
		w := queryWord{text: sc.Letters(run)}
		sc.Terms(run, func(term []byte) {
			if w.stem == "" {
				w.stem = string(term)
				if related, _ := analysis.Related(w.stem); w.text == "" {
					w.isKnown = len(related) == 0 // others than 2nd and k8s are not corrected
				}
			} else if w.text == "" {
				return
			}
			if !w.isKnown {
				w.isKnown = analysis.IsStopWord(term)
			}
			if !w.isKnown {
				_, w.isKnown = x.lookUp(term, false)
			}
		})
		words = append(words, w)
	}
	rest := 0.0 // the known words' weight
	for _, t := range s.terms {
		rest += float64(t.weight * idf(x.lengths.counted, int(t.df)))
	}
	looked := 0
	for i := range words {
		w := &words[i]
		if i+1 < len(words) && !(w.isKnown && words[i+1].isKnown) {
			if c, ok := s.joined(x, *w, words[i+1]); ok {
				done = append(done, c)
				w.isJoined, words[i+1].isJoined = true, true
			}
		}
		if w.isKnown || w.isJoined || looked == maxCorrected {
			continue
		}
		looked++
		if c := s.correction(x, q, *w, rest); len(c.Words) > 0 {
			done = append(done, c)
		}
	}
	return done
}

// joined adds the term of two words written as one, if a document contains it. Usual words
// such as nowhere begin with a short word by chance, unless an adverb follows it, as in log
// in.
func (s *searcher) joined(x *Index, a, b queryWord) (c Correction, ok bool) {
	if isShort := len(b.text) < minJoined || analysis.IsStopWord([]byte(b.stem)); len(a.text) < minJoined || isShort && !isAdverb(b.text) {
		return Correction{}, false
	}
	c = Correction{Word: a.text + " " + b.text, Kind: "joined", Weight: correctedBy}
	s.scanner.Terms([]byte(a.text+b.text), func(term []byte) {
		if len(a.text) == minJoined && !isAdverb(b.text) && isUsualTerm(term) {
			return
		}
		if id, found := x.lookUp(term, false); found {
			s.addTerm(x, term, id, correctedBy)
			c.Words = []string{a.text + b.text}
		}
	})
	return c, len(c.Words) > 0
}

// isAdverb reports whether a word follows verbs in nouns that are one word: login, setup.
func isAdverb(word string) bool {
	switch word {
	case "in", "on", "up", "off", "out", "by", "down", "back", "over":
		return true
	}
	return false
}

// related adds the terms of the words that a word may also mean.
func (s *searcher) related(x *Index, c *Correction, words []string) {
	first := len(s.terms)
	for _, w := range words {
		isFirst := true
		s.scanner.Terms([]byte(w), func(term []byte) {
			if id, ok := x.lookUp(term, false); ok && isFirst && len(c.Words) < maxChoices {
				s.addTerm(x, term, id, 0)
				c.Words = append(c.Words, w)
			}
			isFirst = false
		})
	}
	c.Kind, c.Weight = "related", correctedBy/float64(max(len(c.Words), 1))
	for i := range s.terms[first:] {
		s.terms[first+i].weight = c.Weight
	}
}

// split adds the terms of two words that a word joins, if one of the best documents contains
// one after the other. A usual word such as office contains
// a word of three letters by chance, unless it ends in an adverb.
func (s *searcher) split(x *Index, q Query, c *Correction, isUsual bool) {
	searches := 0
	for i := minJoined; i < len(c.Word) && q.Texts != nil && searches < maxChoices; i++ {
		a, b := c.Word[:i], c.Word[i:]
		if !utf8.RuneStart(b[0]) || !s.knows(x, a) || !s.knows(x, b) {
			continue
		}
		if isChance := isUsual && min(len(a), len(b)) == minJoined; !isAdverb(b) && (isChance || len(b) < minJoined) {
			continue
		}
		searches++
		o := searchers.Get().(*searcher)
		o.parse(x, Query{Text: a + " " + b})
		found := slices.ContainsFunc(o.search(x, Query{Limit: RerankLimit}).Hits, func(h Hit) bool {
			return slices.ContainsFunc(q.Texts(h.ID), func(text string) bool {
				text = " " + strings.ToLower(strings.Join(strings.Fields(text[:min(len(text), maxRead)]), " "))
				return strings.Contains(text, " "+a+" "+b) || strings.Contains(text, " "+a+"-"+b)
			})
		})
		if found {
			c.Kind, c.Words, c.Weight = "split", []string{a, b}, correctedBy/2
			for _, t := range o.terms {
				t.weight = c.Weight
				s.terms = append(s.terms, t)
			}
		}
		searchers.Put(o)
		if found {
			return
		}
	}
}

// knows reports whether a document contains a word.
func (s *searcher) knows(x *Index, word string) (ok bool) {
	s.scanner.Terms([]byte(word), func(term []byte) {
		_, found := x.lookUp(term, true)
		ok = ok || found
	})
	return ok
}

// A choice is a term that may replace a word.
type choice struct {
	id    uint32
	form  uint32 // the word form that resembles the word
	stem  int    // 1 if form may be only a stem, not a word
	edits int
}

// correction adds the terms that replace a word.
func (s *searcher) correction(x *Index, q Query, w queryWord, rest float64) Correction {
	c := Correction{Word: w.text}
	words, isUsual := analysis.Related(w.stem)
	if w.text == "" {
		c.Word = w.stem
	}
	s.related(x, &c, words)
	if len(c.Words) == 0 {
		s.similar(x, &c, isUsual, rest)
	}
	if len(c.Words) == 0 && w.text != "" {
		s.split(x, q, &c, isUsual)
	}
	return c
}

// similar adds the terms that a word begins, or else those of which it is a misspelling. A
// usual word begins no term, and is no misspelling of another usual word.
func (s *searcher) similar(x *Index, c *Correction, isUsual bool, rest float64) {
	word := c.Word
	n := utf8.RuneCountInString(word)
	if n < minCorrected {
		return
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
		case isBegun && !isUsual:
			begun = append(begun, choice{t, f, stem, 0})
		case isMisspelled && !(isUsual && isUsualTerm(l.Dict().AppendTerm(nil, t))):
			misspelled = append(misspelled, choice{t, f, stem, edits})
		}
	}
	c.Kind = "prefix"
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
	if c.Kind == "typo" && rest > 0 {
		for _, ch := range choices {
			c.Weight = min(c.Weight, float64(guessedBy*rest)/idf(x.lengths.counted, int(x.df[ch.id])))
		}
	}
	for _, ch := range choices {
		s.addTerm(x, l.Dict().AppendTerm(nil, ch.id), ch.id, c.Weight)
		c.Words = append(c.Words, strings.ToLower(string(l.Dict().AppendTerm(nil, ch.form))))
	}
}

func isUsualTerm(term []byte) bool {
	_, is := analysis.Related(string(term))
	return is
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
