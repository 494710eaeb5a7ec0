package fault

import (
	"slices"
	"syscall"

	"crabmem/crmem/vfs"
)

// Fault is a way for calls to fail.
type Fault struct {
	Name string
	Hits func(c vfs.Call) bool
	Err  func(c vfs.Call) error
	Ever bool // every call from the n-th on, instead of the n-th alone
}

func onOps(ops ...string) func(vfs.Call) bool {
	return func(c vfs.Call) bool { return slices.Contains(ops, c.Op) }
}

func fails(err error) func(vfs.Call) error { return func(vfs.Call) error { return err } }

// partialWrite fails a write after some of its bytes, given in thirds.
func partialWrite(err error, thirds int) func(vfs.Call) error {
	return func(c vfs.Call) error { return &vfs.Fault{Err: err, N: c.Size * thirds / 3} }
}

// failAfterEffect fails a call after its effect.
func failAfterEffect(err error) func(vfs.Call) error { return fails(&vfs.Fault{Err: err, Done: true}) }

// Faults returns a matrix of them: each once and for ever.
func Faults() []Fault {
	any := func(vfs.Call) bool { return true }
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
		{"EROFS", func(c vfs.Call) bool { return Mutates(c.Op) }, fails(syscall.EROFS), false},
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
		f.Name += ", for ever"
		base = append(base, f)
	}
	return base
}

// Injector fails the N-th call that a fault applies to. If the fault is permanent,
// it fails all later ones too.
type Injector struct {
	Fault
	N   int
	Hit int      // calls so far that the fault could hit
	At  vfs.Call // the N-th of them
}

// Hook is a [vfs.Mem]'s. One call at a time may be in it.
func (f *Injector) Hook(c vfs.Call) error {
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
