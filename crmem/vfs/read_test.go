package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/crmem/vfs/vfstest"
)

// oddTree is a tree of one file, whose ReadAt returns n bytes and err.
type oddTree struct {
	vfs.Tree
	size    int64
	n       int
	err     error
	statErr error
}

type oddFile struct {
	vfs.File
	t *oddTree
}

type oddInfo struct {
	fs.FileInfo
	size int64
}

func (i oddInfo) Size() int64 { return i.size }

func (t *oddTree) Open(string) (vfs.File, error) { return &oddFile{t: t}, nil }
func (f *oddFile) Stat() (fs.FileInfo, error)    { return oddInfo{size: f.t.size}, f.t.statErr }
func (f *oddFile) Close() error                  { return nil }
func (f *oddFile) ReadAt(b []byte, _ int64) (int, error) {
	return copy(b[:min(f.t.n, len(b))], strings.Repeat("x", len(b))), f.t.err
}

// TestReadFileResults reads files that return all or a part of their bytes, with
// and without an error.
func TestReadFileResults(t *testing.T) {
	wrapped := fmt.Errorf("at the end: %w", io.EOF)
	for _, c := range []struct {
		tree oddTree
		want string
	}{
		{oddTree{size: 4, n: 4}, `"xxxx" 4 <nil>`}, {oddTree{size: 4, n: 4, err: io.EOF}, `"xxxx" 4 <nil>`}, {oddTree{size: 0, n: 0, err: io.EOF}, `"" 0 <nil>`},
		{oddTree{size: 4, n: 3, err: io.EOF}, "read f: read 3 of 4 bytes: unexpected EOF"}, {oddTree{size: 4, n: 0, err: io.EOF}, "read f: read 0 of 4 bytes: unexpected EOF"},
		{oddTree{size: 4, n: 3, err: wrapped}, "read f: read 3 of 4 bytes: unexpected EOF"}, {oddTree{size: 4, n: 4, err: wrapped}, "read f: at the end: EOF"},
		{oddTree{size: 4, n: 3, err: syscall.EIO}, "read f: input/output error"}, {oddTree{size: 4, n: 4, err: syscall.EIO}, "read f: input/output error"},
		{oddTree{size: 4, n: 3}, `"xxx" 4 <nil>`}, {oddTree{size: 8, n: 8}, `"xxxxxxxx" 8 <nil>`}, {oddTree{size: 9, n: 9}, "f: 9 bytes, more than the limit of 8"},
		{oddTree{size: 4, n: 4, statErr: syscall.EIO}, "input/output error"},
	} {
		b, fi, err := vfs.ReadFileInfo(&c.tree, "f", 8)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%q %d %v", b, fi.Size(), err)
		} else if b != nil || fi != nil {
			t.Errorf("%+v: %q, %v with error %v", c.tree, b, fi, err)
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.tree, got, c.want)
		}
		over, oerr := vfs.ReadFileOver(make([]byte, 2, 6), &c.tree, "f", 8)
		plain, perr := vfs.ReadFile(&c.tree, "f", 8)
		if fmt.Sprint(oerr, perr) != fmt.Sprint(err, err) || string(over) != string(b) || string(plain) != string(b) {
			t.Errorf("%+v: ReadFileOver %q, %v; ReadFile %q, %v; want %q, %v", c.tree, over, oerr, plain, perr, b, err)
		}
	}
}

// TestReadFileOverReusesCapacity reads files over buffers of several capacities.
func TestReadFileOverReusesCapacity(t *testing.T) {
	for _, size := range []int{0, 1, 5} {
		tree := &oddTree{size: int64(size), n: size}
		for _, capacity := range []int{0, 1, 4, 5, 6} {
			for _, length := range []int{0, capacity} {
				buffer := make([]byte, length, capacity)
				b, err := vfs.ReadFileOver(buffer, tree, "f", 8)
				if err != nil || len(b) != size || b == nil {
					t.Errorf("%d bytes over %d: %q, %v", size, capacity, b, err)
				}
				if capacity == 0 || size == 0 {
					continue
				}
				if reused := &b[:1][0] == &buffer[:1][0]; reused != (capacity >= size) {
					t.Errorf("%d bytes over %d: reused %v", size, capacity, reused)
				}
			}
		}
		if b, err := vfs.ReadFile(tree, "f", 8); err != nil || len(b) != size || b == nil {
			t.Errorf("%d bytes: %q, %v", size, b, err)
		}
	}
}

// TestReadFileCloses checks that ReadFile closes the file after each outcome.
func TestReadFileCloses(t *testing.T) {
	m := faultfs.NewMem()
	m.WriteFile("/f", []byte("text"), 0o600)
	h := &vfstest.Handles{FS: m}
	for _, fail := range []string{"", "open", "stat", "read", "close"} {
		m.Hook = func(c faultfs.Call) error {
			if fail != "" && strings.HasPrefix(c.Op, fail) {
				return syscall.EIO
			}
			return nil
		}
		for _, limit := range []int64{3, 4} {
			_, err := vfs.ReadFile(h, "/f", limit)
			if h.Count() != 0 {
				t.Errorf("%q fails, limit %d: %d open files after %v", fail, limit, h.Count(), err)
			}
		}
	}
}

// TestReplaceReusesBuffers checks that Replace allocates no new write buffer for
// each call.
func TestReplaceReusesBuffers(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection frees the buffers
	m := faultfs.NewMem()
	replace := func() {
		must(t, vfs.Replace(m, "/f", 0o600, func(io.Writer) error { return nil }))
	}
	replace()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 40 {
		replace()
	}
	runtime.ReadMemStats(&after)
	// The race detector makes the pool drop a quarter of the buffers.
	if n := after.TotalAlloc - before.TotalAlloc; n > 20<<18 {
		t.Errorf("40 calls allocate %d bytes", n)
	}
}

// TestMkdirAllSteps lists the calls of MkdirAll, and fails each of them.
func TestMkdirAllSteps(t *testing.T) {
	for _, c := range []struct{ dir, want string }{
		{"/", "lstat /; syncdir /"}, {"/d", "lstat /d; syncdir /"}, {"/d/e", "lstat /d/e; lstat /d; syncdir /; mkdir /d/e; syncdir /d"},
		{"/n/m", "lstat /n/m; lstat /n; lstat /; syncdir /; mkdir /n; syncdir /; mkdir /n/m; syncdir /n"},
		{"/link", "lstat /link"}, {"/link/e", "lstat /link/e; lstat /link; mkdir /link/e; syncdir /link"}, {"/f", "lstat /f"}, {"/f/e", "lstat /f/e"},
	} {
		for n := 0; ; n++ {
			m := faultfs.NewMem()
			must(t, m.Mkdir("/d", 0o700))
			m.Symlink("d", "/link")
			m.WriteFile("/f", nil, 0o600)
			var calls []string
			m.Hook = func(k faultfs.Call) error {
				if calls = append(calls, k.Op+" "+k.Name); len(calls) == n {
					return syscall.EIO
				}
				return nil
			}
			err := vfs.MkdirAll(m, c.dir, 0o750)
			if m.Hook = nil; n > len(calls) {
				break
			}
			list := strings.Join(calls, "; ")
			fi, serr := m.Lstat(c.dir)
			switch file := strings.HasPrefix(c.dir, "/f"); {
			case n == 0 && list != c.want:
				t.Errorf("%s: calls %s, want %s", c.dir, list, c.want)
			case n > 0 && !errors.Is(err, syscall.EIO):
				t.Errorf("%s: call %d of %s fails: %v", c.dir, n, list, err)
			case n == 0 && file && (err == nil || err.Error() != "mkdir /f: not a directory" && err.Error() != "lstat /f/e: not a directory"):
				t.Errorf("%s: %v", c.dir, err)
			case n == 0 && !file && (err != nil || serr != nil || c.dir != "/link" && !fi.IsDir()):
				t.Errorf("%s: %v, %v, %v", c.dir, err, fi, serr)
			}
		}
	}
}

// TestMkdirAllWithoutParent creates the working directory, which has no parent,
// and one that another process creates concurrently.
func TestMkdirAllWithoutParent(t *testing.T) {
	for _, c := range []struct {
		mkdir error
		calls string
		err   error
	}{
		{nil, "lstat .; mkdir .; syncdir .", nil}, {fs.ErrExist, "lstat .; mkdir .; syncdir .", nil}, {fs.ErrPermission, "lstat .; mkdir .", fs.ErrPermission},
	} {
		tree := &emptyTree{mkdirErr: c.mkdir}
		if err := vfs.MkdirAll(tree, ".", 0o700); !errors.Is(err, c.err) || strings.Join(tree.calls, "; ") != c.calls {
			t.Errorf("mkdir returns %v: %v after %s", c.mkdir, err, strings.Join(tree.calls, "; "))
		}
	}
}

// emptyTree records calls on a tree without files.
type emptyTree struct {
	vfs.Tree
	mkdirErr error
	calls    []string
}

func (t *emptyTree) call(op, name string) {
	if t.calls = append(t.calls, op+" "+name); len(t.calls) > 9 {
		panic("too many calls")
	}
}

func (t *emptyTree) Lstat(name string) (fs.FileInfo, error) {
	t.call("lstat", name)
	return nil, fs.ErrNotExist
}

func (t *emptyTree) Mkdir(name string, _ fs.FileMode) error {
	t.call("mkdir", name)
	return t.mkdirErr
}

func (t *emptyTree) SyncDir(name string) error {
	t.call("syncdir", name)
	return nil
}

// TestAcquireReadsHolder checks the longest text of a lock file that Acquire
// reads for its error.
func TestAcquireReadsHolder(t *testing.T) {
	const longest = 1 << 16
	for size, pid := range map[int]int{longest: 7, longest + 1: 0} {
		m := faultfs.NewMem()
		l, err := m.Lock("/l")
		must(t, err, l.SetText("pid 7\n"+strings.Repeat("x", size-6)))
		_, err = vfs.Acquire(m, "/l", 0)
		locked, ok := errors.AsType[*vfs.LockedError](err)
		if !ok || locked.Holder.PID != pid || locked.Path != "/l" {
			t.Errorf("text of %d bytes: %v", size, err)
		}
	}
}
