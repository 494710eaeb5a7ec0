package vfs

import (
	"io/fs"
	"time"
)

// ChangeTime returns the time of the last change of a file or its metadata. Unlike the
// modification time, programs cannot set it. It is zero if the platform has none.
func ChangeTime(fi fs.FileInfo) time.Time {
	if m, ok := fi.(interface{ ChangeTime() time.Time }); ok {
		return m.ChangeTime()
	}
	return changeTime(fi)
}
