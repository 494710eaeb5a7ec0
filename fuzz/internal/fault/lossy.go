package fault

import (
	"io/fs"
	"path/filepath"

	"crabmem/crmem/vfs"
)

// Unsynced selects the syncs that report success without an effect.
type Unsynced struct {
	Files    bool // Sync and Datasync of open files
	Dirs     bool // SyncDir
	Replaced bool // the sync in Pending.Commit
}

// Lossy is a file system on which some syncs have no effect. A crash test must fail
// on it: a test that passes cannot find losses.
type Lossy struct {
	vfs.FS
	Unsynced
}

func (l Lossy) Open(name string) (vfs.File, error) { return l.file(l.FS.Open(name)) }

func (l Lossy) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	return l.file(l.FS.OpenFile(name, flag, perm))
}

func (l Lossy) Pending(name string, perm fs.FileMode) (vfs.Pending, error) {
	return l.pending(l.FS, name, perm)
}

func (l Lossy) SyncDir(name string) error { return l.syncDir(l.FS, name) }

func (l Lossy) Root(dir string) (vfs.RootDir, error) {
	r, err := l.FS.Root(dir)
	if err != nil {
		return nil, err
	}
	return lossyRoot{r, l.Unsynced}, nil
}

// lossyRoot is a root directory of a Lossy.
type lossyRoot struct {
	vfs.RootDir
	Unsynced
}

func (l lossyRoot) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	return l.file(l.RootDir.OpenFile(name, flag, perm))
}

func (l lossyRoot) Pending(name string, perm fs.FileMode) (vfs.Pending, error) {
	return l.pending(l.RootDir, name, perm)
}

func (l lossyRoot) SyncDir(name string) error { return l.syncDir(l.RootDir, name) }

func (u Unsynced) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil || !u.Files {
		return f, err
	}
	return unsyncedFile{f}, nil
}

func (u Unsynced) pending(tree vfs.Tree, name string, perm fs.FileMode) (vfs.Pending, error) {
	p, err := tree.Pending(name, perm)
	if err != nil || !u.Replaced {
		return p, err
	}
	return &unsyncedPending{Pending: p, tree: tree, name: name}, nil
}

func (u Unsynced) syncDir(tree vfs.Tree, name string) error {
	if u.Dirs {
		return nil
	}
	return tree.SyncDir(name)
}

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error     { return nil }
func (unsyncedFile) Datasync() error { return nil }

// unsyncedPending renames the file in Commit, without a sync.
type unsyncedPending struct {
	vfs.Pending
	tree      vfs.Tree
	name      string
	committed bool
}

func (*unsyncedPending) Sync() error     { return nil }
func (*unsyncedPending) Datasync() error { return nil }

func (p *unsyncedPending) Commit() error {
	tmp := filepath.Join(filepath.Dir(p.name), filepath.Base(p.Pending.Name())) // its path in tree
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
