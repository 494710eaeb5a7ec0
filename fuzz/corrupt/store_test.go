// Package corrupt tests a file system that stores or returns wrong bytes in one
// call. Stores and sessions must not return wrong data silently. The state must be
// the acknowledged state, or an operation must report an error or a warning that
// names a file. The tests list each case that a format cannot detect.
package corrupt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/fault"
	"crabmem/fuzz/linear"
)

const db = "/d/memory.db"

// storeRun executes a fixed history on a store, and compares its state.
type storeRun struct {
	m        *faultfs.Mem
	s        *crmem.Store
	step     string
	states   []string     // acknowledged states; the last is the current one
	ram      *crmem.Store // executes the same history in memory
	maybe    string       // the state after an operation whose outcome is unknown
	messages []string     // errors and warnings
	wrong    string       // a state that was never acknowledged, or an old state without a message
}

func storeState(s *crmem.Store) string {
	return fmt.Sprintf("%d %+v", s.NextID(), slices.Collect(s.All()))
}

func (r *storeRun) report(err error) {
	if err != nil {
		r.messages = append(r.messages, err.Error())
	}
}

// open opens the store and compares its state.
func (r *storeRun) open(step string, o crmem.Options) {
	if r.step = step; r.stopped() {
		return
	}
	o.FS, o.Now = r.m, linear.Clock
	o.Warn = func(w string) { r.messages = append(r.messages, w) }
	s, err := crmem.Open(db, &o)
	if err != nil {
		r.report(err)
		return
	}
	r.s = s
	r.compare(o.ReadOnly)
}

// compare compares the state of the open store. An old state is correct after a
// message, or for a reader of a torn log.
func (r *storeRun) compare(reader bool) {
	got := storeState(r.s)
	last := r.states[len(r.states)-1]
	if got == last || r.wrong != "" || r.maybe != "" && got == r.maybe {
		return
	}
	if slices.Contains(r.states, got) && (len(r.messages) > 0 || reader && r.torn()) {
		return
	}
	r.wrong = fmt.Sprintf("%s, reader %t: %.300s\nwant %.300s", r.step, reader, got, last)
}

// torn reports whether Check finds a torn tail. A reader returns the entries before
// it without a warning, because a running process may be writing the tail.
func (r *storeRun) torn() bool {
	hook := r.m.Hook
	r.m.Hook = nil
	defer func() { r.m.Hook = hook }()
	c, err := crmem.Check(r.m, db, 0)
	return err == nil && slices.ContainsFunc(c.Problems, func(p crmem.Problem) bool {
		return p.IsTorn() && p.File == db+"-wal" && p.Offset > 0
	})
}

func (r *storeRun) apply(step string, ops ...crmem.Op) {
	if r.step = step; r.stopped() {
		return
	}
	if err := r.ram.Apply(ops...); err != nil {
		panic(err)
	}
	if err := r.s.Apply(ops...); err != nil {
		if errors.Is(err, crmem.ErrUnknown) {
			r.maybe = storeState(r.ram)
		}
		r.report(err)
		return
	}
	r.states = append(r.states, storeState(r.s))
}

func (r *storeRun) do(step string, f func() error) {
	if r.step = step; !r.stopped() {
		r.report(f())
	}
}

func (r *storeRun) stopped() bool { return len(r.messages) > 0 || r.wrong != "" }

func (r *storeRun) play() {
	r.states = []string{"1 []"}
	r.ram = crmem.New(&crmem.Options{Now: linear.Clock})
	never := crmem.Options{CheckpointOnClose: crmem.CheckpointNever}
	long := strings.Repeat("a long text; ", 300)
	r.open("create", never)
	r.apply("first write", crmem.Add{Name: "a", Content: "one", Aliases: []string{"x"}})
	r.apply("second write", crmem.Add{Name: "b", Content: long})
	r.apply("batch", crmem.Update{Name: "a", Content: "two"}, crmem.Add{Name: "c", Kind: crmem.Archive, Content: long + "c"})
	r.do("checkpoint", func() error { return r.s.Checkpoint() })
	r.apply("write", crmem.Add{Name: "d", Content: "in the log"})
	r.apply("remove", crmem.Remove{Name: "b"})
	r.do("close", func() error { return r.s.Close() })
	r.open("read", crmem.Options{ReadOnly: true})
	r.do("close after read", func() error { return r.s.Close() })
	r.open("reopen", never)
	r.apply("write after reopen", crmem.Alias{Name: "d", Aliases: []string{"y", "z"}})
	r.apply("last write", crmem.Add{Name: "e", Content: "last"})
	r.m = r.kill()
	r.open("recover", crmem.Options{})
	r.do("checkpoint on close", func() error { return r.s.Close() })
	r.open("read without log", crmem.Options{ReadOnly: true})
	r.do("close after read without log", func() error { return r.s.Close() })
	r.open("reopen without log", never)
	r.apply("write without log", crmem.Add{Name: "f", Content: "f"})
}

// kill returns the file system after a kill of the process, with the same hook.
func (r *storeRun) kill() *faultfs.Mem {
	if r.stopped() {
		return r.m
	}
	hook := r.m.Hook
	m := r.m.Kill()
	m.Hook = hook
	return m
}

// after opens the store after a kill or a power cut, and compares its state.
func (r *storeRun) after(m *faultfs.Mem, what string) *storeRun {
	m.Hook = nil
	a := &storeRun{m: m, states: r.states, maybe: r.maybe, messages: slices.Clone(r.messages)}
	for _, o := range []crmem.Options{{ReadOnly: true}, {CheckpointOnClose: crmem.CheckpointNever}, {}} {
		o.FS, o.Now = m, linear.Clock
		o.Warn = func(w string) { a.messages = append(a.messages, w) }
		a.step = what
		s, err := crmem.Open(db, &o)
		if err != nil {
			a.report(err)
			continue
		}
		a.s = s
		a.compare(o.ReadOnly)
		a.report(s.Close())
	}
	return a
}

// Reasons why no check can detect a corruption.
const (
	// A torn tail may be the write of a running process. Only writers warn.
	readerTail = "a reader accepts a torn tail of the log"
	// CRMEM v1 has no checksum. The log contains the digest of the snapshot. A log
	// without operations accepts another snapshot, because other programs may replace
	// the snapshot. verify reports it.
	noOperations = "a snapshot without logged operations has no checksum"
)

// undetected lists the cases without an error or a warning. A key has the step, the
// corruption, and the kind of file. The value is the reason.
var undetected = map[string]string{
	"read | read, last bit | wal":                            readerTail,
	"read | read, zeros in the second half | wal":            readerTail,
	"read | read, first half twice | wal":                    readerTail,
	"reopen without log | read, middle bit | snapshot":       noOperations,
	"reopen without log | read, blocks exchanged | snapshot": noOperations,
	"reopen without log | read, block twice | snapshot":      noOperations,
}

// TestStoreCorruption corrupts one read or write of a store per run.
func TestStoreCorruption(t *testing.T) {
	found := map[string]int{}
	cases, detected, equal := 0, 0, 0
	for _, c := range fault.Corruptions() {
		for n := 1; ; n++ {
			f := &fault.Corrupting{Corruption: c, N: n}
			r := &storeRun{m: faultfs.NewMem()}
			if err := r.m.Mkdir("/d", 0o700); err != nil {
				t.Fatal(err)
			}
			at := ""
			r.m.Hook = func(k faultfs.Call) error {
				hit := f.Hit
				err := f.Hook(k)
				if f.Hit == n && hit < n {
					at = r.step
				}
				return err
			}
			r.play()
			if f.Hit < n {
				break
			}
			cases++
			runs := []*storeRun{r}
			if r.wrong == "" {
				runs = append(runs, r.after(r.m.Kill(), "after a kill"), r.after(r.m.Crash(), "after a power cut"))
			}
			wrong := false
			for _, r := range runs {
				for _, s := range r.messages {
					if !strings.Contains(s, "memory.db") {
						t.Errorf("%s of %s in %q: message %q names no file", c.Name, f.At.Name, at, s)
					}
				}
				if r.wrong != "" && !wrong {
					wrong = true
					key := fmt.Sprintf("%s | %s | %s", at, c.Name, kindOf(f.At.Name))
					found[key]++
					if undetected[key] == "" {
						t.Errorf("%s: no error and no warning: %s", key, r.wrong)
					}
				}
			}
			switch {
			case wrong:
			case slices.ContainsFunc(runs, func(r *storeRun) bool { return len(r.messages) > 0 }):
				detected++
			default:
				equal++
			}
		}
	}
	for key := range undetected {
		if found[key] == 0 {
			t.Errorf("%q was detected: remove it from the list", key)
		}
	}
	t.Logf("corrupt calls: %d cases, %d reported, %d without effect, %d undetectable", cases, detected, equal, cases-detected-equal)
}

// kindOf returns the kind of a store file: wal, lock, reserve, or snapshot.
func kindOf(name string) string {
	for _, kind := range []string{"-wal", "-lock", "-reserve"} {
		if strings.Contains(name, kind) {
			return strings.TrimPrefix(kind, "-")
		}
	}
	return "snapshot"
}
