package daemon

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// someFlushCrashes is the number of crash states of TestFlushCrashes. The environment variable
// CRABMEM_FLUSH_CRASHES sets another one.
const someFlushCrashes = 400

const flushedID = "crab_user_1"

// flushFacts are what the files of a home state about a session and its flushes.
type flushFacts struct {
	flushes, messages, covered, edits int
	notes                             map[string]string
}

// after returns the facts after an operation, and whether the operation applies.
func (f flushFacts) after(symbol string) (flushFacts, bool) {
	f.notes = maps.Clone(f.notes)
	switch symbol {
	case "say":
		f.messages += 2
	case "flush", "stale":
		if f.covered == f.messages {
			return f, false
		}
		f.flushes, f.covered = f.flushes+1, f.messages
		f.notes[fmt.Sprint("new ", f.flushes)] = "text"
		base := "base"
		if symbol == "stale" {
			base = fmt.Sprintf("base (%s-f%d)", flushedID, f.flushes)
		}
		f.notes[base] = fmt.Sprint("by flush ", f.flushes)
	case "forget":
		name := fmt.Sprint("new ", f.flushes)
		if f.notes[name] == "" {
			return f, false
		}
		delete(f.notes, name)
	case "edit":
		f.edits++
		f.notes["base"] = fmt.Sprint("edit ", f.edits)
	}
	return f, true
}

// flushWorld is a daemon with a session on a machine.
type flushWorld struct {
	m     *faultfs.Mem
	d     *Daemon
	l     *session.Session
	early bool // a mistake: the notes are applied before the record
}

func openFlushWorld(m *faultfs.Mem) (*flushWorld, error) {
	d, err := Open(Options{Home: "/home/crab", FS: m, Getenv: func(string) string { return "" }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Offline: &scripts{}})
	if err != nil {
		return nil, err
	}
	w := &flushWorld{m: m, d: d}
	if w.l, err = d.loaded.Open(context.Background(), flushedID, ""); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return w, nil
}

// do executes an operation after facts.
func (w *flushWorld) do(symbol string, f flushFacts) error {
	switch symbol {
	case "forget":
		return w.d.store.Forget(fmt.Sprint("new ", f.flushes), crmem.By{})
	case "edit":
		_, err := w.d.store.Remember("base", fmt.Sprint("edit ", f.edits+1), nil)
		return err
	case "restart":
		err := w.d.Close()
		if err == nil {
			var next *flushWorld
			if next, err = openFlushWorld(w.m); err == nil {
				w.d, w.l = next.d, next.l
			}
		}
		return err
	}
	return w.d.loaded.With(context.Background(), w.l.ID(), func(_ context.Context, _ session.Setup, a *agent.Agent, s *agent.Session) error {
		s.Scope = tool.Unbounded()
		switch symbol {
		case "say":
			return s.Log.Append(sessionlog.Message{Role: "user", Content: "question"}, sessionlog.Message{Role: "assistant", Content: "answer"})
		case "compact":
			err := w.d.loaded.BeforeSummary(s)
			if err == nil {
				err = s.Log.Compact("summary", sessionlog.Message{Role: "user", Content: "question"}, sessionlog.Message{Role: "assistant", Content: "answer"})
			}
			if s.Compactions++; err == nil {
				_, err = w.d.loaded.Archive(a, s, agent.Summary{Number: s.Compactions, Text: "summary"})
			}
			return err
		}
		n, upto, err := w.d.loaded.BeginFlush(s, s.Log.Size())
		if err == nil && n != f.messages-f.covered {
			err = fmt.Errorf("%d messages to flush, want %d", n, f.messages-f.covered)
		}
		was := f.notes["base"]
		if symbol == "stale" {
			was = "another text"
		}
		notes := []record.Note{{Name: fmt.Sprint("new ", f.flushes+1), Content: "text"}, {Name: "base", Content: fmt.Sprint("by flush ", f.flushes+1), Was: op.SHA256(was)}}
		if w.early && err == nil {
			_, err = w.d.storeNotes(s.Log, record.Work{Op: record.WorkFlush, N: f.flushes + 1, Upto: upto, Notes: notes, Scope: []byte(`{"tools":{"all":true},"writes":{"all":true}}`)}, false)
		}
		if err == nil {
			_, err = w.d.loaded.EndFlush(s, upto, notes)
		}
		return err
	})
}

// look returns the facts of the files, and the first error in them.
func (w *flushWorld) look() (f flushFacts, err error) {
	f.notes = make(map[string]string)
	for e := range w.d.store.All() {
		if e.Kind == crmem.Note {
			f.notes[e.Name] = e.Content
		}
	}
	s, err := w.d.sessions.Read(flushedID)
	if err != nil {
		return f, err
	}
	defer s.Close()
	for l, err := range s.Lines(0) {
		if err != nil {
			return f, err
		}
		if l.Kind == record.KindMessage {
			f.messages++
		}
	}
	list, _, left, err := s.Flushes()
	f.flushes, f.covered = len(list), f.messages-left
	upto := int64(0)
	for i, r := range list {
		applied := 0
		for c := range w.d.store.ChangesOf(fmt.Sprint("new ", r.N)) {
			if c.By.Call == fmt.Sprint("flush-", r.N) {
				applied++
			}
		}
		if r.N != i+1 || r.Upto <= upto || applied != 1 {
			return f, fmt.Errorf("flush %d has the number %d, ends at line %d after %d, and was applied %d times", i+1, r.N, r.Upto, upto, applied)
		}
		upto = r.Upto
	}
	b, _ := vfs.ReadFile(w.m, "/home/crab/archived/"+flushedID, 1<<10)
	if _, counts, _ := strings.Cut(strings.Fields(string(b) + " -")[0], "/"); len(list) > 0 && counts != fmt.Sprintf("%d/%d", len(list), len(list)) {
		return f, fmt.Errorf("%d flushes, but archived is %q", len(list), b)
	}
	return f, err
}

// check opens a daemon after a crash during an operation, which leads from one state to another.
// The files state one of them. again flushes the other messages, and crashes again.
func (w *flushWorld) check(m *faultfs.Mem, before, after flushFacts, again bool) error {
	next, err := openFlushWorld(m)
	if err != nil {
		return err
	}
	found, err := next.look()
	if err == nil && (found.messages < before.messages || found.messages > after.messages) {
		err = fmt.Errorf("%d messages", found.messages)
	}
	before.messages, after.messages, before.edits, after.edits, found.edits = found.messages, found.messages, 0, 0, 0
	if err == nil && !reflect.DeepEqual(found, before) && !reflect.DeepEqual(found, after) {
		err = fmt.Errorf("the state is %+v, want %+v or %+v", found, before, after)
	}
	want, flushes := found.after("flush")
	if again && flushes && err == nil {
		err = next.do("flush", found)
		left := m.Crash()
		if err = errors.Join(err, next.d.Close()); err != nil {
			return err
		}
		if next, err = openFlushWorld(left); err != nil {
			return err
		}
		if found, err = next.look(); err == nil && !reflect.DeepEqual(found, want) {
			err = fmt.Errorf("after another flush the state is %+v, want %+v", found, want)
		}
	}
	return errors.Join(err, next.d.Close())
}

// flushCrashes enumerates crash states until there are enough.
type flushCrashes struct {
	most           int
	early          bool
	spoil          func(*faultfs.Mem)
	seen           map[uint64]bool
	points, played int
	bad            []error
}

// image identifies a disk.
func image(m *faultfs.Mem, of ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, of...)
	var walk func(dir string)
	walk = func(dir string) {
		list, _ := m.ReadDir(dir)
		for _, e := range list {
			path := dir + "/" + e.Name()
			fmt.Fprintln(h, strings.TrimRight(path, "0123456789"))
			if e.IsDir() {
				walk(path)
			} else if b, err := vfs.ReadFile(m, path, 1<<24); err == nil && !strings.HasSuffix(path, "-lock") {
				h.Write(b)
			}
		}
	}
	for _, dir := range []string{"archived", "sessions"} {
		walk("/home/crab/" + dir)
	}
	for _, suffix := range []string{"", "-wal", "-wal.held", "-history"} {
		b, _ := vfs.ReadFile(m, "/home/crab/memory.db"+suffix, 1<<24)
		fmt.Fprintln(h, len(b))
		h.Write(b)
	}
	return h.Sum64()
}

// explore checks the crash states of a machine: a kill, and power cuts that keep all or none of
// the unsynced changes, or all or none but one, also in part.
func (x *flushCrashes) explore(w *flushWorld, before, after flushFacts) {
	x.points++
	disks := []*faultfs.Mem{w.m.Kill(), w.m.Crash()}
	changes := w.m.Unsynced()
	all := slices.Repeat([]faultfs.Outcome{faultfs.Kept}, len(changes))
	disks = append(disks, w.m.Crash(all...))
	for i, c := range changes {
		parts := []faultfs.Outcome{faultfs.Lost}
		if c.Op == "write" {
			parts = append(parts, faultfs.Garbage, faultfs.Zeroed)
			for k := range min(c.Cuts, 2) {
				parts = append(parts, faultfs.Cut(k+1))
			}
		}
		for _, part := range parts {
			some := slices.Clone(all)
			some[i] = part
			disks = append(disks, w.m.Crash(some...))
		}
		alone := make([]faultfs.Outcome, len(changes))
		alone[i] = faultfs.Kept
		disks = append(disks, w.m.Crash(alone...))
	}
	for _, m := range disks {
		id := image(m, m.BootID() == w.m.BootID(), before, after)
		if x.seen[id] || len(x.seen) >= x.most || len(x.bad) > 2 {
			continue
		}
		x.seen[id] = true
		if x.spoil != nil {
			x.spoil(m)
		}
		if err := w.check(m, before, after, len(x.seen)%4 == 0); err != nil {
			x.bad = append(x.bad, err)
		}
	}
}

// play executes a sequence and crashes it during its last operation.
func (x *flushCrashes) play(base *faultfs.Mem, seq []string, f flushFacts) error {
	states := []flushFacts{f}
	for _, symbol := range seq {
		next, ok := states[len(states)-1].after(symbol)
		if !ok {
			return nil
		}
		states = append(states, next)
	}
	x.played++
	m := base.Crash()
	var mu sync.Mutex
	var explore func() // at each call; nil: no exploration
	m.Hook = func(c faultfs.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if explore != nil && slices.Contains(changes, c.Op) && !strings.Contains(c.Name, "/run/") {
			explore()
		}
		return nil
	}
	w, err := openFlushWorld(m)
	if err != nil {
		return err
	}
	w.early = x.early
	for i, symbol := range seq {
		before, after := states[i], states[i+1]
		set := func(f func()) {
			mu.Lock()
			defer mu.Unlock()
			explore = f
		}
		if i == len(seq)-1 {
			set(func() { x.explore(w, before, after) })
		}
		err := w.do(symbol, before)
		set(nil)
		if err != nil {
			return fmt.Errorf("%s: %w", symbol, err)
		}
		if i == len(seq)-1 {
			x.explore(w, after, after)
		}
	}
	return w.d.Close()
}

// run plays all sequences, the short ones first, until there are enough states.
func (x *flushCrashes) run(t *testing.T) {
	t.Helper()
	x.seen = make(map[uint64]bool)
	base := faultfs.NewMem()
	d, _ := channel(t, base, "[sessions]\ntitles = \"off\"\n")
	_, err := d.store.Remember("base", "edit 0", nil)
	if err == nil {
		_, err = d.loaded.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}, "", "", tool.Unbounded())
	}
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	start := flushFacts{notes: map[string]string{"base": "edit 0"}}
	seqs := [][]string{nil}
	for len(x.seen) < x.most && len(x.bad) < 3 {
		var longer [][]string
		for _, seq := range seqs {
			for _, symbol := range []string{"flush", "say", "compact", "stale", "forget", "restart", "edit"} {
				seq := append(slices.Clip(slices.Clone(seq)), symbol)
				longer = append(longer, seq)
				if len(x.seen) >= x.most || len(x.bad) > 2 {
					return
				}
				if err := x.play(base, append([]string{"say"}, seq...), start); err != nil {
					x.bad = append(x.bad, fmt.Errorf("%v: %w", seq, err))
				}
			}
		}
		seqs = longer
	}
}

// TestFlushCrashes crashes a daemon at each call of the file system during flushes, and between
// messages, markers, restarts, and changes of the user. Afterwards each message was flushed at
// most once, each record was applied exactly once, and no note came back that the user removed.
func TestFlushCrashes(t *testing.T) {
	x := flushCrashes{most: someFlushCrashes}
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_FLUSH_CRASHES")); err == nil {
		x.most = n
	}
	began := time.Now()
	x.run(t)
	for _, err := range x.bad {
		t.Error(err)
	}
	t.Logf("%d crash states of flushes, %d wrong (%d sequences, %d crash points); %.0f states a second",
		len(x.seen), len(x.bad), x.played, x.points, float64(len(x.seen))/time.Since(began).Seconds())
}

// TestFlushControls enumerates crash states of daemons with a mistake, which it must find: notes
// that are applied before their record, and flushes that are counted before that.
func TestFlushControls(t *testing.T) {
	early := flushCrashes{most: someFlushCrashes, early: true}
	early.run(t)
	counted := flushCrashes{most: someFlushCrashes, spoil: func(m *faultfs.Mem) {
		name := "/home/crab/archived/" + flushedID
		if b, err := vfs.ReadFile(m, name, 1<<10); err == nil {
			m.WriteFile(name, []byte(strings.Replace(string(b), "/0/1", "/1/1", 1)), 0o600)
		}
	}}
	counted.run(t)
	for name, x := range map[string]*flushCrashes{"applied before the record": &early, "counted before the notes": &counted} {
		if len(x.bad) == 0 {
			t.Errorf("%s: not found in %d states", name, len(x.seen))
		} else {
			t.Logf("%s: %.300v", name, x.bad[0])
		}
	}
}
