//go:build unix

package vfs

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

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

// IsPrivate reports whether only this user may change a file: no other user owns it,
// and neither its group nor others may write it.
func IsPrivate(fi fs.FileInfo) bool {
	uid, known := Owner(fi)
	return (!known || uid == os.Geteuid()) && fi.Mode()&0o022 == 0
}
