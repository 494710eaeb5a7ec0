//go:build unix

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// A FIFO must not block the opener and a link must not be followed.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

func isLink(err error) bool { return errors.Is(err, syscall.ELOOP) }

func syncDir(d *os.File) error { return d.Sync() }

func identify(fi fs.FileInfo) Identity {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return Identity{}
	}
	return Identity{Dev: uint64(st.Dev), Ino: uint64(st.Ino), Links: uint64(st.Nlink)}
}

// pendingFile is renameio's, which syncs the file and renames it, and leaves
// the sync of the directory to us.
type pendingFile struct {
	*renameio.PendingFile
	sub *os.Root // closed with the file; nil outside a root
	tmp string
}

func osPending(name string, perm fs.FileMode) (Pending, error) {
	// Without WithTempDir renameio probes $TMPDIR with temporary files.
	p, err := renameio.NewPendingFile(name, renameio.WithTempDir(filepath.Dir(name)), renameio.WithStaticPermissions(perm))
	if err != nil {
		return nil, err
	}
	return &pendingFile{PendingFile: p, tmp: p.Name()}, nil
}

func rootPending(sub *os.Root, base string, perm fs.FileMode) (Pending, error) {
	p, err := renameio.NewPendingFile(base, renameio.WithRoot(sub), renameio.WithStaticPermissions(perm))
	if err != nil {
		return nil, err
	}
	return &pendingFile{PendingFile: p, sub: sub, tmp: p.Name()}, nil
}

func (p *pendingFile) Name() string    { return p.tmp }
func (p *pendingFile) Datasync() error { return datasync(p.PendingFile.File) }

func (p *pendingFile) Commit() error {
	if err := p.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return p.closeRoot()
}

func (p *pendingFile) Discard() error {
	err := p.Cleanup()
	return errors.Join(err, p.closeRoot())
}

func (p *pendingFile) Keep() error {
	return errors.Join(p.PendingFile.File.Close(), p.closeRoot())
}

func (p *pendingFile) closeRoot() error {
	if p.sub == nil {
		return nil
	}
	return p.sub.Close()
}

// MakePrivate removes all permissions on a directory except the owner's, and
// reports whether there were any. It returns fs.ErrPermission for a directory
// of another user. It ignores a missing directory and one with the sticky bit.
func MakePrivate(dir string) (changed bool, err error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if os.IsNotExist(err) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer d.Close()
	fi, err := d.Stat()
	if err != nil {
		return false, err
	}
	if fi.Mode()&fs.ModeSticky != 0 {
		return false, nil // shared on purpose, as /tmp is
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return false, &fs.PathError{Op: "use", Path: dir, Err: fmt.Errorf("it belongs to user %d: %w", st.Uid, fs.ErrPermission)}
	}
	if fi.Mode().Perm()&0o077 == 0 {
		return false, nil
	}
	return true, d.Chmod(fi.Mode().Perm() &^ 0o077)
}

// Owner returns the user that a file or directory belongs to.
func Owner(fi fs.FileInfo) (uid int, known bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// OnlyOwner reports whether the mode of a file gives no other user access.
func OnlyOwner(fi fs.FileInfo) bool { return fi.Mode().Perm()&0o077 == 0 }

// IsPrivate reports whether only this user may change a file: no other user owns it,
// and neither its group nor others may write it.
func IsPrivate(fi fs.FileInfo) bool {
	uid, known := Owner(fi)
	return (!known || uid == os.Geteuid()) && fi.Mode()&0o022 == 0
}
