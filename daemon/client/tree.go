package client

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"

	"crabmem/crmem/tree"
	"crabmem/daemon/errtable"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"
)

// Dump writes the store as a Markdown tree, as tree.Dump does.
func (c *Client) Dump(ctx context.Context, dir string, o *tree.DumpOptions) (tree.DumpReport, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return tree.DumpReport{}, err
	}
	if o == nil {
		o = &tree.DumpOptions{}
	}
	m := &pb.DumpMsg{Dir: abs, Force: o.Force, DryRun: o.DryRun, Progress: o.Progress != nil}
	r, err := callWithProgress(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Dump{Dump: m}}, func(p *pb.Progress) {
		if p.GetTotal() > 0 {
			o.Progress(int(p.GetDone()), int(p.GetTotal()))
		}
	}, (*pb.ServerMessage).GetReport)
	if err != nil {
		return tree.DumpReport{}, treeError(OutcomeUnknown(err), abs, dir)
	}
	var a memtool.DumpAnswer
	if err := json.Unmarshal(r.GetJson(), &a); err != nil {
		return tree.DumpReport{}, err
	}
	a.Dir = dir
	return a.Report(), nil
}

// Load replaces the store by a Markdown tree or merges them, as tree.Load does.
func (c *Client) Load(ctx context.Context, dir string, o *tree.LoadOptions) (tree.LoadReport, error) {
	if o == nil {
		o = &tree.LoadOptions{}
	}
	report := tree.LoadReport{Dir: dir}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return report, err
	}
	m := &pb.LoadMsg{Dir: abs, DryRun: o.DryRun, Progress: true, Accept: o.Accept}
	switch {
	case o.Merge:
		m.Mode = pb.LoadMsg_MERGE
	case !o.Guard:
		m.Mode = pb.LoadMsg_REPLACE
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := callWithProgress(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Load{Load: m}}, func(p *pb.Progress) {
		switch {
		case p.GetTotal() > 0 && o.Progress != nil:
			o.Progress(int(p.GetDone()), int(p.GetTotal()))
		case o.Confirm != nil:
			if err := o.Confirm(tree.LoadReport{Dir: dir, Removed: p.GetLines()}); err != nil {
				cancel(err)
			}
		}
	}, (*pb.ServerMessage).GetReport)
	if err != nil {
		return report, treeError(OutcomeUnknown(err), abs, dir)
	}
	var a memtool.LoadAnswer
	if err := json.Unmarshal(r.GetJson(), &a); err != nil {
		return report, err
	}
	report = a.Report()
	report.Dir = dir
	for i, text := range report.Warnings {
		report.Warnings[i] = strings.ReplaceAll(text, abs, dir)
	}
	return report, nil
}

// treeError returns an error of the daemon about a tree as the error of crmem,
// with the caller's name of the directory.
func treeError(err error, abs, dir string) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	var d memtool.TreeDetails
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
