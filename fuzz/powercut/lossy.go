//go:build linux

package main

import (
	"io/fs"
	"path/filepath"

	"crabmem/crmem/vfs"
)

// lossy is a file system that leaves out syncs: those of files, those of
// directories, or both. What a store does on it must fail on this rig;
// otherwise the rig is blind.
type lossy struct {
	vfs.FS
	file, dir bool
}

func (l lossy) Open(name string) (vfs.File, error) {
	f, err := l.FS.Open(name)
	return l.wrap(f, err)
}

func (l lossy) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := l.FS.OpenFile(name, flag, perm)
	return l.wrap(f, err)
}

func (l lossy) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil || !l.file {
		return f, err
	}
	return unsynced{f}, nil
}

func (l lossy) Pending(name string, perm fs.FileMode) (vfs.Pending, error) {
	p, err := l.FS.Pending(name, perm)
	if err != nil || !l.file {
		return p, err
	}
	return &unsyncedPending{Pending: p, tree: l.FS, name: name}, nil
}

func (l lossy) SyncDir(name string) error {
	if l.dir {
		return nil
	}
	return l.FS.SyncDir(name)
}

func (l lossy) Root(dir string) (vfs.RootDir, error) {
	r, err := l.FS.Root(dir)
	if err != nil {
		return nil, err
	}
	return lossyRoot{r, l.file, l.dir}, nil
}

// lossyRoot is lossy for a directory.
type lossyRoot struct {
	vfs.RootDir
	file, dir bool
}

func (l lossyRoot) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := l.RootDir.OpenFile(name, flag, perm)
	if err != nil || !l.file {
		return f, err
	}
	return unsynced{f}, nil
}

func (l lossyRoot) Pending(name string, perm fs.FileMode) (vfs.Pending, error) {
	p, err := l.RootDir.Pending(name, perm)
	if err != nil || !l.file {
		return p, err
	}
	return &unsyncedPending{Pending: p, tree: l.RootDir, name: name}, nil
}

func (l lossyRoot) SyncDir(name string) error {
	if l.dir {
		return nil
	}
	return l.RootDir.SyncDir(name)
}

type unsynced struct{ vfs.File }

func (unsynced) Sync() error     { return nil }
func (unsynced) Datasync() error { return nil }

// unsyncedPending renames by hand, for Commit itself syncs.
type unsyncedPending struct {
	vfs.Pending
	tree      vfs.Tree
	name      string
	committed bool
}

func (*unsyncedPending) Sync() error     { return nil }
func (*unsyncedPending) Datasync() error { return nil }

func (p *unsyncedPending) Commit() error {
	tmp := filepath.Join(filepath.Dir(p.name), filepath.Base(p.Pending.Name())) // as the tree names it
	if err := p.Keep(); err != nil {
		return err
	}
	p.committed = true
	return p.tree.Rename(tmp, p.name)
}

func (p *unsyncedPending) Discard() error {
	if p.committed {
		return nil
	}
	return p.Pending.Discard()
}
