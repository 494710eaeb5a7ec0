package crmem_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// copyFiles returns the files of the store and its history.
func (p *past) copyFiles() map[string]string {
	p.t.Helper()
	files := map[string]string{}
	for _, dir := range []string{"/", "/m.db-history"} {
		list, err := p.m.ReadDir(dir)
		if !errors.Is(err, fs.ErrNotExist) {
			p.must(err)
		}
		for _, e := range list {
			if !e.IsDir() {
				b, err := vfs.ReadFile(p.m, filepath.Join(dir, e.Name()), 1<<30)
				p.must(err)
				files[filepath.Join(dir, e.Name())] = string(b)
			}
		}
	}
	return files
}

func (p *past) put(name, text string) {
	p.t.Helper()
	p.must(vfs.WriteFile(p.m, name, 0o600, []byte(text)))
}

// TestDamagedHistory removes and changes files of a history. The store works, the
// changes that remain are listed, and the next fold begins again (H3, H5, H7).
func TestDamagedHistory(t *testing.T) {
	start := func() *past {
		p := newPast(t)
		p.do(crmem.Add{Name: "a", Content: "one"})
		p.must(p.s.Checkpoint())
		p.do(crmem.Update{Name: "a", Content: "two"})
		p.must(p.s.Checkpoint())
		p.must(p.s.Close())
		return p
	}
	for _, c := range []struct {
		name   string
		damage func(p *past, files map[string]string)
		want   string // after another change and a checkpoint
	}{
		{"removed history", func(p *past, files map[string]string) {
			for name := range files {
				if strings.HasPrefix(name, "/m.db-history/") {
					p.must(p.m.Remove(name))
				}
			}
			p.must(p.m.Remove("/m.db-history"))
		}, "3 +3 cli add b\n"},
		{"removed segment", func(p *past, files map[string]string) { p.must(p.m.Remove("/m.db-history/00000001.log")) }, "3 +3 cli add b\n"},
		{"truncated segment", func(p *past, files map[string]string) {
			b := files["/m.db-history/00000001.log"]
			p.put("/m.db-history/00000001.log", b[:len(b)-3])
		}, "1 +1 cli add a\n3 +3 cli add b\n"},
		{"garbage after a segment", func(p *past, files map[string]string) {
			p.put("/m.db-history/00000001.log", files["/m.db-history/00000001.log"]+"garbage")
		}, "1 +1 cli add a\n2 +2 cli update a\n3 +3 cli add b\n"},
		{"segment that is not a log", func(p *past, files map[string]string) { p.put("/m.db-history/00000001.log", "x") }, "3 +3 cli add b\n"},
		{"removed base", func(p *past, files map[string]string) {
			for name := range files {
				if strings.HasSuffix(name, ".crmem") {
					p.must(p.m.Remove(name))
				}
			}
		}, "error"},
		{"other files", func(p *past, files map[string]string) {
			p.put("/m.db-history/README", "x")
			p.put("/m.db-history/1.log", "x")
			p.put("/m.db-history/.00000002.log123", "x")
			p.must(p.m.Mkdir("/m.db-history/00000009.log", 0o700))
		}, "1 +1 cli add a\n2 +2 cli update a\n3 +3 cli add b\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start()
			p.t = t
			c.damage(p, p.copyFiles())
			p.open()
			p.do(crmem.Add{Name: "b", Content: "b"})
			p.must(p.s.Checkpoint())
			p.reopen()
			if got := stateText(slices.Collect(p.s.All())...); got != "1 a note 1800000001 \"two\" []\n2 b note 1800000003 \"b\" []\n" {
				t.Errorf("the store is now\n%s", got)
			}
			got := p.log()
			var whole []string
			for line := range strings.Lines(got) {
				if !strings.HasPrefix(line, "error") {
					whole = append(whole, line)
				}
			}
			if c.want == "error" && !strings.Contains(got, "error") || c.want != "error" && strings.Join(whole, "") != c.want {
				t.Errorf("changes:\n%swant\n%s\nfiles %q", got, c.want, p.files())
			}
			// Every later change is listed.
			p.do(crmem.Remove{Name: "b"})
			p.must(p.s.Checkpoint())
			p.do(crmem.Remove{Name: "a"})
			if got := p.log(); !strings.HasSuffix(got, "4 +4 cli remove b\n5 +5 cli remove a\n") && c.want != "error" {
				t.Errorf("later changes:\n%s\nfiles %q", got, p.files())
			}
		})
	}
}

// TestRestoredStore restores an older copy of snapshot and log, but not of the
// history. The changes after the copy do not count (H4, H6).
func TestRestoredStore(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a", Content: "one"})
	p.must(p.s.Checkpoint())
	p.must(p.s.Close())
	old := p.copyFiles()
	p.open()
	p.do(crmem.Add{Name: "lost", Content: "x"})
	p.must(p.s.Checkpoint())
	p.must(p.s.Close())
	for _, name := range []string{"/m.db", "/m.db-wal"} {
		p.put(name, old[name])
	}
	p.must(p.m.Remove("/m.db-wal.held"))
	p.must(p.m.SyncDir("/"))
	now := p.m.Now
	p.m = p.m.Crash() // the lock file is of another boot
	p.m.Now = now
	p.open()
	p.do(crmem.Add{Name: "b", Content: "b"})
	p.wantLog("\n1 +1 cli add a\n2 +3 cli add b\n")
	p.must(p.s.Checkpoint())
	p.do(crmem.Add{Name: "c", Content: "c"})
	p.must(p.s.Checkpoint())
	p.reopen()
	p.wantLog("\n1 +1 cli add a\n2 +3 cli add b\n3 +4 cli add c\n")
}

// TestOtherProgram lists the changes that another program made (H10).
func TestOtherProgram(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a", Content: "one"}, crmem.Add{Name: "b", Content: "b"})
	p.must(p.s.Checkpoint())
	p.must(p.s.Close())
	sn, err := crmem.NewSnapshot(7, []crmem.Entry{{ID: 1, Name: "a", Content: "other", CreatedAt: 3}, {ID: 6, Name: "c", Content: "c"}})
	p.must(err)
	b, err := sn.AppendBinary(nil)
	p.must(err)
	p.put("/m.db", string(b))
	p.open()
	want := "\n1 +1 cli add a\n2 +1 cli add b\n0 +0  remove b\n0 +0  update a\n0 +0  add c\n"
	p.wantLog(want)
	p.do(crmem.Remove{Name: "c"})
	p.wantLog(want + "3 +2 cli remove c\n")
	p.must(p.s.Checkpoint())
	p.wantLog(want + "3 +2 cli remove c\n")
}

// TestHistoryOff has no directory of a history, but lists the log.
func TestHistoryOff(t *testing.T) {
	p := newPast(t)
	p.opts.History = crmem.HistoryOff
	p.reopen()
	p.do(crmem.Add{Name: "a", Content: "one"})
	p.wantLog("\n1 +1 cli add a\n")
	p.must(p.s.Checkpoint())
	p.wantLog("\n")
	if _, err := p.m.Lstat("/m.db-history"); err == nil {
		t.Error("there is a history")
	}
	p.opts.History = crmem.HistoryOn
	p.reopen()
	p.do(crmem.Add{Name: "b", Content: "one"})
	p.must(p.s.Checkpoint())
	p.wantLog("\n2 +2 cli add b\n")
}

// TestSegments writes segments of 8 MiB, with a base every eight segments. A state
// after the second base does not need the first (H3, H5).
func TestSegments(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("writes 80 MiB")
	}
	p := newPast(t)
	text := strings.Repeat("x", 3<<20)
	p.do(crmem.Add{Name: "a", Content: "first"})
	for i := range 26 {
		p.do(crmem.Update{Name: "a", Content: fmt.Sprint(i, text)})
		p.must(p.s.Checkpoint())
	}
	logs, bases, indexes := append(p.history(".log"), p.history(".zst")...), p.history(".crmem"), p.history(".idx")
	if len(logs) != 9 || len(bases) != 2 || len(indexes) != 8 {
		t.Errorf("%d segments, %d bases, %d indexes: %q", len(logs), len(bases), len(indexes), p.files())
	}
	p.reopen()
	for seq, want := range map[uint64]string{1: "first", 2: "0x", 14: "12x", 25: "23x", 26: "24x", 27: "25x"} {
		sn, err := p.s.At(crmem.Point{Seq: seq})
		p.must(err)
		if e, _ := sn.Get("a"); !strings.HasPrefix(e.Content, want) {
			t.Errorf("change %d: %.10q, want %q", seq, e.Content, want)
		}
	}
	p.must(p.m.Remove("/m.db-history/1c000000000000009634d8ed4a2f00e7.crmem"))
	if _, err := p.s.At(crmem.Point{Seq: 27}); err != nil {
		t.Errorf("without the first base: %v", err)
	}
	if _, err := p.s.At(crmem.Point{Seq: 3}); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("before the second base: %v", err)
	}
	r, err := crmem.Check(p.m, "/m.db", 0)
	p.must(err)
	if len(r.Problems) != 1 || r.Problems[0].Kind != "history" || r.Err() == nil {
		t.Errorf("check without the first base: %+v", r.Problems)
	}
}

// TestFailedFold fails each step of the first fold and of a later one. An error of the
// newest segment begins another segment. Any other error prevents the checkpoint (H8).
func TestFailedFold(t *testing.T) {
	refused, warned := 0, 0
	for _, disk := range []error{syscall.ENOSPC, syscall.EIO} {
		for fail := 1; ; fail++ {
			p := newPast(t)
			p.do(crmem.Add{Name: "a", Content: "one"})
			if fail > 40 {
				p.must(p.s.Checkpoint())
				p.do(crmem.Update{Name: "a", Content: "two"})
			}
			n, hit := fail%40, false
			p.m.Hook = func(c faultfs.Call) error {
				if !strings.HasPrefix(c.Name, "/m.db-history") || hit {
					return nil
				}
				n--
				hit = n == 0
				return map[bool]error{true: disk}[hit]
			}
			err := p.s.Checkpoint()
			p.m.Hook = nil
			if err != nil != errors.Is(err, crmem.ErrNotApplied) {
				t.Errorf("%v at call %d: checkpoint: %v", disk, fail, err)
			}
			if err != nil {
				refused++
			}
			warned += len(p.warn)
			p.do(crmem.Add{Name: "later"})
			p.must(p.s.Checkpoint())
			p.m = p.m.Crash()
			p.m.Now = func() time.Time { return time.Unix(p.now, 0) }
			p.open()
			var got []uint64
			for c, err := range p.s.Changes() {
				p.must(err)
				got = append(got, c.Seq)
			}
			if want := []uint64{1, 2, 3}; !slices.Equal(got, want[:2+fail/41]) {
				t.Errorf("%v at call %d: changes %d", disk, fail, got)
			}
			if !hit && fail > 40 {
				break
			}
			if !hit {
				fail = 40
			}
		}
	}
	if refused < 10 || warned < 2 {
		t.Errorf("%d checkpoints refused, %d warnings", refused, warned)
	}
}

// TestChangesDuringCheckpoints reads the history while a writer checkpoints. Each
// reader finds every operation that was acknowledged before it began (H9).
func TestChangesDuringCheckpoints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	s, err := crmem.Open(path, &crmem.Options{CheckpointOnClose: crmem.CheckpointNever})
	if err != nil {
		t.Fatal(err)
	}
	var acked atomic.Uint64
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 150 && err == nil; i++ {
			err = s.Apply(crmem.Add{Name: fmt.Sprint(i)})
			acked.Add(1)
			if err == nil && i%3 == 0 {
				err = s.Checkpoint()
			}
		}
		done <- err
	}()
	for reads := 0; ; reads++ {
		before := acked.Load()
		last := uint64(0)
		if before > 0 {
			r, err := crmem.Open(path, &crmem.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			for c, err := range r.Changes() {
				if err != nil || c.Seq != last+1 {
					t.Fatalf("change %d after %d: %v", c.Seq, last, err)
				}
				last = c.Seq
			}
			r.Close()
		}
		if last < before {
			t.Fatalf("%d changes, but %d were acknowledged", last, before)
		}
		select {
		case err := <-done:
			if err := errors.Join(err, s.Close()); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d reads", reads)
			return
		default:
		}
	}
}

// TestClockOfHistory sets the clock back between changes. Effective times never
// decrease (H11).
func TestClockOfHistory(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a"})
	p.now -= 100
	p.do(crmem.Add{Name: "b"})
	p.must(p.s.Checkpoint())
	p.now += 1000
	p.do(crmem.Add{Name: "c"})
	p.wantLog("\n1 -98 cli add a\n2 -98 cli add b\n3 +903 cli add c\n")
	sn, err := p.s.At(crmem.Point{Time: time.Unix(1_800_000_100, 0)})
	p.must(err)
	if sn.Len() != 2 {
		t.Errorf("%d entries, want a and b", sn.Len())
	}
}
