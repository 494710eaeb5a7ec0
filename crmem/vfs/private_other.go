//go:build !unix

package vfs

// MakePrivate does nothing here: the directories of a user are the user's own
// by what they inherit.
func MakePrivate(dir string) (changed bool, err error) { return false, nil }
