package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"crabmem/crmem"
)

// Stamp is the time that the clocks of all stores show, so that a Writer can
// predict created_at.
var Stamp = time.Unix(1_765_432_100, 0)

// Writer generates the operations of one writer, in order.
type Writer struct {
	index  int
	rng    *rand.Rand
	serial int           // number in the last new name
	nextID uint64        // 0 if other writers share the IDs
	live   []crmem.Entry // current entries, in the order of their IDs
	limit  int           // approximate maximum number of entries
}

// NewWriter returns writer number index of a history. If it is the only writer, it
// also predicts the IDs of its entries.
func NewWriter(seed uint64, index int, only bool) *Writer {
	w := &Writer{index: index, rng: rand.New(rand.NewPCG(seed, uint64(index))), limit: 24}
	if only {
		w.nextID = 1
	}
	return w
}

// Next returns the next operation or batch, and applies it to the writer's
// entries. All operations are valid.
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

// Purges reports whether Apply purges an entry.
func Purges(n int, ops []crmem.Op) bool {
	_, removes := ops[0].(crmem.Remove)
	return len(ops) == 1 && removes && n%2 == 0
}

// Apply executes operation n of a writer, from 1. In half of the cases it purges an
// entry instead of removing it. In the other half it applies a change of one entry,
// undoes it, and applies it again. At every moment the entries are those before or
// after the operation.
func Apply(s *crmem.Store, n int, ops []crmem.Op) error {
	var name string
	switch o := ops[0].(type) {
	case crmem.Remove:
		name = o.Name
	case crmem.Update:
		name = o.Name
	case crmem.Alias:
		name = o.Name
	}
	switch {
	case Purges(n, ops):
		_, err := s.Purge(name)
		return err
	case len(ops) > 1 || name == "" || n%2 == 0:
		return s.Apply(ops...)
	}
	before, err := s.Get(name)
	if err != nil {
		return err
	}
	if err := s.Apply(ops...); err != nil {
		return err
	}
	var seq uint64
	for c, err := range s.ChangesOf(name) {
		if err != nil {
			return err
		}
		seq = c.Seq
	}
	if _, err := s.Undo(seq); err != nil {
		return fmt.Errorf("undo change %d of %s: %w", seq, name, err)
	}
	if e, err := s.Get(name); err != nil || !e.Equal(before) {
		return errors.Join(err, fmt.Errorf("undo of change %d: entry %+v, want %+v", seq, e, before))
	}
	return s.Apply(ops...)
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
		CreatedAt: crmem.UnixTime(Stamp.Unix()),
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

// content returns a random text, mostly of up to a few hundred bytes and sometimes
// of several disk blocks.
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

// prefix returns the prefix of the names of the writer's entries.
func (w *Writer) prefix() string { return fmt.Sprintf("w%d ", w.index) }
