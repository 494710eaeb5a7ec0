package daemon

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"
)

const (
	maxNewest     = 200    // entries whose newest changes a request selects
	maxAllChanges = 10_000 // changes of all entries in a response
)

// entryChanges answers with changes of an entry, the newest first. Without content, it
// keeps no text of the history in memory.
func (d opened) entryChanges(r *request, m *pb.ChangesMsg) error {
	if m.GetContent() && m.GetSeq() == 0 {
		return errtable.Invalidf("content requires seq")
	}
	if n := len(m.GetNewestOf()); n > maxNewest || n > 0 && (m.GetId() != 0 || m.GetSeq() != 0) {
		return errtable.Invalidf("newest_of: want at most %d entries, without id and seq", maxNewest)
	}
	if n := m.GetLimit(); m.GetId() == 0 && m.GetSeq() == 0 && len(m.GetNewestOf()) == 0 && (n == 0 || n > maxAllChanges) {
		return errtable.Invalidf("limit: want 1 to %d changes of all entries", maxAllChanges)
	}
	if d.setup().config.History == crmem.HistoryOff {
		return &errtable.Error{HTTP: http.StatusNotFound, Kind: "no_history", Exit: errtable.ExitNotFound,
			Message: "the store keeps no history", Fix: `set history = "on" in [memory] of config.toml`}
	}
	var list []*pb.EntryChange // the newest of those that the request selects
	damaged, place := "", uint64(0)
	for c, err := range d.selectedChanges(m) {
		if err != nil {
			damaged = clip.Bytes(err.Error(), 1<<10)
			continue
		}
		if len(m.GetNewestOf()) > 0 {
			list = slices.DeleteFunc(list, func(older *pb.EntryChange) bool { return older.GetEntry().GetId() == c.Entry().ID })
		}
		if place++; m.GetUntil() > 0 && place > m.GetUntil() {
			break
		}
		if m.GetSeq() > 0 && c.Seq != m.GetSeq() {
			continue
		}
		if n := m.GetLimit(); n > 0 && len(list) == int(n) {
			list = slices.Delete(list, 0, 1)
		}
		one := changeMessage(&c, place, m.GetContent())
		if m.GetSums() {
			sum := sha256.Sum256([]byte(c.Entry().Content))
			one.Sha256 = sum[:]
		}
		list = append(list, one)
	}
	if m.GetSeq() > 0 && list == nil {
		return fmt.Errorf("%w: the history has no change %d of entry %d", crmem.ErrNotFound, m.GetSeq(), m.GetId())
	}
	slices.Reverse(list)
	for part, more := range parts(slices.Values(list)) {
		if err := r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Changes{Changes: &pb.ChangeList{Changes: part, More: more, Damaged: damaged}}}); err != nil {
			return err
		}
	}
	return nil
}

// selectedChanges returns the changes of the entries of a request, oldest first.
func (d opened) selectedChanges(m *pb.ChangesMsg) iter.Seq2[crmem.Change, error] {
	switch {
	case len(m.GetNewestOf()) > 0:
		return d.store.ChangesOfID(m.GetNewestOf()...)
	case m.GetId() == 0:
		return d.store.Changes()
	}
	return d.store.ChangesOfID(m.GetId())
}

// changeMessage returns a change as a message. Without content, it shares no memory with
// the change.
func changeMessage(c *crmem.Change, place uint64, content bool) *pb.EntryChange {
	e := memtool.Message(*c.Entry(), content)
	e.Name, e.Aliases = strings.Clone(e.Name), slices.Clone(e.Aliases)
	for i, a := range e.Aliases {
		e.Aliases[i] = strings.Clone(a)
	}
	m := &pb.EntryChange{Place: place, Seq: c.Seq, By: memtool.ActorMessage(c.By), Type: string(c.Type), Entry: e, Time: nanoseconds(c.Time), Redacted: nanoseconds(c.Redacted())}
	if c.Type == crmem.ChangeRename {
		m.OldName = strings.Clone(c.Before.Name)
	}
	return m
}
