package crmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
)

// TestOwnCopyWithoutSpace removes the log of a writer that then has no space for
// a copy of its state. The error says so and names no copy.
func TestOwnCopyWithoutSpace(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, m.Remove("/m.db-wal"))
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "create" {
			return syscall.ENOSPC
		}
		return nil
	}
	err := s.Apply(Add{Name: "b"})
	if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "could not be saved: ") || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		t.Errorf("write: %v", err)
	}
}

// TestRepairReturnsErrors gives a log back the name that only its second link
// has, and fails each call of a kind in turn. The repair returns each error.
func TestRepairReturnsErrors(t *testing.T) {
	for _, c := range []struct {
		op, name string
		fault    error
		want     string
	}{
		{"lstat", "/m.db-lock", fs.ErrNotExist, "/m.db-lock: another program removed it"},
		{"rename", "/m.db-wal", syscall.EIO, syscall.EIO.Error()},
		{"syncdir", "/", syscall.EIO, syscall.EIO.Error()},
	} {
		n := 1
		for ; ; n++ {
			m := faultfs.NewMem()
			s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
			noErr(t, s.Apply(Add{Name: "a"}))
			noErr(t, s.Close())
			noErr(t, m.Remove("/m.db-wal"))
			seen := 0
			m.Hook = func(call faultfs.Call) error {
				if call.Op == c.op && call.Name == c.name {
					if seen++; seen == n {
						return c.fault
					}
				}
				return nil
			}
			_, err := Repair("/m.db", &RepairOptions{FS: m})
			m.Hook = nil
			if seen < n {
				noErr(t, err)
				break
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %s, call %d: repair: %v, want %s", c.op, c.name, n, err, c.want)
			}
		}
		if n == 1 {
			t.Errorf("%s %s: the repair made no such call", c.op, c.name)
		}
	}
}

// TestCheckpointBeginsLog checkpoints a store that has a snapshot and no log. The
// checkpoint syncs the snapshot first, and returns the error of that sync.
func TestCheckpointBeginsLog(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, s.Close())
	noErr(t, m.Remove("/m.db-wal"))
	noErr(t, m.Remove("/m.db-wal.held"))
	noErr(t, m.Remove("/m.db-lock")) // it says that there was a log
	s = opened(t, "/m.db", &Options{FS: m}, 1)
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "sync" && c.Name == "/m.db" {
			return syscall.EIO
		}
		return nil
	}
	if err := s.Checkpoint(); !errors.Is(err, syscall.EIO) {
		t.Errorf("checkpoint: %v", err)
	}
	m.Hook = nil
	if err := s.Apply(Add{Name: "b"}); !errors.Is(err, ErrStopped) {
		t.Errorf("write after a failed sync of the snapshot: %v", err)
	}
	s.Close() // reports the same error
}

// TestCreateFollowsNewLink opens a store in a directory that does not exist, and
// that becomes a link before the first write. The link then leads elsewhere, and
// the store keeps its directory.
func TestCreateFollowsNewLink(t *testing.T) {
	m := faultfs.NewMem()
	noErr(t, m.Mkdir("/real", 0o700))
	noErr(t, m.Mkdir("/elsewhere", 0o700))
	s := opened(t, "/home/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	m.Symlink("/real", "/home")
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, m.Remove("/home"))
	m.Symlink("/elsewhere", "/home")
	noErr(t, s.Apply(Add{Name: "b"}))
	noErr(t, s.Close())
	opened(t, "/real/m.db", &Options{FS: m}, 2)
	opened(t, "/elsewhere/m.db", &Options{FS: m}, 0)
}

// TestFullDiskWithoutTruncate appends on a full disk and then cannot truncate
// the log. The outcome is unknown and the store stops.
func TestFullDiskWithoutTruncate(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	m.Hook = func(c faultfs.Call) error {
		switch {
		case c.Name != "/m.db-wal":
		case c.Op == "write":
			return &faultfs.Fault{Err: syscall.ENOSPC, N: 20}
		case c.Op == "truncate":
			return syscall.EIO
		}
		return nil
	}
	err := s.Apply(Add{Name: "b"})
	if !errors.Is(err, ErrUnknown) || !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, syscall.EIO) {
		t.Errorf("write: %v", err)
	}
	m.Hook = nil
	if err := s.Apply(Add{Name: "c"}); !errors.Is(err, ErrStopped) {
		t.Errorf("next write: %v", err)
	}
	if err := s.Close(); !errors.Is(err, ErrStopped) || errors.Is(err, ErrForeign) {
		t.Errorf("close: %v", err)
	}
}

// TestSecondLinkRestored removes the second link of the log. The next write restores it.
func TestSecondLinkRestored(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, m.Remove("/m.db-wal.held"))
	noErr(t, s.Apply(Add{Name: "b"}))
	if _, err := m.Lstat("/m.db-wal.held"); err != nil {
		t.Error(err)
	}
	noErr(t, s.Close())
}

// TestSnapshotInUnsyncedDirectory begins a log next to a snapshot that another program
// wrote without syncing the name of its directory. A crash loses no acknowledged write.
func TestSnapshotInUnsyncedDirectory(t *testing.T) {
	m := faultfs.NewMem()
	noErr(t, m.Mkdir("/dir", 0o700))
	f, err := m.OpenFile("/dir/m.db", os.O_CREATE|os.O_WRONLY, 0o600)
	noErr(t, err)
	_, err = f.Write(encodedStore(t, 2, "a"))
	noErr(t, errors.Join(err, f.Close()))
	s := opened(t, "/dir/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 1)
	noErr(t, s.Apply(Add{Name: "b"}))
	opened(t, "/dir/m.db", &Options{FS: m.Crash(), ReadOnly: true, MustExist: true}, 2)
}

// TestFirstLogNotChecked creates a log and then cannot check its name. The checkpoint
// returns the error.
func TestFirstLogNotChecked(t *testing.T) {
	m := faultfs.NewMem()
	m.WriteFile("/m.db", encodedStore(t, 2, "a"), 0o600)
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 1)
	linked, hits := false, 0
	m.Hook = func(c faultfs.Call) error {
		linked = linked || c.Op == "link" && c.Name == "/m.db-wal.held"
		if linked && c.Op == "lstat" && c.Name == "/m.db-wal" && hits == 0 {
			hits++
			return syscall.EIO
		}
		return nil
	}
	if err := s.Checkpoint(); !errors.Is(err, syscall.EIO) || hits == 0 {
		t.Errorf("checkpoint after %d failed calls: %v", hits, err)
	}
	m.Hook = nil
	s.Close() // reports the same error
}

// TestCheckOfDirectory checks a store whose file is a directory, and one with a directory
// in place of the log.
func TestCheckOfDirectory(t *testing.T) {
	for name, remedy := range map[string]string{"/m.db": "set --db to the store's file", "/m.db-wal": "move the file if it is not the store's log"} {
		m := faultfs.NewMem()
		m.WriteFile("/m.db", encodedStore(t, 2, "a"), 0o600)
		if name == "/m.db" {
			noErr(t, m.Remove(name))
		}
		noErr(t, m.Mkdir(name, 0o700))
		r, err := Check(m, "/m.db", 0)
		noErr(t, err)
		if len(r.Problems) != 1 {
			t.Fatalf("%+v", r.Problems)
		}
		want := Problem{Kind: "format", File: name, Remedy: remedy}
		p := r.Problems[0]
		if want.Message, want.Err = p.Err.Error(), p.Err; p != want {
			t.Errorf("%+v, want %+v", p, want)
		}
	}
}

// TestRestoreChecksEntry restores entries that a file cannot contain.
func TestRestoreChecksEntry(t *testing.T) {
	s := New(nil)
	for _, e := range []Entry{{ID: 1, Name: "a\xff"}, {ID: 1, Name: "a", Content: "\xff"}, {ID: 1, Name: "a", Aliases: []string{"b", "\xff"}}, {ID: 1, Name: "a", Kind: 9}, {ID: 1<<64 - 1, Name: "a"}} {
		if err := s.Apply(Restore{Entry: e}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", e, err)
		}
		if err := (Restore{Entry: e}).Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("valid %+v: %v", e, err)
		}
	}
}

// TestReplayRename replays rename frames with valid and with invalid payloads.
func TestReplayRename(t *testing.T) {
	payload := func(id uint64, n uint32, name string) []byte {
		b := binary.LittleEndian.AppendUint64(nil, id)
		return append(binary.LittleEndian.AppendUint32(b, n), name...)
	}
	for _, c := range []struct {
		payload []byte
		want    string // the new name, or part of the error
	}{
		{payload(1, 3, "new"), "new"},
		{payload(1, 0, ""), ""},
		{payload(1, 1, "a"), "a"},
		{payload(1, 1, "b"), "uses the name"},
		{payload(7, 1, "c"), "does not exist"},
		{payload(1, 2, "c"), "rename of 13 bytes"},
		{payload(1, 1, "\xff"), "not UTF-8"},
		{payload(1, 0, "")[:11], "rename of 11 bytes"},
	} {
		sn, err := NewSnapshot(3, []Entry{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}})
		noErr(t, err)
		got := ""
		if err := applyFrame(&format.Frame{Type: format.FrameRename, Payload: c.payload}, &sn.t, &sn.NextID); err != nil {
			got = err.Error()
		} else {
			got = sn.t.byID(1).Name()
		}
		if got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %q, want %q", fmt.Sprintf("%x", c.payload), got, c.want)
		}
	}
}
