package op

import (
	"context"
	"errors"
	"slices"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/fusion"
	"crabmem/crmem/vfs"
	"crabmem/sessionlog"
)

// Store is what operations on a store run on: the open store, and who asks. It is a
// [Memory] of this process.
type Store struct {
	*crmem.Store
	As    Identity // who asks
	By    crmem.By // who makes the changes; the zero value: as the options of the store say
	Guard Guard    // of the texts that changes write

	// Semantic is how a search uses the embedding model. nil: no model.
	Semantic *fusion.Request
	// Messages searches messages. nil: there are no sessions.
	Messages MessageSearcher
	// Now returns the time for ages in a search. nil: time.Now.
	Now func() time.Time
	// Sessions lists the sessions whose titles the caller may read. nil: none.
	Sessions func() ([]sessionlog.Info, error)
	// NoHistory reports that the store keeps no history.
	NoHistory bool
	// FS has the store's file. nil: vfs.OS.
	FS vfs.FS
	// Purged, if set, is called after texts were removed permanently.
	Purged func() error
}

// A Memory is a store that this process has open, or one that the daemon has open. With
// both, errors.Is holds for the same errors of crmem.
type Memory interface {
	Caller
	// Path returns the path of the store's file.
	Path() string
	// Read calls f with the current entries. f must not use them after it returns.
	Read(f func(*crmem.Store) error) error
	// Update applies the operations that plan returns, all or none, and returns
	// the entries that they wrote, as crmem.Store.Do does. If an entry that they
	// change is not as plan read it, nothing is written and plan is called again.
	// After many such calls the error is crmem.ErrStale.
	Update(ctx context.Context, plan func(*crmem.Store) ([]crmem.Op, error)) ([]crmem.Entry, error)
	Close() error
}

// MaxTries is the number of times that Update calls plan.
const MaxTries = 100

// Read is a method of [Memory].
func (s Store) Read(f func(*crmem.Store) error) error { return f(s.Store) }

// Call is a method of [Caller].
func (s Store) Call(ctx context.Context, row *Row, in, out any, part func() error) error {
	return Local{s}.Call(ctx, row, in, out, part)
}

// by returns the operation that records who makes a change, if that is set.
func (s Store) by() []crmem.Op {
	if s.By == (crmem.By{}) {
		return nil
	}
	return []crmem.Op{s.By}
}

func (s Store) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// purged ends an operation that removed texts permanently.
func (s Store) purged() error {
	if s.Purged == nil {
		return nil
	}
	return s.Purged()
}

// Update is a method of [Memory].
func (s Store) Update(ctx context.Context, plan func(*crmem.Store) ([]crmem.Op, error)) ([]crmem.Entry, error) {
	for try := 1; ; try++ {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		version := s.Version()
		ops, err := plan(s.Store)
		if err == nil {
			ops, err = s.Guard.Ops(s.Store, ops)
		}
		for i := 0; i < len(ops) && err == nil; i++ {
			err = ops[i].Validate()
		}
		if err != nil || len(ops) == 0 {
			return nil, err
		}
		ops = slices.Concat(s.by(), Conditions(s.Store, ops), ops)
		if s.Version() == version { // so plan read the entries that Conditions read
			after, err := s.Do(ops...)
			if !errors.Is(err, crmem.ErrStale) {
				return after, err
			}
		}
		if try == MaxTries {
			return nil, crmem.ErrStale
		}
	}
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
		switch op := op.(type) {
		case crmem.Add:
			add(op.Name, true, false)
		case crmem.Remember:
			add(op.Name, true, false)
		case crmem.Restore:
			add(op.Entry.Name, true, true)
		case crmem.Rename:
			add(op.Name, false, true)
			add(op.To, true, false)
		case crmem.Update:
			add(op.Name, false, true)
		case crmem.Alias:
			add(op.Name, false, true)
		case crmem.Remove:
			add(op.Name, false, true)
		}
	}
	return list
}
