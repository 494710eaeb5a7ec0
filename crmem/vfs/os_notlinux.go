//go:build !linux

package vfs

import (
	"io/fs"
	"os"
)

// A platform without fdatasync uses fsync. On darwin Go's Sync is F_FULLFSYNC,
// which reaches the disk and not only the drive's cache.
func datasync(f *os.File) error { return f.Sync() }

func remote(string) string { return "" }

func lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }
