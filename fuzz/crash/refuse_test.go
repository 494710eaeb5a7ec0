package crash

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"slices"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
)

// TestLocked checks that a store cannot be opened twice.
func TestLocked(t *testing.T) {
	j := newOracle(false)
	r, err := newRun(j, "used")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.open(r.m, epoch, nil); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second open: %v, want %v", err, vfs.ErrLocked)
	}
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.open(r.m, epoch, nil); err != nil {
		t.Errorf("open after close: %v", err)
	}
}

// TestSequence checks that recovery does not replay a frame that is valid except for
// the sequence number.
func TestSequence(t *testing.T) {
	j := newOracle(false)
	m := faultfs.NewMem()
	m.Hook = crashtest.NoReserve
	s, err := j.open(m, epoch, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(crmem.Add{Name: "first", Content: "one"}); err != nil {
		t.Fatal(err)
	}
	want := stateOf(s)
	end := len(read(m, wal))
	if err := s.Apply(crmem.Add{Name: "second", Content: "two"}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []int64{-1, 0, 1, 1 << 40} {
		log := slices.Clone(read(m, wal))
		frame := log[end:]
		seq := binary.LittleEndian.Uint64(frame[8:]) + uint64(step)
		binary.LittleEndian.PutUint64(frame[8:], seq)
		covered := slices.Concat(log[8:16], binary.LittleEndian.AppendUint64(nil, uint64(end)), frame[:28], frame[32:])
		binary.LittleEndian.PutUint32(frame[28:], crc32.Checksum(covered, crc32.MakeTable(crc32.Castagnoli)))
		c := m.Crash()
		c.WriteFile(wal, log, fs.FileMode(0o600))
		r, err := j.open(c, epoch, nil)
		if err != nil {
			t.Fatalf("step %d of the sequence number: open: %v", step, err)
		}
		if got := stateOf(r); (got.print == want.print) != (step != 0) {
			t.Errorf("step %d of the sequence number: recovered %v", step, got)
		}
	}
}

// TestRotRefused checks that Open reports a corrupt synced frame and does not
// truncate it as torn. It corrupts each byte of a frame that a later frame shows to
// be synced.
func TestRotRefused(t *testing.T) {
	j := newOracle(false)
	m := faultfs.NewMem()
	m.Hook = crashtest.NoReserve
	s, err := j.open(m, epoch, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(crmem.Add{Name: "first", Content: "one"}); err != nil {
		t.Fatal(err)
	}
	end := len(read(m, wal))
	if err := s.Apply(crmem.Add{Name: "second", Content: "two"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	log := read(m, wal)
	if end <= 112 || end >= len(log) {
		t.Fatalf("the first frame ends at %d of %d", end, len(log))
	}
	for i := 112; i < end; i++ {
		c := m.Crash()
		corrupt := slices.Clone(log)
		corrupt[i] ^= 0x40
		c.WriteFile(wal, corrupt, fs.FileMode(0o600))
		if _, err := j.open(c, epoch, nil); !errors.Is(err, crmem.ErrFormat) {
			t.Errorf("byte %d corrupt: %v, want %v", i, err, crmem.ErrFormat)
		}
		if got := read(c, wal); string(got) != string(corrupt) {
			t.Errorf("byte %d corrupt: open changed the log", i)
		}
	}
}
