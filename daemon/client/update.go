package client

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/encoding/protodelim"
)

// update has the daemon apply the operations of plan, on condition that the
// entries that they change are as the files have them.
func (s *store) update(ctx context.Context, d *Client, plan func(*crmem.Store) ([]crmem.Op, error)) (list []crmem.Entry, err error) {
	var ops []crmem.Op
	var texts []string // of the entries in the response
	err = s.Read(func(v *crmem.Store) error {
		changes, err := plan(v)
		for i := 0; i < len(changes) && err == nil; i++ {
			err = changes[i].Validate()
		}
		if err == nil && len(changes) > 0 {
			ops, texts = append(memtool.Conditions(v, changes), changes...), writtenTexts(v, changes)
		}
		return err
	})
	if err != nil || len(ops) == 0 {
		return nil, err
	}
	list, err = d.apply(ctx, s.o.Options.FS, ops)
	for i := range min(len(list), len(texts)) {
		if list[i].Content == "" { // else the daemon may have redacted it
			list[i].Content = texts[i]
		}
	}
	return list, err
}

// writtenTexts returns the content of each entry that operations write.
func writtenTexts(v *crmem.Store, ops []crmem.Op) (texts []string) {
	now := make(map[string]string) // by name
	text := func(name string) string {
		if _, ok := now[name]; !ok {
			old, _ := v.Get(name) // the daemon reports the error of a missing entry
			now[name] = old.Content
		}
		return now[name]
	}
	for _, op := range ops {
		if !memtool.Changes(op) {
			continue
		}
		_, e := memtool.Change(op)
		switch op := op.(type) {
		case crmem.Remove:
			continue
		case crmem.Alias:
			text(e.Name)
		case crmem.Rename:
			if op.Name == op.To {
				continue
			}
			e.Name = op.To
			now[op.To] = text(op.Name)
		default:
			now[e.Name] = e.Content
		}
		texts = append(texts, now[e.Name])
	}
	return texts
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
