package faultfs

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"crabmem/crmem/vfs"
)

var errEscapes = errors.New("path escapes from parent")

// memTree is the tree of one directory of a Mem.
type memTree struct {
	m        *Mem
	dir      *node  // directory where names start; nil after [memRoot.Close]
	prefix   string // path of dir, prepended to names for the hook, if confined
	confined bool   // a name that leads outside dir is an error
}

// memRoot is the result of [Mem.Root].
type memRoot struct{ memTree }

// dirChange is an unsynced change of names. It removes an entry, sets an entry,
// or does both as a unit.
type dirChange struct {
	op      string // create, link, mkdir, remove, rename
	path    string // the name in Change
	from    *node  // directory that loses oldname; nil = no entry is removed
	oldname string
	to      *node // directory that gains newname; nil = no entry is set
	newname string
	node    *node // the file or directory with the name
}

// touches reports whether c changes the entries of the directory d.
func (c *dirChange) touches(d *node) bool { return c.from == d || c.to == d }

// apply applies the change to the durable entries. copyOf maps a node to the
// node to change.
func (c *dirChange) apply(copyOf func(*node) *node) {
	if c.from != nil {
		if d := copyOf(c.from); d.durable[c.oldname] == copyOf(c.node) {
			delete(d.durable, c.oldname)
		}
	}
	if c.to != nil {
		copyOf(c.to).durable[c.newname] = copyOf(c.node)
	}
}

// same makes [dirChange.apply] change the nodes themselves.
func same(n *node) *node { return n }

// alter applies a change to the visible entries and records it as unsynced. The
// caller holds mu.
func (t *memTree) alter(c dirChange) {
	now := t.m.now()
	if c.from != nil {
		delete(c.from.names, c.oldname)
		c.from.mtime = now
		c.node.links--
	}
	if c.to != nil {
		if old := c.to.names[c.newname]; old != nil {
			t.m.unlink(old)
		}
		c.to.names[c.newname] = c.node
		c.to.mtime = now
		c.node.links++
	}
	t.m.pending = append(t.m.pending, c)
	if c.to == nil {
		t.m.free(c.node)
	}
}

// open finds or creates a regular file. The caller holds mu.
func (t *memTree) open(name string, flag int, perm fs.FileMode) (*node, error) {
	dir, base, err := t.parent(name)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ELOOP) {
		// EINVAL means ".", "..", or "/". ELOOP means too many links; vfs.OS
		// cannot distinguish that from a link in the last element.
		return nil, vfs.ErrNotRegular
	}
	if err != nil {
		return nil, err
	}
	n := dir.names[base]
	if n == nil {
		if flag&syscall.O_CREAT == 0 {
			return nil, syscall.ENOENT
		}
		if !dir.allows(0o300) {
			return nil, syscall.EACCES
		}
		n = t.m.newNode(perm.Perm())
		t.alter(dirChange{op: "create", path: t.hookName(name), to: dir, newname: base, node: n})
		return n, nil
	}
	if flag&syscall.O_CREAT != 0 && flag&syscall.O_EXCL != 0 {
		return nil, syscall.EEXIST
	}
	if !n.mode.IsRegular() {
		return nil, vfs.ErrNotRegular
	}
	switch access := flag & (syscall.O_RDONLY | syscall.O_WRONLY | syscall.O_RDWR); {
	case access != syscall.O_WRONLY && !n.allows(0o400), access != syscall.O_RDONLY && !n.allows(0o200):
		return nil, syscall.EACCES
	}
	return n, nil
}

func (t *memTree) Open(name string) (vfs.File, error) { return t.OpenFile(name, syscall.O_RDONLY, 0) }

func (t *memTree) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := t.openFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (t *memTree) openFile(name string, flag int, perm fs.FileMode) (*memFile, error) {
	op := "open"
	if flag&syscall.O_CREAT != 0 {
		op = "create"
	}
	f := &memFile{m: t.m, name: t.hookName(name), flag: flag}
	err := t.m.do(op, f.name, func() error {
		n, err := t.open(name, flag, perm)
		if err != nil {
			return err
		}
		f.node = n
		if flag&syscall.O_TRUNC != 0 && n.data.size > 0 {
			t.m.truncate(n, 0)
		}
		n.opens++
		return nil
	})
	if err != nil {
		return nil, err
	}
	t.m.handles.Add(1)
	return f, nil
}

// Pending implements [vfs.Tree]. A counter supplies the digits of temporary
// names.
func (t *memTree) Pending(name string, perm fs.FileMode) (vfs.Pending, error) {
	dir, base := path.Split(filepath.ToSlash(name))
	for {
		t.m.mu.Lock()
		t.m.lastTmp++
		tmp := dir + "." + base + strconv.FormatUint(t.m.lastTmp, 10)
		t.m.mu.Unlock()
		f, err := t.openFile(tmp, syscall.O_RDWR|syscall.O_CREAT|syscall.O_EXCL, perm)
		if err == nil {
			return &memPending{memFile: f, tree: t, tmp: tmp, final: name}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
}

func (t *memTree) Rename(oldname, newname string) error {
	return t.m.do("rename", t.hookName(newname), func() error {
		from, oldbase, err := t.parent(oldname)
		if err != nil {
			return err
		}
		n := from.names[oldbase]
		if n == nil {
			return syscall.ENOENT
		}
		to, newbase, err := t.parent(newname)
		if err != nil {
			return err
		}
		if !from.allows(0o300) || !to.allows(0o300) {
			return syscall.EACCES
		}
		old := to.names[newbase]
		switch {
		case old == n:
			return nil // two names of one file: POSIX rename does nothing
		case old != nil && old.mode.IsDir():
			return syscall.EEXIST
		case old != nil && n.mode.IsDir():
			return syscall.ENOTDIR
		case n.mode.IsDir() && within(to, n):
			return syscall.EINVAL
		}
		t.alter(dirChange{op: "rename", path: t.hookName(newname), from: from, oldname: oldbase, to: to, newname: newbase, node: n})
		return nil
	})
}

// within reports whether d is dir or a directory under it.
func within(d, dir *node) bool {
	if d == dir {
		return true
	}
	for _, n := range dir.names {
		if n.mode.IsDir() && within(d, n) {
			return true
		}
	}
	return false
}

func (t *memTree) Link(oldname, newname string) error {
	return t.m.do("link", t.hookName(newname), func() error {
		n, err := t.walk(oldname, false)
		if err != nil {
			return err
		}
		to, base, err := t.parent(newname)
		switch {
		case err != nil:
			return err
		case !n.mode.IsRegular():
			return syscall.EPERM
		case to.names[base] != nil:
			return syscall.EEXIST
		case !to.allows(0o300):
			return syscall.EACCES
		}
		t.alter(dirChange{op: "link", path: t.hookName(newname), to: to, newname: base, node: n})
		return nil
	})
}

func (t *memTree) Remove(name string) error {
	return t.m.do("remove", t.hookName(name), func() error {
		dir, base, err := t.parent(name)
		if err != nil {
			return err
		}
		n := dir.names[base]
		switch {
		case n == nil:
			return syscall.ENOENT
		case len(n.names) > 0:
			return syscall.ENOTEMPTY
		case !dir.allows(0o300):
			return syscall.EACCES
		}
		t.alter(dirChange{op: "remove", path: t.hookName(name), from: dir, oldname: base, node: n})
		return nil
	})
}

func (t *memTree) Mkdir(name string, perm fs.FileMode) error {
	return t.m.do("mkdir", t.hookName(name), func() error {
		dir, base, err := t.parent(name)
		switch {
		case errors.Is(err, syscall.EINVAL):
			return syscall.EEXIST
		case err != nil:
			return err
		case dir.names[base] != nil:
			return syscall.EEXIST
		case !dir.allows(0o300):
			return syscall.EACCES
		}
		t.alter(dirChange{op: "mkdir", path: t.hookName(name), to: dir, newname: base, node: t.m.newNode(fs.ModeDir | perm.Perm())})
		return nil
	})
}

func (t *memTree) ReadDir(name string) ([]fs.DirEntry, error) {
	var list []fs.DirEntry
	err := t.m.do("readdir", t.hookName(name), func() error {
		// ReadDir does not follow a link inside a root.
		n, err := t.walk(name, !t.confined)
		switch {
		case err != nil:
			return err
		case !n.mode.IsDir():
			return syscall.ENOTDIR
		case !n.allows(0o400):
			return syscall.EACCES
		}
		for base, child := range n.names {
			list = append(list, fs.FileInfoToDirEntry(child.info(base)))
		}
		return nil
	})
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}

func (t *memTree) Lstat(name string) (fs.FileInfo, error) {
	var fi fs.FileInfo
	err := t.m.do("lstat", t.hookName(name), func() error {
		n, err := t.walk(name, false)
		if err == nil {
			fi = n.info(path.Base(filepath.ToSlash(name)))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return fi, nil
}

func (t *memTree) SyncDir(name string) error {
	hook := t.hookName(name)
	f := t.m.enter("syncdir", hook, 0)
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	d, err := t.walk(name, true)
	if err == nil && !d.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	if err == nil {
		t.m.syncDir(d, f != nil && !f.Done)
	}
	if f != nil {
		err = f.Err
	}
	return pathError("syncdir", hook, err)
}

// syncDir makes the unsynced changes of a directory durable or, if lose is set,
// loses them. A rename between two directories is durable as a unit, so syncDir
// includes the changes of the other directory. The caller holds mu.
func (m *Mem) syncDir(d *node, lose bool) {
	dirs := []*node{d}
	for i := 0; i < len(dirs); i++ {
		for _, c := range m.pending {
			if c.from == nil || c.to == nil || c.from == c.to || !c.touches(dirs[i]) {
				continue
			}
			for _, other := range []*node{c.from, c.to} {
				if !slices.Contains(dirs, other) {
					dirs = append(dirs, other)
				}
			}
		}
	}
	m.pending = slices.DeleteFunc(m.pending, func(c dirChange) bool {
		if !slices.ContainsFunc(dirs, c.touches) {
			return false
		}
		if !lose {
			c.apply(same)
		}
		return true
	})
}

// Close makes later calls on the root fail.
func (t *memRoot) Close() error {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.dir = nil
	return nil
}
