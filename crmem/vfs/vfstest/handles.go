// Package vfstest helps tests that use a file system.
package vfstest

import (
	"errors"
	"io/fs"
	"sync/atomic"

	"crabmem/crmem/vfs"
)

// Handles is a file system that counts its open files and roots.
type Handles struct {
	vfs.FS

	// CloseRoot, if not nil, is called after a root is closed. Close returns its
	// error.
	CloseRoot func(dir string) error

	n atomic.Int64
}

// Count returns the number of files and roots that are not closed.
func (h *Handles) Count() int { return int(h.n.Load()) }

func (h *Handles) Open(name string) (vfs.File, error) { return h.file(h.FS.Open(name)) }

func (h *Handles) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	return h.file(h.FS.OpenFile(name, flag, perm))
}

func (h *Handles) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	h.n.Add(1)
	return &file{File: f, h: h}, nil
}

// Root opens a directory. Its files are counted, too.
func (h *Handles) Root(dir string) (vfs.RootDir, error) {
	r, err := h.FS.Root(dir)
	if err != nil {
		return nil, err
	}
	h.n.Add(1)
	return &root{RootDir: r, h: h, name: dir}, nil
}

type root struct {
	vfs.RootDir
	h      *Handles
	name   string
	closed atomic.Bool
}

func (r *root) Open(name string) (vfs.File, error) { return r.h.file(r.RootDir.Open(name)) }

func (r *root) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	return r.h.file(r.RootDir.OpenFile(name, flag, perm))
}

func (r *root) Close() error {
	err := r.RootDir.Close()
	if r.closed.Swap(true) {
		return err
	}
	r.h.n.Add(-1)
	if r.h.CloseRoot != nil {
		err = errors.Join(err, r.h.CloseRoot(r.name))
	}
	return err
}

type file struct {
	vfs.File
	h      *Handles
	closed atomic.Bool
}

func (f *file) Close() error {
	if !f.closed.Swap(true) {
		f.h.n.Add(-1)
	}
	return f.File.Close()
}
