package crmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
)

// TestRepairReportsFailedCalls repairs files and fails each call in turn. The repair
// returns or notes the error if the call changes a file that the store needs. Otherwise
// its result is the same. A second repair then recovers the same entries.
func TestRepairReportsFailedCalls(t *testing.T) {
	put := func(w *format.LogWriter, id uint64, name string) func(b []byte) []byte {
		return func(b []byte) []byte {
			return w.Append(b, format.FramePut, w.End, format.NewRecord(id, 0, format.KindNote, name, "", nil))
		}
	}
	one := func(w *format.LogWriter, b []byte) []byte { return put(w, 5, "c")(b) }
	db, other := encodedStore(t, 5, "a", "b"), encodedStore(t, 4, "a")
	log := logOf(db, 1, one)
	flip := func(b []byte, at int) []byte {
		b = slices.Clone(b)
		b[at] ^= 0xff
		return b
	}
	for _, c := range []struct {
		what    string
		disk    map[string][]byte
		options RepairOptions
		entries int
		files   int // quarantined and rejoined files
	}{
		{"a corrupt log", map[string][]byte{"": db, "-wal": flip(log, 30)}, RepairOptions{}, 2, 1},
		{"a log of another snapshot, without operations", map[string][]byte{"": db, "-wal": logOf(other, 1, func(_ *format.LogWriter, b []byte) []byte { return b })}, RepairOptions{}, 2, 1},
		{"a log of another snapshot", map[string][]byte{"": db, "-wal": logOf(other, 1, one)}, RepairOptions{KeepDB: true}, 2, 1},
		{"a torn log", map[string][]byte{"": db, "-wal": append(slices.Clone(log), "torn"...)}, RepairOptions{}, 3, 1},
		{"a corrupt snapshot", map[string][]byte{"": flip(db, format.OffFlags), "-wal": log}, RepairOptions{}, 3, 1},
		{"a second log", map[string][]byte{"": db, "-wal": log, "-wal.held": logOf(other, 1, func(w *format.LogWriter, b []byte) []byte {
			return w.Append(b, format.FrameRemove, w.End, format.Record(binary.LittleEndian.AppendUint64(nil, 1)))
		})}, RepairOptions{Rejoin: true}, 3, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			for n := 1; ; n++ {
				m := faultfs.NewMem()
				for suffix, b := range c.disk {
					m.WriteFile("/m.db"+suffix, b, 0o600)
				}
				var failed faultfs.Call
				calls, linked := 0, false
				m.Hook = func(call faultfs.Call) error {
					if call.Op == "unlock" || strings.Contains("lstat open read", call.Op) && call.Name == "/m.db-wal.held" {
						return nil // the lock would stay in this process, and the second log would be missing
					}
					linked = linked || call.Op == "link" && call.Name == "/m.db-wal.held"
					if calls++; calls == n {
						failed = call
						return syscall.EIO
					}
					return nil
				}
				o := c.options
				o.FS = m
				r, err := Repair("/m.db", &o)
				m.Hook = nil
				if n > calls {
					noErr(t, err)
					if r.Entries != c.entries || len(r.Files) != c.files {
						t.Errorf("%d entries, files %+v", r.Entries, r.Files)
					}
					break
				}
				what := fmt.Sprintf("call %d, %s %s", n, failed.Op, failed.Name)
				switch {
				case err != nil && !errors.Is(err, syscall.EIO), err == nil && r.Entries != c.entries:
					t.Errorf("%s: repair: %+v, %v", what, r, err)
				case err == nil && changes(failed, linked) && !strings.Contains(strings.Join(r.Notes, "\n"), syscall.EIO.Error()):
					t.Errorf("%s: repair: the error is lost: %+v", what, r)
				}
				if err != nil {
					r, err = Repair("/m.db", &o)
					if err != nil || r.Entries != c.entries {
						t.Errorf("after %s: repair: %+v, %v", what, r, err)
					}
				}
				s, err := Open("/m.db", &Options{FS: m})
				if err != nil {
					t.Fatalf("after %s: %+v, %v", what, r, err)
				}
				noErr(t, s.Close())
			}
		})
	}
}

// changes reports whether a call changes a file that the store needs. The second link of
// the log and the reserve improve later errors only, and so does the text of the lock
// after the log is linked.
func changes(c faultfs.Call, linked bool) bool {
	switch c.Op {
	case "create", "write", "truncate", "sync", "datasync", "rename", "link", "syncdir":
		return c.Name != "/m.db-wal.held" && (c.Name != "/m.db-lock" || !linked) && c.Name != "/m.db-reserve"
	}
	return false
}
