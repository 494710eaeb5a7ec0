package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"crabmem/crmem"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/encoding/protodelim"
)

// maxBatch is how many bytes a file of changes may have: a store is in memory
// as a whole, and its snapshot has 1 GiB at most.
const maxBatch = 2 << 30

// operations are those of a request, its conditions first.
func (d *Daemon) operations(m *pb.ApplyMsg) ([]crmem.Op, error) {
	ops, err := appendOps(nil, m)
	if err != nil || m.GetFile() == "" {
		return ops, err
	}
	name := m.GetFile()
	if !filepath.IsAbs(name) {
		return nil, invalid("file %q: want an absolute path", name)
	}
	f, err := d.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil {
		return nil, err
	} else if fi.Size() > maxBatch {
		return nil, invalid("%s has %d bytes, at most %d", name, fi.Size(), maxBatch)
	}
	in := bufio.NewReaderSize(io.LimitReader(f, maxBatch), 1<<16)
	for n := 1; ; n++ {
		more := new(pb.ApplyMsg)
		err := protodelim.UnmarshalOptions{MaxSize: wire.MaxFrame}.UnmarshalFrom(in, more)
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return ops, nil
		}
		if err == nil {
			ops, err = appendOps(ops, more)
		}
		if err != nil {
			return nil, &failure{code: 400, kind: "invalid", text: fmt.Sprintf("%s: message %d", name, n), err: err}
		}
	}
}

func appendOps(ops []crmem.Op, m *pb.ApplyMsg) ([]crmem.Op, error) {
	for _, e := range m.GetUnchanged() {
		ops = append(ops, crmem.Unchanged{Entry: Entry(e)})
	}
	for i, c := range m.GetChanges() {
		switch c := c.GetChange().(type) {
		case *pb.Change_Add:
			e := Entry(c.Add)
			ops = append(ops, crmem.Add{Name: e.Name, Content: e.Content, Aliases: e.Aliases, Kind: e.Kind})
		case *pb.Change_Update:
			e := Entry(c.Update)
			ops = append(ops, crmem.Update{Name: e.Name, Content: e.Content, Aliases: e.Aliases})
		case *pb.Change_Alias:
			e := Entry(c.Alias)
			ops = append(ops, crmem.Alias{Name: e.Name, Aliases: e.Aliases})
		case *pb.Change_Remove:
			ops = append(ops, crmem.Remove{Name: c.Remove})
		case *pb.Change_Restore:
			ops = append(ops, crmem.Restore{Entry: Entry(c.Restore)})
		default:
			return nil, invalid("change %d: empty or of a newer client", i+1)
		}
	}
	return ops, nil
}
