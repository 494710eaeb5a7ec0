package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

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
