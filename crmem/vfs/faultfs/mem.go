// Package faultfs simulates the files of a machine in memory, with faults and
// power cuts, for tests.
package faultfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"crabmem/crmem/vfs"
)

// maxLockText limits the text of a lock file, in bytes, as for vfs.OS.
const maxLockText = 1 << 16

// Mem is the files of a machine in memory, as one process sees them. It records
// durable state separately from visible state, and can fail any call. Paths are
// slash-separated and absolute; a relative path starts at the root. The zero
// value is not usable; see [NewMem].
//
// Mem is stricter than real file systems: a sync of a file does not make its
// name durable, and unsynced changes reach the disk in any combination. After a
// failed sync the unwritten bytes stay readable but never become durable,
// although later syncs succeed.
//
// Permission bits apply as for an ordinary user who owns every file. All
// methods are safe for concurrent use.
type Mem struct {
	// Hook, when not nil, is called before every primitive call, without any
	// lock held; an error of it fails the call. See [Fault]. Set it while no
	// call is running.
	Hook func(Call) error

	// Now is the clock of modification times; nil means time.Now. Set it
	// before the first call.
	Now func() time.Time

	// Limit is the size of the disk in bytes of file contents, 0 = unlimited. A
	// write beyond it writes the part that fits and fails with ENOSPC.
	Limit int64

	memTree // from the root on

	mu      sync.Mutex
	pending []dirChange // unsynced changes of names, oldest first
	used    int64       // bytes of contents, by current sizes
	lastIno uint64
	lastTmp uint64 // temporary names are counted, so that runs repeat
	calls   int
	boot    int
}

// Call is one primitive call on a [Mem].
type Call struct {
	N    int    // counted from 1
	Op   string // open, create, read, write, truncate, sync, datasync, stat, close, rename, link, remove, mkdir, readdir, lstat, syncdir, lock, unlock, resolve, root
	Name string // the file; of a rename, its new name
	Size int    // bytes to read or write
}

// Fault is an error of [Mem.Hook] that defines how much of the call takes
// effect before it fails. After any other error the call has no effect, except
// that a failed close closes the file and a failed sync loses the bytes that it
// should have made durable.
type Fault struct {
	Err  error
	Done bool // the call did its work and reports Err nevertheless
	N    int  // of a write: bytes written before Err

	// Corrupt, if set, replaces the bytes that a read returns or a write stores.
	// It owns its argument and may return fewer or more bytes. The call reports
	// Err, which may be nil, and a write reports the length of its own bytes.
	// Other calls ignore a Fault that has only Corrupt.
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

// node is an inode. The lock of its Mem guards it.
type node struct {
	ino   uint64
	mode  fs.FileMode
	mtime time.Time
	links int
	opens int
	lock  *memLock

	// of a file
	data   content // as read
	disk   content // as a crash leaves it, but for pieces
	pieces []piece // data less disk, oldest first
	lied   bool    // data has bytes that a failed sync lost: never copy it to disk

	// of a directory
	names   map[string]*node // as read
	durable map[string]*node // as a crash leaves it, but for Mem.pending

	// of a link
	target string
}

func (m *Mem) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

// enter counts a call and calls the hook.
func (m *Mem) enter(op, name string, size int) *Fault {
	m.mu.Lock()
	m.calls++
	n := m.calls
	m.mu.Unlock()
	if m.Hook == nil {
		return nil
	}
	err := m.Hook(Call{N: n, Op: op, Name: name, Size: size})
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

// do executes one primitive call: the hook, then effect under the lock.
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

// BootID changes with every [Mem.Crash].
func (m *Mem) BootID() string { return "mem-boot-" + strconv.Itoa(m.boot) }

// Calls returns how many primitive calls were made.
func (m *Mem) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// Root opens a directory as a separate tree.
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

// Resolve returns the absolute path of name with every link followed.
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

// Lock takes an exclusive lock. It is held until Unlock, but not on the
// machines that [Mem.Kill] and [Mem.Crash] return.
func (m *Mem) Lock(name string) (vfs.Locked, error) {
	l := &memLock{m: m, name: name}
	err := m.do("lock", name, func() error {
		n, err := m.open(name, syscall.O_RDWR|syscall.O_CREAT, 0o600)
		if err != nil {
			return err
		}
		if n.lock != nil {
			return vfs.ErrLocked
		}
		n.lock, l.node = l, n
		n.opens++
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

type memLock struct {
	m    *Mem
	name string
	node *node
}

func (l *memLock) file() *memFile {
	return &memFile{m: l.m, node: l.node, name: l.name, flag: syscall.O_RDWR}
}

func (l *memLock) SetText(text string) error {
	f := l.file()
	_, err := f.Write([]byte(text))
	if err == nil {
		err = f.Truncate(int64(len(text)))
	}
	return err
}

func (l *memLock) Text() (string, error) {
	fi, err := l.Stat()
	if err != nil {
		return "", err
	}
	if fi.Size() > maxLockText {
		return "", &vfs.TooLargeError{Name: l.name, Size: fi.Size(), Max: maxLockText}
	}
	b := make([]byte, fi.Size())
	n, err := l.file().ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(b[:n]), err
}

func (l *memLock) Stat() (fs.FileInfo, error) { return l.file().Stat() }

func (l *memLock) Unlock() error {
	return l.m.do("unlock", l.name, func() error {
		if l.node.lock == l {
			l.node.lock = nil
			l.node.opens--
			l.m.free(l.node)
		}
		return nil
	})
}

// WriteFile creates a durable file without calling the hook, to set up a test.
// So do Symlink, Mkfifo, and Chmod.
func (m *Mem) WriteFile(name string, data []byte, perm fs.FileMode) {
	m.scene(name, func(dir *node, base string) *node {
		n := dir.names[base]
		if n == nil {
			n = m.newNode(perm)
		}
		m.used += int64(len(data)) - n.data.size
		n.data = content{}
		n.data.writeAt(data, 0)
		n.disk, n.pieces, n.lied = n.data.share(), nil, false
		n.mode, n.mtime = perm, m.now()
		return n
	})
}

// Symlink makes a symbolic link.
func (m *Mem) Symlink(target, name string) {
	m.scene(name, func(*node, string) *node {
		n := m.newNode(fs.ModeSymlink | 0o777)
		n.target = target
		return n
	})
}

// Mkfifo makes a FIFO.
func (m *Mem) Mkfifo(name string) {
	m.scene(name, func(*node, string) *node { return m.newNode(fs.ModeNamedPipe | 0o600) })
}

// Chmod sets the permission bits of a file or directory.
func (m *Mem) Chmod(name string, perm fs.FileMode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.walk(name, true)
	if err != nil {
		panic(fmt.Sprintf("faultfs: chmod: %s: %v", name, err))
	}
	n.mode = n.mode.Type() | perm.Perm()
}

// scene gives a name to the result of make. The parent directories must exist.
func (m *Mem) scene(name string, make func(dir *node, base string) *node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		panic(fmt.Sprintf("faultfs: %s: %v", name, err))
	}
	n := make(dir, base)
	if old := dir.names[base]; old != n {
		if old != nil {
			m.unlinked(old)
		}
		n.links++
	}
	dir.names[base], dir.durable[base] = n, n
}

func (m *Mem) newNode(mode fs.FileMode) *node {
	m.lastIno++
	n := &node{ino: m.lastIno, mode: mode, mtime: m.now()}
	if mode.IsDir() {
		n.names, n.durable = map[string]*node{}, map[string]*node{}
	}
	return n
}

// unlinked removes one name of a node, and releases its space with the last
// name.
func (m *Mem) unlinked(n *node) {
	n.links--
	m.free(n)
}

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
