package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/daemon/client"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// writer is a store that a command changes: the files, under their lock. When a
// daemon has the lock it is a view of the files, and the daemon makes the
// changes, provided that what they change is as the view has it.
type writer struct {
	c     *app
	ctx   context.Context
	files *crmem.Store // nil until it is needed, of a view
	d     *client.Client
	wrote map[string]crmem.Entry // by the daemon, since the view was read
}

// Files returns the store as it is read. Of a view it does not show what was
// changed since.
func (w *writer) Files() (*crmem.Store, error) {
	var err error
	if w.files == nil {
		w.files, err = w.c.reading()
	}
	return w.files, err
}

func (w *writer) close() error {
	if w.files == nil {
		return nil
	}
	return w.files.Close()
}

// Get returns the entry of a name as it is now.
func (w *writer) Get(name string) (crmem.Entry, error) {
	if e, ok := w.wrote[name]; ok {
		return e, nil
	}
	s, err := w.Files()
	if err != nil {
		return crmem.Entry{}, err
	}
	return s.Get(name)
}

// Remember is that of a store.
func (w *writer) Remember(name, content string, aliases []string) (crmem.Entry, error) {
	if w.d == nil {
		return w.files.Remember(name, content, aliases)
	}
	// What is no UTF-8 would not get there as it is.
	if err := crmem.Valid(crmem.Update{Name: name, Content: content, Aliases: aliases}); err != nil {
		return crmem.Entry{}, err
	}
	e, err := w.d.Remember(w.ctx, &pb.RememberMsg{Name: name, Content: content, Aliases: aliases, ClearAliases: aliases != nil && len(aliases) == 0})
	return memtool.Entry(e), lostAnswer(again(err))
}

// Apply is that of a store.
func (w *writer) Apply(ops ...crmem.Op) error {
	if w.d == nil {
		return w.files.Apply(ops...)
	}
	if err := crmem.Valid(ops...); err != nil {
		return err
	}
	s, err := w.Files()
	if err != nil {
		return err
	}
	m := &pb.ApplyMsg{}
	text := make(map[string]string) // by name, as the operations leave it
	for _, op := range ops {
		c, e := memtool.Change(op)
		if _, seen := text[e.Name]; !seen {
			old, err := s.Get(e.Name)
			there := err == nil && old.Name == e.Name
			text[e.Name] = old.Content
			switch op.(type) {
			case crmem.Add, crmem.Restore:
				if !there {
					old = crmem.Entry{Name: e.Name}
				}
				there = true
			}
			if there {
				m.Unchanged = append(m.Unchanged, memtool.Message(old, true))
			}
		}
		if _, ok := op.(crmem.Alias); !ok {
			text[e.Name] = e.Content
		}
		m.Changes = append(m.Changes, c)
	}
	if proto.Size(m) > wire.MaxFrame {
		name, err := w.c.batchFile(m)
		if name != "" {
			defer func() { _ = w.c.fs.Remove(name) }() // what is left of it is in the way of nobody
		}
		if err != nil {
			return err
		}
		m = &pb.ApplyMsg{File: name}
	}
	list, err := w.d.Apply(w.ctx, m)
	if err != nil {
		return lostAnswer(err)
	}
	w.wrote = make(map[string]crmem.Entry, len(list))
	for _, e := range list {
		now := memtool.Entry(e)
		now.Content = text[now.Name]
		w.wrote[now.Name] = now
	}
	return nil
}

// batchFile writes changes that are more than a frame to a file of its user's
// alone, for the daemon to read.
func (c *app) batchFile(m *pb.ApplyMsg) (name string, err error) {
	name, err = filepath.Abs(filepath.Join(os.TempDir(), "crabmem-changes-"+rand.Text()[:10]))
	if err != nil {
		return "", err
	}
	f, err := c.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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
	for _, ch := range m.Changes {
		write(&pb.ApplyMsg{Changes: []*pb.Change{ch}})
	}
	return name, errors.Join(err, out.Flush(), f.Close())
}

// checkpointed is what a checkpoint did.
type checkpointed struct {
	Entries  int   `json:"entries"`
	Folded   int   `json:"folded"` // operations
	Snapshot int64 `json:"snapshot_bytes"`
}

// Checkpoint is that of a store.
func (w *writer) Checkpoint() (checkpointed, error) {
	if w.d != nil {
		r, err := w.d.Checkpoint(w.ctx)
		return checkpointed{int(r.GetEntries()), int(r.GetFolded()), int64(r.GetSnapshotBytes())}, lostAnswer(again(err))
	}
	before := w.files.Stats()
	if err := w.files.Checkpoint(); err != nil {
		return checkpointed{}, err
	}
	after := w.files.Stats()
	return checkpointed{after.Entries, before.LogOps, after.SnapshotBytes}, nil
}

// Load is that of a store.
func (w *writer) Load(dir string, o *tree.LoadOptions) (tree.LoadReport, error) {
	if w.d == nil {
		return tree.Load(w.files, dir, o)
	}
	report := tree.LoadReport{Dir: dir}
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
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	r, err := w.d.Load(ctx, m, func(p *pb.Progress) {
		if p.GetTotal() > 0 && o.Progress != nil {
			o.Progress(int(p.GetDone()), int(p.GetTotal()))
			return
		}
		if o.Confirm != nil {
			if err := o.Confirm(tree.LoadReport{Dir: dir, Removed: p.GetLines()}); err != nil {
				cancel(err)
			}
		}
	})
	if err != nil {
		return report, treeError(lostAnswer(err), abs, dir)
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

// treeError makes the error of a daemon about a tree the one that it would have
// been here.
func treeError(err error, abs, dir string) error {
	e, ok := errors.AsType[*client.Error](err)
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
	return &renamed
}
