package sessionlog

import (
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/crmem/vfs"
)

// Info is what a list says of a session.
type Info struct {
	ID   string
	File string // its name in the folder
	Meta Meta   // with the newest title and run time
	// Messages are those of the whole file.
	Messages int
	// Damaged counts bad lines, and line 1 when it is no meta line.
	Damaged  int
	Torn     int64 // bytes behind the last \n that are no record
	Size     int64 // bytes
	Modified time.Time
	// Err is why the file could not be read; nothing but its name is known
	// then.
	Err error
}

// List describes every session of the folder, in order of the file names. A
// file that cannot be read is in the list, with its error.
func (d *Dir) List() ([]Info, error) { return d.list(d.path) }

// Trashed describes the sessions that can be restored.
func (d *Dir) Trashed() ([]Info, error) { return d.list(d.folder(trashFolder)) }

func (d *Dir) list(folder string) ([]Info, error) {
	names, err := d.names(folder)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, len(names))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(names), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			var c counter
			for i := int(next.Add(1)) - 1; i < len(names); i = int(next.Add(1)) - 1 {
				infos[i] = d.info(&c, folder, names[i])
			}
		})
	}
	wg.Wait()
	return infos, nil
}

// info reads a session file from end to end.
func (d *Dir) info(c *counter, folder, name string) Info {
	i := Info{File: name}
	i.ID, _ = idOf(name, &i.Meta)
	f, err := d.fs.Open(filepath.Join(folder, name))
	if err != nil {
		i.Err = err
		return i
	}
	defer f.Close()
	if i.Err = i.read(c, f, -1, d.opts.MaxLine); i.Err == nil {
		i.ID, _ = idOf(name, &i.Meta)
	}
	return i
}

// read fills in what the first size bytes of a file say; -1 is all of them.
func (i *Info) read(c *counter, f vfs.File, size, limit int64) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if size < 0 {
		size = fi.Size()
	}
	i.Size, i.Modified = size, fi.ModTime()
	t, err := c.count(f, size, limit)
	if err != nil {
		return err
	}
	i.Meta, i.Messages, i.Damaged, i.Torn = t.meta, t.messages, t.damaged, t.torn
	return nil
}
