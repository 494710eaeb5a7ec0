package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/seed"

	"github.com/google/go-cmp/cmp"
)

// scene creates files that an FS cannot create.
type scene struct {
	symlink func(target, name string)
	mkfifo  func(name string)
}

// eachFS runs test with OS and with a Mem. The directory dir is empty.
func eachFS(t *testing.T, test func(t *testing.T, fsys vfs.FS, dir string, s scene)) {
	t.Run("os", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("SKIPPED: the test expects the errors of a Unix system")
		}
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		check := func(err error) {
			if err != nil {
				t.Helper()
				t.Fatal(err)
			}
		}
		test(t, vfs.OS{}, dir, scene{
			symlink: func(target, name string) { check(os.Symlink(target, name)) },
			mkfifo:  func(name string) { check(mkfifo(name)) },
		})
	})
	t.Run("mem", func(t *testing.T) {
		m := faultfs.NewMem()
		if err := vfs.MkdirAll(m, "/some/dir", 0o755); err != nil {
			t.Fatal(err)
		}
		test(t, m, "/some/dir", scene{symlink: m.Symlink, mkfifo: m.Mkfifo})
	})
}

// class returns the text of the error that callers test for with errors.Is.
func class(err error) string {
	for _, e := range []error{vfs.ErrNotRegular, vfs.ErrLocked, fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrClosed,
		syscall.ENOTDIR, syscall.EISDIR, syscall.EINVAL, syscall.EBADF, syscall.ELOOP, io.EOF} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	switch {
	case err == nil:
		return "ok"
	case strings.Contains(err.Error(), "escapes"):
		return "escapes"
	}
	return "error"
}

func put(t *testing.T, tree vfs.Tree, name, text string) {
	t.Helper()
	err := vfs.WriteFile(tree, name, 0o600, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
}

func get(tree vfs.Tree, name string) string {
	b, err := vfs.ReadFile(tree, name, 1<<20)
	if err != nil {
		return class(err)
	}
	return string(b)
}

func TestConformErrors(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, s scene) {
		at := func(name string) string { return dir + "/" + name }
		put(t, fsys, at("file"), "text")
		put(t, fsys, at("other"), "other text")
		for _, name := range []string{"empty", "full"} {
			if err := fsys.Mkdir(at(name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		put(t, fsys, at("full/page"), "page")
		s.symlink("file", at("link"))
		s.symlink("nowhere", at("dangling"))
		s.symlink("full", at("dirlink"))
		s.symlink("loop", at("loop"))
		s.mkfifo(at("fifo"))

		open := func(name string, flag int) error {
			f, err := fsys.OpenFile(at(name), flag, 0o600)
			if err == nil {
				err = f.Close()
			} else if f != nil {
				t.Errorf("open %s: returned a file and the error %v", name, err)
			}
			return err
		}
		read := func(name string) error {
			_, err := vfs.ReadFile(fsys, at(name), 1<<20)
			return err
		}
		list := func(name string) error {
			_, err := fsys.ReadDir(at(name))
			return err
		}
		lock := func(name string) error {
			l, err := fsys.Lock(at(name))
			if err == nil {
				err = l.Unlock()
			}
			return err
		}
		notRegular := vfs.ErrNotRegular.Error()
		for _, c := range []struct {
			call string
			err  error
			want string
		}{
			{"open", read("file"), "ok"},
			{"open missing", read("missing"), fs.ErrNotExist.Error()},
			{"open under missing", read("missing/page"), fs.ErrNotExist.Error()},
			{"open under file", read("file/page"), syscall.ENOTDIR.Error()},
			{"open directory", read("full"), notRegular},
			{"open link", read("link"), notRegular},
			{"open dangling link", read("dangling"), notRegular},
			{"open loop", read("loop"), notRegular},
			{"open fifo", read("fifo"), notRegular},
			{"open through a link", read("dirlink/page"), "ok"},
			{"open through a loop", read("loop/page"), notRegular}, // the system returns ELOOP for a link and for a loop
			{"create new", open("new", os.O_RDWR|os.O_CREATE|os.O_EXCL), "ok"},
			{"create existing", open("file", os.O_RDWR|os.O_CREATE|os.O_EXCL), fs.ErrExist.Error()},
			{"create over link", open("link", os.O_RDWR|os.O_CREATE|os.O_EXCL), fs.ErrExist.Error()},
			{"append to link", open("link", os.O_WRONLY|os.O_APPEND|os.O_CREATE), notRegular},
			{"open missing for writing", open("missing", os.O_RDWR), fs.ErrNotExist.Error()},
			{"create under missing", open("missing/page", os.O_RDWR|os.O_CREATE), fs.ErrNotExist.Error()},
			{"mkdir existing", fsys.Mkdir(at("full"), 0o700), fs.ErrExist.Error()},
			{"mkdir over file", fsys.Mkdir(at("file"), 0o700), fs.ErrExist.Error()},
			{"mkdir under missing", fsys.Mkdir(at("missing/dir"), 0o700), fs.ErrNotExist.Error()},
			{"remove missing", fsys.Remove(at("missing")), fs.ErrNotExist.Error()},
			{"remove full directory", fsys.Remove(at("full")), fs.ErrExist.Error()}, // ENOTEMPTY
			{"remove directory", fsys.Remove(at("empty")), "ok"},
			{"remove link", fsys.Remove(at("dangling")), "ok"},
			{"rename missing", fsys.Rename(at("missing"), at("file")), fs.ErrNotExist.Error()},
			{"rename over directory", fsys.Rename(at("file"), at("full")), fs.ErrExist.Error()},
			{"rename directory over file", fsys.Rename(at("full"), at("file")), syscall.ENOTDIR.Error()},
			{"rename into itself", fsys.Rename(at("full"), at("full/sub")), syscall.EINVAL.Error()},
			{"rename under missing", fsys.Rename(at("file"), at("missing/file")), fs.ErrNotExist.Error()},
			{"rename over file", fsys.Rename(at("other"), at("file")), "ok"},
			{"list", list("full"), "ok"},
			{"list through a link", list("dirlink"), "ok"},
			{"list missing", list("missing"), fs.ErrNotExist.Error()},
			{"list file", list("file"), syscall.ENOTDIR.Error()},
			{"sync missing directory", fsys.SyncDir(at("missing")), fs.ErrNotExist.Error()},
			{"lock", lock("new"), "ok"},
			{"lock creates", lock("lock"), "ok"},
			{"lock under missing", lock("missing/lock"), fs.ErrNotExist.Error()},
		} {
			if got := class(c.err); got != c.want {
				t.Errorf("%s: %s (%v), want %s", c.call, got, c.err, c.want)
			}
		}
		if got := get(fsys, at("file")); got != "other text" {
			t.Errorf("contents after the rename: %q, want %q", got, "other text")
		}
		for _, name := range []string{"link", "full"} {
			if err := lock(name); err == nil {
				t.Errorf("lock %s: no error", name)
			}
		}
		var names []string
		entries, err := fsys.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, fmt.Sprint(e.Name(), " ", e.Type()))
		}
		want := []string{"dirlink L---------", "fifo p---------", "file ----------", "full d---------",
			"link L---------", "lock ----------", "loop L---------", "new ----------"}
		if d := cmp.Diff(want, names); d != "" {
			t.Errorf("names (-want +got):\n%s", d)
		}
	})
}

func TestConformRoot(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, s scene) {
		put(t, fsys, dir+"/secret", "outside")
		for _, name := range []string{"/inner", "/inner/sub"} {
			if err := fsys.Mkdir(dir+name, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		s.symlink("../secret", dir+"/inner/up")
		s.symlink("..", dir+"/inner/updir")
		s.symlink(dir, dir+"/inner/absolute")
		s.symlink("sub", dir+"/inner/inside")
		if _, err := fsys.Root(dir + "/missing"); class(err) != fs.ErrNotExist.Error() {
			t.Errorf("root of a missing directory: %v", err)
		}
		if _, err := fsys.Root(dir + "/secret"); err == nil {
			t.Error("root of a file: no error")
		}
		s.mkfifo(dir + "/fifo")
		if _, err := fsys.Root(dir + "/fifo"); class(err) != syscall.ENOTDIR.Error() {
			t.Errorf("root of a FIFO: %v", err)
		}
		r, err := fsys.Root(dir + "/inner")
		if err != nil {
			t.Fatal(err)
		}
		put(t, r, "sub/page", "a page")
		put(t, r, "top", "at the top")
		if err := r.SyncDir("."); err != nil {
			t.Error(err)
		}
		list := func(name string) error {
			_, err := r.ReadDir(name)
			return err
		}
		for _, c := range []struct{ call, got, want string }{
			{"page", get(r, "sub/page"), "a page"},
			{"top", get(r, "top"), "at the top"},
			{"dots inside", get(r, "sub/../top"), "at the top"},
			{"outside view", get(fsys, dir+"/inner/sub/page"), "a page"},
			{"absolute name", get(r, dir+"/secret"), "escapes"},
			{"dots", get(r, "../secret"), "escapes"},
			{"through a link up", get(r, "updir/secret"), "escapes"},
			{"through an absolute link", get(r, "absolute/secret"), "escapes"},
			{"through a link inside", get(r, "inside/page"), "a page"},
			{"write through a link up", class(r.Mkdir("updir/x", 0o700)), "escapes"},
			{"rename out", class(r.Rename("top", "../top")), "escapes"},
			{"remove outside", class(r.Remove("../secret")), "escapes"},
			{"list", class(list("sub")), "ok"},
			{"list outside", class(list("..")), "escapes"},
		} {
			if c.got != c.want {
				t.Errorf("%s: %q, want %q", c.call, c.got, c.want)
			}
		}
		if list("inside") == nil || list("updir") == nil {
			t.Error("ReadDir followed a link to a directory")
		}
		for _, name := range []string{"up", "inside"} {
			if _, err := r.Open(name); err == nil {
				t.Errorf("open %s: no error", name)
			}
		}
		if fi, err := r.Lstat("up"); err != nil || fi.Mode().Type() != fs.ModeSymlink {
			t.Errorf("lstat of a link: %v, %v", fi, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.Open("top"); class(err) != fs.ErrClosed.Error() {
			t.Errorf("open after close: %v", err)
		}
	})
}

func TestConformResolve(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, s scene) {
		if err := fsys.Mkdir(dir+"/real", 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, fsys, dir+"/real/file", "")
		s.symlink("real", dir+"/alias")
		s.symlink("real/file", dir+"/filelink")
		s.symlink("nowhere", dir+"/dangling")
		for name, want := range map[string]string{
			"real/file": "real/file", "alias/file": "real/file", "filelink": "real/file", "alias/new": "real/new",
			"new": "new", "no/parent": "no/parent", "alias/../real/./file": "real/file",
		} {
			if got, err := fsys.Resolve(dir + "/" + name); err != nil || got != dir+"/"+want {
				t.Errorf("resolve %s: %s, %v, want %s", name, got, err, want)
			}
		}
		if got, err := fsys.Resolve(dir + "/dangling"); err == nil {
			t.Errorf("resolve a dangling link: %s, want an error", got)
		}
	})
}

func TestConformPending(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, s scene) {
		put(t, fsys, dir+"/file", "old")
		before, err := fsys.Lstat(dir + "/file")
		if err != nil {
			t.Fatal(err)
		}
		p, err := fsys.Pending(dir+"/file", 0o640)
		if err != nil {
			t.Fatal(err)
		}
		base, ok := strings.CutPrefix(filepath.ToSlash(p.Name()), dir+"/.file")
		if !ok || strings.Trim(base, "0123456789") != "" || base == "" {
			t.Errorf("temporary name %s", p.Name())
		}
		if _, err := p.Write([]byte("new")); err != nil {
			t.Fatal(err)
		}
		if got := get(fsys, dir+"/file"); got != "old" {
			t.Errorf("contents before Commit: %q", got)
		}
		if err := errors.Join(p.Commit(), p.Discard()); err != nil {
			t.Fatal(err)
		}
		after, err := fsys.Lstat(dir + "/file")
		if err != nil {
			t.Fatal(err)
		}
		if got := get(fsys, dir+"/file"); got != "new" || after.Mode() != 0o640 || vfs.Identify(after) == vfs.Identify(before) {
			t.Errorf("contents after Commit: %q, mode %v", got, after.Mode())
		}
		if p, err = fsys.Pending(dir+"/file", 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.Discard(); err != nil {
			t.Fatal(err)
		}
		if p, err = fsys.Pending(dir+"/file", 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Write([]byte("kept")); err != nil {
			t.Fatal(err)
		}
		if err := p.Keep(); err != nil {
			t.Fatal(err)
		}
		if got := get(fsys, p.Name()); got != "kept" {
			t.Errorf("contents of the kept temporary file: %q", got)
		}
		if list, err := fsys.ReadDir(dir); err != nil || len(list) != 2 {
			t.Errorf("files: %v, %v, want the file and the kept temporary file", list, err)
		}
		if _, err := fsys.Pending(dir+"/missing/file", 0o600); class(err) != fs.ErrNotExist.Error() {
			t.Errorf("Pending in a missing directory: %v", err)
		}
		failed := vfs.Replace(fsys, dir+"/file", 0o600, func(io.Writer) error { return io.ErrUnexpectedEOF })
		if got := get(fsys, dir+"/file"); failed == nil || got != "new" {
			t.Errorf("failed Replace: %v, contents %q", failed, got)
		}
	})
}

func TestConformLock(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, s scene) {
		name := dir + "/lock"
		l, err := fsys.Lock(name)
		if err != nil {
			t.Fatal(err)
		}
		if fi, err := fsys.Lstat(name); err != nil || fi.Mode() != 0o600 {
			t.Errorf("lock file: %v, %v", fi, err)
		}
		if _, err := fsys.Lock(name); !errors.Is(err, vfs.ErrLocked) {
			t.Errorf("second lock: %v", err)
		}
		for _, text := range []string{"a long text", "short", ""} {
			if err := l.SetText(text); err != nil {
				t.Fatal(err)
			}
			if got, err := l.Text(); err != nil || got != text || get(fsys, name) != text {
				t.Errorf("text %q, %v, want %q", got, err, text)
			}
		}
		if err := l.Unlock(); err != nil {
			t.Fatal(err)
		}
		l, err = fsys.Lock(name)
		if err != nil {
			t.Fatalf("after unlock: %v", err)
		}
		// The first lock does not guard the file that replaces the lock file.
		put(t, fsys, name, "")
		l2, err := fsys.Lock(name)
		if err != nil {
			t.Fatalf("after replacement: %v", err)
		}
		// Each lock writes to the file that it locks.
		if err := errors.Join(l.SetText("first"), l2.SetText("second")); err != nil {
			t.Fatal(err)
		}
		named, err := fsys.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		for l, want := range map[vfs.Locked]string{l: "first", l2: "second"} {
			text, err := l.Text()
			fi, serr := l.Stat()
			if err := errors.Join(err, serr); err != nil || text != want || vfs.SameFile(fi, named) != (want == "second") {
				t.Errorf("text %q, %v, want %q; same file as the name: %v", text, err, want, vfs.SameFile(fi, named))
			}
		}
		if got := get(fsys, name); got != "second" {
			t.Errorf("the lock file contains %q, want %q", got, "second")
		}
		if err := errors.Join(l.Unlock(), l2.Unlock()); err != nil {
			t.Error(err)
		}
		if id := fsys.BootID(); id != fsys.BootID() {
			t.Error("two calls of BootID return different IDs")
		}
	})
}

func TestConformLinks(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, s scene) {
		put(t, fsys, dir+"/a", "text")
		r, err := fsys.Root(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.Link("a", "b"); err != nil {
			t.Fatal(err)
		}
		if err := r.Link("a", "b"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("link in a root to b: %v, want %v", err, fs.ErrExist)
		}
		for name, want := range map[string]error{"b": fs.ErrExist, "none/b": fs.ErrNotExist} {
			if err := fsys.Link(dir+"/a", dir+"/"+name); !errors.Is(err, want) {
				t.Errorf("link to %s: %v, want %v", name, err, want)
			}
		}
		if err := fsys.Link(dir+"/missing", dir+"/c"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("link to a missing file: %v", err)
		}
		id := func(name string) vfs.Identity {
			fi, err := fsys.Lstat(dir + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			return vfs.Identify(fi)
		}
		if a, b := id("a"), id("b"); a != b || a.Links != 2 || a.Ino == 0 {
			t.Errorf("two names of one file: %v and %v", a, b)
		}
		if err := fsys.Rename(dir+"/a", dir+"/b"); err != nil || get(fsys, dir+"/a") != "text" {
			t.Errorf("rename of a file to its other name: %v", err)
		}
		if err := fsys.Remove(dir + "/a"); err != nil {
			t.Fatal(err)
		}
		if b := id("b"); b.Links != 1 || get(fsys, dir+"/b") != "text" {
			t.Errorf("after the removal of one name: %v", b)
		}
		f, err := fsys.Open(dir + "/b")
		if err != nil {
			t.Fatal(err)
		}
		if err := fsys.Remove(dir + "/b"); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(f); err != nil || string(b) != "text" {
			t.Errorf("read of an open file after its removal: %q, %v", b, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err := f.Close(); class(err) != fs.ErrClosed.Error() {
			t.Errorf("second close: %v", err)
		}
	})
}

// TestConformFile makes random calls on a file and on a model, a byte slice. OS
// and Mem get the same calls.
func TestConformFile(t *testing.T) {
	n := seed.Of(t)
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, s scene) {
		r := rand.New(rand.NewPCG(n, 0))
		for round := range 40 {
			appending := round%2 == 0
			flag := os.O_RDWR | os.O_CREATE
			if appending {
				flag |= os.O_APPEND
			}
			name := fmt.Sprintf("%s/file%d", dir, round)
			f, err := fsys.OpenFile(name, flag, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			var want []byte
			pos := 0
			for range 30 {
				switch r.IntN(7) {
				case 0, 1, 2:
					p := bytes.Repeat([]byte{byte(r.IntN(3))}, r.IntN(3)*r.IntN(9000)+r.IntN(40))
					if len(p) == 0 {
						continue
					}
					if appending {
						pos = len(want)
					}
					if n := pos + len(p); n > len(want) {
						want = append(want, make([]byte, n-len(want))...)
					}
					copy(want[pos:], p)
					pos += len(p)
					if n, err := f.Write(p); n != len(p) || err != nil {
						t.Fatalf("write: %d, %v", n, err)
					}
				case 3:
					size := r.IntN(20000)
					if err := f.Truncate(int64(size)); err != nil {
						t.Fatal(err)
					}
					want = append(want[:min(size, len(want))], make([]byte, max(0, size-len(want)))...)
				case 4:
					p := make([]byte, r.IntN(9000)+1)
					off := r.IntN(20000)
					n, err := f.ReadAt(p, int64(off))
					exp := want[min(off, len(want)):min(off+len(p), len(want))]
					if !bytes.Equal(p[:n], exp) || (err == io.EOF) != (n < len(p)) {
						t.Fatalf("read of %d at %d: %d bytes, %v, want %d", len(p), off, n, err, len(exp))
					}
				case 5:
					p := make([]byte, r.IntN(5000)+1)
					n, err := f.Read(p)
					exp := want[min(pos, len(want)):min(pos+len(p), len(want))]
					if !bytes.Equal(p[:n], exp) || (err == io.EOF) != (len(exp) == 0) {
						t.Fatalf("read of %d from %d: %d bytes, %v, want %d", len(p), pos, n, err, len(exp))
					}
					pos += n
				case 6:
					if err := errors.Join(f.Sync(), f.Datasync()); err != nil {
						t.Fatal(err)
					}
				}
			}
			fi, err := f.Stat()
			if err != nil || fi.Size() != int64(len(want)) || fi.Name() != filepath.Base(name) || fi.Mode() != 0o600 {
				t.Fatalf("stat: %v, %v, want size %d", fi, err, len(want))
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if got := get(fsys, name); got != string(want) {
				t.Fatalf("round %d: contents differ from the model", round)
			}
			for call, err := range map[string]error{
				"sync": f.Sync(), "truncate": f.Truncate(0), "stat": func() error { _, err := f.Stat(); return err }(),
				"write": func() error { _, err := f.Write([]byte{1}); return err }(),
			} {
				if class(err) != fs.ErrClosed.Error() {
					t.Errorf("%s after close: %v", call, err)
				}
			}
		}
		f, err := fsys.OpenFile(dir+"/file0", os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Read(make([]byte, 1)); class(err) != syscall.EBADF.Error() {
			t.Errorf("read of a file open for writing: %v", err)
		}
		if got := get(fsys, dir+"/file0"); got != "" {
			t.Errorf("O_TRUNC left %q", got)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		f, err = fsys.Open(dir + "/file1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte{1}); class(err) != syscall.EBADF.Error() {
			t.Errorf("write to a file open for reading: %v", err)
		}
		if err := f.Truncate(0); err == nil {
			t.Error("truncate of a file open for reading: no error")
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := vfs.ReadFile(fsys, dir+"/file1", 0); err != nil {
			if _, ok := errors.AsType[*vfs.TooLargeError](err); !ok {
				t.Error(err)
			}
		}
	})
}
