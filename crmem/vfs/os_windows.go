package vfs

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// Limits on Windows: a directory cannot be synced, so a rename is durable when
// the file system's journal is; links and modes follow Windows' rules; files
// have no identity here, so a replaced file is detected only by size and time.

const openFlags = 0

func isLink(error) bool { return false }

func syncDir(*os.File) error { return nil }

func identify(fs.FileInfo) Identity { return Identity{} }

// renameio has no Windows build; MoveFileEx with replacement, which os.Rename
// is, does the same step.
type pendingFile struct {
	*os.File
	sub  *os.Root
	tmp  string
	base string
	done bool
}

func osPending(name string, perm fs.FileMode) (Pending, error) {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	p, err := rootPending(root, filepath.Base(name), perm)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return p, nil
}

func rootPending(sub *os.Root, base string, perm fs.FileMode) (Pending, error) {
	for range 1000 {
		tmp := "." + base + strconv.FormatUint(rand.Uint64()>>1, 10)
		f, err := sub.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &pendingFile{File: f, sub: sub, tmp: tmp, base: base}, nil
	}
	return nil, &fs.PathError{Op: "create", Path: base, Err: fs.ErrExist}
}

func (p *pendingFile) Name() string    { return filepath.Join(p.sub.Name(), p.tmp) }
func (p *pendingFile) Datasync() error { return p.File.Sync() }

func (p *pendingFile) Commit() error {
	if err := p.File.Sync(); err != nil {
		return err
	}
	if err := p.File.Close(); err != nil {
		return err
	}
	if err := p.sub.Rename(p.tmp, p.base); err != nil {
		return err
	}
	p.done = true
	return p.sub.Close()
}

func (p *pendingFile) Discard() error {
	if p.done {
		return nil
	}
	p.done = true
	p.File.Close() // it may be closed already
	return errors.Join(p.sub.Remove(p.tmp), p.sub.Close())
}

func (p *pendingFile) Keep() error {
	p.done = true
	return errors.Join(p.File.Close(), p.sub.Close())
}
