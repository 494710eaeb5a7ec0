// Package tree writes a store as a Markdown tree that people read and edit, and
// loads the tree back exactly (TREE.md).
//
//	report, err := tree.Dump(s, "brain", nil)
//	report, err := tree.Load(s, "brain", &tree.LoadOptions{Merge: true})
package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// Errors of Dump and Load that callers test with errors.Is.
var (
	// ErrTree is returned for a directory that cannot be loaded or dumped to.
	// The error is an *[Error] with the path and a remedy.
	ErrTree = errors.New("not a usable tree")
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

// Is makes an Error an ErrTree.
func (e *Error) Is(target error) bool { return target == ErrTree }

// maxFiles limits a directory of pages, because the list is in memory.
const (
	maxFiles      = 200_000
	maxPage       = 1 << 30 // bytes that a dump reads of a page
	tooManyRemedy = "use export and import for a store of this size"
)

// treeFile is a directory entry of notes/ or archives/.
type treeFile struct {
	path string
	kind crmem.Kind
	mode fs.FileMode
	size int64
}

// isPage reports whether load reads the file. The stem must not be empty.
func (f *treeFile) isPage() bool {
	return len(f.stem()) > 0 && strings.HasSuffix(f.path, pageExt)
}

func (f *treeFile) stem() string { return strings.TrimSuffix(path.Base(f.path), pageExt) }

// hidden reports whether load and dump ignore the file: those of file managers,
// editors, and version control.
func (f *treeFile) hidden() bool {
	return strings.HasPrefix(path.Base(f.path), ".") && !f.isPage()
}

// temporaryOf returns the file that a temporary file was to replace, and
// whether name has the form of vfs temporaries.
func temporaryOf(name string) (string, bool) {
	dir, base := path.Split(name)
	base, dot := strings.CutPrefix(base, ".")
	of := strings.TrimRight(base, "0123456789")
	return dir + of, dot && of != "" && len(of) < len(base)
}

// what returns the file's type for errors.
func (f *treeFile) what() string { return fileType(f.mode) }

func fileType(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a file"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// listPages lists notes/ and archives/, each in name order.
func listPages(t vfs.Tree) ([]treeFile, error) {
	var files []treeFile
	for kind, dir := range kindDirs {
		fi, err := t.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !fi.IsDir() {
			return nil, &Error{Path: dir, Msg: "is " + fileType(fi.Mode()), Remedy: "replace it with a directory"}
		}
		list, err := t.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		if len(list) > maxFiles {
			return nil, &Error{Path: dir, Msg: fmt.Sprintf("%d files, at most %d", len(list), maxFiles), Remedy: tooManyRemedy}
		}
		for _, d := range list {
			fi, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed concurrently
			}
			if err != nil {
				return nil, err
			}
			files = append(files, treeFile{dir + "/" + d.Name(), crmem.Kind(kind), fi.Mode(), fi.Size()})
		}
	}
	return files, nil
}
