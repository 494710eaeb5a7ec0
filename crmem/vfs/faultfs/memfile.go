package faultfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"crabmem/crmem/vfs"
)

// memFile is an open file of a Mem.
type memFile struct {
	m      *Mem
	node   *node
	name   string
	flag   int
	pos    int64
	closed bool
}

func (f *memFile) readable() error { return f.usable(syscall.O_WRONLY) }
func (f *memFile) writable() error { return f.usable(syscall.O_RDONLY) }

// usable returns an error if the file is closed, or open in the access mode
// excluded.
func (f *memFile) usable(excluded int) error {
	if f.closed {
		return fs.ErrClosed
	}
	if f.flag&(syscall.O_RDONLY|syscall.O_WRONLY|syscall.O_RDWR) == excluded {
		return syscall.EBADF
	}
	return nil
}

func (f *memFile) Read(p []byte) (int, error) {
	fault := f.m.enter("read", f.name, len(p))
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	n, err := f.read(fault, p, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathError("read", f.name, errors.New("negative offset"))
	}
	fault := f.m.enter("read", f.name, len(p))
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	n, err := f.read(fault, p, off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// read reads bytes at off into p with the effect of fault, which may be nil. It
// does not move the position. The caller holds mu.
func (f *memFile) read(fault *Fault, p []byte, off int64) (int, error) {
	if err := f.readable(); err != nil {
		return 0, pathError("read", f.name, err)
	}
	if fault != nil && fault.Corrupt == nil {
		return 0, pathError("read", f.name, fault.Err)
	}
	n := f.node.data.readAt(p, off)
	if fault != nil {
		n = copy(p, fault.Corrupt(bytes.Clone(p[:n])))
		if fault.Err != nil {
			return n, pathError("read", f.name, fault.Err)
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	fault := f.m.enter("write", f.name, len(p))
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.writable(); err != nil {
		return 0, pathError("write", f.name, err)
	}
	var err error
	unstored := 0 // bytes that the call reports minus bytes that it stores
	if fault != nil {
		err = fault.Err
		switch {
		case fault.Corrupt != nil:
			unstored = len(p)
			p = fault.Corrupt(bytes.Clone(p))
			unstored -= len(p)
		case !fault.Done:
			p = p[:min(fault.N, len(p))]
		}
	}
	data := &f.node.data
	if f.flag&syscall.O_APPEND != 0 {
		f.pos = data.size
	}
	if f.m.Limit > 0 {
		grow := max(0, f.pos+int64(len(p))-data.size)
		if room := max(0, f.m.Limit-f.m.used); grow > room {
			p = p[:max(0, int64(len(p))-(grow-room))]
			if err == nil {
				err = syscall.ENOSPC
			}
		}
	}
	if len(p) > 0 {
		before := data.size
		data.writeAt(p, f.pos)
		f.node.pieces = data.pieces(f.node.pieces, f.pos, len(p))
		f.m.used += data.size - before
		f.node.mtime = f.m.now()
	}
	n := len(p) + unstored
	f.pos += int64(n)
	return n, pathError("write", f.name, err)
}

func (f *memFile) Sync() error     { return f.sync("sync") }
func (f *memFile) Datasync() error { return f.sync("datasync") }

// sync makes the contents durable. Without Done, a fault loses the unsynced
// changes.
func (f *memFile) sync(op string) error {
	fault := f.m.enter(op, f.name, 0)
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return pathError(op, f.name, fs.ErrClosed)
	}
	n := f.node
	switch {
	case fault != nil && !fault.Done:
		n.hasLost = n.hasLost || len(n.pieces) > 0
	case n.hasLost:
		for _, p := range n.pieces {
			n.disk.apply(p, Kept)
		}
	default:
		n.disk = n.data.share()
	}
	n.pieces = nil
	if fault != nil {
		return pathError(op, f.name, fault.Err)
	}
	return nil
}

func (f *memFile) Truncate(size int64) error {
	return f.m.do("truncate", f.name, func() error {
		if f.closed {
			return fs.ErrClosed
		}
		if f.writable() != nil || size < 0 {
			return syscall.EINVAL
		}
		f.m.truncate(f.node, size)
		return nil
	})
}

// truncate sets the size of a file. The caller holds mu.
func (m *Mem) truncate(n *node, size int64) {
	if size != n.data.size {
		m.used += size - n.data.size
		n.data.truncate(size)
		n.pieces = append(n.pieces, piece{off: size, resize: true})
	}
	n.mtime = m.now()
}

func (f *memFile) Stat() (fs.FileInfo, error) {
	var fi fs.FileInfo
	err := f.m.do("stat", f.name, func() error {
		if f.closed {
			return fs.ErrClosed
		}
		fi = f.node.info(path.Base(filepath.ToSlash(f.name)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return fi, nil
}

// Close closes the file even if it returns an error, like close(2).
func (f *memFile) Close() error {
	fault := f.m.enter("close", f.name, 0)
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	f.node.opens--
	f.m.handles.Add(-1)
	f.m.free(f.node)
	if fault != nil {
		return pathError("close", f.name, fault.Err)
	}
	return nil
}

// OpenFiles returns the number of open files and held locks. Roots do not count.
func (m *Mem) OpenFiles() int { return int(m.handles.Load()) }

// memPending makes primitive calls in the same order as the implementation of
// vfs.OS.
type memPending struct {
	*memFile
	tree       *memTree
	tmp, final string
	done       bool // the temporary file is renamed, removed, or kept
}

func (p *memPending) Name() string { return p.tmp }

func (p *memPending) Commit() error {
	if err := p.Sync(); err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	if err := p.tree.Rename(p.tmp, p.final); err != nil {
		return err
	}
	p.done = true
	return nil
}

func (p *memPending) Discard() error {
	if p.done {
		return nil
	}
	var err error
	if !p.closed {
		err = p.Close()
	}
	if rerr := p.tree.Remove(p.tmp); rerr != nil {
		return rerr
	}
	p.done = true
	return err
}

func (p *memPending) Keep() error {
	p.done = true
	return p.Close()
}

// memInfo implements fs.FileInfo.
type memInfo struct {
	name  string
	size  int64
	mode  fs.FileMode
	mtime time.Time
	id    vfs.Identity
}

// info describes the present state of the node. The caller holds Mem.mu.
func (n *node) info(name string) fs.FileInfo {
	return &memInfo{name, n.data.size, n.mode, n.mtime, vfs.Identity{Dev: 1, Ino: n.ino, Links: uint64(n.links)}}
}

func (i *memInfo) Name() string       { return i.name }
func (i *memInfo) Size() int64        { return i.size }
func (i *memInfo) Mode() fs.FileMode  { return i.mode }
func (i *memInfo) ModTime() time.Time { return i.mtime }
func (i *memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i *memInfo) Sys() any           { return i.id }

// ChangeTime is the modification time: programs cannot set either.
func (i *memInfo) ChangeTime() time.Time { return i.mtime }
