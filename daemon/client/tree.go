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

// inTree calls f, which sends in, with an absolute path. The caller's
// name of the directory is in the parts of the response, and in errors.
func inTree(in *op.TreeLoad, out *op.LoadPart, part func() error, f func(part func() error) error) error {
	name := in.Dir
	abs, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	in.Dir = abs
	err = f(func() error {
		out.InDir(abs, name)
		return part()
	})
	in.Dir = name
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
