package crmem_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/checkpoint"
	"crabmem/crmem/history"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// past is a store with a clock, and the state after each of its changes.
type past struct {
	t    *testing.T
	m    *faultfs.Mem
	s    *crmem.Store
	now  int64
	warn []string
	opts crmem.Options
}

func newPast(t *testing.T) *past {
	p := &past{t: t, m: faultfs.NewMem(), now: 1_800_000_000}
	p.opts = crmem.Options{CheckpointOnClose: checkpoint.Never, By: history.Actor{Client: history.CLI}}
	p.m.Now = func() time.Time { return time.Unix(p.now, 0) }
	p.open()
	return p
}

func (p *past) open() {
	p.t.Helper()
	o := p.opts
	o.FS, o.Now, o.Warn = p.m, p.m.Now, func(line string) { p.warn = append(p.warn, line) }
	s, err := crmem.Open("/m.db", &o)
	p.must(err)
	p.s = s
}

func (p *past) reopen() {
	p.t.Helper()
	p.must(p.s.Close())
	p.open()
}

func (p *past) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *past) do(ops ...crmem.Op) {
	p.t.Helper()
	p.now++
	p.must(p.s.Apply(ops...))
}

// stateText describes entries.
func stateText(entries ...crmem.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%d %s %v %d %q %q\n", e.ID, e.Name, e.Kind, e.CreatedAt, e.Content, e.Aliases)
	}
	return b.String()
}

// log returns the changes, a line each.
func (p *past) log() string {
	p.t.Helper()
	var b strings.Builder
	for c, err := range p.s.Changes() {
		if err != nil {
			fmt.Fprintf(&b, "error %v\n", err)
			continue
		}
		name := c.After.Name
		if c.Type == history.Remove {
			name = c.Before.Name
		}
		at := int64(0)
		if !c.Time.IsZero() {
			at = c.Time.Unix() - 1_800_000_000
		}
		fmt.Fprintf(&b, "%d +%d %s %s %s\n", c.Seq, at, c.By.Client, c.Type, name)
	}
	return b.String()
}

func (p *past) wantLog(want string) {
	p.t.Helper()
	if got := p.log(); got != strings.TrimLeft(want, "\n") {
		p.t.Errorf("changes:\n%swant:%s", got, want)
	}
}

func (p *past) files() []string {
	p.t.Helper()
	list, err := p.m.ReadDir("/m.db-history")
	p.must(err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestChanges lists the changes of a store (H1, H2), and shows earlier states.
func TestChanges(t *testing.T) {
	p := newPast(t)
	p.wantLog("\n")
	p.do(crmem.Add{Name: "deploy", Content: "one"})
	p.do(crmem.Update{Name: "deploy", Content: "two"}, crmem.Add{Name: "other", Content: "x"})
	p.must(p.s.Checkpoint())
	p.do(crmem.By{Client: history.MCP, Agent: "crab"}, crmem.Alias{Name: "deploy", Aliases: []string{"ship"}})
	p.do(crmem.Rename{Name: "deploy", To: "release"})
	p.reopen()
	p.do(crmem.Update{Name: "other", Content: "y"}, crmem.Remove{Name: "other"})
	p.must(p.s.Checkpoint())
	sn, err := crmem.NewSnapshot(9, []crmem.Entry{{ID: 1, Name: "release", Content: "loaded", CreatedAt: 7}, {ID: 5, Name: "new", Content: "n"}})
	p.must(err)
	p.must(p.s.Replace(sn))
	p.wantLog(`
1 +1 cli add deploy
2 +2 cli update deploy
3 +2 cli add other
4 +3 mcp alias deploy
6 +4 cli rename release
7 +5 cli update other
8 +5 cli remove other
10 +5 load update release
11 +5 load add new
`)
	if got := p.files(); len(got) != 2 {
		t.Errorf("files %q, want a segment and a base", got)
	}
	if p.s.NextID() != 9 {
		t.Errorf("next ID %d", p.s.NextID())
	}
	p.reopen()
	for point, want := range map[history.Point]string{
		{Seq: 1}:                            "1 deploy note 1800000001 \"one\" []\n",
		{Seq: 3}:                            "1 deploy note 1800000001 \"two\" []\n2 other note 1800000002 \"x\" []\n",
		{Seq: 6}:                            "1 release note 1800000001 \"two\" [\"ship\"]\n2 other note 1800000002 \"x\" []\n",
		{Time: time.Unix(1_800_000_001, 9)}: "1 deploy note 1800000001 \"one\" []\n",
		{Time: time.Unix(1_800_000_004, 0)}: "1 release note 1800000001 \"two\" [\"ship\"]\n2 other note 1800000002 \"x\" []\n",
		{Time: time.Unix(1_900_000_000, 0)}: "1 release note 7 \"loaded\" []\n5 new note 0 \"n\" []\n",
	} {
		sn, err := p.s.At(point)
		if err != nil {
			t.Errorf("%v: %v", point, err)
			continue
		}
		if got := stateText(slices.Collect(sn.All())...); got != want {
			t.Errorf("%v:\n%swant\n%s", point, got, want)
		}
	}
	if _, err := p.s.At(history.Point{Time: time.Unix(1, 0)}); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("before the first change: %v", err)
	}
}

// TestUndo undoes single changes, and reports conflicts.
func TestUndo(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a", Content: "one", Aliases: []string{"x"}})
	p.do(crmem.Update{Name: "a", Content: "two"})
	p.do(crmem.Remove{Name: "a"})
	p.do(crmem.Add{Name: "b", Content: "b"})
	c, err := p.s.Undo(3)
	p.must(err)
	if c.Type != history.Add || c.After.Name != "a" || c.After.ID != 1 || c.After.CreatedAt != 1_800_000_001 || c.After.Content != "two" {
		t.Errorf("undo of a remove: %+v", c)
	}
	if _, err := p.s.Undo(1); !errors.Is(err, crmem.ErrStale) {
		t.Errorf("undo of a change before another: %v", err)
	}
	if _, err := p.s.Undo(99); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("undo of a missing change: %v", err)
	}
	if _, err := p.s.Undo(0); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("undo of change 0: %v", err)
	}
	_, err = p.s.Undo(5) // redo the remove
	p.must(err)
	if _, err := p.s.Get("a"); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("after undo of undo: %v", err)
	}
	p.do(crmem.Rename{Name: "b", To: "a"})
	if _, err := p.s.Undo(6); !errors.Is(err, crmem.ErrStale) {
		t.Errorf("undo of a remove whose name is used: %v", err)
	}
	p.do(crmem.Add{Name: "b", Content: "new"})
	if _, err := p.s.Undo(8); !errors.Is(err, crmem.ErrExists) {
		t.Errorf("undo of a rename whose name is used: %v", err)
	}
}

// TestUndoAll undoes random histories from the last change to the first. The result
// is the empty store, and each state on the way equals the state before the change.
func TestUndoAll(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 50
	}
	for seed := range uint64(n) {
		if !undoAll(t, seed) {
			return
		}
	}
}

func undoAll(t *testing.T, seed uint64) bool {
	r := rand.New(rand.NewPCG(seed, 1))
	p := newPast(t)
	var states []string // before each batch
	var ends []uint64   // last sequence number of each batch
	last := func() (seq uint64) {
		for c := range p.s.Changes() {
			seq = max(seq, c.Seq)
		}
		return seq
	}
	for range 3 + r.IntN(12) {
		state := stateText(slices.Collect(p.s.All())...)
		p.random(r)
		if seq := last(); len(ends) == 0 && seq > 0 || len(ends) > 0 && seq > ends[len(ends)-1] {
			states, ends = append(states, state), append(ends, seq)
		}
	}
	changes := []crmem.Change{}
	for c, err := range p.s.Changes() {
		p.must(err)
		changes = append(changes, c)
	}
	for i, end := range slices.Backward(ends) {
		for _, c := range slices.Backward(changes) {
			if c.Seq > end || i > 0 && c.Seq <= ends[i-1] {
				continue
			}
			if _, err := p.s.Undo(c.Seq); err != nil {
				t.Errorf("seed %d: undo of %d %s %q: %v", seed, c.Seq, c.Type, c.Before.Name, err)
				return false
			}
		}
		if got := stateText(slices.Collect(p.s.All())...); got != states[i] {
			t.Errorf("seed %d: after undo of batch %d:\n%swant\n%s", seed, i, got, states[i])
			return false
		}
		if r.IntN(3) == 0 {
			p.must(p.s.Checkpoint())
		}
	}
	return true
}

// random executes a random batch, or checkpoints or reopens the store.
func (p *past) random(r *rand.Rand) {
	p.now += r.Int64N(3)
	names := []string{"a", "b", "c", "d"}
	name := func() string { return names[r.IntN(len(names))] }
	switch r.IntN(8) {
	case 0:
		p.must(p.s.Checkpoint())
		return
	case 1:
		p.reopen()
		return
	case 2:
		entries := slices.Collect(p.s.All())
		for i := range entries {
			if r.IntN(2) == 0 {
				entries[i].Content += " loaded"
				entries[i].CreatedAt += uint64(r.IntN(2))
			}
		}
		next := p.s.NextID()
		if _, err := p.s.Get("new"); err != nil {
			entries = append(entries, crmem.Entry{ID: next + 2, Name: "new", Content: fmt.Sprint(r.Uint32())})
			next += 5
		}
		sn, err := crmem.NewSnapshot(next, entries)
		p.must(err)
		p.must(p.s.Replace(sn))
		return
	}
	var ops []crmem.Op
	for range 1 + r.IntN(3) {
		text := fmt.Sprint(r.Uint32())
		ops = append(ops, []crmem.Op{
			crmem.Add{Name: name(), Content: text}, crmem.Add{Name: name(), Content: text, Aliases: []string{"z"}},
			crmem.Update{Name: name(), Content: text}, crmem.Alias{Name: name(), Aliases: []string{text}},
			crmem.Remove{Name: name()}, crmem.Rename{Name: name(), To: name()},
		}[r.IntN(6)])
	}
	_ = p.s.Apply(ops...) // an operation may not apply
}

// TestAtEqualsModel compares At with the states after each batch of random histories.
func TestAtEqualsModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := newPast(t)
		states := map[uint64]string{}
		times := map[int64]uint64{}
		for range 3 + r.IntN(15) {
			p.random(r)
			seq := uint64(0)
			for c, err := range p.s.Changes() {
				p.must(err)
				seq = max(seq, c.Seq)
			}
			states[seq] = stateText(slices.Collect(p.s.All())...)
			times[p.now] = seq
		}
		for seq, want := range states {
			if seq == 0 {
				continue
			}
			sn, err := p.s.At(history.Point{Seq: seq})
			p.must(err)
			if got := stateText(slices.Collect(sn.All())...); got != want {
				t.Fatalf("seed %d, change %d:\n%swant\n%s", seed, seq, got, want)
			}
		}
		for at, seq := range times {
			if seq == 0 {
				continue
			}
			sn, err := p.s.At(history.Point{Time: time.Unix(at, 0)})
			p.must(err)
			if got := stateText(slices.Collect(sn.All())...); got != states[seq] {
				t.Fatalf("seed %d, time %d, change %d:\n%swant\n%s", seed, at, seq, got, states[seq])
			}
		}
	}
}

// copyFiles returns the files of the store and its history.
func (p *past) copyFiles() map[string]string {
	p.t.Helper()
	files := map[string]string{}
	for _, dir := range []string{"/", "/m.db-history"} {
		list, err := p.m.ReadDir(dir)
		p.must(err)
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
	p.must(vfs.Replace(p.m, name, 0o600, func(w io.Writer) error {
		_, err := w.Write([]byte(text))
		return err
	}))
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
	p.opts.History = history.Off
	p.reopen()
	p.do(crmem.Add{Name: "a", Content: "one"})
	p.wantLog("\n1 +1 cli add a\n")
	p.must(p.s.Checkpoint())
	p.wantLog("\n")
	if _, err := p.m.Lstat("/m.db-history"); err == nil {
		t.Error("there is a history")
	}
	p.opts.History = history.On
	p.reopen()
	p.do(crmem.Add{Name: "b", Content: "one"})
	p.must(p.s.Checkpoint())
	p.wantLog("\n2 +2 cli add b\n")
}

// TestSegments writes segments of 8 MiB, with a base every eight segments. A state
// after the second base does not need the first (H3, H5).
func TestSegments(t *testing.T) {
	p := newPast(t)
	text := strings.Repeat("x", 3<<20)
	p.do(crmem.Add{Name: "a", Content: "first"})
	for i := range 26 {
		p.do(crmem.Update{Name: "a", Content: fmt.Sprint(i, text)})
		p.must(p.s.Checkpoint())
	}
	var logs, bases []string
	for _, name := range p.files() {
		if strings.HasSuffix(name, ".log") {
			logs = append(logs, name)
		} else {
			bases = append(bases, name)
		}
	}
	if len(logs) != 9 || len(bases) != 2 {
		t.Errorf("%d segments, %d bases: %q", len(logs), len(bases), p.files())
	}
	p.reopen()
	for seq, want := range map[uint64]string{1: "first", 2: "0x", 14: "12x", 25: "23x", 26: "24x", 27: "25x"} {
		sn, err := p.s.At(history.Point{Seq: seq})
		p.must(err)
		if e, _ := sn.Get("a"); !strings.HasPrefix(e.Content, want) {
			t.Errorf("change %d: %.10q, want %q", seq, e.Content, want)
		}
	}
	p.must(p.m.Remove("/m.db-history/1c000000000000009634d8ed4a2f00e7.crmem"))
	if _, err := p.s.At(history.Point{Seq: 27}); err != nil {
		t.Errorf("without the first base: %v", err)
	}
	if _, err := p.s.At(history.Point{Seq: 3}); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("before the second base: %v", err)
	}
	r, err := crmem.Check(p.m, "/m.db", 0)
	p.must(err)
	if len(r.Problems) != 1 || r.Problems[0].Kind != "history" || r.Err() == nil {
		t.Errorf("check without the first base: %+v", r.Problems)
	}
}

// TestFailedFold fails each step of the first fold and of a later one. A full disk
// prevents the checkpoint. After any other error the history has the complete log
// (H8).
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
			if err != nil != errors.Is(err, crmem.ErrNotApplied) || err != nil && disk == syscall.EIO {
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
	if refused < 10 || warned < 10 {
		t.Errorf("%d checkpoints refused, %d warnings", refused, warned)
	}
}

// TestChangesDuringCheckpoints reads the history while a writer checkpoints. Each
// reader finds every operation that was acknowledged before it began (H9).
func TestChangesDuringCheckpoints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	s, err := crmem.Open(path, &crmem.Options{CheckpointOnClose: checkpoint.Never})
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

// TestClockOfHistory sets the clock back between changes. Times never decrease
// (H11).
func TestClockOfHistory(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a"})
	p.now -= 100
	p.do(crmem.Add{Name: "b"})
	p.must(p.s.Checkpoint())
	p.now += 1000
	p.do(crmem.Add{Name: "c"})
	p.wantLog("\n1 +1 cli add a\n2 +1 cli add b\n3 +903 cli add c\n")
	sn, err := p.s.At(history.Point{Time: time.Unix(1_800_000_100, 0)})
	p.must(err)
	if sn.Len() != 2 {
		t.Errorf("%d entries, want a and b", sn.Len())
	}
}
