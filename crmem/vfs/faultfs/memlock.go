package faultfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"crabmem/crmem/vfs"
)

// maxLockText limits the text of a lock file, in bytes. It equals the limit of
// vfs.OS.
const maxLockText = 1 << 16

// Lock implements [vfs.FS]. On the machines that [Mem.Kill] and [Mem.Crash]
// return, no lock is held.
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
	m.handles.Add(1)
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
			l.m.handles.Add(-1)
			l.m.free(l.node)
		}
		return nil
	})
}
