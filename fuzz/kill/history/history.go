// Package history makes the operations that crash tests write, and tells what
// a store may hold after a crash.
//
// A history is drawn from a seed, so the process that is killed and the one
// that judges what it left make the same one. Each writer has names of its
// own: what is left of it must be its state after some prefix of its
// operations, whatever the other writers did. Talks are the same for sessions.
package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"crabmem/crmem"
)

// Stamp is the time every store of a history must be given as its clock, so
// that created_at is known beforehand.
var Stamp = time.Unix(1_765_432_100, 0)

// Writer draws the operations of one writer, in order.
type Writer struct {
	index  int
	rng    *rand.Rand
	serial int           // of the last new name
	nextID uint64        // 0 when other writers share the ids
	live   []crmem.Entry // in the order they were added
	limit  int           // of live entries, about
}

// NewWriter returns writer number index of the history. When it is the only
// writer its entries' ids are known too.
func NewWriter(seed uint64, index int, only bool) *Writer {
	w := &Writer{index: index, rng: rand.New(rand.NewPCG(seed, uint64(index))), limit: 24}
	if only {
		w.nextID = 1
	}
	return w
}

// Next returns the next operation, which is a batch when it is several, and
// takes it as done. Every one of them is valid.
func (w *Writer) Next() []crmem.Op {
	if w.rng.IntN(8) > 0 {
		return []crmem.Op{w.op()}
	}
	batch := make([]crmem.Op, 2+w.rng.IntN(4))
	for i := range batch {
		batch[i] = w.op()
	}
	return batch
}

func (w *Writer) op() crmem.Op {
	n := w.rng.IntN(100)
	switch {
	case len(w.live) < 3 || n < 40 && len(w.live) < w.limit:
		return w.add()
	case n < 65:
		e := &w.live[w.rng.IntN(len(w.live))]
		e.Content, e.Aliases = w.content(), w.aliases()
		return crmem.Update{Name: e.Name, Content: e.Content, Aliases: e.Aliases}
	case n < 75:
		e := &w.live[w.rng.IntN(len(w.live))]
		e.Aliases = w.aliases()
		return crmem.Alias{Name: e.Name, Aliases: e.Aliases}
	default:
		i := w.rng.IntN(len(w.live))
		name := w.live[i].Name
		w.live = slices.Delete(w.live, i, i+1)
		return crmem.Remove{Name: name}
	}
}

func (w *Writer) add() crmem.Op {
	w.serial++
	e := crmem.Entry{
		Name:      fmt.Sprintf("%sentry %d", w.prefix(), w.serial),
		CreatedAt: uint64(Stamp.Unix()),
		Content:   w.content(),
		Aliases:   w.aliases(),
	}
	if w.rng.IntN(6) == 0 {
		e.Kind = crmem.Archive
	}
	if w.nextID > 0 {
		e.ID = w.nextID
		w.nextID++
	}
	w.live = append(w.live, e)
	return crmem.Add{Name: e.Name, Content: e.Content, Aliases: e.Aliases, Kind: e.Kind}
}

// content is mostly a few hundred bytes, and sometimes several blocks of a
// disk.
func (w *Writer) content() string {
	n := 20 + w.rng.IntN(400)
	switch w.rng.IntN(12) {
	case 0:
		n = 4096 + w.rng.IntN(9000)
	case 1:
		n = w.rng.IntN(3)
	}
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%x ", w.rng.Uint64())
	}
	return b.String()[:n]
}

func (w *Writer) aliases() []string {
	var as []string
	for range w.rng.IntN(3) {
		as = append(as, fmt.Sprintf("alias %d", w.rng.IntN(1000)))
	}
	return as
}

func (w *Writer) prefix() string { return fmt.Sprintf("w%d ", w.index) }
