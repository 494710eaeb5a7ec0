package daemon

import (
	"context"
	"path/filepath"
	"slices"

	"crabmem/crmem/tree"
	"crabmem/daemon/errtable"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"
)

// absolute checks that the directory of a tree is absolute: the daemon has
// another working directory.
func absolute(dir string) error {
	if !filepath.IsAbs(dir) {
		return errtable.Invalidf("dir %q: want an absolute path", dir)
	}
	return nil
}

func (d opened) dump(r *request, m *pb.DumpMsg) error {
	if err := absolute(m.GetDir()); err != nil {
		return err
	}
	report, err := tree.Dump(d.store, m.GetDir(), &tree.DumpOptions{
		Force: m.GetForce(), DryRun: m.GetDryRun(), Progress: r.progress(m.GetProgress(), "dumping"),
	})
	if err != nil {
		return err
	}
	return r.report(memtool.Dumped(report, m.GetDryRun()), report.Warnings)
}

func (d opened) loadTree(r *request, m *pb.LoadMsg) error {
	if err := absolute(m.GetDir()); err != nil {
		return err
	}
	o := &tree.LoadOptions{DryRun: m.GetDryRun(), Accept: m.GetAccept(), Progress: r.progress(m.GetProgress(), "loading")}
	switch m.GetMode() {
	case pb.LoadMsg_GUARD:
		o.Guard = true
	case pb.LoadMsg_MERGE:
		o.Merge = true
	case pb.LoadMsg_REPLACE:
	default:
		return errtable.Invalidf("mode %d: want 0 (guard), 1 (merge), or 2 (replace)", m.GetMode())
	}
	reported := make(map[string]bool)
	o.Confirm = func(report tree.LoadReport) error {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		if !m.GetProgress() {
			return nil
		}
		// The list grows if the store changes concurrently.
		more := slices.DeleteFunc(slices.Clone(report.Removed), func(name string) bool { return reported[name] })
		for _, name := range more {
			reported[name] = true
		}
		return r.lines("removes", more)
	}
	report, err := tree.Load(d.store, m.GetDir(), o)
	if err != nil {
		return err
	}
	return r.report(memtool.Loaded(report, m.GetDryRun()), report.Warnings)
}
