package main

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/timetext"
)

// eachChange calls f with each of changes. It warns of each damaged part of the
// history.
func (c *app) eachChange(changes iter.Seq2[crmem.Change, error], f func(*crmem.Change)) {
	for ch, err := range changes {
		if err != nil {
			c.Warn("read history: " + err.Error())
			continue
		}
		f(&ch)
	}
}

// concernsName reports whether an entry had a name before or after a change. same
// compares names.
func concernsName(ch *crmem.Change, name string, same func(a, b string) bool) bool {
	return ch.Before.ID != 0 && same(ch.Before.Name, name) || ch.After.ID != 0 && same(ch.After.Name, name)
}

func sameBytes(a, b string) bool { return a == b }

// timeline is a summary of the changes of a store.
type timeline struct {
	last   map[uint64]crmem.Change // newest change of each entry, by ID
	order  map[uint64]int          // position of each entry's newest change
	newest crmem.Change            // of all; its Type is empty without a change
	named  uint64                  // ID of the newest entry that had the name, or else a canonically equivalent one
	change crmem.Change            // newest change with the sequence number; its Type is empty without one
	end    uint64                  // highest sequence number
}

// timeline reads all changes of a store. It looks for a name and for a sequence
// number, either of which may be unset.
func (c *app) timeline(s *crmem.Store, name string, seq uint64) *timeline {
	return c.timelineOf(s.Changes(), name, seq)
}

// timelineOf is timeline for some of the changes of a store.
func (c *app) timelineOf(changes iter.Seq2[crmem.Change, error], name string, seq uint64) *timeline {
	t := &timeline{last: make(map[uint64]crmem.Change), order: make(map[uint64]int)}
	n, exact := 0, false
	c.eachChange(changes, func(ch *crmem.Change) {
		id := ch.Entry().ID
		n++
		t.last[id], t.order[id], t.newest = *ch, n, *ch
		t.end = max(t.end, ch.Seq)
		if is := concernsName(ch, name, sameBytes); is || !exact && concernsName(ch, name, crmem.SameName) {
			t.named, exact = id, is
		}
		if seq > 0 && ch.Seq == seq {
			t.change = *ch
		}
	})
	return t
}

// idOf returns the ID of the entry of a name, or of an alias that one entry has. If
// the store has no such entry, idOf returns the newest one that had the name.
func (t *timeline) idOf(s *crmem.Store, name string) (uint64, error) {
	e, err := op.FindEntry(s, name)
	if errors.Is(err, crmem.ErrNotFound) && t.named != 0 {
		return t.named, nil
	}
	return e.ID, err
}

// pointForms are the forms that parsePoint reads, for help texts.
const pointForms = `SEQ is the number of a change in crabmem log. TIME is a time
(2026-04-14T10:00Z), an age (2h, 3d), or a day (2026-04-14, today, yesterday),
which means its end.`

// parsePoint reads the number of a change or a time.
func (c *app) parsePoint(what, text string) (crmem.Point, error) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > 0 {
		return crmem.Point{Seq: n}, nil
	}
	t, err := timetext.Parse(text, true, c.now())
	if err != nil || t.IsZero() {
		return crmem.Point{}, cli.Usagef("%s %q: want the number of a change, %s", what, text, timetext.Forms)
	}
	if t.Nanosecond() == 0 { // log prints seconds
		t = t.Add(time.Second - 1)
	}
	return crmem.Point{Time: t}, nil
}

// at returns the store as it was after a point, in RAM.
func (c *app) at(s *crmem.Store, p crmem.Point) (*crmem.Store, error) {
	sn, err := s.At(p)
	if errors.Is(err, crmem.ErrNotFound) && p.Seq > c.timeline(s, "", 0).end {
		return nil, noChange(s, p.Seq)
	}
	if errors.Is(err, crmem.ErrNotFound) {
		return nil, missingFrom(s, errNoPoint, "the history begins after "+p.String(), "run crabmem log --limit 0 to list the changes")
	}
	if err != nil {
		return nil, err
	}
	then := crmem.New(&crmem.Options{FS: c.fs, Now: c.now})
	return then, then.Replace(sn)
}

// errNoPoint is the error for a point that the history does not contain.
var errNoPoint = fmt.Errorf("no such point of the history: %w", crmem.ErrNotFound)

// missingFrom returns the error for an entry or a point that the history lacks.
func missingFrom(s *crmem.Store, cause error, message, fix string) error {
	return &errtable.Error{Kind: "not_found", HTTP: http.StatusNotFound, Exit: errtable.ExitNotFound, Path: s.Path(), Err: cause, Message: message, Fix: fix}
}

// noChange returns the error for an unknown change.
func noChange(s *crmem.Store, seq uint64) error {
	return missingFrom(s, errNoPoint, "the history has no change "+strconv.FormatUint(seq, 10), "run crabmem log to list the changes")
}

// noHistory returns the error for an entry without changes in the history.
func noHistory(s *crmem.Store, name string) error {
	return missingFrom(s, crmem.ErrNotFound, "the history has no change of "+display.Quoted(name),
		"run crabmem show "+errtable.ShellWord(name)+" to print the present text")
}

// entryAt returns the entry of a name at a point. If another entry or no entry had
// the name, entryAt returns the present entry of the name as it was.
func (c *app) entryAt(s *crmem.Store, name string, p crmem.Point) (crmem.Entry, error) {
	then, err := c.at(s, p)
	if err != nil {
		return crmem.Entry{}, err
	}
	e, err := op.FindEntry(then, name)
	if !errors.Is(err, crmem.ErrNotFound) {
		return e, err
	}
	if now, err := op.FindEntry(s, name); err == nil {
		if e := entryByID(then, now.ID); e.ID != 0 {
			return e, nil
		}
	}
	return crmem.Entry{}, missingFrom(s, err, "no entry "+display.Quoted(name)+" at "+p.String(), "run crabmem log "+errtable.ShellWord(name)+" to list its changes")
}
