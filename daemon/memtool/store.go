// Package memtool defines the operations on a memory once, for the commands, the
// daemon, the tools of its agents, and the MCP server. [Store] is a memory that
// this process or the daemon has open.
package memtool

import (
	"context"
	"errors"
	"slices"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/recall"
	"crabmem/crmem/tree"
)

// Store is a memory: a store that this process has open, or one that the daemon
// has open. With both, errors.Is holds for the same errors of crmem.
type Store interface {
	// Path returns the path of the store's file.
	Path() string
	// Read calls f with the current entries. f must not use them after it returns.
	Read(f func(*crmem.Store) error) error
	// Update applies the operations that plan returns, all or none, and returns
	// the entries that they wrote, as crmem.Store.Do does. If an entry that they
	// change is not as plan read it, nothing is written and plan is called again.
	// After many such calls the error is crmem.ErrStale.
	Update(ctx context.Context, plan func(*crmem.Store) ([]crmem.Op, error)) ([]crmem.Entry, error)
	// Remember creates or replaces a note, and reports the replaced content, as
	// crmem.Store.Overwrite does.
	Remember(ctx context.Context, o crmem.Remember) (Remembered, error)
	// Undo restores the entry of a change to its state before the change, as
	// crmem.Store.Undo does. It returns the entry before and after the write; an ID
	// of 0 is a missing entry.
	Undo(ctx context.Context, seq uint64) (before, after crmem.Entry, err error)
	// Purge removes the entry of a name, and its texts from every file of the store,
	// as the function Purge does.
	Purge(ctx context.Context, name string, archives bool) (Purged, error)
	// Redact removes the content of the entry with an ID after a change, as
	// crmem.Store.Redact does.
	Redact(ctx context.Context, id, seq uint64) (deleted []string, err error)
	// Prune removes the operations of the history that are older than a time, as
	// crmem.Store.Prune does. It returns the number of freed bytes.
	Prune(ctx context.Context, before time.Time) (freed int64, err error)
	// Recall searches the entries, as package recall does.
	Recall(ctx context.Context, q crmem.Query, o recall.Options) (*recall.Answer, error)
	// Checkpoint writes the log into the snapshot.
	Checkpoint(ctx context.Context) (Checkpointed, error)
	// Load reads a Markdown tree, as tree.Load does.
	Load(ctx context.Context, dir string, o *tree.LoadOptions) (tree.LoadReport, error)
	Close() error
}

// Checkpointed is the result of a checkpoint, and the JSON of the command.
type Checkpointed struct {
	Entries  int   `json:"entries"`
	Folded   int   `json:"folded"` // operations
	Snapshot int64 `json:"snapshot_bytes"`
}

// MaxTries is the number of times that Update calls plan.
const MaxTries = 100

// Local returns a store of this process as a Store. Close closes it. Each batch
// begins with first, such as a [crmem.By]. Load ignores first.
func Local(s *crmem.Store, first ...crmem.Op) Store { return local{s, slices.Clip(first)} }

type local struct {
	s     *crmem.Store
	first []crmem.Op
}

func (l local) Path() string                          { return l.s.Path() }
func (l local) Read(f func(*crmem.Store) error) error { return f(l.s) }
func (l local) Close() error                          { return l.s.Close() }

func (l local) Update(ctx context.Context, plan func(*crmem.Store) ([]crmem.Op, error)) ([]crmem.Entry, error) {
	for try := 1; ; try++ {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		version := l.s.Version()
		ops, err := plan(l.s)
		for i := 0; i < len(ops) && err == nil; i++ {
			err = ops[i].Validate()
		}
		if err != nil || len(ops) == 0 {
			return nil, err
		}
		ops = slices.Concat(l.first, Conditions(l.s, ops), ops)
		if l.s.Version() == version { // so plan read the entries that Conditions read
			after, err := l.s.Do(ops...)
			if !errors.Is(err, crmem.ErrStale) {
				return after, err
			}
		}
		if try == MaxTries {
			return nil, crmem.ErrStale
		}
	}
}

func (l local) Remember(_ context.Context, o crmem.Remember) (Remembered, error) {
	e, before, err := l.s.Overwrite(o, l.first...)
	if err != nil {
		return Remembered{}, err
	}
	return Replaced(e, before), nil
}

func (l local) Undo(_ context.Context, seq uint64) (before, after crmem.Entry, err error) {
	c, err := l.s.Undo(seq, l.first...)
	return c.Before, c.After, err
}

func (l local) Purge(_ context.Context, name string, archives bool) (Purged, error) {
	return Purge(l.s, name, archives, l.first...)
}

func (l local) Redact(_ context.Context, id, seq uint64) ([]string, error) {
	return l.s.Redact(id, seq)
}

func (l local) Prune(_ context.Context, before time.Time) (int64, error) { return l.s.Prune(before) }

func (l local) Recall(ctx context.Context, q crmem.Query, o recall.Options) (*recall.Answer, error) {
	return recall.Search(ctx, l.s, q, o)
}

func (l local) Checkpoint(context.Context) (Checkpointed, error) {
	before := l.s.Stats()
	if err := l.s.Checkpoint(); err != nil {
		return Checkpointed{}, err
	}
	after := l.s.Stats()
	return Checkpointed{after.Entries, before.LogOps, after.SnapshotBytes}, nil
}

func (l local) Load(_ context.Context, dir string, o *tree.LoadOptions) (tree.LoadReport, error) {
	return tree.Load(l.s, dir, o)
}

// Changes reports whether an operation can change an entry: it is no
// [crmem.Unchanged] and no [crmem.By].
func Changes(op crmem.Op) bool {
	switch op.(type) {
	case crmem.Unchanged, crmem.By:
		return false
	}
	return true
}

// Conditions returns a [crmem.Unchanged] for each entry of s that the operations
// change, and for each name that they add. Add, Remember, and Rename refuse or change an
// entry with a canonically equivalent name; Restore ignores it.
func Conditions(s *crmem.Store, ops []crmem.Op) []crmem.Op {
	var list []crmem.Op
	seen := make(map[string]bool)
	add := func(name string, adds, exact bool) {
		if seen[name] {
			return
		}
		seen[name] = true
		old, err := s.Get(name)
		switch {
		case err == nil && (old.Name == name || !exact && crmem.SameName(old.Name, name)):
			list = append(list, crmem.Unchanged{Entry: old})
		case adds:
			list = append(list, crmem.Unchanged{Entry: crmem.Entry{Name: name}})
		}
	}
	for _, op := range ops {
		if !Changes(op) {
			continue
		}
		_, e := Change(op)
		switch op := op.(type) {
		case crmem.Add, crmem.Remember:
			add(e.Name, true, false)
		case crmem.Restore:
			add(e.Name, true, true)
		case crmem.Rename:
			add(op.Name, false, true)
			add(op.To, true, false)
		default:
			add(e.Name, false, true)
		}
	}
	return list
}
