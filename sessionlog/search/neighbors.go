package search

import "crabmem/bm25"

// A message gets a neighbor boost for query terms that it lacks. "the redis of
// staging" is in a question, and "port 6390" is the answer. A term of a question
// counts more for the answer than for the question, because users look for the
// answer. Terms of another user message count little for the reply to it, so that a
// message that repeats a statement hardly ranks before the statement.
//
// Mean reciprocal rank of the turn that answers, over the conversations in
// testdata, by where the query terms are: split between question and answer, in
// the answer, or stated and then repeated:
//
//	                               split alone stated
//	no boost                        .55  1.00  .83
//	questions 1.2, others 0         .94  1.00  .83
//	these weights                   .94  1.00  .80
//	the same without question marks .69  1.00  .80
//	no boost, with calls            .52  1.00  .80
//	these weights, with calls       .93  1.00  .78
const (
	answerBoost = 1.2
	replyBoost  = 0.3

	// neighborWindow limits the distance of neighbors, in places.
	neighborWindow = 64
)

// appendNeighbors appends the messages that a message answers: the document before it,
// if that asks, and the preceding user message. Calls and results may be between.
// Summaries and sessions have no neighbors. The caller holds mu.
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
		byUser := p.role == classUser
		switch {
		case (near || byUser) && p.asks():
			list = append(list, bm25.Neighbor{ID: e.doc(i), Weight: answerBoost})
		case byUser:
			list = append(list, bm25.Neighbor{ID: e.doc(i), Weight: replyBoost})
		}
		if near = false; user || byUser {
			break
		}
	}
	return list
}
