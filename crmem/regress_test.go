package crmem

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// Each test here was a bug.

func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened opens a store and checks its number of entries.
func opened(t *testing.T, path string, o *Options, want int) *Store {
	t.Helper()
	s, err := Open(path, o)
	noErr(t, err)
	if s.Len() != want {
		t.Fatalf("%d entries, want %d", s.Len(), want)
	}
	return s
}

// TestRestoreOfAnAddedID restores, in a batch on an empty store, the id that an
// Add of the same batch was given.
func TestRestoreOfAnAddedID(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "b"}, Restore{Entry{ID: 1, Name: "c"}}))
	noErr(t, s.Close())
	opened(t, "/m.db", &Options{FS: m}, 2)
}

// TestGetDuringReplace is for the race detector: a Get that built the map of
// aliases could find it missing afterwards, and build another map while other
// goroutines read it.
func TestGetDuringReplace(t *testing.T) {
	sn, err := NewSnapshot(2, []Entry{{ID: 1, Name: "a", Aliases: []string{"x"}}})
	noErr(t, err)
	s := New(nil)
	noErr(t, s.Replace(sn))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if e, err := s.Get("x"); err != nil || e.Name != "a" {
					t.Errorf("%v, %v", e, err)
					return
				}
			}
		})
	}
	for range 1000 {
		noErr(t, s.Replace(sn))
	}
	close(done)
	wg.Wait()
}

// TestPathDuringFirstWrite is for the race detector: the first write resolves
// the path again, since it creates the parents.
func TestPathDuringFirstWrite(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "a", "b", "m.db"), nil, 0)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 1000 {
			s.Path()
		}
	})
	noErr(t, s.Apply(Add{Name: "a"}))
	wg.Wait()
	noErr(t, s.Close())
}

// TestRemoveWithUnknownOutcomeOnFullDisk fails the sync of a remove with ENOSPC: the
// result must be outcome unknown, not "not applied".
func TestRemoveWithUnknownOutcomeOnFullDisk(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "datasync" {
			return syscall.ENOSPC
		}
		return nil
	}
	if err := s.Apply(Remove{"a"}); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrStopped) {
		t.Error(err)
	}
}

// TestAdopt opens a store before its file exists and writes to it after another
// process created it. The index of the empty store must be rebuilt.
func TestAdopt(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m}, 0)
	find := func() int {
		t.Helper()
		r, err := s.Search(context.Background(), Query{Text: "apple"})
		noErr(t, err)
		return len(r.Hits)
	}
	if n := find(); n != 0 {
		t.Fatal(n)
	}
	other := opened(t, "/m.db", &Options{FS: m}, 0)
	noErr(t, other.Apply(Add{Name: "a", Content: "apple"}))
	noErr(t, other.Close())
	noErr(t, s.Apply(Add{Name: "b", Content: "apple"}))
	if n := find(); n != 2 {
		t.Errorf("%d hits, want 2", n)
	}
	noErr(t, s.Close())
}

// TestAdoptOfDamage is TestAdopt with a file that cannot be opened: the refused
// write must not change what a reader sees.
func TestAdoptOfDamage(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m}, 0)
	other := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, other.Apply(Add{Name: "a"}))
	noErr(t, other.Checkpoint())
	noErr(t, other.Apply(Add{Name: "b"}))
	noErr(t, other.Apply(Add{Name: "c"}))
	noErr(t, other.Close())
	b, err := vfs.ReadFile(m, "/m.db-wal", 1<<20)
	noErr(t, err)
	b[format.LogHeaderSize+format.FrameHeader] ^= 1
	m.WriteFile("/m.db-wal", b, 0o600)
	if err := s.Apply(Add{Name: "d"}); !errors.Is(err, ErrFormat) || !errors.Is(err, ErrNotApplied) {
		t.Error(err)
	}
	if s.Len() != 0 || s.NextID() != 1 {
		t.Errorf("%d entries, next id %d", s.Len(), s.NextID())
	}
}

// TestBatchBeyondTheLog applies a batch that leaves a small store and a log
// that Open refuses to read.
func TestBatchBeyondTheLog(t *testing.T) {
	race.Skip(t)
	m := faultfs.NewMem()
	o := &Options{FS: m, MaxBytes: MaxContent + 1<<10, LogLimit: 1 << 30, CheckpointOnClose: CheckpointNever}
	s := opened(t, "/m.db", o, 0)
	content := strings.Repeat("x", MaxContent)
	batch := []Op{Add{Name: "a"}}
	for len(batch) <= 10 {
		batch = append(batch, Update{Name: "a", Content: content})
	}
	if err := s.Apply(batch...); !errors.Is(err, ErrFull) {
		t.Errorf("ten times 8 MiB: %v", err)
	}
	noErr(t, s.Apply(batch[:8]...))
	noErr(t, s.Close())
	noErr(t, opened(t, "/m.db", o, 1).Close())
}

// TestSnapshotOfAnotherProgram writes to a store whose snapshot another program
// replaced without a sync. A power cut must not separate the snapshot from the
// log.
func TestSnapshotOfAnotherProgram(t *testing.T) {
	sn, err := NewSnapshot(6, []Entry{{ID: 5, Name: "foreign"}})
	noErr(t, err)
	b, err := sn.AppendBinary(nil)
	noErr(t, err)
	for _, rebound := range []bool{false, true} { // with a log of another snapshot there
		m := faultfs.NewMem()
		if rebound {
			s := opened(t, "/m.db", &Options{FS: m}, 0)
			noErr(t, s.Apply(Add{Name: "gone"}))
			noErr(t, s.Close())
		}
		f, err := m.OpenFile("/m.db", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		noErr(t, err)
		noErr(t, writeAll(f, b))
		noErr(t, f.Close())
		s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 1)
		noErr(t, s.Apply(Add{Name: "b"}))
		opened(t, "/m.db", &Options{FS: m.Crash()}, 2)

		// The sync fails: the next process must not believe the page cache.
		m = m.Kill()
		f, err = m.OpenFile("/m.db", os.O_WRONLY|os.O_TRUNC, 0o600)
		noErr(t, err)
		noErr(t, writeAll(f, b))
		noErr(t, f.Close())
		noErr(t, errors.Join(m.Remove("/m.db-wal"), m.Remove("/m.db-wal.held")))
		m.WriteFile("/m.db-lock", nil, 0o600)
		s = opened(t, "/m.db", &Options{FS: m}, 1)
		m.Hook = func(c faultfs.Call) error {
			if c.Op == "sync" && c.Name == "/m.db" {
				return syscall.EIO
			}
			return nil
		}
		if err := s.Apply(Add{Name: "b"}); !errors.Is(err, ErrNotApplied) {
			t.Error(err)
		}
		m = m.Kill()
		s = opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 1)
		noErr(t, s.Apply(Add{Name: "b"}))
		opened(t, "/m.db", &Options{FS: m.Crash()}, 2)
	}
}

// TestFirstWriteOnAFullDisk fails each call in turn with ENOSPC until a first
// write succeeds. A write that returned "not applied" must succeed once there
// is space.
func TestFirstWriteOnAFullDisk(t *testing.T) {
	for n := 1; ; n++ {
		m := faultfs.NewMem()
		s := opened(t, "/d/m.db", &Options{FS: m}, 0)
		seen, failed := 0, ""
		m.Hook = func(c faultfs.Call) error {
			switch c.Op {
			case "create", "write", "mkdir", "sync":
				if seen++; seen == n {
					failed = c.Op + " " + c.Name
					return syscall.ENOSPC
				}
			}
			return nil
		}
		err := s.Apply(Add{Name: "a"})
		m.Hook = nil
		if err != nil {
			if !errors.Is(err, ErrNotApplied) {
				t.Errorf("%s: %v", failed, err)
			}
			if err := s.Apply(Add{Name: "a"}); err != nil {
				t.Errorf("%s, and again with space: %v", failed, err)
			}
		}
		opened(t, "/d/m.db", &Options{FS: m.Crash()}, 1)
		noErr(t, s.Close())
		if failed == "" {
			if n < 8 {
				t.Errorf("only %d calls", n)
			}
			return
		}
	}
}

// TestFirstWriteAfterAnother fails a first write, and lets another program
// create the store before it is tried again.
func TestFirstWriteAfterAnother(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m}, 0)
	m.Hook = func(c faultfs.Call) error {
		if strings.HasPrefix(c.Name, "/.m.db") {
			return syscall.ENOSPC
		}
		return nil
	}
	if err := s.Apply(Add{Name: "a"}); !errors.Is(err, ErrNotApplied) {
		t.Error(err)
	}
	m.Hook = nil
	sn, err := NewSnapshot(6, []Entry{{ID: 5, Name: "foreign"}})
	noErr(t, err)
	b, err := sn.AppendBinary(nil)
	noErr(t, err)
	f, err := m.OpenFile("/m.db", os.O_WRONLY|os.O_CREATE, 0o600) // and not synced
	noErr(t, err)
	noErr(t, writeAll(f, b))
	noErr(t, f.Close())
	noErr(t, s.Apply(Add{Name: "a"}))
	opened(t, "/m.db", &Options{FS: m.Crash()}, 2)
	noErr(t, s.Close())
	opened(t, "/m.db", &Options{FS: m}, 2)
}

// TestRepairOfAMissingSnapshot gives repair a copy of the snapshot that the log
// extends.
func TestRepairOfAMissingSnapshot(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, s.Checkpoint())
	b, err := vfs.ReadFile(m, "/m.db", 1<<20)
	noErr(t, err)
	noErr(t, s.Apply(Add{Name: "b"}))
	noErr(t, s.Close())
	m.WriteFile("/copy.db", b, 0o600)
	noErr(t, m.Remove("/m.db"))
	if _, err := Repair("/m.db", &RepairOptions{FS: m}); !errors.Is(err, ErrForeign) {
		t.Errorf("without the copy: %v", err)
	}
	r, err := Repair("/m.db", &RepairOptions{FS: m, KeepLog: "/copy.db"})
	noErr(t, err)
	if r.Entries != 2 {
		t.Errorf("%+v", r)
	}
	opened(t, "/m.db", &Options{FS: m.Crash()}, 2)
}

// logOf makes a log of the frames that put appends.
func logOf(base []byte, seq uint64, put func(w *format.LogWriter, b []byte) []byte) []byte {
	h := format.LogHeader{Salt: 7, Base: format.DigestOf(base), Seq: seq, Store: format.ID{1}, Epoch: format.ID{2}}
	b := h.Append(nil)
	w := h.Writer()
	return put(&w, b)
}

// TestSalvageOfAShortFrame repairs a corrupt snapshot whose log has a put that
// is too short for an id.
func TestSalvageOfAShortFrame(t *testing.T) {
	sn, err := NewSnapshot(6, []Entry{{ID: 5, Name: "five"}})
	noErr(t, err)
	db, err := sn.AppendBinary(nil)
	noErr(t, err)
	m := faultfs.NewMem()
	m.WriteFile("/m.db-wal", logOf(db, 1, func(w *format.LogWriter, b []byte) []byte {
		return w.Append(b, format.FramePut, format.LogHeaderSize, "abc")
	}), 0o600)
	db[format.OffFlags] = 1
	m.WriteFile("/m.db", db, 0o600)
	r, err := Repair("/m.db", &RepairOptions{FS: m})
	noErr(t, err)
	if r.Entries != 1 {
		t.Errorf("%+v", r)
	}
}

// TestSequenceNumbers opens logs with impossible sequence numbers: one that
// would overflow, and a checkpoint of later operations, which replay would
// silently skip.
func TestSequenceNumbers(t *testing.T) {
	sn, err := NewSnapshot(6, []Entry{{ID: 5, Name: "five"}})
	noErr(t, err)
	db, err := sn.AppendBinary(nil)
	noErr(t, err)
	later := Entry{ID: 6, Name: "later"}
	dig := format.DigestOf(db)
	for offset, wal := range map[int64][]byte{
		format.LogOffSeq: logOf(db, 1<<64-1, func(w *format.LogWriter, b []byte) []byte { return b }),
		format.LogHeaderSize: logOf(db, 1, func(w *format.LogWriter, b []byte) []byte {
			b = w.Append(b, format.FrameCheckpoint, format.LogHeaderSize, format.Record(binary.LittleEndian.AppendUint64(dig.Append(nil), 1)))
			return w.Append(b, format.FramePut, format.LogHeaderSize, recordOf(&later))
		}),
	} {
		m := faultfs.NewMem()
		m.WriteFile("/m.db", db, 0o600)
		m.WriteFile("/m.db-wal", wal, 0o600)
		_, err := Open("/m.db", &Options{FS: m})
		var f *FormatError
		if !errors.As(err, &f) || f.Offset != offset {
			t.Errorf("want a refusal at %d: %v", offset, err)
		}
	}
}

// TestReplaceErrors fails each step of a Replace. An error before the commit point
// leaves the store unchanged. After it, the store is new even if the checkpoint
// fails.
func TestReplaceErrors(t *testing.T) {
	sn, err := NewSnapshot(6, []Entry{{ID: 5, Name: "new"}})
	noErr(t, err)
	for _, c := range []struct {
		op, name string
		want     error
	}{
		{"create", "/.m.db", nil}, {"write", "/.m.db", nil}, {"sync", "/.m.db", nil}, {"read", "/.m.db", nil}, {"rename", "/m.db", nil}, {"syncdir", "/", nil},
		{"write", "/m.db-wal", ErrUnknown}, {"datasync", "/m.db-wal", ErrUnknown}, {"", "", ErrForeign},
	} {
		m := faultfs.NewMem()
		s := opened(t, "/m.db", &Options{FS: m}, 0)
		noErr(t, s.Apply(Add{Name: "old"}))
		m.Hook = func(k faultfs.Call) error {
			if k.Op == c.op && strings.HasPrefix(k.Name, c.name) {
				return syscall.EIO
			}
			return nil
		}
		if c.want == ErrForeign {
			m.WriteFile("/m.db", []byte("of another program"), 0o600)
		}
		err := s.Replace(sn)
		if !errors.Is(err, c.want) || errors.Is(err, ErrUnknown) != (c.want != nil) {
			t.Errorf("%s %s: %v, want %v", c.op, c.name, err, c.want)
		}
		name := "old"
		if c.want == nil {
			name = "new"
		}
		if _, err := s.Get(name); err != nil {
			t.Errorf("%s %s: %v", c.op, c.name, err)
		}
	}
}

// TestCheckpointAfterAFailure stops the log while the snapshot is written: the
// checkpoint must return an error.
func TestCheckpointAfterAFailure(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	m.Hook = func(c faultfs.Call) error {
		if c.Op != "create" {
			return nil
		}
		m.Hook = func(c faultfs.Call) error {
			if c.Op == "datasync" {
				return syscall.EIO
			}
			return nil
		}
		if err := s.Apply(Add{Name: "b"}); !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
		return nil
	}
	if err := s.Checkpoint(); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
}

// TestCloseWaitsForCheckpoint closes a store while its snapshot is written: no
// file is touched after Close, when the lock is another's.
func TestCloseWaitsForCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := faultfs.NewMem()
		s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
		noErr(t, s.Apply(Add{Name: "a"}))
		closed := make(chan error, 1)
		m.Hook = func(c faultfs.Call) error {
			if c.Op != "create" {
				return nil
			}
			m.Hook = nil
			go func() { closed <- s.Close() }()
			if synctest.Wait(); len(closed) > 0 || s.ctx.Err() == nil {
				t.Error("Close does not wait for the checkpoint")
			}
			return nil
		}
		noErr(t, s.Checkpoint())
		noErr(t, <-closed)
	})
}

// TestManyAliasesOfALargeEntry opens a log of 88 KB that copied 16 GB: a small
// frame for each change of the aliases of a large entry.
func TestManyAliasesOfALargeEntry(t *testing.T) {
	sn, err := NewSnapshot(8, []Entry{
		{ID: 5, Name: "large", Content: strings.Repeat("x", MaxContent)}, {ID: 6, Name: "gone"}, {ID: 7, Name: "changed"}})
	noErr(t, err)
	db, err := sn.AppendBinary(nil)
	noErr(t, err)
	list := func(id uint64, alias string) format.Record {
		b := binary.LittleEndian.AppendUint64(nil, id)
		return format.Record(format.AppendString(binary.LittleEndian.AppendUint32(b, 1), alias))
	}
	wal := logOf(db, 1, func(w *format.LogWriter, b []byte) []byte {
		for _, id := range []uint64{6, 7} {
			b = w.Append(b, format.FrameAlias, format.LogHeaderSize, list(id, "old"))
		}
		b = w.Append(b, format.FrameRemove, format.LogHeaderSize, format.Record(binary.LittleEndian.AppendUint64(nil, 6)))
		changed := Entry{ID: 7, Name: "changed", Aliases: []string{"new"}}
		b = w.Append(b, format.FramePut, format.LogHeaderSize, recordOf(&changed))
		for range 2000 {
			b = w.Append(b, format.FrameAlias, format.LogHeaderSize, list(5, "first"))
		}
		return w.Append(b, format.FrameAlias, format.LogHeaderSize, list(5, "last"))
	})
	m := faultfs.NewMem()
	m.WriteFile("/m.db", db, 0o600)
	m.WriteFile("/m.db-wal", wal, 0o600)
	start := time.Now()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := opened(t, "/m.db", &Options{FS: m, ReadOnly: true}, 2)
	runtime.ReadMemStats(&after)
	gate.Time(t, "open", start, 3*time.Second)
	if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 {
		t.Errorf("open allocated %d MiB", n>>20)
	}
	for alias, want := range map[string]string{"last": "large", "new": "changed", "first": "", "old": ""} {
		if e, err := s.Get(alias); e.Name != want || want == "" && !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %q, %v", alias, e.Name, err)
		}
	}
}

// TestSweepKeepsFilesOfAnotherStore opens a store while another store, whose name is
// the same and a digit, replaces its snapshot.
func TestSweepKeepsFilesOfAnotherStore(t *testing.T) {
	m := faultfs.NewMem()
	two := opened(t, "/brain2", &Options{FS: m}, 0)
	noErr(t, two.Apply(Add{Name: "a"}))
	one := opened(t, "/brain", &Options{FS: m}, 0)
	noErr(t, one.Apply(Add{Name: "a"}))
	noErr(t, one.Close())
	for _, name := range []string{"/.brain7", "/.brain-wal7"} {
		m.WriteFile(name, []byte("left by a crash"), 0o600)
	}
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "rename" && c.Name == "/brain2" {
			m.Hook = nil
			noErr(t, opened(t, "/brain", &Options{FS: m}, 1).Close())
		}
		return nil
	}
	noErr(t, two.Checkpoint())
	for _, name := range []string{"/.brain7", "/.brain-wal7"} {
		if _, err := m.Lstat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was not removed: %v", name, err)
		}
	}
}

// TestLongCommand uses a command that would make the lock file too long to
// read. The store must still open.
func TestLongCommand(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, Command: strings.Repeat("x", 1<<17)}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, s.Close())
	noErr(t, opened(t, "/m.db", &Options{FS: m}, 1).Close())
}

// TestQuarantineNamesTaken opens a store with a torn log, and has a file of
// terabytes and a directory where the copy of the torn bytes would go.
func TestQuarantineNamesTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	s := opened(t, path, &Options{CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, s.Close())
	wal, err := os.ReadFile(path + walSuffix)
	noErr(t, err)
	noErr(t, os.WriteFile(path+walSuffix, append(wal, "torn"...), 0o600))
	noErr(t, os.WriteFile(path+tornSuffix+"2", nil, 0o600))
	if err := os.Truncate(path+tornSuffix+"2", 1<<42); err != nil {
		t.Skipf("no files of terabytes here: %v", err)
	}
	noErr(t, os.Mkdir(path+tornSuffix+"2.1", 0o700))
	noErr(t, opened(t, path, nil, 1).Close())
	if b, err := os.ReadFile(path + tornSuffix + "2.2"); string(b) != "torn" {
		t.Errorf("kept %q, %v", b, err)
	}
}

// TestImportInDescendingOrder restores entries with the highest id first, which
// took the square of their number, in memory and in recovery.
func TestImportInDescendingOrder(t *testing.T) {
	race.Skip(t)
	const n = 40000
	var ops []Op
	for i := range n {
		ops = append(ops, Restore{Entry{ID: uint64(n - i), Name: strconv.Itoa(n - i)}})
	}
	for i := range n { // some go again, and the table is made smaller in between
		if i%4 > 0 {
			ops = append(ops, Remove{strconv.Itoa(n - i)})
		}
	}
	ops = append(ops, Update{Name: "4", Content: "four"}, Add{Name: "new"})
	m := faultfs.NewMem()
	o := &Options{FS: m, CheckpointOnClose: CheckpointNever}
	s := opened(t, "/m.db", o, 0)
	check := func() {
		t.Helper()
		last := uint64(0)
		for e := range s.All() {
			if got, err := s.Get(e.Name); e.ID <= last || err != nil || !got.Equal(e) {
				t.Fatalf("%+v after %d: %+v, %v", e, last, got, err)
			}
			last = e.ID
		}
		if e, err := s.Get("4"); s.Len() != n/4+1 || last != n+1 || err != nil || e.Content != "four" {
			t.Errorf("%d entries, last %d, %+v, %v", s.Len(), last, e, err)
		}
	}
	start := time.Now()
	noErr(t, s.Apply(ops...))
	check()
	noErr(t, s.Close())
	s = opened(t, "/m.db", o, n/4+1)
	check()
	noErr(t, s.Close())
	gate.Time(t, "import", start, 20*time.Second)
}

// TestSearchOfKinds asks for no kinds, and for one that there is not.
func TestSearchOfKinds(t *testing.T) {
	s := New(nil)
	noErr(t, s.Apply(Add{Name: "a", Content: "apple"}))
	r, err := s.Search(context.Background(), Query{Text: "apple", Kinds: []Kind{}})
	if err != nil || len(r.Hits) != 1 || r.Searched != 1 {
		t.Errorf("no kinds: %+v, %v", r, err)
	}
	if r, err := s.Search(context.Background(), Query{Text: "apple", Kinds: []Kind{9}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("kind 9: %+v, %v", r, err)
	}
}

// TestRepairOfALinkedStore repairs a torn store that has two names.
func TestRepairOfALinkedStore(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, s.Close())
	wal, err := vfs.ReadFile(m, "/m.db-wal", 1<<20)
	noErr(t, err)
	m.WriteFile("/m.db-wal", append(wal, "torn"...), 0o600)
	noErr(t, m.Link("/m.db", "/other.db"))
	if r, err := Repair("/m.db", &RepairOptions{FS: m}); err == nil {
		t.Errorf("%+v", r)
	}
}

// TestFirstOpenDuringCreate has another process create the store between the
// look for the snapshot and the look for its log: that is no log without a
// snapshot.
func TestFirstOpenDuringCreate(t *testing.T) {
	for _, o := range []Options{{}, {ReadOnly: true}, {MustExist: true}, {ReadOnly: true, MustExist: true}} {
		m := faultfs.NewMem()
		m.Hook = func(c faultfs.Call) error {
			if c.Op != "lstat" || c.Name != "/m.db-wal" {
				return nil
			}
			m.Hook = nil
			s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
			noErr(t, s.Apply(Add{Name: "a"}))
			noErr(t, s.Close())
			return nil
		}
		o.FS = m
		opened(t, "/m.db", &o, 1)
		if m.Hook != nil {
			t.Error("no call looked for the log")
		}
	}
}

// TestBuffersOfRemovedRecordsAreReleased opens a large store and removes or replaces all entries
// but a small one. The store must release the buffers of its files.
func TestBuffersOfRemovedRecordsAreReleased(t *testing.T) {
	race.Skip(t)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n = 32
	long := strings.Repeat("x", 2<<20)
	for _, from := range []string{"snapshot", "log", "RAM"} {
		t.Run(from, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "memory.db")
			o := &Options{LogLimit: 1 << 40, CheckpointOnClose: CheckpointNever}
			s, err := Open(path, o)
			noErr(t, err)
			defer func() { noErr(t, s.Close()) }()
			before := heap()
			_, err = s.Remember("small", "short", []string{"one", "two"})
			noErr(t, err)
			for i := range n {
				_, err := s.Remember("n"+strconv.Itoa(i), long, []string{"all"})
				noErr(t, err)
			}
			if from == "snapshot" {
				noErr(t, s.Checkpoint())
			}
			if from != "RAM" {
				noErr(t, s.Close())
				s, err = Open(path, o)
				noErr(t, err)
			}
			if _, err := s.Get("two"); err != nil {
				t.Fatal(err)
			}
			_, err = s.Remember("n0", "short now", nil)
			noErr(t, err)
			for i := range n - 1 {
				noErr(t, s.Forget("n"+strconv.Itoa(i+1)))
			}
			kept := heap() - before
			t.Logf("%d KiB of %d MiB", kept>>10, 2*n)
			if kept > 1<<20 {
				t.Errorf("%d KiB are kept of a store of %d bytes", kept>>10, s.Stats().ContentBytes)
			}
			for _, name := range []string{"small", "one", "all"} {
				if e, err := s.Get(name); err != nil || !strings.HasPrefix(e.Content, "short") {
					t.Errorf("%s: %.20q %v", name, e.Content, err)
				}
			}
		})
	}
}
