// Package corrupt contains tests in which a file system stores or returns other
// bytes than it reports, one call at a time. Stores and sessions must never
// silently return wrong data: an open or an operation reports an error or a
// warning with the name of a file, or the state is the acknowledged one. Cases
// that a format cannot detect are listed by name.
package corrupt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/checkpoint"
	"crabmem/crmem/repair"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/internal/fault"
	"crabmem/fuzz/linear"
)

const db = "/d/memory.db"

// storeRun executes a fixed history on a store, and compares its state.
type storeRun struct {
	m      *vfs.Mem
	s      *crmem.Store
	step   string
	states []string     // acknowledged; the last is the present one
	ram    *crmem.Store // plays the same history, without files
	maybe  string       // the state after an operation whose outcome is unknown
	said   []string     // errors and warnings
	wrong  string       // a state that was never acknowledged, or an old one without a word
}

func storeState(s *crmem.Store) string {
	return fmt.Sprintf("%d %+v", s.NextID(), slices.Collect(s.All()))
}

func (r *storeRun) say(err error) {
	if err != nil {
		r.said = append(r.said, err.Error())
	}
}

// open opens the store and compares its state.
func (r *storeRun) open(step string, o crmem.Options) {
	if r.step = step; r.stopped() {
		return
	}
	o.FS, o.Now = r.m, linear.Clock
	o.Warn = func(w string) { r.said = append(r.said, w) }
	s, err := crmem.Open(db, &o)
	if err != nil {
		r.say(err)
		return
	}
	r.s = s
	r.compare(o.ReadOnly)
}

func (r *storeRun) compare(reader bool) {
	got := storeState(r.s)
	last := r.states[len(r.states)-1]
	if got == last || r.wrong != "" || r.maybe != "" && got == r.maybe {
		return
	}
	if slices.Contains(r.states, got) && (len(r.said) > 0 || reader && r.torn()) {
		return
	}
	r.wrong = fmt.Sprintf("%s, reader %t: %.300s\nwant %.300s", r.step, reader, got, last)
}

// torn reports whether the check finds a torn tail. A reader shows the entries
// before it without a warning, because a running process may be writing.
func (r *storeRun) torn() bool {
	hook := r.m.Hook
	r.m.Hook = nil
	defer func() { r.m.Hook = hook }()
	c, err := crmem.Check(r.m, db, 0)
	return err == nil && slices.ContainsFunc(c.Problems, func(p repair.Problem) bool {
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
		r.say(err)
		return
	}
	r.states = append(r.states, storeState(r.s))
}

func (r *storeRun) do(step string, f func() error) {
	if r.step = step; !r.stopped() {
		r.say(f())
	}
}

func (r *storeRun) stopped() bool { return len(r.said) > 0 || r.wrong != "" }

func (r *storeRun) play() {
	r.states = []string{"1 []"}
	r.ram = crmem.New(&crmem.Options{Now: linear.Clock})
	never := crmem.Options{CheckpointOnClose: checkpoint.Never}
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

// kill returns the machine after a kill of the process, with the same hook.
func (r *storeRun) kill() *vfs.Mem {
	if r.stopped() {
		return r.m
	}
	hook := r.m.Hook
	m := r.m.Kill()
	m.Hook = hook
	return m
}

// after opens the store after a kill or a power cut, and compares its state.
func (r *storeRun) after(m *vfs.Mem, what string) *storeRun {
	m.Hook = nil
	a := &storeRun{m: m, states: r.states, maybe: r.maybe, said: slices.Clone(r.said)}
	for _, o := range []crmem.Options{{ReadOnly: true}, {CheckpointOnClose: checkpoint.Never}, {}} {
		o.FS, o.Now = m, linear.Clock
		o.Warn = func(w string) { a.said = append(a.said, w) }
		a.step = what
		s, err := crmem.Open(db, &o)
		if err != nil {
			a.say(err)
			continue
		}
		a.s = s
		a.compare(o.ReadOnly)
		a.say(s.Close())
	}
	return a
}

// Reasons why no check can find a corruption.
const (
	// To a reader, a torn tail is a write of a running process. Writers warn.
	readerTail = "a reader shows what is before a torn tail of the log"
	// CRMEM v1 has no checksum. The log has the digest of the snapshot; another
	// snapshot is accepted while the log has no operations, because other
	// programs may replace the snapshot. verify reports it.
	noOperations = "a snapshot without logged operations has no checksum"
)

// undetected are the cases without an error or a warning, by the step, the
// corruption, and the kind of file.
var undetected = map[string]string{
	"read | read, last bit | wal":                            readerTail,
	"read | read, zeros in the second half | wal":            readerTail,
	"read | read, first half twice | wal":                    readerTail,
	"reopen without log | read, middle bit | snapshot":       noOperations,
	"reopen without log | read, blocks exchanged | snapshot": noOperations,
	"reopen without log | read, block twice | snapshot":      noOperations,
}

func TestStoreCorruption(t *testing.T) {
	found := map[string]int{}
	cases, loud, equal := 0, 0, 0
	for _, c := range fault.Corruptions() {
		for n := 1; ; n++ {
			f := &fault.Corrupting{Corruption: c, N: n}
			r := &storeRun{m: vfs.NewMem()}
			if err := r.m.Mkdir("/d", 0o700); err != nil {
				t.Fatal(err)
			}
			at := ""
			r.m.Hook = func(k vfs.Call) error {
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
				for _, s := range r.said {
					if !strings.Contains(s, "memory.db") {
						t.Errorf("%s of %s in %q: %q names no file", c.Name, f.At.Name, at, s)
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
			case slices.ContainsFunc(runs, func(r *storeRun) bool { return len(r.said) > 0 }):
				loud++
			default:
				equal++
			}
		}
	}
	for key := range undetected {
		if found[key] == 0 {
			t.Errorf("%q is detected now", key)
		}
	}
	t.Logf("corrupt calls: %d cases, %d reported, %d without effect, %d undetectable", cases, loud, equal, cases-loud-equal)
}

// kindOf returns the kind of a file of the store.
func kindOf(name string) string {
	for _, kind := range []string{"-wal", "-lock", "-reserve"} {
		if strings.Contains(name, kind) {
			return strings.TrimPrefix(kind, "-")
		}
	}
	return "snapshot"
}
