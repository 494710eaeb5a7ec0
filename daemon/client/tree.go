package client

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"

	"crabmem/crmem/tree"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

// inTree calls f, a request about the tree in *dir, with an absolute path. The caller's
// name of the directory is in the parts of the response, and in errors.
func inTree(dir *string, out any, part func() error, f func(part func() error) error) error {
	name := *dir
	abs, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	*dir = abs
	err = f(func() error {
		if p, ok := out.(interface{ InDir(abs, dir string) }); ok {
			p.InDir(abs, name)
		}
		return part()
	})
	*dir = name
	return treeError(err, abs, name)
}

// treeError returns an error of the daemon about a tree as the error of crmem,
// with the caller's name of the directory.
func treeError(err error, abs, dir string) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	var d op.TreeDetails
	if len(e.Details) > 0 && json.Unmarshal(e.Details, &d) != nil {
		return err
	}
	switch {
	case e.Kind == "tree":
		if d.Path == abs {
			d.Path = dir
		}
		return &tree.Error{Path: d.Path, Line: d.Line, Msg: d.Message, Remedy: e.Remedy}
	case e.Kind == "changed" && d.Names != nil:
		return &tree.ChangedError{Dir: dir, Names: d.Names}
	}
	renamed := *e
	renamed.Message = strings.ReplaceAll(e.Message, abs, dir)
	renamed.Path = strings.Replace(e.Path, abs, dir, 1)
	if e.Kind == "edited" {
		renamed.Family = errtable.Tree
	}
	return &renamed
}
