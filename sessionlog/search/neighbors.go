package search

import (
	"strings"

	"crabmem/bm25"
)

// A message borrows words of the query from its neighbours: "the redis of staging"
// is asked about, and "port 6390" is the answer. What a question says counts for
// its answer, and a little more than for the question itself: the answer is what is
// looked for. Of other neighbours the words count little: who repeats what was told
// is not to come before who told it.
//
// Mean reciprocal rank of the turn that answers, of the conversations in testdata:
// where the words of the query are split between question and answer, stand in the
// answer alone, or are told and then repeated:
//
//	                              split alone told
//	nobody lends                   .56  1.00  .79
//	every neighbour lends .5       .63  1.00  .75
//	questions lend 1.2, others 0   .94  1.00  .79
//	as it is                       .95  1.00  .79
//	as it is, but without question marks
//	                               .64  1.00  .79
const (
	lentToAnswer = 1.2
	lentBehind   = 0.2 // to what was said next
	lentBefore   = 0.1 // to what was said before

	// maxBeside is how far from a message its neighbours are looked for, in
	// places.
	maxBeside = 64
)

// beside appends the neighbours of a message: the document before it and the one
// behind it. Calls and results may stand between a question and its answer: so
// what is not the user's has the user's message before it for a neighbour too,
// and that has the last one before the user speaks again. A summary and a
// session have none. Caller holds mu.
func (x *Index) beside(list []bm25.Neighbor, id uint64) []bm25.Neighbor {
	ord, at := placeOf(id)
	e := x.entries[ord]
	if at < 0 || e.places[at].role == classCompact {
		return list
	}
	user := e.places[at].role == classUser
	for i, near := at-1, true; i >= max(0, at-maxBeside); i-- {
		p := e.places[i]
		if p.role == classCompact {
			break
		}
		if !p.doc() {
			continue
		}
		if near || p.role == classUser {
			n := bm25.Neighbor{ID: e.doc(i), Weight: lentBehind}
			if p.asks() {
				n.Weight = lentToAnswer
			}
			list = append(list, n)
			near = false
		}
		if user || p.role == classUser {
			break
		}
	}
	first, last := -1, -1
	for i := at + 1; i < min(len(e.places), at+1+maxBeside); i++ {
		p := e.places[i]
		if p.role == classCompact {
			break
		}
		if !p.doc() {
			continue
		}
		if first >= 0 && p.role == classUser {
			break
		}
		if last = i; first < 0 {
			first = i
		}
		if !user || p.role == classUser {
			break
		}
	}
	if first >= 0 {
		list = append(list, bm25.Neighbor{ID: e.doc(first), Weight: lentBefore})
	}
	if last > first {
		list = append(list, bm25.Neighbor{ID: e.doc(last), Weight: lentBefore})
	}
	return list
}

// asks reports whether a text has a question mark that ends a sentence, and is
// not one of an address or of code.
func asks(text string) bool {
	for _, mark := range []string{"？", "؟"} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	for {
		_, rest, found := strings.Cut(text, "?")
		if !found {
			return false
		}
		if rest == "" || strings.IndexByte(" \n\r\t\"')*", rest[0]) >= 0 {
			return true
		}
		text = rest
	}
}
