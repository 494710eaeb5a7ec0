package client

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
)

// update has the daemon apply the operations of plan, on condition that the
// entries that they change are as the files have them.
func (s *store) update(ctx context.Context, d *Client, plan func(*crmem.Store) ([]crmem.Op, error)) (list []crmem.Entry, err error) {
	m := &pb.ApplyMsg{}
	var texts []string // of the entries in the response
	err = s.Read(func(v *crmem.Store) error {
		ops, err := plan(v)
		if err == nil {
			err = crmem.Valid(ops...)
		}
		if err != nil {
			return err
		}
		for _, c := range memtool.Conditions(v, ops) {
			m.Unchanged = append(m.Unchanged, memtool.Message(c.(crmem.Unchanged).Entry, true))
		}
		m.Changes, texts = changes(v, ops)
		return nil
	})
	if err != nil || len(m.Changes) == 0 {
		return nil, err
	}
	if proto.Size(m) > wire.MaxFrame {
		name, err := writeBatch(s.o.Options.FS, m)
		if name != "" {
			defer func() { _ = s.o.Options.FS.Remove(name) }() // a remaining file does no harm
		}
		if err != nil {
			return nil, err
		}
		m = &pb.ApplyMsg{File: name}
	}
	written, err := d.Apply(ctx, m)
	if err != nil {
		return nil, OutcomeUnknown(err)
	}
	for i, m := range written {
		e := memtool.Entry(m)
		if i < len(texts) {
			e.Content = texts[i]
		}
		list = append(list, e)
	}
	return list, nil
}

// changes returns operations as messages, and the content of each entry that
// they write.
func changes(v *crmem.Store, ops []crmem.Op) (list []*pb.Change, texts []string) {
	now := make(map[string]string) // by name
	for _, op := range ops {
		c, e := memtool.Change(op)
		list = append(list, c)
		switch op.(type) {
		case crmem.Remove:
			continue
		case crmem.Alias:
			if _, ok := now[e.Name]; !ok {
				old, _ := v.Get(e.Name) // of a missing entry the daemon reports the error
				now[e.Name] = old.Content
			}
		default:
			now[e.Name] = e.Content
		}
		texts = append(texts, now[e.Name])
	}
	return list, texts
}

// writeBatch writes changes that exceed a frame to a private file, for the
// daemon to read. The caller removes the file, also after an error.
func writeBatch(fsys vfs.FS, m *pb.ApplyMsg) (name string, err error) {
	name, err = filepath.Abs(filepath.Join(os.TempDir(), "crabmem-changes-"+rand.Text()[:10]))
	if err != nil {
		return "", err
	}
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	out := bufio.NewWriterSize(f, 1<<16)
	write := func(m *pb.ApplyMsg) {
		if err == nil {
			_, err = protodelim.MarshalTo(out, m)
		}
	}
	for _, e := range m.Unchanged {
		write(&pb.ApplyMsg{Unchanged: []*pb.Entry{e}})
	}
	for _, c := range m.Changes {
		write(&pb.ApplyMsg{Changes: []*pb.Change{c}})
	}
	return name, errors.Join(err, out.Flush(), f.Close())
}

// load has the daemon load a tree.
func load(ctx context.Context, d *Client, dir string, o *crmem.LoadOptions) (crmem.LoadReport, error) {
	report := crmem.LoadReport{Dir: dir}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return report, err
	}
	m := &pb.LoadMsg{Dir: abs, DryRun: o.DryRun, Progress: true}
	switch {
	case o.Merge:
		m.Mode = pb.LoadMsg_MERGE
	case !o.Guard:
		m.Mode = pb.LoadMsg_REPLACE
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := d.Load(ctx, m, func(p *pb.Progress) {
		switch {
		case p.GetTotal() > 0 && o.Progress != nil:
			o.Progress(int(p.GetDone()), int(p.GetTotal()))
		case o.Confirm != nil:
			if err := o.Confirm(crmem.LoadReport{Dir: dir, Removed: p.GetLines()}); err != nil {
				cancel(err)
			}
		}
	})
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
		return &crmem.TreeError{Path: d.Path, Line: d.Line, Msg: d.Message, Remedy: e.Remedy}
	case e.Kind == "changed" && d.Names != nil:
		return &crmem.ChangedError{Dir: dir, Names: d.Names}
	}
	renamed := *e
	renamed.Message = strings.ReplaceAll(e.Message, abs, dir)
	renamed.Path = strings.Replace(e.Path, abs, dir, 1)
	return &renamed
}
