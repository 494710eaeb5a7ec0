package crmem

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestOwnCopyWithoutName removes the log of a writer that then cannot look for a
// free name for the copy of its state. The error says so and names no copy.
func TestOwnCopyWithoutName(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, m.Remove("/m.db-wal"))
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "lstat" && strings.HasPrefix(c.Name, "/m.db"+ownSuffix) {
			return syscall.EIO
		}
		return nil
	}
	err := s.Apply(Add{Name: "b"})
	if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "could not be saved: lstat /m.db.own-") {
		t.Errorf("write: %v", err)
	}
}

// TestKeepLogOfInvalidSnapshot repairs with a base that is not a snapshot.
func TestKeepLogOfInvalidSnapshot(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, errors.Join(s.Apply(Add{Name: "a"}), s.Close()))
	m.WriteFile("/base", []byte("text"), 0o600)
	_, err := Repair("/m.db", &RepairOptions{FS: m, KeepLog: "/base"})
	if !errors.Is(err, ErrFormat) || !strings.HasPrefix(err.Error(), "/base: offset 0: magic: ") {
		t.Errorf("%v", err)
	}
}

// TestLimitOfLockText reads lock files of 64 KiB and of one byte more, which
// count as empty.
func TestLimitOfLockText(t *testing.T) {
	for _, c := range []struct {
		size int
		read bool
	}{{1 << 16, true}, {1<<16 + 1, false}} {
		m := faultfs.NewMem()
		h := vfs.LockHolder{PID: 7, Boot: m.BootID(), Clean: -1, Logs: []uint64{9}}
		h.Socket = strings.Repeat("x", c.size-len(h.Text()))
		m.WriteFile("/m.db-lock", []byte(h.Text()), 0o600)
		var warnings []string
		o := &Options{FS: m, ReadOnly: true, Warn: func(line string) { warnings = append(warnings, line) }}
		noErr(t, opened(t, "/m.db", o, 0).Close())
		if (len(warnings) == 1) != c.read {
			t.Errorf("%d bytes, no store: warnings %q", c.size, warnings)
		}
		db := encodedStore(t, 2, "a")
		m.WriteFile("/m.db", db, 0o600)
		m.WriteFile("/m.db-wal", logOf(db, 1, func(w *format.LogWriter, b []byte) []byte {
			return w.Append(b, format.FrameRemove, w.End, "\x01\x00\x00\x00\x00\x00\x00\x00")
		}), 0o600)
		r, err := Check(m, "/m.db", 0)
		noErr(t, err)
		if got := slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Kind == "foreign" }); got != c.read {
			t.Errorf("%d bytes, another log: %+v", c.size, r.Problems)
		}
	}
}

// TestLimitOfIdentity reads identity files of 1 KiB and of one byte more.
func TestLimitOfIdentity(t *testing.T) {
	for size, want := range map[int]string{
		1 << 10:   "/m.db-id: offset 0: identity: invalid identity or checksum",
		1<<10 + 1: "not a valid store: /m.db-id: 1025 bytes, more than the limit of 1024",
	} {
		m := faultfs.NewMem()
		m.WriteFile("/m.db-id", make([]byte, size), 0o600)
		if _, err := readIdentity(m, "/m.db"); errorText(err) != want || !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestSearchOfFailedIndex searches twice after the build of the index failed.
func TestSearchOfFailedIndex(t *testing.T) {
	s := New(nil)
	for _, building := range []bool{false, true} {
		ix := &index{ready: make(chan struct{}), err: errClosed, building: building}
		close(ix.ready)
		s.ix[analysis.Standard] = ix
		for range 2 {
			if _, err := s.Search(t.Context(), Query{Text: "a"}); !errors.Is(err, errClosed) {
				t.Errorf("building %v: %v", building, err)
			}
			if !s.mu.TryLock() {
				t.Fatalf("building %v: the search holds the lock", building)
			}
			s.mu.Unlock()
		}
	}
	if _, err := s.Search(t.Context(), Query{Analyzer: 2}); errorText(err) != fmt.Sprintf("invalid: %v", analysis.Analyzer(2)) {
		t.Errorf("analyzer 2: %v", err)
	}
}
