package sessionlog

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/line"
)

// Info describes a session.
type Info struct {
	ID   string
	File string // its name in the folder
	Meta Meta   // with the newest title and run time
	// Messages is the number of messages in the file.
	Messages int
	// Partial is set if the list read only both ends of a large file. Messages,
	// Damaged, and Torn are lower bounds, and Meta may be older than the file.
	Partial bool
	// Damaged counts bad lines, and line 1 if it is not a meta line.
	Damaged  int
	Torn     int64 // bytes of the torn tail
	Size     int64 // bytes
	Modified time.Time
	// Err is the error of reading the file. If it is set, only ID and File are
	// valid.
	Err error

	created time.Time // parsed from Meta, for Compare; zero if it is not a time
}

// List describes every session of the folder, in order of the file names. A
// file that cannot be read is in the list, with its error. Sessions that do work of
// another session are not in the list.
func (d *Dir) List() ([]Info, error) { return d.list(d.path, d.withoutWork) }

// ListAll is like List, with the sessions that do work.
func (d *Dir) ListAll() ([]Info, error) {
	return d.list(d.path, func(_ string, names []string) []string { return names })
}

// Trashed describes the sessions that can be restored, without those that do work.
func (d *Dir) Trashed() ([]Info, error) { return d.list(d.folder(trashFolder), d.withoutWork) }

// list describes the sessions of a folder whose names the filter returns.
func (d *Dir) list(folder string, filter func(folder string, names []string) []string) ([]Info, error) {
	names, err := d.names(folder)
	names = filter(folder, names)
	if err != nil {
		return nil, err
	}
	infos := d.infos(folder, names)
	for try := 1; try < maxMoves && slices.ContainsFunc(infos, missing); try++ {
		// A title moved them, or they were deleted.
		known := names
		if names, err = d.names(folder); err != nil {
			return nil, err
		}
		names = filter(folder, names)
		fresh := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return contains(known, name) })
		n := len(infos)
		infos = slices.DeleteFunc(infos, func(i Info) bool { return missing(i) && !contains(names, i.File) })
		if len(fresh) == 0 && len(infos) == n {
			break // such as a link to nowhere
		}
		infos = append(infos, d.infos(folder, fresh)...)
		slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.File, b.File) })
	}
	return infos, nil
}

// Compare orders sessions newest first by Meta.CreatedAt, then by ID and by file.
// A session without a valid time comes last.
func (i Info) Compare(o Info) int {
	return cmp.Or(o.created.Compare(i.created), cmp.Compare(i.ID, o.ID), cmp.Compare(i.File, o.File))
}

func missing(i Info) bool { return errors.Is(i.Err, fs.ErrNotExist) }

func contains(sorted []string, name string) bool {
	_, ok := slices.BinarySearch(sorted, name)
	return ok
}

// infos describes files of a folder.
func (d *Dir) infos(folder string, names []string) []Info {
	infos := make([]Info, len(names))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(names), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			var c line.Counter
			for i := int(next.Add(1)) - 1; i < len(names); i = int(next.Add(1)) - 1 {
				infos[i] = d.info(&c, folder, names[i])
			}
		})
	}
	wg.Wait()
	return infos
}

// info describes a file. Of a file that is longer than two parts it reads the
// first and the last part.
func (d *Dir) info(c *line.Counter, folder, name string) Info {
	i := Info{File: name}
	i.ID, _ = idOf(name, &i.Meta)
	f, err := d.fs.Open(filepath.Join(folder, name))
	if err != nil {
		i.Err = err
		return i
	}
	defer f.Close()
	if i.Err = i.readEnds(c, f, d.opts.MaxLine); i.Err == nil {
		i.ID, _ = idOf(name, &i.Meta)
	}
	return i
}

// readEnds fills in the description of a file for a list.
func (i *Info) readEnds(c *line.Counter, f vfs.File, limit int64) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	count := c.Count
	if i.Partial = fi.Size() > 2*line.ListPart; i.Partial {
		count = c.CountParts
	}
	return i.fill(f, fi, fi.Size(), limit, count)
}

// read sets the fields from the first size bytes of a file.
func (i *Info) read(c *line.Counter, f vfs.File, size, limit int64) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	return i.fill(f, fi, size, limit, c.Count)
}

func (i *Info) fill(f vfs.File, fi fs.FileInfo, size, limit int64, count func(io.ReaderAt, int64, int64) (line.Tally, error)) error {
	i.Size, i.Modified = size, fi.ModTime()
	t, err := count(f, size, limit)
	if err != nil {
		return err
	}
	i.Meta, i.Messages, i.Damaged, i.Torn = t.Meta, t.Messages, t.Damaged, t.Torn
	i.created, _ = i.Meta.Created()
	return nil
}
