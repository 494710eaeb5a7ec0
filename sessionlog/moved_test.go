package sessionlog_test

import (
	"fmt"
	"sync"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog"
)

// between calls a function before a file is opened for reading or a lock taken.
type between struct {
	vfs.FS
	open func()
}

func (b *between) Open(name string) (vfs.File, error) {
	b.open()
	return b.FS.Open(name)
}

func (b *between) Lock(name string) (vfs.Locked, error) {
	b.open()
	return b.FS.Lock(name)
}

// TestMovedMeanwhile gives a session a title between any two steps of another
// process that looks for it, deletes it, repairs it or lists it.
func TestMovedMeanwhile(t *testing.T) {
	const id = "crab_user_2"
	for name, do := range map[string]func(d *sessionlog.Dir) error{
		"latest": func(d *sessionlog.Dir) error {
			if got, err := d.Latest("crab", "user"); got != id {
				return fmt.Errorf("the latest is %q, %w", got, err)
			}
			return nil
		},
		"delete": func(d *sessionlog.Dir) error { return d.Delete(id) },
		"repair": func(d *sessionlog.Dir) error {
			did, err := d.Repair(id)
			if err == nil && did.Dropped != 1 {
				err = fmt.Errorf("%+v", did)
			}
			return err
		},
		"list": func(d *sessionlog.Dir) error {
			list, err := d.List()
			if err == nil && (len(list) != 2 || list[1].ID != id || list[1].Err != nil) {
				err = fmt.Errorf("%+v", list)
			}
			return err
		},
	} {
		at, moves := 1, 0
		for moved := true; moved; at++ {
			moved = false
			m, d, _ := onMem(t, sessionlog.Options{})
			for range 2 {
				noErr(t, begin(t, d).Close())
			}
			put(t, m, "/s/"+id+".jsonl", metaLine+"bad\n")
			var mu sync.Mutex // a list looks at several files at once
			opens := 0
			seen := &between{FS: m, open: func() {
				mu.Lock()
				defer mu.Unlock()
				if opens++; opens == at {
					if l, err := d.Open(id); err == nil { // else it has gone, or is locked
						noErr(t, l.SetTitle("two"))
						noErr(t, l.Close())
						moves++
					}
					moved = true
				}
			}}
			other, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: seen})
			noErr(t, err)
			if err := do(other); err != nil {
				t.Errorf("%s, moved before call %d: %v", name, at, err)
			}
		}
		if at < 3 || moves == 0 {
			t.Errorf("%s: moved %d times, before %d calls", name, moves, at)
		}
	}
}

// TestMovedWhileOpened gives a session a title, and its file so another name,
// between any two steps of another process that opens it.
func TestMovedWhileOpened(t *testing.T) {
	for _, title := range []string{"", "one"} {
		for _, write := range []bool{true, false} {
			for at, moved := 1, true; moved; at++ {
				moved = false
				t.Run(fmt.Sprintf("title %q, for writing %t, before open %d", title, write, at), func(t *testing.T) {
					m, d, _ := onMem(t, sessionlog.Options{})
					l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user", Title: title})
					noErr(t, err)
					noErr(t, l.Close())
					opens := 0
					seen := &between{FS: m, open: func() {
						if opens++; opens == at {
							moved = true
							l := reopen(t, d, "crab_user_1")
							noErr(t, l.SetTitle("two"))
							noErr(t, l.Close())
						}
					}}
					other, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: seen})
					noErr(t, err)
					var got sessionlog.Meta
					if write {
						l := reopen(t, other, "crab_user_1")
						got = l.Meta()
						noErr(t, l.Close())
					} else {
						s, err := other.Read("crab_user_1")
						noErr(t, err)
						c, err := s.Context(nil)
						noErr(t, err)
						got = c.Meta
						noErr(t, s.Close())
					}
					if want := map[bool]string{true: "two", false: title}[moved]; got.Title != want {
						t.Errorf("title %q, want %q", got.Title, want)
					}
				})
			}
		}
	}
}
