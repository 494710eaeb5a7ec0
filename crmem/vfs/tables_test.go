package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

func TestOutOfSpace(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.ENOSPC: true, syscall.EFBIG: true, syscall.EIO: false, fs.ErrNotExist: false, nil: false,
		fmt.Errorf("write: %w", &fs.PathError{Op: "write", Path: "/f", Err: syscall.ENOSPC}): true,
	} {
		if got := vfs.OutOfSpace(err); got != want {
			t.Errorf("OutOfSpace(%v) = %v, want %v", err, got, want)
		}
	}
}

// TestConformLockText reads lock files of up to the maximum length, and one byte
// longer.
func TestConformLockText(t *testing.T) {
	const longest = 1 << 16
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, _ scene) {
		for _, size := range []int64{0, 1, longest - 1, longest, longest + 1} {
			name := fmt.Sprintf("%s/lock%d", dir, size)
			l, err := fsys.Lock(name)
			must(t, err)
			f, err := fsys.OpenFile(name, os.O_RDWR|os.O_APPEND, 0)
			must(t, err)
			write(t, f, strings.Repeat("x", int(size)))
			must(t, f.Close())
			text, err := l.Text()
			if size <= longest {
				if err != nil || text != strings.Repeat("x", int(size)) {
					t.Errorf("%d bytes: %d, %v", size, len(text), err)
				}
			} else if large, ok := errors.AsType[*vfs.TooLargeError](err); !ok || text != "" || *large != (vfs.TooLargeError{Name: name, Size: size, Max: longest}) {
				t.Errorf("%d bytes: %d, %v", size, len(text), err)
			}
			must(t, l.SetText("short"), l.Unlock())
			if got := get(fsys, name); got != "short" {
				t.Errorf("contents after SetText: %d bytes, want %q", len(got), "short")
			}
		}
	})
}

// TestMemErrorTexts checks the texts of Fault and TooLargeError.
func TestMemErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"input/output error": &faultfs.Fault{Err: syscall.EIO}, "corrupt bytes": &faultfs.Fault{},
		"f: 3 bytes, more than the limit of 2": &vfs.TooLargeError{Name: "f", Size: 3, Max: 2},
	} {
		if err.Error() != want {
			t.Errorf("%T: %q, want %q", err, err.Error(), want)
		}
	}
}

// TestMemSetup checks that WriteFile, Symlink, and Mkfifo free the space of the
// file that they replace. A missing directory must cause a panic with the name.
func TestMemSetup(t *testing.T) {
	m := faultfs.NewMem()
	m.Limit = 100
	room := func() int {
		f := create(t, m, "/probe", "")
		n, _ := f.Write(make([]byte, 200))
		must(t, f.Close(), m.Remove("/probe"), m.SyncDir("/"))
		return n
	}
	sized := func(n int) func() { return func() { m.WriteFile("/f", make([]byte, n), 0o600) } }
	for i, c := range []struct {
		do   func()
		room int
	}{
		{sized(60), 40}, {sized(80), 20}, {sized(10), 90}, {func() { m.Symlink("x", "/f") }, 100}, {sized(50), 50},
		{func() { m.Mkfifo("/f") }, 100}, {sized(30), 70}, {func() { m = m.Crash() }, 70}, {func() { m = m.Kill() }, 70},
		{func() { must(t, m.Link("/f", "/g"), m.Remove("/f")) }, 70}, {func() { must(t, m.Remove("/g")) }, 100},
		{sized(30), 70}, {func() { m = m.Crash() }, 70}, {func() { must(t, m.Remove("/f"), m.SyncDir("/")); m = m.Crash() }, 100},
	} {
		c.do()
		if got := room(); got != c.room {
			t.Errorf("step %d: room for %d bytes, want %d", i, got, c.room)
		}
	}
	for name, do := range map[string]func(){
		"chmod": func() { m.Chmod("/none", 0o700) }, "write": func() { m.WriteFile("/none/f", nil, 0o600) }, "link": func() { m.Symlink("a", "/none/l") },
	} {
		func() {
			defer func() {
				if v, _ := recover().(string); !strings.HasPrefix(v, "faultfs: ") || !strings.Contains(v, "/none") || !strings.Contains(v, "no such file") {
					t.Errorf("%s: panic value %q", name, v)
				}
			}()
			do()
		}()
	}
}

// TestMemOwnsBytes changes a buffer after the write. The file must not change.
func TestMemOwnsBytes(t *testing.T) {
	for _, size := range []int{1, 4095, 4096, 4097, 8192, 8193} {
		m := faultfs.NewMem()
		f := create(t, m, "/f", "")
		b := []byte(strings.Repeat("x", size))
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
		clear(b)
		if got := get(m, "/f"); got != strings.Repeat("x", size) {
			t.Errorf("%d bytes changed with the buffer", size)
		}
	}
}

// TestConformEndOfFile reads 0 to 3 bytes at the end of a file. It also checks
// that a failed Pending returns no file.
func TestConformEndOfFile(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, _ scene) {
		put(t, fsys, dir+"/file", "ab")
		for _, size := range []int{0, 1, 2, 3} {
			f, err := fsys.Open(dir + "/file")
			must(t, err)
			if n, err := io.ReadFull(f, make([]byte, 2)); n != 2 || err != nil {
				t.Fatalf("read of 2 bytes: %d, %v", n, err)
			}
			want := error(nil)
			if size > 0 {
				want = io.EOF
			}
			if n, err := f.Read(make([]byte, size)); n != 0 || err != want {
				t.Errorf("read of %d at the end: %d, %v, want %v", size, n, err, want)
			}
			if n, err := f.ReadAt(make([]byte, size), 2); n != 0 || err != want {
				t.Errorf("read of %d at the end by offset: %d, %v, want %v", size, n, err, want)
			}
			if n, err := f.ReadAt(make([]byte, size), -1); n != 0 || err == nil {
				t.Errorf("read of %d before the beginning: %d, %v", size, n, err)
			}
			must(t, f.Close())
		}
		r, err := fsys.Root(dir)
		must(t, err)
		for _, name := range []string{strings.Repeat("x", 255), "none/file"} {
			for _, tree := range []vfs.Tree{fsys, r} {
				path := name
				if tree == vfs.Tree(fsys) {
					path = dir + "/" + name
				}
				if p, err := tree.Pending(path, 0o600); p != nil || err == nil {
					t.Errorf("Pending %.20s: %v, %v, want an error and no file", name, p, err)
				}
			}
		}
		must(t, r.Close())
	})
}

// TestFree reads the free space of a directory and of a missing directory.
func TestFree(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, _ scene) {
		if n, err := fsys.Free(dir); err != nil || n < 0 {
			t.Errorf("free space: %d, %v", n, err)
		}
		if n, err := fsys.Free(dir + "/none"); !errors.Is(err, fs.ErrNotExist) || n != 0 {
			t.Errorf("a missing directory: %d, %v", n, err)
		}
	})
	m := faultfs.NewMem()
	m.Limit = 100
	m.WriteFile("/a", make([]byte, 30), 0o600)
	if n, err := m.Free("/"); n != 70 || err != nil {
		t.Errorf("a disk of 100 bytes with 30: %d, %v", n, err)
	}
}

// TestReplaceFails checks that Replace returns each error, and leaves the file and no
// other.
func TestReplaceFails(t *testing.T) {
	for _, c := range []struct {
		name         string
		write, check error
		op           string // call that fails
	}{{name: "write", write: syscall.EIO}, {name: "check", check: syscall.EIO}, {name: "flush", op: "write"}, {name: "sync", op: "sync"}, {name: "rename", op: "rename"}} {
		m := faultfs.NewMem()
		m.WriteFile("/f", []byte("old"), 0o600)
		m.Hook = func(call faultfs.Call) error {
			if call.Op == c.op {
				return syscall.EIO
			}
			return nil
		}
		err := vfs.ReplaceChecked(m, "/f", 0o600, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return errors.Join(err, c.write) },
			func(vfs.Pending) error { return c.check })
		m.Hook = nil
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s fails: %v", c.name, err)
		}
		wantImage(t, m, map[string]string{"/f": "old"})
	}
}

// TestMemFaultReturned injects a fault into each call of an operation that makes
// several. The operation returns it.
func TestMemFaultReturned(t *testing.T) {
	for name, do := range map[string]func(m *faultfs.Mem) error{
		"lock text": func(m *faultfs.Mem) error {
			l, err := m.Lock("/lock")
			if err != nil {
				return err
			}
			err = l.SetText("text")
			_, terr := l.Text()
			return errors.Join(err, terr, l.Unlock())
		},
		"mkdir all": func(m *faultfs.Mem) error { return vfs.MkdirAll(m, "/a/b", 0o700) },
	} {
		for n := 1; ; n++ {
			m, seen := faultfs.NewMem(), 0
			m.Hook = func(faultfs.Call) error {
				if seen++; seen == n {
					return syscall.EIO
				}
				return nil
			}
			err := do(m)
			if seen < n {
				break
			}
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s: call %d fails: %v", name, n, err)
			}
		}
	}
}
