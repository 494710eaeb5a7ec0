package crmem

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// Actor describes who made a change.
type Actor = format.Actor

// MaxActorField limits each [Actor] field, in bytes.
const MaxActorField = format.MaxActorField

// The clients of FORMAT.md, "Context".
const (
	ClientCLI    = "cli"
	ClientMCP    = "mcp"
	ClientWire   = "wire"
	ClientHTTP   = "http"
	ClientLoad   = "load"
	ClientImport = "import"
)

// ChangeType is what a change did to an entry.
type ChangeType string

const (
	ChangeAdd    ChangeType = "add"
	ChangeUpdate ChangeType = "update" // the content, and perhaps other fields except the name
	ChangeAlias  ChangeType = "alias"  // only the aliases
	ChangeRename ChangeType = "rename" // the name, and perhaps other fields
	ChangeRemove ChangeType = "remove"
)

// Point is a moment in a store's history: after the operation Seq or, if Seq is 0,
// after the last operation that is not later than Time.
type Point struct {
	Seq  uint64
	Time time.Time
}

func (p Point) String() string {
	if p.Seq > 0 {
		return "change " + strconv.FormatUint(p.Seq, 10)
	}
	return p.Time.Format(time.RFC3339)
}

// Change is a change of one entry, from the history or the log of a store.
type Change struct {
	Seq    uint64    // sequence number; 0 if another program changed the store's file
	Time   time.Time // effective time (FORMAT.md, H11); zero if unknown
	By     Actor
	Type   ChangeType
	Before Entry // ID 0 if the change created the entry
	After  Entry // ID 0 if the change removed the entry

	// When [Store.Redact] removed the content of Before or After; zero: it did not.
	BeforeRedacted, AfterRedacted time.Time
}

// Entry returns the entry after the change or, if the change removed it, before.
func (c *Change) Entry() *Entry {
	if c.After.ID == 0 {
		return &c.Before
	}
	return &c.After
}

// Changes returns every change of the store, oldest first, with the part of the
// history that exists. It reads the files, also while a writer uses them, and needs
// no lock. An error with a zero Change reports a damaged part; later changes
// follow. A store in RAM has no changes.
func (s *Store) Changes() iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		var shown place // of the last change that was yielded
		for try := 1; ; try++ {
			p, err := s.past()
			if err != nil {
				yield(Change{}, err)
				return
			}
			if p == nil {
				return
			}
			again := false
			w := walker{past: p, skip: shown}
			w.yield = func(c Change, err error) bool {
				if err != nil && try < maxReads && p.isStale() {
					again = true
					return false
				}
				if w.skip != (place{}) { // yielded before
					return true
				}
				if err == nil && c.Seq > 0 {
					shown = place{w.epoch, c.Seq}
				}
				return yield(c, err)
			}
			w.all()
			if again {
				continue
			}
			if w.skip != (place{}) && !w.done {
				yield(Change{}, fmt.Errorf("%s: another process changed the history after change %d was read: read it again", p.dir, shown.seq))
			}
			return
		}
	}
}

// maxReads is how often a history is read that changes meanwhile.
const maxReads = 20

// past reads the history. It returns nil without an error if the store has no
// files.
func (s *Store) past() (*past, error) {
	s.mu.RLock()
	path := s.path
	s.mu.RUnlock()
	if path == "" {
		return nil, nil
	}
	p, err := readPast(s.fs, path, s.opts.MaxBytes)
	if err != nil && s.NextID() == 1 && s.Len() == 0 {
		if absent, _ := s.absence(); absent {
			return nil, nil
		}
	}
	return p, err
}

// At returns the store as it was after a point.
//
// Errors: [ErrNotFound] if the history begins after the point or ends before it, and
// those of [Store.Changes].
func (s *Store) At(point Point) (*Snapshot, error) {
	for try := 1; ; try++ {
		p, err := s.past()
		if err != nil {
			return nil, err
		}
		if p == nil || len(p.links) == 0 {
			return nil, fmt.Errorf("%w: the store has no history", ErrNotFound)
		}
		sn, err := p.at(point)
		if err == nil || try == maxReads || !p.isStale() {
			return sn, err
		}
	}
}

// at is At for a history that was read.
func (p *past) at(point Point) (*Snapshot, error) {
	err := fmt.Errorf("%w: the history begins after %v", ErrNotFound, point)
	for i := len(p.links) - 1; i >= 0; i-- {
		w := walker{past: p, until: point}
		begins, berr := w.beginsBefore(i)
		if berr != nil || !begins {
			continue
		}
		if err = w.walk(i); err != nil {
			continue // an earlier base may lead to the point without the damaged part
		}
		if !w.done && w.applied < point.Seq {
			return nil, fmt.Errorf("%w: the history ends before %v", ErrNotFound, point)
		}
		w.t.sort()
		return &Snapshot{NextID: w.nextID, t: w.t}, nil
	}
	return nil, err
}

// changeOf returns the change between two records of an entry, of which one may be
// empty.
func changeOf(before, after format.Record) (c Change) {
	if before != "" {
		c.Before = entryOf(before)
	}
	if after != "" {
		c.After = entryOf(after)
	}
	switch {
	case before == "":
		c.Type = ChangeAdd
	case after == "":
		c.Type = ChangeRemove
	case c.Before.Name != c.After.Name:
		c.Type = ChangeRename
	case c.Before.Content == c.After.Content && c.Before.Kind == c.After.Kind && c.Before.CreatedAt == c.After.CreatedAt:
		c.Type = ChangeAlias
	default:
		c.Type = ChangeUpdate
	}
	return c
}

// Undo restores the entry of change seq to its state before the change, with its ID
// and its time. It returns the change that it made. first is as for [Store.Overwrite]. If
// the change belongs to a rename that also changed links, Undo takes back the rename and
// all links, or fails, and returns the change of the name.
//
// Errors: [ErrNotFound] if the history has no such change; [ErrStale] if the entry
// changed since; [ErrExists] if another entry has its name; those of
// [Store.Apply].
func (s *Store) Undo(seq uint64, first ...Op) (Change, error) {
	var found, group []Change // group: a change, and those of its rename
	for c, err := range s.Changes() {
		if err != nil || !c.relinksFor(group) {
			group = nil
		}
		if err != nil {
			continue
		}
		group = append(group, c)
		if c.Seq == seq || len(group) > 1 && len(found) > 0 && found[0].Seq == group[0].Seq {
			found = group // a later epoch may use the number again
		}
	}
	if len(found) == 0 || seq == 0 {
		return Change{}, fmt.Errorf("%w: the history has no change %d", ErrNotFound, seq)
	}
	ops := slices.Clip(first)
	for _, c := range found {
		if !c.BeforeRedacted.IsZero() {
			return Change{}, fmt.Errorf("%w: the text before change %d was redacted", ErrNotFound, c.Seq)
		}
		ops = append(ops, revert{c.After, c.Before})
	}
	if err := s.Apply(ops...); err != nil {
		return Change{}, err
	}
	return changeOf(recordIf(found[0].After), recordIf(found[0].Before)), nil
}

// relinksFor reports whether a change belongs to the rename that begins a group: it is the
// next one, of the same actor and time, and changes only the text between the brackets of
// links.
func (c *Change) relinksFor(group []Change) bool {
	if len(group) == 0 || group[0].Type != ChangeRename || c.Type != ChangeUpdate || c.Seq != group[len(group)-1].Seq+1 ||
		c.By != group[0].By || !c.Time.Equal(group[0].Time) || !slices.Equal(c.Before.Aliases, c.After.Aliases) {
		return false
	}
	without := func(content string) string { return metadata.Relink(content, func(string) string { return "" }) }
	return without(c.Before.Content) == without(c.After.Content)
}

// recordIf encodes e, or returns "" if e has no ID.
func recordIf(e Entry) format.Record {
	if e.ID == 0 {
		return ""
	}
	return recordOf(&e)
}
