//go:build linux || darwin || freebsd

package vfs

import (
	"io/fs"
	"math"
	"syscall"
)

// Free returns how many bytes this user may still write to the disk of a
// directory of this machine.
func Free(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	blocks, size := max(0, int64(st.Bavail)), int64(st.Bsize) //nolint:unconvert // the types differ between systems
	if size > 0 && blocks > math.MaxInt64/size {
		return math.MaxInt64, nil
	}
	return blocks * size, nil
}
