package sessionlog

import (
	"errors"
	"syscall"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/crmem/vfs/vfstest"
)

// TestUndoWithFaults writes to a full disk and fails each call that reverts the
// write: the outcome is unknown.
func TestUndoWithFaults(t *testing.T) {
	var failed []string
	for at := 1; ; at++ {
		m, d, _ := memDir(t, Options{})
		l, err := d.Create(Meta{Agent: "crab", CreatedBy: "user"})
		must(t, err)
		must(t, l.Append(Message{Role: "user", Content: "one"}))
		n, op := 0, ""
		m.Hook = func(c faultfs.Call) error {
			if c.Op == "write" && c.Name == l.dir.file(l.name) {
				n = 1
				return &faultfs.Fault{Err: syscall.ENOSPC, N: 5}
			}
			if n > 0 {
				if n++; n == at+1 {
					op = c.Op
					return syscall.EIO
				}
			}
			return nil
		}
		err = l.Append(Message{Role: "user", Content: "two"})
		m.Hook = nil
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if op == "" {
			if !errors.Is(err, ErrNotApplied) || !l.synced {
				t.Errorf("without a fault: %v", err)
			}
			must(t, l.Append(Message{Role: "user", Content: "three"}))
			c, err := l.Context()
			must(t, err)
			if len(c.Messages) != 2 || c.Messages[1].Content != "three" {
				t.Errorf("%+v", c.Messages)
			}
			must(t, l.Close())
			break
		}
		failed = append(failed, op)
		if at <= 4 && (!errors.Is(err, ErrUnknown) || !errors.Is(err, syscall.EIO) || l.stopped == nil) {
			t.Errorf("call %d, %s: %v", at, op, err)
		}
		_ = l.Close()
	}
	if len(failed) != 4 || failed[0] != "lstat" || failed[1] != "lstat" || failed[2] != "truncate" || failed[3] != "datasync" {
		t.Errorf("failed %v", failed)
	}
}

// TestClosedFolder creates and opens sessions in a closed folder: no file stays open
// or locked.
func TestClosedFolder(t *testing.T) {
	m, _, _ := memDir(t, Options{})
	m.WriteFile("/s/crab_user_1.jsonl", []byte(shapesMeta), 0o600)
	h := &vfstest.Handles{FS: m}
	d, err := OpenDir("/s", &Options{FS: h})
	must(t, err)
	must(t, d.Close())
	if l, err := d.Create(Meta{Agent: "crab", CreatedBy: "user"}); l != nil || !errors.Is(err, ErrClosed) || err.Error() != ErrClosed.Error()+": folder /s" {
		t.Errorf("create: %v", err)
	}
	if l, err := d.Open("crab_user_1"); l != nil || !errors.Is(err, ErrClosed) {
		t.Errorf("open: %v", err)
	}
	if h.Count() != 0 {
		t.Errorf("%d files are open", h.Count())
	}
	d, err = OpenDir("/s", &Options{FS: h})
	must(t, err)
	for _, id := range []string{"crab_user_1", "crab_user_2"} {
		l, err := d.Open(id)
		must(t, err)
		must(t, l.Close())
	}
	must(t, d.Close())
}
