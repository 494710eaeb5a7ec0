//go:build !linux

package vfs

import "os"

// Without an fdatasync of its own the platform gets fsync. On darwin Go's
// Sync is F_FULLFSYNC, which reaches the disk and not just the drive's cache.
func datasync(f *os.File) error { return f.Sync() }

func remote(string) string { return "" }
