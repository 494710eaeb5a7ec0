package crmem_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// indexedPast returns a store whose history begins with a base that contains entries,
// and has change indexes.
func indexedPast(t *testing.T, plain bool) *past {
	t.Helper()
	p := newPast(t)
	p.plain = plain
	p.opts.History = crmem.HistoryOff
	p.segmentLimit = 300
	p.reopen()
	p.do(crmem.Add{Name: "a", Content: "base"}, crmem.Add{Name: "d", Content: "base"})
	p.must(p.s.Checkpoint())
	p.opts.History = crmem.HistoryOn
	p.reopen()
	p.do(crmem.Alias{Name: "a", Aliases: []string{"z"}})
	p.do(crmem.Rename{Name: "a", To: "b"}, crmem.Remove{Name: "d"})
	for i := range 12 {
		p.now += int64(i%3-1) * 10 // the clock is set back
		p.do(crmem.Add{Name: fmt.Sprint(i), Content: "x"}, crmem.Update{Name: "b", Content: fmt.Sprint(i)})
		p.must(p.s.Checkpoint())
	}
	p.do(crmem.Rename{Name: "b", To: "c"})
	if n := p.compare("start"); n != len(randomNames) || len(p.history(".idx")) < 3 {
		t.Fatalf("%d names used the %d indexes", n, len(p.history(".idx")))
	}
	return p
}

// TestChangeIndexBytes changes each byte in a segment and its change index, or one in
// five without CRABMEM_CRASH=full. With the index ChangesOf may return the changes before
// the damage.
func TestChangeIndexBytes(t *testing.T) {
	race.Skip(t)
	for _, plain := range []bool{true, false} {
		changeIndexBytes(t, plain)
	}
}

func changeIndexBytes(t *testing.T, plain bool) {
	p := indexedPast(t, plain)
	segments := map[bool]string{true: ".log", false: ".log.zst"}[plain]
	names := []string{"a", "b", "z"}
	want := map[string]string{}
	for _, name := range names {
		want[name] = p.changesOf(name)
	}
	for _, kind := range []string{".idx", segments} {
		file := p.history(kind)[1]
		b := p.copyFiles()[file]
		for at := range b {
			if kind == ".idx" && b[at] == 0 && at%64 > 0 || at%every(5) > 0 {
				continue
			}
			p.put(file, b[:at]+string(b[at]^1)+b[at+1:])
			for _, name := range names {
				if got := p.changesOf(name); got != want[name] && (kind == ".idx" || got != p.filtered(name)) {
					t.Fatalf("%s, byte %d: changes of %s:\n%swant\n%s", file, at, name, got, want[name])
				}
			}
		}
		p.put(file, b)
	}
}

// TestRewrittenSegment replaces a segment by one with the same operations, another salt
// and another text. Its change index is of the segment before.
func TestRewrittenSegment(t *testing.T) {
	p := indexedPast(t, true)
	name := p.history(".log")[1]
	b := []byte(p.copyFiles()[name])
	scan, err := format.ScanLog(b)
	p.must(err)
	h := scan.LogHeader
	h.Salt++
	out := h.Append(nil)
	w := h.Writer()
	changed := false
	for i := range scan.Frames {
		f := &scan.Frames[i]
		if f.Type == format.FramePut && binary.LittleEndian.Uint64(f.Payload) == 1 {
			r, err := format.DecodeRecord(f.Payload)
			p.must(err)
			f.Payload = []byte(format.NewRecord(r.ID(), r.CreatedAt(), r.Kind(), r.Name(), "!", nil))
			changed = true
		}
		out = w.AppendCopy(out, f, w.End)
	}
	if !changed {
		t.Fatal("the segment has no text of the entry")
	}
	p.put(name, string(out))
	p.compare("rewritten segment")
}

// TestMissingIndexes removes all change indexes. The folds that begin a segment write
// them again.
func TestMissingIndexes(t *testing.T) {
	p := indexedPast(t, false)
	want := len(p.history(".idx"))
	p.must(crmem.RemoveIndexes(p.m, "/m.db-history"))
	p.put("/m.db-history/00000099.idx", "of a missing segment")
	for i := range 12 {
		p.do(crmem.Update{Name: "c", Content: fmt.Sprintf("%0300d", i)})
		p.must(p.s.Checkpoint())
	}
	if got := len(p.history(".idx")); got < want+10 || got != len(p.history(".log"))+len(p.history(".zst")) {
		t.Errorf("%d indexes of %d segments, %d before the removal", got, len(p.history(".log")), want)
	}
	p.compare("indexes written again")
}

// TestForgedOperation replaces an operation of an indexed segment by one that does not
// apply. ChangesOf returns the error, as without the index.
func TestForgedOperation(t *testing.T) {
	p := indexedPast(t, true)
	file := p.history(".log")[1]
	scan, err := format.ScanLog([]byte(p.copyFiles()[file]))
	p.must(err)
	h := scan.LogHeader
	b := h.Append(nil)
	w := h.Writer()
	forged := false
	for _, f := range scan.Frames {
		if f.Type == format.FramePut && !forged && f.More { // an update keeps the name
			f.Payload = []byte(format.NewRecord(1, 0, format.KindArchive, "another name", "", nil))
			forged = true
		}
		b = w.AppendCopy(b, &f, format.LogHeaderSize)
	}
	scan, err = format.ScanLog(b)
	p.must(err)
	p.put(file, string(b))
	p.put(strings.TrimSuffix(file, ".log")+".idx", string(format.NewIndex(2, int64(len(b)), scan)))
	if got, want := p.changesOf("b"), p.filtered("b"); !forged || got != want || !strings.Contains(got, file) {
		t.Errorf("changes\n%s\nwant\n%s", got, want)
	}
}

// TestHistoryReadsFail fails each call that reads the history in turn, and all calls from
// each on. The read returns an error, or the same result.
func TestHistoryReadsFail(t *testing.T) {
	p := indexedPast(t, true)
	read := map[string]func() string{
		"changes of b": func() string { return p.changesOf("b") },
		"changes": func() string {
			var b strings.Builder
			for c, err := range p.s.Changes() {
				b.WriteString(changeText(c, err))
			}
			return b.String()
		},
		"the state after change 8": func() string {
			s, err := p.s.At(crmem.Point{Seq: 8})
			if err != nil {
				return syscall.EIO.Error() // or that changes are missing
			}
			return names(s.All())
		},
	}
	for what, read := range read {
		want := read()
		for fail, calls := 1, 1; calls >= fail-1; fail++ {
			for _, once := range []bool{false, true} {
				calls = 0
				p.m.Hook = func(faultfs.Call) error {
					if calls++; calls == fail || calls > fail && !once {
						return syscall.EIO
					}
					return nil
				}
				got := read()
				p.m.Hook = nil
				if got != want && !strings.Contains(got, syscall.EIO.Error()) {
					t.Errorf("%s: call %d fails, once: %v:\n%s\nwant\n%s", what, fail, once, got, want)
				}
			}
		}
	}
}

// TestFoundBytes limits the memory of ChangesOf to the bytes of the operations of an
// entry, and to one byte less.
func TestFoundBytes(t *testing.T) {
	p := indexedPast(t, true)
	total := int64(0)
	for name, b := range p.copyFiles() {
		if !strings.HasSuffix(name, ".log") && name != "/m.db-wal" {
			continue
		}
		scan, err := format.ScanLog([]byte(b))
		p.must(err)
		for i := range scan.Frames {
			if f := &scan.Frames[i]; f.Type != format.FrameCheckpoint && f.EntryID() == 1 {
				total += f.End() - f.Offset
			}
		}
	}
	for less := range int64(2) {
		reset := crmem.SetMaxFoundBytes(total - less)
		if got := crmem.IndexedChanges(p.s, "c"); got != (less == 0) {
			t.Errorf("limit %d of %d bytes: used the indexes: %v", total-less, total, got)
		}
		reset()
	}
}

// TestNoSnapshotDigest replaces the log by one without the digest of the snapshot, as
// in a purged segment, and fails reads of the snapshot. ChangesOf returns the error.
func TestNoSnapshotDigest(t *testing.T) {
	p := indexedPast(t, true)
	scan, err := format.ScanLog([]byte(p.copyFiles()["/m.db-wal"]))
	p.must(err)
	h := scan.LogHeader
	h.Base = format.Digest{}
	b := h.Append(nil)
	w := h.Writer()
	for i := range scan.Frames {
		b = w.AppendCopy(b, &scan.Frames[i], format.LogHeaderSize)
	}
	p.put("/m.db-wal", string(b))
	p.m.Hook = func(c faultfs.Call) error {
		if c.Name == "/m.db" {
			return syscall.EIO
		}
		return nil
	}
	got := p.changesOf("c")
	p.m.Hook = nil
	if !strings.Contains(got, syscall.EIO.Error()) {
		t.Errorf("changes\n%s\nwant %v", got, syscall.EIO)
	}
}

// TestDamagedSegmentIndex damages the last operation of each compressed segment. Folds
// write no change index of it.
func TestDamagedSegmentIndex(t *testing.T) {
	p := indexedPast(t, false)
	for _, name := range p.history(".zst") {
		z := []byte(p.copyFiles()[name])
		frames := int(binary.LittleEndian.Uint32(z[len(z)-9:]))
		z[len(z)-9-8*frames-8-1] ^= 1
		p.put(name, string(z))
		index := strings.TrimSuffix(name, ".log.zst") + ".idx"
		p.must(p.m.Remove(index))
		p.do(crmem.Update{Name: "c", Content: name})
		p.must(p.s.Checkpoint())
		if _, err := p.m.Lstat(index); err == nil {
			t.Errorf("%s is damaged, but has a change index", name)
		}
	}
}
