//go:build unix

package displaced_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// machine is a file system with one store, and with the changes that the vfs
// interface missing.
type machine interface {
	vfs.FS
	store() string // path of the store
	symlink(target, name string)
	mkfifo(name string)
	chmod(name string, perm fs.FileMode)
	// copied returns a copy without processes and their locks. Changes to the copy
	// do not change the original.
	copied(t *testing.T) machine
}

type memMachine struct{ *faultfs.Mem }

// newMem returns a machine without a store. It is a copy, so that the machines of all
// cells share the reserve.
func newMem() memMachine { return memMachine{empty().Kill()} }

var empty = sync.OnceValue(func() *faultfs.Mem {
	m := memMachine{faultfs.NewMem()}
	for _, dir := range []string{"/home", "/aside"} {
		must(m.Mkdir(dir, 0o700))
	}
	keepReserve(m)
	return m.Mem
})

// keepReserve creates the reserve that a store keeps if it was large before.
func keepReserve(m machine) { create(m, m.store()+"-reserve", make([]byte, 256<<10)) }

func (m memMachine) store() string                       { return "/home/memory.db" }
func (m memMachine) symlink(target, name string)         { m.Symlink(target, name) }
func (m memMachine) mkfifo(name string)                  { m.Mkfifo(name) }
func (m memMachine) chmod(name string, perm fs.FileMode) { m.Chmod(name, perm) }
func (m memMachine) copied(*testing.T) machine           { return memMachine{m.Kill()} }

// rebooted returns the machine after a power cut that kept all writes.
func (m memMachine) rebooted() machine {
	outcomes := make([]faultfs.Outcome, len(m.Unsynced()))
	for i := range outcomes {
		outcomes[i] = faultfs.Kept
	}
	return memMachine{m.Crash(outcomes...)}
}

// osMachine is a directory of the real file system.
type osMachine struct {
	vfs.OS
	root string
}

func newOS(root string) osMachine {
	for _, dir := range []string{"home", "aside"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			panic(err)
		}
	}
	m := osMachine{root: root}
	keepReserve(m)
	return m
}

func (m osMachine) store() string { return filepath.Join(m.root, "home", "memory.db") }

func (m osMachine) symlink(target, name string) {
	if err := os.Symlink(target, name); err != nil {
		panic(err)
	}
}

func (m osMachine) mkfifo(name string) {
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		panic(err)
	}
}

func (m osMachine) chmod(name string, perm fs.FileMode) {
	if err := os.Chmod(name, perm); err != nil {
		panic(err)
	}
}

// copied copies the tree with its hard links.
func (m osMachine) copied(t *testing.T) machine {
	dir := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", m.root, dir).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	return osMachine{root: dir}
}

// read returns the contents of a regular file.
func read(m machine, name string) []byte {
	b, err := vfs.ReadFile(m, name, 1<<30)
	if err != nil {
		panic(err)
	}
	return b
}

// create creates or replaces a file. The result is a new inode.
func create(m machine, name string, b []byte) {
	if err := vfs.Replace(m, name, 0o600, func(w io.Writer) error { _, err := w.Write(b); return err }); err != nil {
		panic(err)
	}
}

// overwrite truncates a file and writes it in place, as cp does.
func overwrite(m machine, name string, b []byte) {
	f, err := m.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.Write(b)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		panic(err)
	}
}

func truncate(m machine, name string, size int64) {
	f, err := m.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	if err != nil {
		panic(err)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func exists(m machine, name string) bool {
	_, err := m.Lstat(name)
	return err == nil
}

// options returns the options of every store of this package. The store passes
// warnings to warn.
func options(m machine, mode crmem.CheckpointMode, warn func(string)) *crmem.Options {
	return &crmem.Options{
		FS: m, CheckpointOnClose: mode, Warn: warn,
		Now: func() time.Time { return time.Unix(1776162225, 0) },
	}
}
