package crash

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// fault is a way for calls to fail.
type fault struct {
	name string
	hits func(c vfs.Call) bool
	err  func(c vfs.Call) error
	ever bool // every call from the n-th on, instead of the n-th alone
}

func onOps(ops ...string) func(vfs.Call) bool {
	return func(c vfs.Call) bool { return slices.Contains(ops, c.Op) }
}

func fails(err error) func(vfs.Call) error { return func(vfs.Call) error { return err } }

// part fails a write after some of its bytes, given in thirds.
func part(err error, thirds int) func(vfs.Call) error {
	return func(c vfs.Call) error { return &vfs.Fault{Err: err, N: c.Size * thirds / 3} }
}

// late fails a call that did its work.
func late(err error) func(vfs.Call) error { return fails(&vfs.Fault{Err: err, Done: true}) }

// faults is the matrix of TestErrors: each once and for ever.
func faults() []fault {
	any := func(vfs.Call) bool { return true }
	writes := onOps("write")
	syncs := onOps("sync", "datasync", "syncdir")
	grows := onOps("write", "create", "mkdir", "rename", "lock")
	opens := onOps("open", "create", "lock", "readdir", "root")
	base := []fault{
		{"EIO", any, fails(syscall.EIO), false},
		{"ENOSPC", grows, fails(syscall.ENOSPC), false},
		{"ENOSPC of a sync", syncs, fails(syscall.ENOSPC), false},
		{"EDQUOT", writes, fails(syscall.EDQUOT), false},
		{"EFBIG", writes, fails(syscall.EFBIG), false},
		{"EINTR", any, fails(syscall.EINTR), false},
		{"EROFS", func(c vfs.Call) bool { return mutates(c.Op) }, fails(syscall.EROFS), false},
		{"EACCES", any, fails(syscall.EACCES), false},
		{"EMFILE", opens, fails(syscall.EMFILE), false},
		{"short write, ENOSPC", writes, part(syscall.ENOSPC, 1), false},
		{"short write, EIO", writes, part(syscall.EIO, 2), false},
		{"all written, ENOSPC", writes, part(syscall.ENOSPC, 3), false},
		{"EIO of a sync", syncs, fails(syscall.EIO), false},
		{"EIO of a sync that worked", syncs, late(syscall.EIO), false},
		{"EIO of a close", onOps("close"), fails(syscall.EIO), false},
		{"EIO of a rename that worked", onOps("rename"), late(syscall.EIO), false},
		{"EIO of a write that worked", writes, late(syscall.EIO), false},
	}
	for _, f := range slices.Clone(base) {
		f.ever = true
		f.name += ", for ever"
		base = append(base, f)
	}
	return base
}

// TestErrors is L3: the n-th call that a fault can hit fails, for every n
// until a run ends without it.
func TestErrors(t *testing.T) {
	workloads := [][]string{
		{"add", "checkpoint", "batch"},
		{"batch", "reopen", "update"},
		{"add", "load", "remove"},
	}
	if full {
		workloads = append(workloads, sequences(1)...)
		workloads = append(workloads, []string{"overlap", "remove", "checkpoint"}, []string{"alias", "add", "reopen", "add"},
			[]string{"checkpoint", "checkpoint", "add"}, []string{"add", "overlap", "reopen"}, []string{"remove", "remove", "batch", "remove"},
			[]string{"add", "add", "add", "reopen", "checkpoint"}, []string{"update", "forget-missing", "batch", "overlap"})
	}
	type job struct {
		literal bool
		scene   string
		seq     []string
		f       fault
	}
	jobs := make(chan job)
	var mu sync.Mutex
	runs, hit, bad := 0, map[error]int{}, 0
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for w := range jobs {
				for n := 1; ; n++ {
					e := &failing{f: w.f, n: n, j: newJudge(w.literal)}
					err := e.run(w.scene, w.seq)
					mu.Lock()
					runs++
					for class, k := range e.classes {
						hit[class] += k
					}
					if err != nil {
						bad++
					}
					stop := err != nil && bad > 5
					mu.Unlock()
					if err != nil && !stop {
						t.Errorf("literal=%v, %s store, %s, %s at hit %d (call %v): %v", w.literal, w.scene, strings.Join(w.seq, " "), w.f.name, n, e.at, err)
					}
					if e.hit < n || stop {
						break
					}
					if n > 2000 {
						t.Errorf("%s: no run ends without the fault", w.f.name)
						break
					}
				}
			}
		})
	}
	for _, f := range faults() {
		scenes := scenes
		if f.ever && f.hits(vfs.Call{Op: "remove"}) {
			// A directory was made, its name's sync failed, and so did taking
			// it away: no program can know of it after the disk has healed.
			scenes = []string{"empty", "used"}
		}
		for i, seq := range workloads {
			for _, scene := range scenes {
				for _, literal := range []bool{false, true} {
					if full || (i%2 == 0) == literal {
						jobs <- job{literal, scene, seq, f}
					}
				}
			}
		}
	}
	close(jobs)
	wg.Wait()
	for _, class := range []error{crmem.ErrNotApplied, crmem.ErrUnknown, crmem.ErrStopped} {
		if hit[class] == 0 {
			t.Errorf("no run ended in %q", class)
		}
	}
	t.Logf("failed calls checked: %d runs, %d wrong (%d not applied, %d unknown, %d stopped)", runs, bad,
		hit[crmem.ErrNotApplied], hit[crmem.ErrUnknown], hit[crmem.ErrStopped])
}

// failing is one run with one fault.
type failing struct {
	f       fault
	n       int
	j       *judge
	hit     int // calls that the fault could hit
	at      vfs.Call
	classes map[error]int
}

func (e *failing) hook(c vfs.Call) error {
	if !e.f.hits(c) {
		return nil
	}
	if e.hit++; e.hit == e.n || e.hit > e.n && e.f.ever {
		if e.hit == e.n {
			e.at = c
		}
		return e.f.err(c)
	}
	return nil
}

func (e *failing) run(scene string, seq []string) error {
	e.classes = map[error]int{}
	r, err := newRun(e.j, scene)
	if err != nil {
		return fmt.Errorf("scene: %w", err)
	}
	r.m.Hook = e.hook
	acked, maybe := r.acked, r.acked
	uncertain := false
	for i, symbol := range seq {
		r.now.Store(epoch + uint64(i+1))
		switch symbol {
		case "checkpoint":
			err = r.s.Checkpoint()
		case "load":
			next := loaded(acked, i)
			switch err = r.s.Replace(next.snapshot()); {
			case err == nil && uncertain:
				return wrong("step %d: loaded after an outcome that was unknown", i)
			case err == nil:
				acked, maybe = next, next
			case !uncertain && !errors.Is(err, crmem.ErrNotApplied) && !errors.Is(err, crmem.ErrStopped):
				maybe, uncertain = next, true
			}
		case "reopen":
			// A close that fails loses nothing; the lock may be left, as it
			// is when the process ends here.
			if err = errors.Join(r.s.Close(), r.open()); err != nil {
				r.s = nil
			} else if got := stateOf(r.s); among(got.print, []version{acked, maybe}) {
				acked, maybe, uncertain = got, got, false // the reopen tells
			}
		default:
			ops := operations(symbol, acked, i)
			next, refused := acked.apply(r.now.Load(), ops...)
			if symbol == "overlap" {
				if err = r.s.Checkpoint(); err != nil {
					continue
				}
			}
			err = r.s.Apply(ops...)
			c := class(err)
			e.classes[c]++
			switch {
			case c == nil && refused == nil:
				if uncertain {
					return wrong("step %d: acknowledged after an outcome that was unknown", i)
				}
				acked, maybe = next, next
			case refused != nil && c == refused, c == crmem.ErrNotApplied, c == crmem.ErrStopped:
			case c == crmem.ErrUnknown && refused == nil:
				maybe, uncertain = next, true
			default:
				return wrong("step %d: %v", i, err)
			}
		}
		if r.s == nil {
			break
		}
		if got := stateOf(r.s); got.print != acked.print {
			return wrong("step %d, %v: the store shows %v\nwant %v", i, err, got, acked) // I10
		}
	}
	if e.hit < e.n && err != nil && class(err) == err {
		return wrong("an error without a fault: %v", err)
	}
	want := []version{acked, maybe}
	if err := e.j.killed(r.m.Kill(), want); err != nil {
		return err
	}
	all := make([]vfs.Fate, len(r.m.Unsynced()))
	for i := range all {
		all[i] = vfs.Whole
	}
	for _, fates := range [][]vfs.Fate{nil, all, all[:len(all)/2]} {
		if _, err := e.crash(r.m, fates, want); err != nil {
			return err
		}
	}
	// Without each name or truncation alone.
	for i, c := range r.m.Unsynced() {
		if c.Op == "write" {
			continue
		}
		but := slices.Clone(all)
		but[i] = vfs.Gone
		if _, err := e.crash(r.m, but, want); err != nil {
			return err
		}
	}
	return nil
}

func (e *failing) crash(m *vfs.Mem, fates []vfs.Fate, want []version) (version, error) {
	c := m.Crash(fates...)
	s, err := e.j.open(c, epoch, nil)
	if err != nil {
		return version{}, wrong("open after a crash that kept %v: %v", fates, err)
	}
	got := stateOf(s)
	if !among(got.print, want) {
		return got, wrong("after a crash that kept %v: %v\nwant one of %v", fates, got, want)
	}
	return got, nil
}
