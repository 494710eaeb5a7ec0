//go:build !unix

package vfs

import "io/fs"

// MakePrivate does nothing here: the directories of a user are the user's own
// by what they inherit.
func MakePrivate(dir string) (changed bool, err error) { return false, nil }

// Owner is not known here.
func Owner(fs.FileInfo) (uid int, known bool) { return 0, false }
