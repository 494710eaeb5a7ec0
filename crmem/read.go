package crmem

import (
	"cmp"
	"iter"
	"slices"

	"crabmem/crmem/internal/format"
)

// Options returns the options of the store, with the defaults filled in.
func (s *Store) Options() Options { return s.opts }

// Path returns the file's resolved path; "" for a store in RAM.
func (s *Store) Path() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.path
}

// Len returns the number of entries.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.t.live
}

// Version returns a number that changes when the entries change. It is not on
// disk.
func (s *Store) Version() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version
}

// NextID returns the ID that the next new entry gets.
func (s *Store) NextID() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.nextID
}

// Get returns the entry of a name. If there is none, it returns the entry with
// the name as an alias, with a canonically equivalent name, or with a canonically
// equivalent alias, in this order. Errors: [ErrNotFound]; *[AmbiguousError] if several
// entries have the alias or an equivalent one.
func (s *Store) Get(name string) (e Entry, err error) {
	if e, err = s.find(name); err == nil && s.opts.CountReads {
		s.countReads([]Hit{{Entry: e}})
	}
	return e, err
}

func (s *Store) find(name string) (Entry, error) { return s.findBy(name, (*table).resolve) }

// findBy returns the entry that resolve finds.
func (s *Store) findBy(name string, resolve resolver) (Entry, error) {
	for {
		e, err := s.get(name, resolve)
		again, lerr := s.mended()
		if !again || lerr != nil {
			return e, cmp.Or(lerr, err)
		}
	}
}

// A resolver returns the record of the entry that a name means, or the ids of several
// entries that it may mean.
type resolver func(t *table, name string) (r format.Record, owners []uint64)

func (s *Store) get(name string, resolve resolver) (Entry, error) {
	s.mu.RLock()
	if s.t.owners != nil || s.t.byName(name) != "" {
		defer s.mu.RUnlock()
		return s.meaning(name, resolve)
	}
	s.mu.RUnlock()
	// The first lookup of an alias builds the map of aliases.
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meaning(name, resolve)
}

// meaning returns the entry that a name means. The caller holds mu, for writing if the
// map of aliases is not built.
func (s *Store) meaning(name string, resolve resolver) (Entry, error) {
	r, owners := resolve(&s.t, name)
	switch {
	case r != "":
		return entryOf(r), nil
	case len(owners) == 0:
		return Entry{}, &nameError{ErrNotFound, name, ""}
	}
	e := &AmbiguousError{Alias: name}
	for _, id := range owners {
		if r := s.t.byID(id); r != "" {
			e.Owners = append(e.Owners, r.Name())
		}
	}
	return Entry{}, e
}

// resolve returns the record of the entry that a name means, as [Store.Get] does. If
// several entries have the alias or an equivalent one, it returns their ids, ascending.
// Without the map of aliases, it builds the map.
func (t *table) resolve(name string) (r format.Record, owners []uint64) {
	if r := t.byName(name); r != "" {
		return r, nil
	}
	ids := t.alias(name)
	if len(ids) == 0 {
		ids = t.equivalentNames(name)
	}
	if len(ids) == 0 {
		ids = t.equivalentAliases(name)
	}
	if len(ids) == 1 {
		return t.byID(ids[0]), nil
	}
	return "", ids
}

// All returns the entries, ascending by ID, as they are when the call is made.
func (s *Store) All() iter.Seq[Entry] {
	if !s.loaded() {
		return func(func(Entry) bool) {}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return entries(slices.Clone(s.t.recs))
}

// Snapshot returns a copy of the present state.
func (s *Store) Snapshot() *Snapshot {
	s.loaded()
	return s.snapshot()
}

// snapshot is Snapshot of a store that is loaded.
func (s *Store) snapshot() *Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sn := &Snapshot{NextID: s.nextID}
	sn.t.init(s.t.live)
	for _, r := range s.t.recs {
		if r.enc != "" {
			sn.t.append(r.enc)
		}
	}
	return sn
}

// Equal reports whether two snapshots have the same entries and next ID.
func (sn *Snapshot) Equal(other *Snapshot) bool {
	return sn.NextID == other.NextID && slices.EqualFunc(sn.t.recs, other.t.recs, func(a, b rec) bool { return a.enc == b.enc })
}

// Stats describes the size of a store.
type Stats struct {
	Entries       int      `json:"entries"`
	Notes         int      `json:"notes"`
	Archives      int      `json:"archives"`
	Aliases       int      `json:"aliases"`
	NextID        uint64   `json:"next_id"`
	ContentBytes  int64    `json:"content_bytes"`
	SnapshotBytes int64    `json:"snapshot_bytes"`  // of the file
	LogBytes      int64    `json:"log_bytes"`       // of the log, its header included
	LogOps        int      `json:"log_ops"`         // operations not yet in the file
	Oldest        UnixTime `json:"oldest,omitzero"` // created_at; 0 when empty
	Newest        UnixTime `json:"newest,omitzero"`
}

// Stats returns the present figures. It does not wait for a write.
func (s *Store) Stats() Stats {
	s.sizes.Lock()
	st := s.onDisk
	s.sizes.Unlock()
	st.NextID = s.NextID()
	for e := range s.All() {
		st.Entries++
		switch e.Kind {
		case Note:
			st.Notes++
		case Archive:
			st.Archives++
		}
		st.Aliases += len(e.Aliases)
		st.ContentBytes += int64(len(e.Content))
		if st.Entries == 1 || e.CreatedAt < st.Oldest {
			st.Oldest = e.CreatedAt
		}
		st.Newest = max(st.Newest, e.CreatedAt)
	}
	return st
}
