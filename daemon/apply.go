package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/encoding/protodelim"
)

// maxBatch limits a file of changes, in bytes. A store is in memory, and its
// snapshot has at most 1 GiB.
const maxBatch int64 = 2 << 30

// operations returns the operations of a request, its conditions first.
func (d *Daemon) operations(m *pb.ApplyMsg) ([]crmem.Op, error) {
	ops, err := memtool.AppendOps(nil, m)
	if err != nil || m.GetFile() == "" {
		return ops, err
	}
	name := m.GetFile()
	if !filepath.IsAbs(name) {
		return nil, errtable.Invalidf("file %q: want an absolute path", name)
	}
	f, err := d.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Size() > maxBatch {
		return nil, errtable.Invalidf("%s has %d bytes, at most %d", name, fi.Size(), maxBatch)
	}
	// An entry of a file may exceed a frame, but no message exceeds its file.
	read := protodelim.UnmarshalOptions{MaxSize: max(fi.Size(), 1)}
	in := bufio.NewReaderSize(io.LimitReader(f, maxBatch), 1<<16)
	for n := 1; ; n++ {
		more := new(pb.ApplyMsg)
		err := read.UnmarshalFrom(in, more)
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return ops, nil
		}
		if err == nil {
			ops, err = memtool.AppendOps(ops, more)
		}
		if err != nil {
			return nil, &errtable.Error{HTTP: http.StatusBadRequest, Kind: "invalid", Message: fmt.Sprintf("%s: message %d: %v", name, n, err), Err: err}
		}
	}
}
