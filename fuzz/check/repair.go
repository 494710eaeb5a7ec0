package check

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/refdec"
)

// expectedRepair returns the state that Repair must restore, or nil if it is
// ambiguous. If a reader accepts the log, this is the reader's state. Otherwise it
// is the snapshot and all writes before the fault.
func (v *Verdict) expectedRepair(db, wal []byte) *refdec.Store {
	switch {
	case v.Kind == "format" && !v.Version || v.Ops:
		return nil
	case v.Store != nil:
		return v.Store
	}
	s, err := refdec.Snapshot(db)
	if err != nil || v.Offset < 48 {
		return s
	}
	if l, err := refdec.ReadLog(wal); err == nil && slices.ContainsFunc(l.Frames, func(f refdec.Frame) bool {
		return f.Type == 4 && f.Offset >= v.Offset
	}) {
		return nil // a checkpoint after the fault may identify the snapshot
	}
	l, err := refdec.ReadLog(wal[:v.Offset])
	if err != nil {
		return s
	}
	s, _, _, _ = refdec.Recover(db, wal[:l.Good])
	return s
}

// repair repairs and verifies the store. It checks that every byte was recovered
// or quarantined.
func (v *Verdict) repair(m *faultfs.Mem, db, wal []byte) ([]crmem.Entry, error) {
	o := &crmem.RepairOptions{FS: m}
	rep, err := crmem.Repair(Path, o)
	if v.Ops {
		if !errors.Is(err, crmem.ErrForeign) {
			return nil, fmt.Errorf("repair of a mismatched log without an option: error %v, want ErrForeign", err)
		}
		o.KeepDB = true
		rep, err = crmem.Repair(Path, o)
	}
	if v.Version {
		log, rerr := vfs.ReadFile(m, walPath, 1<<30)
		if !errors.Is(err, crmem.ErrFormat) || rerr != nil || !bytes.Equal(log, wal) {
			return nil, fmt.Errorf("repair of a log of another version without an option: error %v, %d bytes of the log, %v", err, len(log), rerr)
		}
		o.KeepDB = true
		rep, err = crmem.Repair(Path, o)
	}
	if errors.Is(err, crmem.ErrNewer) { // a changed bit can be a kind of a newer program
		o.QuarantineNewer = true
		rep, err = crmem.Repair(Path, o)
	}
	if err != nil && v.Kind == "format" && errors.Is(err, crmem.ErrFormat) {
		// The file contains no entry and must be unchanged.
		if b, rerr := vfs.ReadFile(m, Path, 1<<30); rerr != nil || !bytes.Equal(b, db) {
			return nil, fmt.Errorf("repair failed but changed the file (%v)", rerr)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	left := map[string][]byte{Path: db, walPath: wal}
	for _, f := range rep.Files {
		b, known := left[f.File]
		if !known || f.Bytes != int64(len(b)) || f.Recovered+f.Aside != f.Bytes || f.Recovered < 0 || f.Aside < 0 {
			return nil, fmt.Errorf("repair reports %+v for %d bytes", f, len(b))
		}
		// Repair quarantines a complete snapshot, but only the unrecovered bytes of a
		// log.
		if f.File == walPath {
			if err := completeWrites(b[:f.Recovered]); err != nil {
				return nil, err
			}
			b = b[f.Recovered:]
		}
		kept, err := vfs.ReadFile(m, f.Kept, 1<<30)
		if err != nil || !bytes.Equal(kept, b) {
			return nil, fmt.Errorf("repair quarantined %d bytes in %q (%v), want %d", len(kept), f.Kept, err, len(b))
		}
		delete(left, f.File)
	}
	if v.Kind == "whole" && len(rep.Files) != 0 {
		return nil, fmt.Errorf("repair of a valid store quarantined %+v", rep.Files)
	}
	if v.Kind != "whole" && len(rep.Files) == 0 {
		return nil, fmt.Errorf("repair of a store that is %s quarantined no file", v.Kind)
	}
	checked, err := crmem.Check(m, Path, 0)
	if err != nil || len(checked.Problems) != 0 {
		return nil, fmt.Errorf("after the repair: %v, %+v", err, checked)
	}
	s, err := crmem.Open(Path, &crmem.Options{FS: m})
	if err != nil {
		return nil, fmt.Errorf("open after the repair: %w", err)
	}
	all := slices.Collect(s.All())
	if rep.Entries != len(all) || checked.Entries != len(all) {
		return nil, fmt.Errorf("%d entries; repair reports %d, check %d", len(all), rep.Entries, checked.Entries)
	}
	return all, s.Close()
}

// completeWrites returns an error if the recovered part of a log does not end at
// the end of a write.
func completeWrites(wal []byte) error {
	if len(wal) == 0 {
		return nil
	}
	l, err := refdec.ReadLog(wal)
	if err != nil || l.Verdict != "clean" {
		return fmt.Errorf("repair recovered %d bytes of the log, which end inside a write (%v)", len(wal), err)
	}
	return nil
}
