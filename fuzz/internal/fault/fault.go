package fault

import (
	"errors"
	"slices"
	"sync"
	"syscall"

	"crabmem/crmem/vfs/faultfs"
)

// Fault is an error to inject into calls.
type Fault struct {
	Name string
	Hits func(c faultfs.Call) bool  // reports whether the fault applies to a call
	Err  func(c faultfs.Call) error // returns the error of the call
	Ever bool                       // fails all calls from the n-th on, not only the n-th
}

func onOps(ops ...string) func(faultfs.Call) bool {
	return func(c faultfs.Call) bool { return slices.Contains(ops, c.Op) }
}

func fails(err error) func(faultfs.Call) error { return func(faultfs.Call) error { return err } }

// partialWrite fails a write after the given number of thirds of its bytes.
func partialWrite(err error, thirds int) func(faultfs.Call) error {
	return func(c faultfs.Call) error { return &faultfs.Fault{Err: err, N: c.Size * thirds / 3} }
}

// failAfterEffect fails a call after its effect.
func failAfterEffect(err error) func(faultfs.Call) error {
	return fails(&faultfs.Fault{Err: err, Done: true})
}

// Faults returns all faults, each in a form that fails one call and in a form that
// fails all later calls, too.
func Faults() []Fault {
	any := func(faultfs.Call) bool { return true }
	writes := onOps("write")
	syncs := onOps("sync", "datasync", "syncdir")
	grows := onOps("write", "create", "mkdir", "rename", "lock")
	opens := onOps("open", "create", "lock", "readdir", "root")
	base := []Fault{
		{"EIO", any, fails(syscall.EIO), false},
		{"ENOSPC", grows, fails(syscall.ENOSPC), false},
		{"ENOSPC of a sync", syncs, fails(syscall.ENOSPC), false},
		{"EDQUOT", writes, fails(syscall.EDQUOT), false},
		{"EFBIG", writes, fails(syscall.EFBIG), false},
		{"EINTR", any, fails(syscall.EINTR), false},
		{"EROFS", func(c faultfs.Call) bool { return Mutates(c.Op) }, fails(syscall.EROFS), false},
		{"EACCES", any, fails(syscall.EACCES), false},
		{"EMFILE", opens, fails(syscall.EMFILE), false},
		{"short write, ENOSPC", writes, partialWrite(syscall.ENOSPC, 1), false},
		{"short write, EIO", writes, partialWrite(syscall.EIO, 2), false},
		{"all written, ENOSPC", writes, partialWrite(syscall.ENOSPC, 3), false},
		{"EIO of a sync", syncs, fails(syscall.EIO), false},
		{"EIO of a sync that worked", syncs, failAfterEffect(syscall.EIO), false},
		{"EIO of a close", onOps("close"), fails(syscall.EIO), false},
		{"EIO of a rename that worked", onOps("rename"), failAfterEffect(syscall.EIO), false},
		{"EIO of a write that worked", writes, failAfterEffect(syscall.EIO), false},
	}
	for _, f := range slices.Clone(base) {
		f.Ever = true
		f.Name += ", permanent"
		base = append(base, f)
	}
	return base
}

// Injector fails the N-th call that a fault applies to. If Ever is true, it also
// fails all later such calls.
type Injector struct {
	Fault
	N   int
	Hit int          // number of calls so far that the fault applies to
	At  faultfs.Call // the N-th of these calls
}

// Hook is the hook of a [faultfs.Mem]. Calls must not overlap.
func (f *Injector) Hook(c faultfs.Call) error {
	if !f.Hits(c) {
		return nil
	}
	if f.Hit++; f.Hit == f.N || f.Hit > f.N && f.Ever {
		if f.Hit == f.N {
			f.At = c
		}
		return f.Err(c)
	}
	return nil
}

var errPower = errors.New("power cut")

// PowerCut simulates a power cut after After calls. Hook then captures the crash
// state and fails all calls. Its methods are safe for concurrent use.
type PowerCut struct {
	After int                 // number of calls before the power cut
	Take  func() *faultfs.Mem // returns the crash state; Hook and Trigger call it once

	mu    sync.Mutex
	image *faultfs.Mem
}

// Hook is the hook of a [faultfs.Mem].
func (a *PowerCut) Hook(faultfs.Call) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.image != nil {
		return errPower
	}
	if a.After--; a.After < 0 {
		a.image = a.Take()
		return errPower
	}
	return nil
}

// Triggered reports whether the power is cut.
func (a *PowerCut) Triggered() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.image != nil
}

// Trigger cuts the power if it is not cut yet, and returns the crash state.
func (a *PowerCut) Trigger() *faultfs.Mem {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.image == nil {
		a.image = a.Take()
	}
	return a.image
}

// Disarm prevents a later power cut. It returns the crash state, or nil if the
// power is not cut.
func (a *PowerCut) Disarm() *faultfs.Mem {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.After = 1 << 30
	return a.image
}
