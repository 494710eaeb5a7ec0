package sessionlog_test

import (
	"fmt"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog"
)

// between calls a function before a file is opened for reading.
type between struct {
	vfs.FS
	open func()
}

func (b *between) Open(name string) (vfs.File, error) {
	b.open()
	return b.FS.Open(name)
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
