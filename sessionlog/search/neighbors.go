package search

import (
	"time"

	"crabmem/bm25"
)

// neighborWindow limits the distance of neighbors, in places.
const neighborWindow = 64

// message returns the message that a document is. Calls and results may be between it and
// its neighbors, but no summary. Summaries, sessions, and messages without content are no
// messages. The caller holds mu.
func (x *Index) message(id uint64) (m bm25.Message, ok bool) {
	ord, at := placeOf(id)
	e := x.entries[ord]
	if at < 0 || !e.places[at].says() {
		return m, false
	}
	m = bm25.Message{Conversation: uint64(ord), Author: bm25.Author(roleName(e.places[at].role, e.others)), Asks: e.places[at].asks}
	m.Previous, m.HasPrevious = e.neighbor(at, -1)
	m.Next, m.HasNext = e.neighbor(at, 1)
	return m, true
}

// neighbor returns the next message in a direction.
func (e *entry) neighbor(at, step int) (id uint64, ok bool) {
	for range neighborWindow {
		at += step
		if at < 0 || at == len(e.places) || e.places[at].role == classCompact {
			break
		}
		if e.places[at].says() {
			return e.doc(at), true
		}
	}
	return 0, false
}

// day returns the day of a document's session. The caller holds mu.
func (x *Index) day(id uint64) time.Time {
	ord, _ := placeOf(id)
	return x.entries[ord].created
}
