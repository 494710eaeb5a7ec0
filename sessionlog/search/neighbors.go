package search

import (
	"strings"

	"crabmem/bm25"
)

// A message gets a neighbor boost for query terms that it lacks. "the redis of
// staging" is in a question, and "port 6390" is the answer. A term of a question
// counts more for the answer than for the question, because users look for the
// answer. Terms of other neighbors count little, so that a message that repeats a
// statement does not rank before the statement.
//
// Mean reciprocal rank of the turn that answers, over the conversations in
// testdata, by where the query terms are: split between question and answer, in
// the answer, or stated and then repeated:
//
//	                              split alone stated
//	no boost                       .56  1.00  .79
//	every neighbor .5              .63  1.00  .75
//	questions 1.2, others 0        .94  1.00  .79
//	these weights                  .95  1.00  .79
//	these weights, without question marks
//	                               .64  1.00  .79
const (
	answerBoost   = 1.2
	nextBoost     = 0.2 // for the next message
	previousBoost = 0.1 // for the previous message

	// neighborWindow limits the distance of neighbors, in places.
	neighborWindow = 64
)

// appendNeighbors appends the documents before and after a message. Calls and
// results may be between a question and its answer. So another message also gets
// the preceding user message, and a user message also gets the last message before
// the next user message. Summaries and sessions have no neighbors. The caller
// holds mu.
func (x *Index) appendNeighbors(list []bm25.Neighbor, id uint64) []bm25.Neighbor {
	ord, at := placeOf(id)
	e := x.entries[ord]
	if at < 0 || e.places[at].role == classCompact {
		return list
	}
	user := e.places[at].role == classUser
	for i, near := at-1, true; i >= max(0, at-neighborWindow); i-- {
		p := e.places[i]
		if p.role == classCompact {
			break
		}
		if !p.doc() {
			continue
		}
		if near || p.role == classUser {
			n := bm25.Neighbor{ID: e.doc(i), Weight: nextBoost}
			if p.asks() {
				n.Weight = answerBoost
			}
			list = append(list, n)
			near = false
		}
		if user || p.role == classUser {
			break
		}
	}
	first, last := -1, -1
	for i := at + 1; i < min(len(e.places), at+1+neighborWindow); i++ {
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
		list = append(list, bm25.Neighbor{ID: e.doc(first), Weight: previousBoost})
	}
	if last > first {
		list = append(list, bm25.Neighbor{ID: e.doc(last), Weight: previousBoost})
	}
	return list
}

// asks reports whether a text has a question mark that ends a sentence, and not
// one in a URL or in code.
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
