package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
)

// OS is the machine's file system.
type OS struct{}

func (OS) Open(name string) (File, error) { return OS{}.OpenFile(name, os.O_RDONLY, 0) }

func (OS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag|openFlags, perm)
	return regular(f, name, err)
}

// regular returns a file that was opened without blocking and without following
// a link, if it is a regular file.
func regular(f *os.File, name string, err error) (File, error) {
	if err != nil {
		if isLink(err) {
			err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
		}
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return osFile{f}, nil
}

func (OS) Pending(name string, perm fs.FileMode) (Pending, error) { return osPending(name, perm) }
func (OS) Rename(oldname, newname string) error                   { return os.Rename(oldname, newname) }
func (OS) Link(oldname, newname string) error                     { return os.Link(oldname, newname) }
func (OS) Remove(name string) error                               { return os.Remove(name) }
func (OS) Mkdir(name string, perm fs.FileMode) error              { return os.Mkdir(name, perm) }
func (OS) ReadDir(name string) ([]fs.DirEntry, error)             { return os.ReadDir(name) }
func (OS) Lstat(name string) (fs.FileInfo, error)                 { return lstat(name) }

func (OS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(d), d.Close())
}

func (OS) Resolve(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(abs)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if _, err := os.Readlink(abs); err == nil {
		return "", &fs.PathError{Op: "resolve", Path: abs, Err: errors.New("link to a missing file")}
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if errors.Is(err, fs.ErrNotExist) {
		return abs, nil // the parents are missing too; the first write creates them
	}
	return filepath.Join(dir, filepath.Base(abs)), err
}

func (OS) BootID() string { return bootID() }

func (OS) Remote(dir string) string { return remote(dir) }

func (OS) Lock(name string) (Locked, error) {
	l := flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR|openFlags), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	f, err := lockedFile(l, name)
	if err != nil {
		return nil, errors.Join(err, l.Unlock())
	}
	return &osLock{l, f}, nil
}

// lockedFile opens the file of a lock, for its text. It returns ErrLocked if
// the name leads to another file: the file was removed or replaced between
// the open and the lock, so the lock guards nothing.
func lockedFile(l *flock.Flock, name string) (*os.File, error) {
	f, err := OS{}.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	if err != nil {
		if fi, lerr := os.Lstat(name); lerr == nil && !fi.Mode().IsRegular() {
			err = &fs.PathError{Op: "lock", Path: name, Err: ErrNotRegular}
		}
		return nil, err
	}
	held, err1 := l.Stat()
	named, err2 := f.Stat()
	err = errors.Join(err1, err2)
	if err == nil && !os.SameFile(held, named) {
		err = &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.(osFile).File, nil
}

type osLock struct {
	l *flock.Flock
	f *os.File // the locked file, opened a second time
}

func (l *osLock) SetText(text string) error {
	_, err := l.f.WriteAt([]byte(text), 0)
	if err == nil {
		err = l.f.Truncate(int64(len(text)))
	}
	return err
}

func (l *osLock) Text() (string, error) {
	fi, err := l.f.Stat()
	if err != nil {
		return "", err
	}
	if fi.Size() > maxLockText {
		return "", &TooLargeError{Name: l.f.Name(), Size: fi.Size(), Max: maxLockText}
	}
	b, err := io.ReadAll(io.NewSectionReader(l.f, 0, fi.Size()))
	return string(b), err
}

func (l *osLock) Stat() (fs.FileInfo, error) { return l.f.Stat() }
func (l *osLock) Unlock() error              { return errors.Join(l.l.Unlock(), l.f.Close()) }

func (OS) Root(dir string) (RootDir, error) {
	// os.OpenRoot waits for a writer of a FIFO.
	if fi, err := os.Stat(dir); err == nil && !fi.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &osRoot{r}, nil
}

// osRoot is a directory held open. Names use slashes.
type osRoot struct{ *os.Root }

func (t *osRoot) Open(name string) (File, error) { return t.OpenFile(name, os.O_RDONLY, 0) }

func (t *osRoot) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := t.Root.OpenFile(name, flag|openFlags, perm)
	// os.Root follows links that stay inside, and has a separate error for
	// others. A page is never a link.
	if fi, lerr := t.Lstat(name); lerr == nil && !fi.Mode().IsRegular() {
		if err == nil {
			err = f.Close()
		}
		return nil, errors.Join(&fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}, err)
	}
	return regular(f, name, err)
}

func (t *osRoot) Pending(name string, perm fs.FileMode) (Pending, error) {
	dir, base := ".", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir, base = name[:i], name[i+1:]
	}
	sub, err := t.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	p, err := rootPending(sub, base, perm)
	if err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	return p, nil
}

func (t *osRoot) ReadDir(name string) ([]fs.DirEntry, error) {
	// fs.ReadDir sorts. A link to a directory is not accepted.
	if fi, err := t.Lstat(name); err != nil {
		return nil, err
	} else if !fi.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	return fs.ReadDir(t.FS(), name)
}

func (t *osRoot) SyncDir(name string) error {
	d, err := t.Root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(d), d.Close())
}

// osFile is an *os.File with fdatasync.
type osFile struct{ *os.File }

func (f osFile) Datasync() error { return datasync(f.File) }

var _ io.ReaderAt = osFile{}
