// Package check compares package crmem with the independent decoder. It accepts
// any bytes as snapshot and log.
package check

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/refdec"
)

// Path is the path of the stores of this package.
const Path = "/d/memory.db"

const walPath = Path + "-wal"

// Verdict is the expected state of a store.
type Verdict struct {
	Kind   string        // "whole" for a valid store, or the kind of a report: torn, rot, format, foreign
	File   string        // file with the problem, or ""
	Offset int64         // offset of the problem in File
	Store  *refdec.Store // state of a reader; nil if Open must fail
	Ops    bool          // the log of another snapshot contains operations: Repair requires an option
	Refuse bool          // Open for writing must fail
	Torn   []byte        // torn tail, which a writer truncates and quarantines
	Purge  bool          // the log contains a purge, which removes quarantine files

	Version bool // the log has another version: Repair changes nothing without KeepDB
}

// Expect returns the verdict of the independent decoder. A nil wal means no
// log.
func Expect(db, wal []byte) Verdict {
	s, err := refdec.Snapshot(db)
	if f, bad := errors.AsType[*refdec.Fault](err); bad {
		return Verdict{Kind: "format", File: Path, Offset: f.Offset, Refuse: true}
	}
	if wal == nil {
		return Verdict{Kind: "whole", Store: s}
	}
	s, verdict, _, err := refdec.Recover(db, wal)
	if f, bad := errors.AsType[*refdec.Fault](err); bad {
		v := Verdict{Kind: "rot", File: walPath, Offset: f.Offset, Refuse: true}
		if f.Class == "version" {
			v.Kind, v.Version = "format", true
		}
		if f.Offset >= 48 { // the log before the fault may also extend another snapshot
			_, verdict, _, _ := refdec.Recover(db, wal[:f.Offset])
			v.Ops = verdict == "foreign"
		}
		return v
	}
	l, err := refdec.ReadLog(wal)
	if err != nil {
		panic("check: ReadLog fails after Recover succeeded: " + err.Error())
	}
	var tail []byte
	if l.Verdict == "torn" {
		tail = wal[l.Good:]
	}
	switch verdict {
	case "foreign":
		return Verdict{Kind: "foreign", File: Path, Store: s, Ops: true, Refuse: true}
	case "foreign-empty":
		return Verdict{Kind: "foreign", File: Path, Store: s, Refuse: l.Verdict == "rotten", Torn: tail}
	case "torn":
		return Verdict{Kind: "torn", File: walPath, Offset: l.Good, Store: s, Torn: tail, Purge: slices.ContainsFunc(l.Frames, func(f refdec.Frame) bool { return f.Type == 5 })}
	case "rotten":
		return Verdict{Kind: "rot", File: walPath, Offset: l.Good, Store: s, Refuse: true}
	}
	return Verdict{Kind: "whole", Store: s}
}

// NewDisk returns a file system with the files. A nil db or wal means no file. It also
// contains a stub of the reserve file, so that the store does not write a large one.
func NewDisk(db, wal []byte) *faultfs.Mem {
	m := faultfs.NewMem()
	if err := m.Mkdir("/d", 0o700); err != nil {
		panic("check: " + err.Error())
	}
	if db != nil {
		m.WriteFile(Path, db, 0o600)
	}
	if wal != nil {
		m.WriteFile(walPath, wal, 0o600)
	}
	m.WriteFile(Path+"-reserve", []byte{0}, 0o600)
	return m
}

// CompareEntries compares entries with the entries of the independent decoder.
func CompareEntries(got []crmem.Entry, want *refdec.Store) error {
	if len(got) != len(want.Entries) {
		return fmt.Errorf("%d entries, the independent decoder has %d", len(got), len(want.Entries))
	}
	for i, e := range want.Entries {
		w := crmem.Entry{ID: e.ID, Name: e.Name, Kind: crmem.Kind(e.Kind), CreatedAt: crmem.UnixTime(e.CreatedAt), Content: e.Content, Aliases: e.Aliases}
		if !got[i].Equal(w) {
			return fmt.Errorf("entry %d is %+v, the independent decoder has %+v", i, got[i], w)
		}
	}
	return nil
}

// Store checks, reads, and repairs a store. It returns the expected verdict and
// the entries after the repair.
func Store(db, wal []byte) (v Verdict, repaired []crmem.Entry, err error) {
	v = Expect(db, wal)
	m := NewDisk(db, wal)
	before := m.Hash()
	if err := v.check(m); err != nil {
		return v, nil, err
	}
	if err := v.read(m); err != nil {
		return v, nil, fmt.Errorf("open read-only: %w", err)
	}
	if m.Hash() != before {
		return v, nil, errors.New("a reader changed the files")
	}
	repaired, err = v.repair(m, db, wal)
	if err != nil {
		return v, nil, err
	}
	if want := v.expectedRepair(db, wal); want != nil {
		if err := CompareEntries(repaired, want); err != nil {
			return v, nil, fmt.Errorf("after the repair: %w", err)
		}
	}
	return v, repaired, nil
}

func (v *Verdict) check(m *faultfs.Mem) error {
	r, err := crmem.Check(m, Path, 0)
	if err != nil {
		return err
	}
	if v.Kind == "whole" {
		if len(r.Problems) != 0 {
			return fmt.Errorf("check reports %+v for a valid store", r.Problems)
		}
		return nil
	}
	// A log can have several faults: for example, also a torn tail.
	found := false
	for _, p := range r.Problems {
		found = found || p.Kind == v.Kind && p.File == v.File && p.Offset == v.Offset
		if p.Message == "" || p.Remedy == "" {
			return fmt.Errorf("check reports %+v without message or remedy", p)
		}
	}
	if !found {
		return fmt.Errorf("check reports %+v, want %s at %d of %s", r.Problems, v.Kind, v.Offset, v.File)
	}
	if (r.Err() == nil) != (v.Kind == "torn" && len(r.Problems) == 1) {
		return fmt.Errorf("method Err returns %v for %+v", r.Err(), r.Problems)
	}
	return nil
}

func (v *Verdict) read(m *faultfs.Mem) error {
	s, err := crmem.Open(Path, &crmem.Options{FS: m, ReadOnly: true})
	if v.Store == nil {
		if !errors.Is(err, crmem.ErrFormat) {
			return fmt.Errorf("error %v for a store that is %s", err, v.Kind)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := CompareEntries(slices.Collect(s.All()), v.Store); err != nil {
		return err
	}
	return s.Close()
}

// Recovery checks an open for writing after a crash. The open fails for a corrupt
// store and does not change its files. It truncates and quarantines a torn tail.
// The state must equal the state of the independent decoder. This also holds after
// a second crash, and for the snapshot after Close.
func Recovery(db, wal []byte) (v Verdict, err error) {
	v = Expect(db, wal)
	m := NewDisk(db, wal)
	s, err := crmem.Open(Path, &crmem.Options{FS: m})
	if v.Refuse != (err != nil) {
		return v, fmt.Errorf("open: error %v for a store that is %s", err, v.Kind)
	}
	if v.Refuse {
		if !errors.Is(err, crmem.ErrFormat) && !errors.Is(err, crmem.ErrForeign) {
			return v, fmt.Errorf("open: %w", err)
		}
		return v, checkUnchanged(m, db, wal)
	}
	// The process is killed before it writes.
	if err := v.checkReopen(m.Kill()); err != nil {
		return v, fmt.Errorf("after a crash: %w", err)
	}
	if err := v.state(s, m); err != nil {
		return v, err
	}
	return v, nil
}

func checkUnchanged(m *faultfs.Mem, db, wal []byte) error {
	for name, b := range map[string][]byte{Path: db, walPath: wal} {
		if b == nil {
			continue
		}
		if got, err := vfs.ReadFile(m, name, 1<<30); err != nil || !bytes.Equal(got, b) {
			return fmt.Errorf("a failed open changed %s (%v)", name, err)
		}
	}
	return nil
}

func (v *Verdict) checkReopen(m *faultfs.Mem) error {
	s, err := crmem.Open(Path, &crmem.Options{FS: m})
	if err != nil {
		return err
	}
	return v.state(s, m)
}

// state compares an open store with the expected state, adds an entry, closes the
// store, and checks the files.
func (v *Verdict) state(s *crmem.Store, m *faultfs.Mem) error {
	all := slices.Collect(s.All())
	if err := CompareEntries(all, v.Store); err != nil {
		return err
	}
	if s.NextID() != v.Store.NextID {
		return fmt.Errorf("next_id %d, the independent decoder has %d", s.NextID(), v.Store.NextID)
	}
	if v.Torn != nil {
		if err := kept(m, v.Torn, v.Purge); err != nil {
			return err
		}
	}
	const name = "written after the recovery"
	_, taken := s.Get(name)
	if taken != nil && s.NextID() < 1<<64-1 {
		if err := s.Apply(crmem.Add{Name: name, Content: "x"}); err != nil {
			return err
		}
		e, err := s.Get(name)
		if err != nil || e.ID != v.Store.NextID {
			return fmt.Errorf("get the new entry: %+v, %v", e, err)
		}
		all = append(all, e)
	}
	if err := s.Close(); err != nil {
		return err
	}
	b, err := vfs.ReadFile(m, Path, 1<<30)
	if err != nil {
		return err
	}
	sn, err := crmem.Decode(b)
	if err != nil {
		return err
	}
	if got := slices.Collect(sn.All()); !slices.EqualFunc(got, all, crmem.Entry.Equal) {
		return fmt.Errorf("the snapshot contains %+v, want %+v", got, all)
	}
	r, err := crmem.Check(m, Path, 0)
	if err == nil && len(r.Problems) != 0 {
		err = fmt.Errorf("check reports %+v", r.Problems)
	}
	return err
}

// kept returns an error unless there is exactly one quarantine file, with these
// bytes. After a purge there may be none.
func kept(m *faultfs.Mem, tail []byte, purged bool) error {
	list, err := m.ReadDir("/d")
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), "memory.db-wal.torn-") })
	for _, e := range list {
		b, err := vfs.ReadFile(m, "/d/"+e.Name(), 1<<30)
		if err != nil || !bytes.Equal(b, tail) {
			return fmt.Errorf("%s contains %x (%v), want %x", e.Name(), b, err, tail)
		}
	}
	if n := len(list); n != 1 && !(purged && n == 0) {
		return fmt.Errorf("%d quarantine files of torn bytes, want 1", n)
	}
	return nil
}
