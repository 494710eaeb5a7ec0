// Package vfs provides the file operations of the project.
//
// [OS] is the machine's files. Package faultfs is a file system in memory that can
// crash, fail, and report false success. Code that accesses files uses an [FS] or a
// [Tree] and no functions of package os, so that a test can crash at every call.
package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// ErrNotRegular is returned when a name that should be a regular file is a
// directory, a link, a FIFO, a socket or a device.
var ErrNotRegular = errors.New("not a regular file")

// ErrLocked is returned by Lock if the lock is held.
var ErrLocked = errors.New("locked")

// Tree is a set of files under one directory or, as an [FS], of the machine.
// Errors wrap those of io/fs (fs.ErrNotExist, fs.ErrExist, fs.ErrPermission)
// and of the system (syscall.ENOSPC …), as in package os.
//
// A change is durable only after the Sync, Datasync, or SyncDir that covers it:
// of the file for contents, of the directory for names.
type Tree interface {
	// Open opens a regular file for reading. It never follows a link in the
	// last element and never blocks: anything else is ErrNotRegular.
	Open(name string) (File, error)

	// OpenFile opens a regular file with the os.O_* flags; links and other
	// things are refused as by Open.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)

	// Pending begins the replacement of name: it creates an empty temporary
	// file in the same directory, named "."+base+digits, with exactly the given
	// mode.
	Pending(name string, perm fs.FileMode) (Pending, error)

	// Rename renames within the tree, replacing a file of the new name.
	Rename(oldname, newname string) error

	// Link adds a second name to the regular file oldname. It returns
	// fs.ErrExist if newname exists.
	Link(oldname, newname string) error

	// Remove removes a file or an empty directory.
	Remove(name string) error

	// Mkdir creates one directory.
	Mkdir(name string, perm fs.FileMode) error

	// ReadDir lists a directory in name order.
	ReadDir(name string) ([]fs.DirEntry, error)

	// Lstat describes name itself; a link is not followed.
	Lstat(name string) (fs.FileInfo, error)

	// SyncDir makes the names created, renamed and removed in a directory
	// durable.
	SyncDir(name string) error
}

// FS is a machine's files.
type FS interface {
	Tree

	// Resolve returns the absolute path of name with every link followed.
	// The last element, alone, may be missing.
	Resolve(name string) (string, error)

	// Root opens a directory as a separate tree: names are relative and
	// slash-separated, and no name or link leads outside. The caller must close
	// it.
	Root(dir string) (RootDir, error)

	// Lock takes an exclusive lock on the file name, which it creates (0600) if
	// it is missing. It returns ErrLocked, without waiting, if the lock is
	// held.
	Lock(name string) (Locked, error)

	// Remote returns the type of a directory's file system if its syncs and
	// renames may not be reliable: a network or pass-through file system. It
	// returns "" for other types, and if the type is unknown.
	Remote(dir string) string

	// Free returns how many bytes this user may still write to the disk of a
	// directory. The error is errors.ErrUnsupported if the system does not tell.
	Free(dir string) (int64, error)

	// BootID identifies this run of the kernel; empty where it is unknown.
	BootID() string
}

// RootDir is a [Tree] confined to one directory.
type RootDir interface {
	Tree
	Close() error
}

// Locked is a held lock. Its methods use the locked file, even if another
// file has its name now.
type Locked interface {
	// SetText replaces the text of the lock file. The text is not synced: it is
	// for processes of this boot.
	SetText(text string) error
	// Text returns the text of the lock file.
	Text() (string, error)
	// Stat describes the locked file.
	Stat() (fs.FileInfo, error)
	// Unlock releases the lock.
	Unlock() error
}

// File is an open file.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer // at the end, when opened with os.O_APPEND
	// Sync makes contents and size durable (fsync).
	Sync() error
	// Datasync makes contents and size durable, but not times (fdatasync if
	// available).
	Datasync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	Close() error
}

// Pending is the new contents of a file that is being replaced.
type Pending interface {
	File
	// Name returns the temporary file's name.
	Name() string
	// Commit syncs, closes and renames it over the file it replaces. The
	// rename is durable only after a SyncDir.
	Commit() error
	// Discard closes and removes the temporary file. After Commit it has no
	// effect.
	Discard() error
	// Keep closes the temporary file and leaves it where it is.
	Keep() error
}

// Identity distinguishes files that have or had the same name. It is zero if
// the platform has no identities.
type Identity struct {
	Dev, Ino uint64
	Links    uint64 // hard links; 0 = unknown
}

// Identify returns the identity of the file that a FileInfo of this package
// describes.
func Identify(fi fs.FileInfo) Identity {
	if m, ok := fi.Sys().(Identity); ok {
		return m
	}
	return identify(fi)
}

// SameFile reports whether two FileInfos of this package describe one file.
func SameFile(a, b fs.FileInfo) bool {
	x, y := Identify(a), Identify(b)
	if x.Ino != 0 && y.Ino != 0 {
		return x.Dev == y.Dev && x.Ino == y.Ino
	}
	return os.SameFile(a, b)
}

// CheckName describes the file that name leads to. If that is not the file of
// info, changed is the change by another program: "removed it", "replaced it",
// or, if info is nil, "created it".
func CheckName(t Tree, name string, info fs.FileInfo) (fi fs.FileInfo, changed string, err error) {
	fi, err = t.Lstat(name)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && info == nil:
		return nil, "", nil
	case missing:
		return nil, "removed it", nil
	case err != nil:
		return nil, "", err
	case info == nil:
		return nil, "created it", nil
	case !SameFile(fi, info):
		return nil, "replaced it", nil
	}
	return fi, "", nil
}

var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 1<<18) }}

// Replace creates or replaces the file name with the output of write: temporary
// file, write, sync, rename, sync of the directory. A reader sees the complete
// old or new contents, also after a crash. After an error before the rename,
// the file is unchanged.
func Replace(t Tree, name string, perm fs.FileMode, write func(io.Writer) error) error {
	return ReplaceChecked(t, name, perm, write, nil)
}

// WriteFile creates or replaces the file name with b, as [Replace] does.
func WriteFile(t Tree, name string, perm fs.FileMode, b []byte) error {
	return Replace(t, name, perm, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// ReplaceChecked is Replace with a call of check, unless that is nil, after the
// sync of the new contents and before the rename.
func ReplaceChecked(t Tree, name string, perm fs.FileMode, write func(io.Writer) error, check func(Pending) error) error {
	p, err := t.Pending(name, perm)
	if err != nil {
		return err
	}
	w := buffers.Get().(*bufio.Writer)
	w.Reset(p)
	defer func() {
		w.Reset(nil)
		buffers.Put(w)
	}()
	if err := write(w); err != nil {
		return errors.Join(err, p.Discard())
	}
	if err := w.Flush(); err != nil {
		return errors.Join(err, p.Discard())
	}
	if check != nil {
		err := p.Sync()
		if err == nil {
			err = check(p)
		}
		if err != nil {
			return errors.Join(err, p.Discard())
		}
	}
	if err := p.Commit(); err != nil {
		return errors.Join(err, p.Discard())
	}
	return t.SyncDir(filepath.Dir(name))
}

// ReadFile reads a regular file of at most max bytes. For a larger file it
// returns a *TooLargeError without reading it.
func ReadFile(t Tree, name string, max int64) ([]byte, error) {
	return ReadFileOver(nil, t, name, max)
}

// ReadFileOver is ReadFile, and reuses the capacity of b.
func ReadFileOver(b []byte, t Tree, name string, max int64) ([]byte, error) {
	b, _, err := readFile(b, t, name, max)
	return b, err
}

// ReadFileInfo is ReadFile, and describes the file that it read.
func ReadFileInfo(t Tree, name string, max int64) ([]byte, fs.FileInfo, error) {
	return readFile(nil, t, name, max)
}

func readFile(b []byte, t Tree, name string, max int64) ([]byte, fs.FileInfo, error) {
	f, err := t.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if fi.Size() > max {
		return nil, nil, &TooLargeError{Name: name, Size: fi.Size(), Max: max}
	}
	if b == nil || int64(cap(b)) < fi.Size() {
		b = make([]byte, fi.Size())
	}
	b = b[:fi.Size()]
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) && n < len(b) { // the file may be corrupt
		err = fmt.Errorf("read %d of %d bytes: %w", n, len(b), io.ErrUnexpectedEOF)
	}
	if err != nil && err != io.EOF {
		return nil, nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return b[:n], fi, nil
}

// MkdirAll creates dir and the parents it lacks, and makes each new name
// durable, and the name of dir also when it was there.
func MkdirAll(t Tree, dir string, perm fs.FileMode) error {
	fi, err := t.Lstat(dir)
	if err == nil {
		if fi.Mode()&fs.ModeSymlink != 0 { // judged by the calls that go through it
			return nil
		}
		if fi.IsDir() {
			// The process that created it may have died before it synced the
			// name. A directory that is not readable was not created by this
			// program.
			err := t.SyncDir(filepath.Dir(dir))
			if errors.Is(err, fs.ErrPermission) {
				return nil
			}
			return err
		}
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("not a directory")}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := MkdirAll(t, parent, perm); err != nil {
			return err
		}
	}
	if err := t.Mkdir(dir, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := t.SyncDir(parent); err != nil {
		// A later sync would succeed without it. A recreated directory has a
		// new name.
		return errors.Join(err, t.Remove(dir))
	}
	return nil
}

// WriteDerived creates or replaces a file that programs can compute again. It does not
// sync the file. The content is passed to write, and has size bytes, for which half of
// the free space of the disk must suffice. After write, WriteDerived keeps the old file
// and returns false if mayKeep does. An error leaves the old file in place, too.
func WriteDerived(fsys FS, name string, size int64, write func(io.Writer) error, mayKeep func() (bool, error)) (written bool, err error) {
	free, err := fsys.Free(filepath.Dir(name))
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return false, err
	}
	if err == nil && free/2 < size {
		return false, fmt.Errorf("write %s: it needs %d bytes, and the disk has only %d bytes free", name, size, free)
	}
	p, err := fsys.Pending(name, 0o600)
	if err != nil {
		return false, err
	}
	w := bufio.NewWriterSize(p, 1<<16)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	ok := false
	if err == nil {
		ok, err = mayKeep()
	}
	if err != nil || !ok {
		return false, errors.Join(err, p.Discard())
	}
	if err = p.Keep(); err == nil { // Commit would sync
		err = fsys.Rename(p.Name(), name)
	}
	if err != nil {
		if e := fsys.Remove(p.Name()); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
		return false, err
	}
	return true, nil
}

// OpenDerived opens a file that [WriteDerived] wrote. It returns an error, which callers
// treat as a missing file, if the file is not regular, or if another user owns it or may
// write it. It does not follow a link.
func OpenDerived(fsys FS, name string) (File, fs.FileInfo, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !IsPrivate(fi) {
		err = &fs.PathError{Op: "use", Path: name, Err: fmt.Errorf("another user owns it or may write it: %w", fs.ErrPermission)}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, fi, nil
}
