package vfs

import (
	"io/fs"
	"math"

	"golang.org/x/sys/windows"
)

func (OS) Free(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, &fs.PathError{Op: "free", Path: dir, Err: err}
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, &fs.PathError{Op: "free", Path: dir, Err: err}
	}
	return int64(min(free, math.MaxInt64)), nil
}
