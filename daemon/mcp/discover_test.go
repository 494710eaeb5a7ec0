package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"

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

// TestUnwatchedDirectoryIsPolled checks that a directory that does not exist yet
// is polled.
func TestUnwatchedDirectoryIsPolled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	synctest.Test(t, func(t *testing.T) {
		log, text := plainLog()
		m := New(Options{Run: dir, Log: log})
		defer m.Close()
		time.Sleep(time.Second)
		if want := fmt.Sprintf(`level=WARN msg="cannot watch the component directory; polling it every few seconds" directory=%s error=`, dir); !strings.Contains(text.String(), want) {
			t.Errorf("the log has no warning:\n%s", text)
		}
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "c.port"), []byte("0"), 0o600)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if strings.Contains(text.String(), "invalid port") {
				t.Error("the file is found before the interval ends")
			}
			time.Sleep(poll / 4)
		}
		time.Sleep(poll / 4)
		if !strings.Contains(text.String(), "invalid port") {
			t.Errorf("the file is not found:\n%s", text)
		}
	})
}

// TestChangesAreScannedOnce: the changes of one debounce interval, as of a port
// file that is created and then written, cause one scan at its end.
func TestChangesAreScannedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &readDirCounter{FS: faultfs.NewMem()}
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
		before := fsys.n.Load()
		events <- fsnotify.Event{Name: "/run/a.port.new"}
		close(events)
		close(errs)
		time.Sleep(time.Minute)
		if n := fsys.n.Load() - before; n != 0 {
			t.Errorf("%d scans after another file and the end of the events", n)
		}
		time.Sleep(2 * time.Hour)
		if n := fsys.n.Load() - before; n != 2 {
			t.Errorf("%d scans in two intervals", n)
		}
	})
}
