package crmem

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// TestLogKeepsRoomForCheckpoint writes batches that fill the log almost to the
// size that recovery reads. A power cut after the frame of the next checkpoint
// leaves a log that opens.
func TestLogKeepsRoomForCheckpoint(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	const maxBytes = 1 << 20
	text := strings.Repeat("x", maxBytes-4096)
	accepted := 0
	for _, room := range []int64{0, 55, 56, 79, 80, 4096} {
		m := faultfs.NewMem()
		o := &Options{FS: m, MaxBytes: maxBytes, LogLimit: 1 << 40, CheckpointOnClose: CheckpointNever}
		s := opened(t, "/m.db", o, 0)
		noErr(t, s.Apply(Add{Name: "a"}))
		before := s.Stats().LogBytes
		noErr(t, s.Apply(Update{Name: "a"}))
		frame := s.Stats().LogBytes - before // without content
		var ops []Op
		left := maxLogFor(maxBytes) - s.Stats().LogBytes - room
		for left >= frame {
			n := min(left-frame, int64(len(text)))
			if rest := left - frame - n; rest > 0 && rest < frame {
				n -= frame
			}
			ops = append(ops, Update{Name: "a", Content: text[:n]})
			left -= frame + n
		}
		last := text[:len(ops[len(ops)-1].(Update).Content)]
		if err := s.Apply(ops...); errors.Is(err, ErrFull) {
			continue
		} else {
			noErr(t, err)
		}
		if got := maxLogFor(maxBytes) - s.Stats().LogBytes; got != room {
			t.Fatalf("the log has room for %d bytes, want %d", got, room)
		}
		accepted++
		if err := s.Apply(Remove{"a"}); !errors.Is(err, ErrFull) {
			t.Errorf("a write to a log of %d bytes: %v", s.Stats().LogBytes, err)
		}
		var cut *faultfs.Mem
		m.Hook = func(c faultfs.Call) error {
			if c.Op == "rename" && c.Name == "/m.db" {
				cut = m.Crash()
			}
			return nil
		}
		noErr(t, s.Checkpoint())
		o.FS = cut
		s, err := Open("/m.db", o)
		if err != nil {
			t.Errorf("room for %d bytes: open after a power cut: %v", room, err)
			continue
		}
		if e, err := s.Get("a"); err != nil || e.Content != last {
			t.Errorf("room for %d bytes: %d bytes of content, %v; want %d", room, len(e.Content), err, len(last))
		}
	}
	if accepted == 0 {
		t.Error("every batch was refused")
	}
}

// TestCheckpointReadsBack stores a snapshot that differs in one content byte.
// Decode accepts it, so only the comparison of the bytes finds the difference.
func TestCheckpointReadsBack(t *testing.T) {
	for _, op := range []string{"write", "read"} {
		t.Run(op, func(t *testing.T) {
			m := faultfs.NewMem()
			s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
			noErr(t, s.Apply(Add{Name: "a", Content: "acknowledged"}))
			hits := 0
			m.Hook = func(c faultfs.Call) error {
				if c.Op != op || !strings.HasPrefix(c.Name, "/.m.db") || strings.HasPrefix(c.Name, "/.m.db-") {
					return nil
				}
				hits++
				return &faultfs.Fault{Corrupt: func(b []byte) []byte {
					return []byte(strings.Replace(string(b), "acknowledged", "acknowLedged", 1))
				}}
			}
			err := s.Checkpoint()
			if err == nil || hits == 0 || !strings.Contains(err.Error(), "/.m.db") {
				t.Errorf("checkpoint after %d corrupt calls: %v", hits, err)
			}
			m.Hook = nil
			s.Close() // reports the same error
			s = opened(t, "/m.db", &Options{FS: m.Crash()}, 1)
			if e, err := s.Get("a"); err != nil || e.Content != "acknowledged" {
				t.Errorf("after a reopen: %q, %v", e.Content, err)
			}
		})
	}
}

// TestCopiedRecordsArePromised writes during a checkpoint, so that the new log
// begins with copies of acknowledged operations. Corruption of each copy but
// the last is reported and never truncated as a torn tail.
func TestCopiedRecordsArePromised(t *testing.T) {
	m := faultfs.NewMem()
	o := &Options{FS: m, CheckpointOnClose: CheckpointNever}
	s := opened(t, "/m.db", o, 0)
	noErr(t, s.Apply(Add{Name: "first"}))
	const copies = 4
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "create" && strings.HasPrefix(c.Name, "/.m.db") {
			m.Hook = nil
			for i := range copies {
				noErr(t, s.Apply(Add{Name: fmt.Sprint("copy ", i)}, Add{Name: fmt.Sprint("pair ", i)}))
			}
		}
		return nil
	}
	noErr(t, s.Checkpoint())
	if st := s.Stats(); st.LogOps != 2*copies {
		t.Fatalf("%d operations in the log, want %d", st.LogOps, 2*copies)
	}
	noErr(t, s.Close())
	wal, err := vfs.ReadFile(m, "/m.db-wal", 1<<20)
	noErr(t, err)
	for i := range copies {
		at := strings.Index(string(wal), fmt.Sprint("copy ", i))
		b := slices.Clone(wal)
		b[at]++
		m := m.Kill()
		m.WriteFile("/m.db-wal", b, 0o600)
		s, err := Open("/m.db", &Options{FS: m, ReadOnly: true})
		noErr(t, err)
		if want := 1 + 2*i; s.Len() != want {
			t.Errorf("copy %d corrupt: a reader sees %d entries, want %d", i, s.Len(), want)
		}
		_, err = Open("/m.db", &Options{FS: m})
		if last := i == copies-1; errors.Is(err, ErrFormat) == last {
			t.Errorf("copy %d corrupt: open: %v", i, err)
		}
	}
}

// TestCheckpointAutoLimits closes stores around both limits of CheckpointAuto.
func TestCheckpointAutoLimits(t *testing.T) {
	for _, c := range []struct {
		what     string
		snapshot int // bytes of content
		log      int
		fold     bool
	}{
		{"small snapshot, short log", 1 << 10, 10, true},
		{"small snapshot, long log", 1 << 10, 1 << 20, true},
		{"large snapshot, short log", smallSnapshot + smallSnapshot/2, 10, false},
		{"large snapshot, log of a fifth", smallSnapshot + smallSnapshot/2, (smallSnapshot + smallSnapshot/2) / 5, false},
		{"large snapshot, log of a third", smallSnapshot + smallSnapshot/2, (smallSnapshot + smallSnapshot/2) / 3, true},
	} {
		path := filepath.Join(t.TempDir(), "m.db")
		s := opened(t, path, &Options{CheckpointOnClose: CheckpointAuto}, 0)
		noErr(t, s.Apply(Add{Name: "snapshot", Content: strings.Repeat("x", c.snapshot)}))
		noErr(t, s.Checkpoint())
		noErr(t, s.Apply(Add{Name: "log", Content: strings.Repeat("y", c.log)}))
		noErr(t, s.Close())
		b, err := os.ReadFile(path)
		noErr(t, err)
		sn, err := Decode(b)
		noErr(t, err)
		if folded := sn.Len() == 2; folded != c.fold {
			t.Errorf("%s: checkpoint on close %t, want %t", c.what, folded, c.fold)
		}
	}
}

// TestCheckpointBuffers checks that a checkpoint writes many small entries in
// pieces of 256 KiB.
func TestCheckpointBuffers(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, LogLimit: 1 << 40, CheckpointOnClose: CheckpointNever}, 0)
	defer s.Close()
	var ops []Op
	for i := range 300 {
		ops = append(ops, Add{Name: fmt.Sprint(i), Content: strings.Repeat("x", 1<<10)})
	}
	noErr(t, s.Apply(ops...))
	var sizes []int
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "write" && strings.HasPrefix(c.Name, "/.m.db") && c.Size > 1<<12 {
			sizes = append(sizes, c.Size)
		}
		return nil
	}
	noErr(t, s.Checkpoint())
	if len(sizes) != 2 || sizes[0] != 1<<18 {
		t.Errorf("the checkpoint wrote pieces of %v bytes", sizes)
	}
}
