package crmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestRepairOfLockedStore repairs a store that a writer holds.
func TestRepairOfLockedStore(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	if r, err := Repair("/m.db", &RepairOptions{FS: m}); r != nil || !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("%+v, %v", r, err)
	}
	noErr(t, s.Apply(Add{Name: "b"}))
	noErr(t, s.Close())
	opened(t, "/m.db", &Options{FS: m}, 2)
}

// tornStore returns a store whose log has two operations and a torn tail, and
// the offset of the torn tail.
func tornStore(t *testing.T) (*faultfs.Mem, int64) {
	t.Helper()
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, s.Apply(Add{Name: "b"}))
	noErr(t, s.Close())
	log, err := vfs.ReadFile(m, "/m.db-wal", 1<<20)
	noErr(t, err)
	m.WriteFile("/m.db-wal", append(log, "torn"...), 0o600)
	return m, int64(len(log))
}

// TestRepairNotesReason repairs a torn log. A note has the file, the offset
// and the reason.
func TestRepairNotesReason(t *testing.T) {
	m, end := tornStore(t)
	scan, err := format.ScanLog(memBytes(t, m, "/m.db-wal"))
	noErr(t, err)
	r, err := Repair("/m.db", &RepairOptions{FS: m})
	noErr(t, err)
	want := fmt.Sprintf("/m.db-wal: torn at offset %d: %s", end, scan.Why)
	if scan.Why == "" || len(r.Notes) != 2 || r.Notes[0] != want || r.Notes[1] != "the history has the log as /m.db-history/00000001.log" {
		t.Errorf("notes %q, want %q", r.Notes, want)
	}
	if len(r.Files) != 1 || r.Files[0].Recovered != end || r.Files[0].Aside != 4 || r.Entries != 2 {
		t.Errorf("%+v", r)
	}
}

func memBytes(t *testing.T, m *faultfs.Mem, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(m, name, 1<<20)
	noErr(t, err)
	return b
}

// TestRepairWithoutQuarantineChangesNothing repairs on a disk without space for
// the quarantine file of the log, with and without the snapshot.
func TestRepairWithoutQuarantineChangesNothing(t *testing.T) {
	for _, missing := range []bool{false, true} {
		m, end := tornStore(t)
		if missing {
			noErr(t, m.Remove("/m.db"))
		}
		m.Hook = func(c faultfs.Call) error {
			if c.Op == "create" && strings.HasPrefix(c.Name, "/.m.db-wal"+damagedSuffix) {
				return syscall.ENOSPC
			}
			return nil
		}
		if r, err := Repair("/m.db", &RepairOptions{FS: m}); r != nil || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("missing %t: %+v, %v", missing, r, err)
		}
		m.Hook = nil
		if log := memBytes(t, m, "/m.db-wal"); string(log[end:]) != "torn" {
			t.Errorf("missing %t: the log lost its tail", missing)
		}
		if _, err := m.Lstat("/m.db"); errors.Is(err, fs.ErrNotExist) != missing {
			t.Errorf("missing %t: then %v", missing, err)
		}
		r, err := Repair("/m.db", &RepairOptions{FS: m})
		if err != nil || r.Entries != 2 {
			t.Errorf("missing %t: with space: %+v, %v", missing, r, err)
		}
		noErr(t, opened(t, "/m.db", &Options{FS: m}, 2).Close())
	}
}

// TestSalvageKeepsNextID repairs a snapshot whose last entry is corrupt. A
// valid header provides the next ID, which is always above every recovered
// entry.
func TestSalvageKeepsNextID(t *testing.T) {
	for _, c := range []struct {
		header, want uint64
		valid        bool // the header counts as recovered
	}{
		{50, 50, true},
		{3, 3, true},
		{2, 3, false},
		{1, 3, false},
	} {
		m := faultfs.NewMem()
		db := encodedStore(t, 50, "a", "b", "c")
		binary.LittleEndian.PutUint64(db[format.OffNextID:], c.header)
		record := (len(db) - format.HeaderSize) / 3
		db[format.HeaderSize+2*record+format.OffKind] = 0xff
		m.WriteFile("/m.db", db, 0o600)
		r, err := Repair("/m.db", &RepairOptions{FS: m})
		noErr(t, err)
		recovered := int64(2 * record)
		if c.valid {
			recovered += format.HeaderSize
		}
		if len(r.Files) != 1 || r.Files[0].Recovered != recovered || r.Files[0].Aside != int64(len(db))-recovered {
			t.Errorf("next id %d in the header: %+v, want %d bytes recovered", c.header, r.Files, recovered)
		}
		s := opened(t, "/m.db", &Options{FS: m}, 2)
		if got := s.NextID(); got != c.want {
			t.Errorf("next id %d in the header: then %d, want %d", c.header, got, c.want)
		}
		noErr(t, s.Close())
	}
}

// TestRecoveredSnapshotMode recovers a store without a log that a process left
// open. The rewritten snapshot has the mode 0600.
func TestRecoveredSnapshotMode(t *testing.T) {
	m := faultfs.NewMem()
	db := encodedStore(t, 2, "a")
	m.WriteFile("/m.db", db, 0o644)
	m.WriteFile("/m.db-lock", []byte((&vfs.LockHolder{PID: 1, Boot: m.BootID(), Clean: -1}).Text()), 0o600)
	s := opened(t, "/m.db", &Options{FS: m}, 1)
	fi, err := m.Lstat("/m.db")
	noErr(t, err)
	if fi.Mode() != 0o600 || string(memBytes(t, m, "/m.db")) != string(db) {
		t.Errorf("mode %v, %d bytes", fi.Mode(), fi.Size())
	}
	noErr(t, s.Close())
}

// TestFilesOfStoreArePrivate checks the mode of every file that a store
// creates.
func TestFilesOfStoreArePrivate(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, s.Checkpoint())
	noErr(t, s.Apply(Add{Name: "b"}))
	noErr(t, s.Close())
	list, err := m.ReadDir("/")
	noErr(t, err)
	names := 0
	for _, e := range list {
		fi, err := e.Info()
		noErr(t, err)
		names++
		if want := map[bool]fs.FileMode{false: 0o600, true: fs.ModeDir | 0o700}[e.IsDir()]; fi.Mode() != want {
			t.Errorf("%s has the mode %v", e.Name(), fi.Mode())
		}
	}
	if names < 3 {
		t.Errorf("%d files", names)
	}
}

// TestRejoinOfShortFrames rejoins a log that extends another snapshot and has
// frames that are too short for an ID.
func TestRejoinOfShortFrames(t *testing.T) {
	m := faultfs.NewMem()
	m.WriteFile("/m.db", encodedStore(t, 3, "a", "b"), 0o600)
	m.WriteFile("/m.db-wal.held", logOf(encodedStore(t, 1), 1, func(w *format.LogWriter, b []byte) []byte {
		for _, typ := range []byte{format.FramePut, format.FrameAlias, format.FrameRemove, format.FramePurge, format.FramePurged, format.FrameRename} {
			b = w.Append(b, typ, format.LogHeaderSize, "1234567")
		}
		return w.Append(b, format.FramePut, format.LogHeaderSize, format.NewRecord(7, 0, format.KindNote, "c", "", nil))
	}), 0o600)
	r, err := Repair("/m.db", &RepairOptions{FS: m, Rejoin: true})
	noErr(t, err)
	const want = "/m.db-wal.held: added 1 entries, renamed 0 of them, skipped 6 operations"
	if r.Entries != 3 || !slices.Contains(r.Notes, want) {
		t.Errorf("%+v, want the note %q", r, want)
	}
	noErr(t, opened(t, "/m.db", &Options{FS: m}, 3).Close())
}

// TestRejoinSkipsOperationsOfSnapshot rejoins a log whose first operation is in
// the snapshot, and could not be replayed on it. The other log has an operation, too.
func TestRejoinSkipsOperationsOfSnapshot(t *testing.T) {
	m := faultfs.NewMem()
	next := encodedStore(t, 3, "a")
	m.WriteFile("/m.db", next, 0o600)
	m.WriteFile("/m.db-wal", logOf(next, 2, func(w *format.LogWriter, b []byte) []byte {
		return w.Append(b, format.FramePut, w.End, format.NewRecord(5, 0, format.KindNote, "d", "", nil))
	}), 0o600)
	m.WriteFile("/m.db-wal.held", logOf(encodedStore(t, 3, "a", "b"), 1, func(w *format.LogWriter, b []byte) []byte {
		b = w.Append(b, format.FrameRemove, w.End, format.Record(binary.LittleEndian.AppendUint64(nil, 2)))
		b = w.Append(b, format.FrameCheckpoint, w.End, format.Record(binary.LittleEndian.AppendUint64(format.DigestOf(next).Append(nil), 1)))
		return w.Append(b, format.FramePut, w.End, format.NewRecord(7, 0, format.KindNote, "c", "", nil))
	}), 0o600)
	r, err := Repair("/m.db", &RepairOptions{FS: m, Rejoin: true})
	noErr(t, err)
	if want := "/m.db-wal.held: added 1 operation"; r.Entries != 3 || !slices.Contains(r.Notes, want) {
		t.Errorf("%+v, want the note %q", r, want)
	}
	s := opened(t, "/m.db", &Options{FS: m}, 3)
	if e, err := s.Get("c"); e.ID != 7 || err != nil || s.NextID() != 8 {
		t.Errorf("%+v, %v, next ID %d", e, err, s.NextID())
	}
	noErr(t, s.Close())
}

// TestSalvageReservesIDsOfLog salvages a corrupt snapshot whose log puts an entry
// with the name of another one: its ID is not given again.
func TestSalvageReservesIDsOfLog(t *testing.T) {
	m := faultfs.NewMem()
	db := encodedStore(t, 3, "a", "b")
	log := logOf(db, 1, func(w *format.LogWriter, b []byte) []byte {
		return w.Append(b, format.FramePut, w.End, format.NewRecord(8, 0, format.KindNote, "a", "", nil))
	})
	db[format.OffFlags] = 1
	m.WriteFile("/m.db", db, 0o600)
	m.WriteFile("/m.db-wal", log, 0o600)
	r, err := Repair("/m.db", &RepairOptions{FS: m})
	noErr(t, err)
	if want := "1 operations of the log change entries that could not be read"; r.Entries != 2 || !slices.Contains(r.Notes, want) {
		t.Errorf("%+v, want the note %q", r, want)
	}
	s := opened(t, "/m.db", &Options{FS: m}, 2)
	if s.NextID() != 9 {
		t.Errorf("next ID %d, want 9", s.NextID())
	}
	noErr(t, s.Close())
}

// TestRejoinReportsRemovals rejoins a log that extends another snapshot and removes an
// entry. The repair keeps the entry, says so, and names the log after its last operation.
func TestRejoinReportsRemovals(t *testing.T) {
	m := faultfs.NewMem()
	m.WriteFile("/m.db", encodedStore(t, 3, "a", "b"), 0o600)
	m.WriteFile("/m.db-wal.held", logOf(encodedStore(t, 1), 1, func(w *format.LogWriter, b []byte) []byte {
		b = w.Append(b, format.FramePut, w.End, format.NewRecord(2, 0, format.KindNote, "b", "", nil))
		return w.Append(b, format.FrameRemove, w.End, format.Record(binary.LittleEndian.AppendUint64(nil, 1)))
	}), 0o600)
	r, err := Repair("/m.db", &RepairOptions{FS: m, Rejoin: true})
	noErr(t, err)
	const want = `/m.db-wal.held removes "a", but the store contains the entry: kept it`
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, want) || strings.Count(notes, "kept it") != 1 {
		t.Errorf("notes %q, want %q", r.Notes, want)
	}
	if !slices.ContainsFunc(r.Files, func(f RepairedFile) bool { return f.Kept == "/m.db-wal.rejoined-2" }) {
		t.Errorf("%+v", r.Files)
	}
	noErr(t, opened(t, "/m.db", &Options{FS: m}, 2).Close())
}

// TestRejoinRenamesConflicts rejoins a log with entries whose names have other entries in
// the store, one of them with the first free name, too.
func TestRejoinRenamesConflicts(t *testing.T) {
	m := faultfs.NewMem()
	m.WriteFile("/m.db", encodedStore(t, 4, "a", "b", "b (rejoined 1)"), 0o600)
	m.WriteFile("/m.db-wal.held", logOf(encodedStore(t, 1), 1, func(w *format.LogWriter, b []byte) []byte {
		b = w.Append(b, format.FramePut, w.End, format.NewRecord(1, 0, format.KindNote, "a", "of the log", nil))
		return w.Append(b, format.FramePut, w.End, format.NewRecord(9, 0, format.KindNote, "b", "of the log", nil))
	}), 0o600)
	_, err := Repair("/m.db", &RepairOptions{FS: m, Rejoin: true})
	noErr(t, err)
	s := opened(t, "/m.db", &Options{FS: m}, 5)
	for name, want := range map[string]string{"a": "", "b": "", "b (rejoined 1)": "", "a (rejoined 1)": "of the log", "b (rejoined 2)": "of the log"} {
		if e, err := s.Get(name); err != nil || e.Content != want {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	noErr(t, s.Close())
}

// TestRepairRemovesBatch repairs a log whose last batch has an operation that does
// not fit. The repair keeps the log before the batch.
func TestRepairRemovesBatch(t *testing.T) {
	m := faultfs.NewMem()
	db := encodedStore(t, 2, "a")
	m.WriteFile("/m.db", db, 0o600)
	start := int64(0)
	m.WriteFile("/m.db-wal", logOf(db, 1, func(w *format.LogWriter, b []byte) []byte {
		b = w.Append(b, format.FramePut, w.End, format.NewRecord(5, 0, format.KindNote, "b", "", nil))
		start = w.End
		b = w.Append(b, format.FramePut|format.FrameMore, start, format.NewRecord(6, 0, format.KindNote, "c", "", nil))
		return w.Append(b, format.FrameRename, start, "\x63\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00x")
	}), 0o600)
	r, err := Repair("/m.db", &RepairOptions{FS: m})
	noErr(t, err)
	if len(r.Files) != 1 || r.Files[0].Recovered != start || r.Entries != 2 {
		t.Errorf("%+v, want 2 entries and %d bytes of the log", r, start)
	}
	noErr(t, opened(t, "/m.db", &Options{FS: m}, 2).Close())
}

// TestLogOfAnotherBoot opens a store whose lock file names another log and another boot.
// The open warns and accepts the log.
func TestLogOfAnotherBoot(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, s.Close())
	m.WriteFile("/m.db-lock", []byte((&vfs.LockHolder{PID: 7, Boot: "another", Clean: 200, Logs: []uint64{7}}).Text()), 0o600)
	var warnings []string
	s = opened(t, "/m.db", &Options{FS: m, Warn: func(line string) { warnings = append(warnings, line) }}, 1)
	const want = "/m.db-wal is not the log that process 7 used last: normal after a power cut; otherwise another program restored or replaced the log"
	if !slices.Contains(warnings, want) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
	noErr(t, s.Close())
}

// TestCheckOfLongerSecondLink checks a store whose second link leads to a log with more
// operations.
func TestCheckOfLongerSecondLink(t *testing.T) {
	m := faultfs.NewMem()
	db := encodedStore(t, 2, "a")
	m.WriteFile("/m.db", db, 0o600)
	log := func(names ...string) []byte {
		return logOf(db, 1, func(w *format.LogWriter, b []byte) []byte {
			for i, name := range names {
				b = w.Append(b, format.FramePut, w.End, format.NewRecord(uint64(5+i), 0, format.KindNote, name, "", nil))
			}
			return b
		})
	}
	m.WriteFile("/m.db-wal", log("b"), 0o600)
	m.WriteFile("/m.db-wal.held", log("b", "c"), 0o600)
	r, err := Check(m, "/m.db", 0)
	noErr(t, err)
	const want = "run crabmem repair to use the log with all operations, or crabmem repair --rejoin to merge both logs"
	if len(r.Problems) != 1 {
		t.Fatalf("%+v", r)
	}
	if p := r.Problems[0]; p.Kind != "foreign" || p.File != "/m.db-wal.held" || p.Offset != 0 || p.Length != 0 || p.Remedy != want {
		t.Errorf("%+v", p)
	}
}
