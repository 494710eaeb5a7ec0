//go:build !linux

package vfs

import "os"

// A platform without fdatasync uses fsync. On darwin Go's Sync is F_FULLFSYNC,
// which reaches the disk and not only the drive's cache.
func datasync(f *os.File) error { return f.Sync() }

func remote(string) string { return "" }
