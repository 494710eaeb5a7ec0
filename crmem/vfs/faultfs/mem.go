// Package faultfs simulates a machine's file system in memory, for tests. Tests
// can inject a fault into each call and cut the power.
package faultfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"crabmem/crmem/vfs"
)

// Mem is a file system in memory, as one process sees it. It stores the durable
// state separately from the visible state. Paths are slash-separated and
// absolute; a relative path starts at the root. The zero value is not usable;
// see [NewMem].
//
// Mem is stricter than real file systems. A sync of a file does not make the
// file's name durable. A power cut can keep any subset of the unsynced changes.
// After a failed sync of a file or directory, its unsynced changes stay visible
// but never become durable. Later syncs succeed without these changes.
//
// Mem checks permission bits as if an ordinary user owned every file. All
// methods are safe for concurrent use.
type Mem struct {
	// Hook, if not nil, is called before each primitive call, with no lock
	// held. If it returns an error, the call fails; see [Fault]. Set it while
	// no call is running, or with SetHook.
	Hook func(Call) error

	// Now returns modification times; nil means time.Now. Set it before the
	// first call.
	Now func() time.Time

	// Limit is the capacity for file contents, in bytes; 0 = unlimited. A write
	// that exceeds it stores the bytes that fit and returns ENOSPC.
	Limit int64

	memTree // the tree of the root directory

	mu      sync.Mutex
	pending []dirChange // unsynced changes of names, oldest first
	used    int64       // bytes that count toward Limit
	lastIno uint64
	lastTmp uint64 // number in the last temporary name; a counter makes runs repeatable
	calls   int
	handles atomic.Int64 // open files and held locks
	boot    int
}

// Call is one primitive call on a [Mem].
type Call struct {
	N    int    // number of the call, from 1
	Op   string // open, create, read, write, truncate, sync, datasync, stat, close, rename, link, remove, mkdir, readdir, lstat, syncdir, lock, unlock, resolve, root, free
	Name string // name of the file; the new name for a rename or link
	Size int    // bytes to read or write
}

// Fault is an error that [Mem.Hook] returns. It defines the effect of the call
// before the call fails.
//
// For any other error, and for a Fault with only Err, the call has no effect,
// with two exceptions. A close closes the file. A sync of a file or directory
// loses the changes that it should make durable.
type Fault struct {
	Err  error
	Done bool // the call takes full effect, then returns Err; reads ignore Done
	N    int  // bytes that a write stores before it returns Err

	// Corrupt, if set, replaces the bytes that a read returns or a write stores.
	// It may change its argument and may return fewer or more bytes; a read
	// drops bytes that exceed its buffer. The call returns Err, which may be
	// nil. A write on a disk with enough space reports the number of bytes that
	// its caller passed. Calls other than reads and writes ignore Corrupt, and
	// a Fault without Err.
	Corrupt func([]byte) []byte
}

func (f *Fault) Error() string {
	if f.Err == nil {
		return "corrupt bytes"
	}
	return f.Err.Error()
}
func (f *Fault) Unwrap() error { return f.Err }

// NewMem returns an empty file system.
func NewMem() *Mem {
	m := &Mem{lastIno: 1, boot: 1}
	m.m = m
	m.dir = &node{ino: 1, mode: fs.ModeDir | 0o755, names: map[string]*node{}, durable: map[string]*node{}, mtime: m.now()}
	return m
}

var _ vfs.FS = (*Mem)(nil)

// node is an inode. Mem.mu guards all fields.
type node struct {
	ino   uint64
	mode  fs.FileMode
	mtime time.Time
	links int      // visible names
	opens int      // open files and the held lock
	lock  *memLock // the held lock; nil = unlocked

	// Fields of a regular file.
	data    content // visible contents
	disk    content // durable contents
	pieces  []piece // unsynced changes, oldest first
	hasLost bool    // data contains bytes that a failed sync lost: never copy it to disk

	// Fields of a directory. Mem.pending contains the unsynced changes.
	names   map[string]*node // visible entries
	durable map[string]*node // durable entries

	// Field of a symbolic link.
	target string
}

func (m *Mem) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

// SetHook sets [Mem.Hook] while other goroutines use m.
func (m *Mem) SetHook(hook func(Call) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Hook = hook
}

// enter counts a primitive call and calls the hook. It returns the fault to
// inject, or nil. The caller must not hold mu.
func (m *Mem) enter(op, name string, size int) *Fault {
	m.mu.Lock()
	m.calls++
	n, hook := m.calls, m.Hook
	m.mu.Unlock()
	if hook == nil {
		return nil
	}
	err := hook(Call{N: n, Op: op, Name: name, Size: size})
	if err == nil {
		return nil
	}
	f, ok := errors.AsType[*Fault](err)
	switch {
	case !ok:
		return &Fault{Err: err}
	case f.Err == nil && op != "read" && op != "write":
		return nil
	}
	return f
}

// do executes one primitive call: the hook, then effect with mu held. It skips
// effect if the hook returns a fault without Done.
func (m *Mem) do(op, name string, effect func() error) error {
	f := m.enter(op, name, 0)
	var err error
	if f == nil || f.Done {
		m.mu.Lock()
		err = effect()
		m.mu.Unlock()
	}
	if f != nil {
		err = f.Err
	}
	return pathError(op, name, err)
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Remote returns "": Mem is a local file system.
func (m *Mem) Remote(string) string { return "" }

// Free implements [vfs.FS].
func (m *Mem) Free(dir string) (free int64, err error) {
	err = m.do("free", dir, func() error {
		if free = math.MaxInt64; m.Limit > 0 {
			free = max(0, m.Limit-m.used)
		}
		_, err := m.walk(dir, true)
		return err
	})
	if err != nil {
		return 0, err
	}
	return free, nil
}

// BootID returns the ID of this boot. The result of [Mem.Crash] has another ID.
func (m *Mem) BootID() string { return "mem-boot-" + strconv.Itoa(m.boot) }

// Calls returns the number of primitive calls so far.
func (m *Mem) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// Root implements [vfs.FS].
func (m *Mem) Root(dir string) (vfs.RootDir, error) {
	t := &memRoot{memTree{m: m, confined: true}}
	err := m.do("root", dir, func() (err error) {
		t.dir, err = m.walk(dir, true)
		if err == nil && !t.dir.mode.IsDir() {
			err = syscall.ENOTDIR
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	t.prefix = absolute(dir)
	return t, nil
}

// Resolve implements [vfs.FS].
func (m *Mem) Resolve(name string) (string, error) {
	abs := absolute(name)
	resolved := abs
	err := m.do("resolve", name, func() error {
		real, _, err := m.resolve(abs, true)
		if err == nil {
			resolved = real
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, err := m.walk(abs, false); err == nil {
			return errors.New("link to a missing file")
		}
		dir, _, err := m.resolve(path.Dir(abs), true)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		resolved = path.Join(dir, path.Base(abs))
		return err
	})
	if err != nil {
		return "", err
	}
	return resolved, nil
}

// WriteFile creates or overwrites a durable file, to set up a test.
//
// WriteFile, Symlink, Mkfifo, and Chmod do not call the hook. They panic if the
// parent directory is missing; Chmod also panics if the file is missing.
func (m *Mem) WriteFile(name string, data []byte, perm fs.FileMode) {
	m.place(name, func(dir *node, base string) *node {
		n := dir.names[base]
		if n == nil {
			n = m.newNode(perm)
		}
		m.used += int64(len(data)) - n.data.size
		n.data = content{}
		n.data.writeAt(data, 0)
		n.disk, n.pieces, n.hasLost = n.data.share(), nil, false
		n.mode, n.mtime = perm, m.now()
		return n
	})
}

// Symlink creates a durable symbolic link.
func (m *Mem) Symlink(target, name string) {
	m.place(name, func(*node, string) *node {
		n := m.newNode(fs.ModeSymlink | 0o777)
		n.target = target
		return n
	})
}

// Mkfifo creates a durable FIFO.
func (m *Mem) Mkfifo(name string) {
	m.place(name, func(*node, string) *node { return m.newNode(fs.ModeNamedPipe | 0o600) })
}

// Chmod sets the permission bits of a file or directory. It follows links. The
// change is durable.
func (m *Mem) Chmod(name string, perm fs.FileMode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.walk(name, true)
	if err != nil {
		panic(fmt.Sprintf("faultfs: chmod: %s: %v", name, err))
	}
	n.mode = n.mode.Type() | perm.Perm()
}

// place sets the visible and durable entry of name to the node that make
// returns. It panics if the parent directory is missing.
func (m *Mem) place(name string, make func(dir *node, base string) *node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		panic(fmt.Sprintf("faultfs: %s: %v", name, err))
	}
	n := make(dir, base)
	if old := dir.names[base]; old != n {
		if old != nil {
			m.unlink(old)
		}
		n.links++
	}
	dir.names[base], dir.durable[base] = n, n
}

// newNode returns a node without names. The caller holds mu.
func (m *Mem) newNode(mode fs.FileMode) *node {
	m.lastIno++
	n := &node{ino: m.lastIno, mode: mode, mtime: m.now()}
	if mode.IsDir() {
		n.names, n.durable = map[string]*node{}, map[string]*node{}
	}
	return n
}

// unlink decrements the link count of a node and releases the space of an
// unused node. The caller removes the directory entry.
func (m *Mem) unlink(n *node) {
	n.links--
	m.free(n)
}

// free releases the disk space of a node without names and open files.
func (m *Mem) free(n *node) {
	if n.links == 0 && n.opens == 0 {
		m.used -= n.data.size
	}
}

// absolute returns name as a clean path from the root.
func absolute(name string) string {
	name = filepath.ToSlash(name)
	if !strings.HasPrefix(name, "/") {
		name = "/" + name
	}
	return path.Clean(name)
}
