package crmem

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
)

// encodedStore returns the snapshot bytes of a store with the given names.
func encodedStore(t *testing.T, nextID uint64, names ...string) []byte {
	t.Helper()
	var entries []Entry
	for i, name := range names {
		entries = append(entries, Entry{ID: uint64(i + 1), Name: name})
	}
	sn, err := NewSnapshot(nextID, entries)
	noErr(t, err)
	b, err := sn.AppendBinary(nil)
	noErr(t, err)
	return b
}

// countReads counts the opens of /m.db in m.
func countReads(m *faultfs.Mem) *int {
	n := new(int)
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "open" && c.Name == "/m.db" {
			*n++
		}
		return nil
	}
	return n
}

// TestCheckReadsValidStoreOnce counts how often Check reads the snapshot:
// once if it is valid, twice if it is corrupt, up to 20 times if log and
// snapshot differ.
func TestCheckReadsValidStoreOnce(t *testing.T) {
	db := encodedStore(t, 2, "a")
	corrupt := slices.Clone(db)
	corrupt[format.OffFlags] = 1
	log := logOf(encodedStore(t, 1), 1, func(_ *format.LogWriter, b []byte) []byte { return b })
	for _, c := range []struct {
		what  string
		db    []byte
		log   []byte
		reads int
		want  error
	}{
		{"valid", db, nil, 1, nil},
		{"corrupt", corrupt, nil, 2, ErrFormat},
		{"mismatched", db, log, 20, ErrForeign},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := faultfs.NewMem()
			m.WriteFile("/m.db", c.db, 0o600)
			if c.log != nil {
				m.WriteFile("/m.db-wal", c.log, 0o600)
			}
			reads := countReads(m)
			start := time.Now()
			r, err := Check(m, "/m.db", 0)
			noErr(t, err)
			if !errors.Is(r.Err(), c.want) || *reads != c.reads {
				t.Errorf("%s: %d reads, want %d; %v", c.what, *reads, c.reads, r.Err())
			}
			if took := time.Since(start); took > 100*time.Millisecond || c.reads == 20 && took < 50*time.Millisecond {
				t.Errorf("%s: took %v", c.what, took)
			}
		})
	}
}

// TestCheckReturnsSystemErrors fails a read of each file.
func TestCheckReturnsSystemErrors(t *testing.T) {
	for _, name := range []string{"/m.db", "/m.db-wal"} {
		m := faultfs.NewMem()
		s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
		noErr(t, s.Apply(Add{Name: "a"}))
		noErr(t, s.Close())
		m.Hook = func(c faultfs.Call) error {
			if c.Op == "read" && c.Name == name {
				return syscall.EIO
			}
			return nil
		}
		if r, err := Check(m, "/m.db", 0); r != nil || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestCheckOfMissingStore distinguishes a missing store from a log without a
// snapshot.
func TestCheckOfMissingStore(t *testing.T) {
	for _, c := range []struct {
		log    bool
		want   error
		remedy string
	}{
		{false, ErrNoStore, "set the store's file with --db, CRABMEM_DB, --home, or CRABTALK_HOME"},
		{true, ErrForeign, "crabmem repair"},
	} {
		m := faultfs.NewMem()
		if c.log {
			m.WriteFile("/m.db-wal", []byte("log"), 0o600)
		}
		r, err := Check(m, "/m.db", 0)
		noErr(t, err)
		if len(r.Problems) != 1 || !errors.Is(r.Err(), c.want) {
			t.Fatalf("log %t: %+v", c.log, r.Problems)
		}
		p := r.Problems[0]
		if p.Kind != "missing" || p.File != "/m.db" || p.Offset != 0 || p.Length != 0 || !strings.Contains(p.Remedy, c.remedy) {
			t.Errorf("log %t: %+v", c.log, p)
		}
	}
}

// TestCheckRemedyOfMismatchedLog checks the remedy with and without operations
// in the log.
func TestCheckRemedyOfMismatchedLog(t *testing.T) {
	db, other := encodedStore(t, 2, "a"), encodedStore(t, 1)
	put := format.Record(encodedStore(t, 2, "b")[format.HeaderSize:])
	for _, c := range []struct {
		ops    int
		remedy string
	}{
		{0, "run crabmem checkpoint to accept it"},
		{1, "crabmem repair --keep-db"},
		{2, "crabmem repair --keep-db"},
	} {
		m := faultfs.NewMem()
		m.WriteFile("/m.db", db, 0o600)
		m.WriteFile("/m.db-wal", logOf(other, 1, func(w *format.LogWriter, b []byte) []byte {
			for range c.ops {
				b = w.Append(b, format.FramePut, format.LogHeaderSize, put)
			}
			return b
		}), 0o600)
		r, err := check(m, "/m.db", "", 1<<20)
		noErr(t, err)
		i := slices.IndexFunc(r.Problems, func(p Problem) bool { return p.Kind == "foreign" })
		if i < 0 || r.LogOps != c.ops {
			t.Fatalf("%d operations: %+v", c.ops, r)
		}
		p := r.Problems[i]
		if p.Offset != 0 || p.Length != int64(len(db)) || !strings.Contains(p.Remedy, c.remedy) {
			t.Errorf("%d operations: %+v", c.ops, p)
		}
	}
}

// TestReaderWaitsForMatchingFiles opens a snapshot and the log of another
// snapshot. The matching snapshot appears after 50 ms of a fake clock.
func TestReaderWaitsForMatchingFiles(t *testing.T) {
	db, other := encodedStore(t, 2, "a"), encodedStore(t, 1)
	log := logOf(db, 1, func(_ *format.LogWriter, b []byte) []byte { return b })
	for _, appears := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := faultfs.NewMem()
			m.WriteFile("/m.db", other, 0o600)
			m.WriteFile("/m.db-wal", log, 0o600)
			go func() {
				// Between two attempts: WriteFile is not atomic, and a part of
				// a snapshot is refused at once.
				time.Sleep(52 * time.Millisecond)
				if appears {
					m.WriteFile("/m.db", db, 0o600)
				}
			}()
			start, want, wait := time.Now(), 0, 95*time.Millisecond // 19 pauses of 5 ms
			if appears {
				want, wait = 1, 55*time.Millisecond
			}
			opened(t, "/m.db", &Options{FS: m, ReadOnly: true}, want)
			if took := time.Since(start); took != wait {
				t.Errorf("opened after %v, want %v", took, wait)
			}
		})
	}
}

// TestCheckFigures checks the figures for a snapshot with a log.
func TestCheckFigures(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}, Add{Name: "b"}))
	noErr(t, s.Checkpoint())
	noErr(t, s.Apply(Add{Name: "c"}))
	noErr(t, s.Close())
	r, err := Check(m, "/m.db", 0)
	noErr(t, err)
	db, wal := int64(len(memBytes(t, m, "/m.db"))), int64(len(memBytes(t, m, "/m.db-wal")))
	if r.SnapshotBytes != db || r.LogBytes != wal || r.LogOps != 1 || r.Entries != 3 || len(r.Problems) > 0 {
		t.Errorf("%+v, want a snapshot of %d bytes and a log of %d with 1 operation, 3 entries", r, db, wal)
	}
}

// TestCheckOfInvalidOperation checks a log with an operation that does not fit the
// snapshot. The problem names the log and the offset.
func TestCheckOfInvalidOperation(t *testing.T) {
	m := faultfs.NewMem()
	db := encodedStore(t, 2, "a")
	m.WriteFile("/m.db", db, 0o600)
	m.WriteFile("/m.db-wal", logOf(db, 1, func(w *format.LogWriter, b []byte) []byte {
		return w.Append(b, format.FrameRename, w.End, "\x07\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00x")
	}), 0o600)
	r, err := Check(m, "/m.db", 0)
	noErr(t, err)
	i := slices.IndexFunc(r.Problems, func(p Problem) bool { return p.Kind == "rot" })
	if i < 0 {
		t.Fatalf("%+v", r)
	}
	if p := r.Problems[i]; p.File != "/m.db-wal" || p.Offset != format.LogHeaderSize || !strings.HasPrefix(p.Message, "/m.db-wal: offset 112") || !strings.Contains(p.Message, "rename of entry 7, which does not exist") {
		t.Errorf("%+v", p)
	}
}
