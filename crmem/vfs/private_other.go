//go:build !unix

package vfs

import "io/fs"

// MakePrivate does nothing on this system: inherited permissions protect a
// user's directories.
func MakePrivate(dir string) (changed bool, err error) { return false, nil }

// Owner returns false on this system.
func Owner(fs.FileInfo) (uid int, known bool) { return 0, false }

// OnlyOwner returns true on this system, for the reason of IsPrivate.
func OnlyOwner(fs.FileInfo) bool { return true }

// IsPrivate returns true on this system: inherited permissions protect the files.
func IsPrivate(fs.FileInfo) bool { return true }
