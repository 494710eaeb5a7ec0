//go:build linux || darwin || freebsd

package vfs

import (
	"io/fs"
	"math"
	"syscall"
)

func (OS) Free(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return blockBytes(int64(st.Bavail), int64(st.Bsize)), nil //nolint:unconvert // the types differ between systems
}

// blockBytes returns the bytes of a number of blocks, at most those that an
// int64 can count.
func blockBytes(blocks, size int64) int64 {
	size = max(1, size)
	return min(max(0, blocks), math.MaxInt64/size) * size
}
