package mcp

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"

	"github.com/fsnotify/fsnotify"
)

// readDirCounter counts the calls of ReadDir.
type readDirCounter struct {
	vfs.FS
	n atomic.Int64
}

func (c *readDirCounter) ReadDir(name string) ([]fs.DirEntry, error) {
	c.n.Add(1)
	return c.FS.ReadDir(name)
}

// TestChangesAreScannedOnce: the changes of one debounce interval, as of a port
// file that is created and then written, cause one scan at its end.
func TestChangesAreScannedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &readDirCounter{FS: vfs.NewMem()}
		m := New(Options{FS: fsys})
		defer m.Close()
		m.o.Run = "/run"
		events, errs := make(chan fsnotify.Event), make(chan error)
		m.wg.Go(func() { m.rescanOn(events, errs, time.Hour) })
		for i, change := range []func(){
			func() { events <- fsnotify.Event{Name: "/run/a.port"} },
			func() { errs <- errors.New("events were lost") },
		} {
			before := fsys.n.Load()
			for range 4 {
				change()
				time.Sleep(debounce / 5)
			}
			if n := fsys.n.Load() - before; n != 0 {
				t.Errorf("change %d: %d scans before the interval ends", i, n)
			}
			time.Sleep(debounce)
			if n := fsys.n.Load() - before; n != 1 {
				t.Errorf("change %d: %d scans after the interval, want 1", i, n)
			}
		}
	})
}
