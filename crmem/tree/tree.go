// Package tree writes a store as a Markdown tree that people read and edit, and
// loads the tree back exactly (TREE.md).
//
//	report, err := tree.Dump(s, "brain", nil)
//	report, err := tree.Load(s, "brain", &tree.LoadOptions{Merge: true})
package tree

import (
	"errors"
	"fmt"
)

// Errors of Dump and Load that callers test with errors.Is.
var (
	// ErrTree is returned for a directory that cannot be loaded or dumped to.
	// The error is an *[Error] with the path and a remedy.
	ErrTree = errors.New("not a usable tree")
	// ErrVersion is returned, together with ErrTree, for a manifest version that this
	// program does not read.
	ErrVersion = errors.New("a tree of another version")
	// ErrEdited is returned by a dump that would overwrite or delete a file
	// that was edited or that dump did not write; see [EditedError].
	ErrEdited = errors.New("the tree has pages that the dump would overwrite")
	// ErrChanged is returned by a guarded load if the store changed since the
	// dump; see [ChangedError].
	ErrChanged = errors.New("the store has changed since the tree was dumped")
)

// Error is an error in a tree. It is ErrTree.
type Error struct {
	Path   string // relative to the tree, or the tree itself
	Line   int    // from 1; 0 = the file
	Msg    string
	Remedy string // what to do, as an imperative

	version bool // the manifest has another version
}

func (e *Error) Error() string {
	s := e.Path
	if e.Line > 0 {
		s = fmt.Sprintf("%s:%d", s, e.Line)
	}
	s += ": " + e.Msg
	if e.Remedy != "" {
		s += ": " + e.Remedy
	}
	return s
}

// Is reports whether target is ErrTree or, for another manifest version, ErrVersion.
func (e *Error) Is(target error) bool { return target == ErrTree || e.version && target == ErrVersion }
