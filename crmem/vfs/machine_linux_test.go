package vfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// wantError compares the text and the class of an error.
func wantError(t *testing.T, name string, err error, text string, is error) {
	t.Helper()
	if fmt.Sprint(err) != text || is != nil && !errors.Is(err, is) {
		t.Errorf("%s: error %v, want %s [%v]", name, err, text, is)
	}
}

// keepsDescriptors checks that do opens and closes the same number of files.
func keepsDescriptors(t *testing.T, name string, do func()) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection closes files
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		check(t, err)
		return len(list)
	}
	do() // the first call may open files of the runtime
	before := count()
	for range 5 {
		do()
	}
	if after := count(); after > before {
		t.Errorf("%s: %d open files after 5 calls, %d before", name, after, before)
	}
}

// TestSystemSyncs syncs files and directories whose file system cannot sync.
func TestSystemSyncs(t *testing.T) {
	dir := t.TempDir()
	root, err := OS{}.Root("/proc")
	check(t, err)
	defer root.Close()
	f, err := OS{}.Open("/proc/version")
	check(t, err)
	defer f.Close()
	wantError(t, "directory", OS{}.SyncDir("/proc"), "sync /proc: invalid argument", syscall.EINVAL)
	wantError(t, "root", root.SyncDir("."), "sync /proc/.: invalid argument", syscall.EINVAL)
	wantError(t, "missing directory", OS{}.SyncDir(dir+"/none"), "open "+dir+"/none: no such file or directory", fs.ErrNotExist)
	wantError(t, "missing directory in a root", root.SyncDir("none"), "openat none: no such file or directory", fs.ErrNotExist)
	wantError(t, "file", f.Datasync(), "fdatasync /proc/version: invalid argument", syscall.EINVAL)
	wantError(t, "directory", OS{}.SyncDir(dir), "<nil>", nil)
	keepsDescriptors(t, "SyncDir", func() { _, _ = OS{}.SyncDir("/proc"), root.SyncDir(".") })

	p, err := OS{}.Pending(dir+"/file", 0o600)
	check(t, err)
	wantError(t, "temporary file", p.Datasync(), "<nil>", nil)
	check(t, p.Keep())
	wantError(t, "closed temporary file", p.Datasync(), "fdatasync "+p.Name()+": bad file descriptor", syscall.EBADF)
	wantError(t, "closed temporary file", p.Keep(), "close "+p.Name()+": file already closed", fs.ErrClosed)
	check(t, os.Remove(p.Name()))
	wantError(t, "removed temporary file", p.Discard(), "remove "+p.Name()+": no such file or directory", fs.ErrNotExist)
}

// TestRegular checks the errors of files that are closed, or are not regular.
func TestRegular(t *testing.T) {
	dir := t.TempDir()
	closed, err := os.Create(dir + "/file")
	check(t, err, closed.Close(), os.Mkdir(dir+"/dir", 0o700), os.Symlink("file", dir+"/link"), os.Symlink("..", dir+"/up"))
	f, err := regular(closed, "/file", nil)
	if f != nil {
		t.Errorf("closed file: %v", f)
	}
	wantError(t, "closed file", err, "stat "+dir+"/file: file already closed\nclose "+dir+"/file: file already closed", fs.ErrClosed)
	f, err = regular(nil, "/file", syscall.EIO)
	if f != nil {
		t.Errorf("failed open: %v", f)
	}
	wantError(t, "failed open", err, "input/output error", syscall.EIO)

	root, err := OS{}.Root(dir)
	check(t, err)
	defer root.Close()
	for name, want := range map[string]string{
		"dir": "open dir: not a regular file", "link": "open link: not a regular file",
		"up": "open up: not a regular file\nopenat up: path escapes from parent", "none": "openat none: no such file or directory", "file": "<nil>",
	} {
		f, err := root.Open(name)
		wantError(t, "root, "+name, err, want, nil)
		if (f == nil) != (err != nil) {
			t.Errorf("root, %s: file %v, error %v", name, f, err)
		}
		want = map[string]string{"file": "<nil>", "none": "open " + dir + "/none: no such file or directory"}[name]
		f, err = OS{}.Open(dir + "/" + name)
		wantError(t, name, err, cmp.Or(want, "open "+dir+"/"+name+": not a regular file"), nil)
		if (f == nil) != (err != nil) {
			t.Errorf("%s: file %v, error %v", name, f, err)
		}
	}
	keepsDescriptors(t, "Open", func() {
		_, _ = root.Open("dir")
		_, _ = OS{}.Open(dir + "/dir")
	})
}

// TestPendingDescriptors ends replacements in a root in each way.
func TestPendingDescriptors(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Mkdir(dir+"/sub", 0o700))
	root, err := OS{}.Root(dir)
	check(t, err)
	defer root.Close()
	for name, end := range map[string]func(p Pending) error{"Commit": Pending.Commit, "Discard": Pending.Discard, "Keep": Pending.Keep} {
		keepsDescriptors(t, name, func() {
			for _, file := range []string{"file", "sub/file"} {
				p, err := root.Pending(file, 0o600)
				check(t, err)
				check(t, end(p))
			}
		})
	}
	keepsDescriptors(t, "a failed Pending", func() {
		if p, err := root.Pending("sub/"+strings.Repeat("x", 255), 0o600); p != nil || !errors.Is(err, syscall.ENAMETOOLONG) {
			t.Errorf("name of 255 bytes: %v, %v", p, err)
		}
	})
}

// TestLockedFile opens the file of a lock when the name leads to another file, or
// to none.
func TestLockedFile(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	check(t, err, os.WriteFile(dir+"/other", nil, 0o600), os.Mkdir(dir+"/dir", 0o700))
	_, running := os.OpenFile(exe, os.O_RDWR, 0) // text file busy
	l := flock.New(dir+"/lock", flock.SetFlag(os.O_CREATE|os.O_RDWR))
	if ok, err := l.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, c := range []struct {
		name, text string
		is         error
	}{
		{dir + "/lock", "<nil>", nil}, {dir + "/other", "lock " + dir + "/other: locked", ErrLocked}, {dir + "/none", "lock " + dir + "/none: locked", ErrLocked},
		{dir + "/dir", "lock " + dir + "/dir: not a regular file", ErrNotRegular}, {dir + "/other/x", "open " + dir + "/other/x: not a directory", syscall.ENOTDIR},
		{exe, running.Error(), nil},
	} {
		f, err := lockedFile(l, c.name)
		wantError(t, c.name, err, c.text, c.is)
		if (f == nil) != (err != nil) {
			t.Errorf("%s: file %v, error %v", c.name, f, err)
		}
	}
	keepsDescriptors(t, "lockedFile", func() { _, _ = lockedFile(l, dir+"/other") })
	_, err = lockedFile(flock.New(dir+"/none"), dir+"/other")
	wantError(t, "missing lock", err, "stat "+dir+"/none: no such file or directory", fs.ErrNotExist)

	check(t, syscall.Mkfifo(dir+"/fifo", 0o600))
	for range 2 { // the first call releases the lock
		l, err := OS{}.Lock(dir + "/fifo")
		wantError(t, "FIFO", err, "lock "+dir+"/fifo: not a regular file", ErrNotRegular)
		if l != nil {
			t.Errorf("FIFO: lock %v", l)
		}
	}
	keepsDescriptors(t, "Lock", func() { _, _ = OS{}.Lock(dir + "/fifo") })
	_, err = OS{}.Lock(dir + "/none/lock")
	wantError(t, "missing directory", err, "open "+dir+"/none/lock: no such file or directory", fs.ErrNotExist)
	_, err = OS{}.Lock(dir + "/lock")
	wantError(t, "held", err, "lock "+dir+"/lock: locked", ErrLocked)
}

// TestLockFileFails reads and writes a lock file that is closed, or is open for
// only one of them.
func TestLockFileFails(t *testing.T) {
	name := t.TempDir() + "/lock"
	held, err := OS{}.Lock(name)
	check(t, err, held.SetText("text"), held.Unlock())
	for flag, want := range map[int]string{
		os.O_RDONLY: "set write " + name + ": bad file descriptor; text \"text\" <nil>",
		os.O_WRONLY: "set <nil>; text \"\" read " + name + ": bad file descriptor",
	} {
		f, err := os.OpenFile(name, flag, 0)
		check(t, err)
		l := &osLock{flock.New(name), f}
		serr := l.SetText("text")
		text, terr := l.Text()
		if got := fmt.Sprintf("set %v; text %q %v", serr, text, terr); got != want {
			t.Errorf("flag %#x: %s, want %s", flag, got, want)
		}
		check(t, l.Unlock())
	}
	_, err = held.Text()
	wantError(t, "Text after Unlock", err, "stat "+name+": file already closed", fs.ErrClosed)
	_, err = held.Stat()
	wantError(t, "Stat after Unlock", err, "stat "+name+": file already closed", fs.ErrClosed)
	wantError(t, "SetText after Unlock", held.SetText("x"), "write "+name+": file already closed", fs.ErrClosed)
	wantError(t, "Unlock after Unlock", held.Unlock(), "close "+name+": file already closed", fs.ErrClosed)
	keepsDescriptors(t, "Lock and Unlock", func() {
		l, err := OS{}.Lock(name)
		check(t, err, l.Unlock())
	})
}

// TestResolveErrors resolves names without a working directory, and with one.
func TestResolveErrors(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err, os.Mkdir(dir+"/gone", 0o700), os.WriteFile(dir+"/file", nil, 0o600), os.Symlink("none", dir+"/dangling"), os.Symlink("loop", dir+"/loop"))
	for name, want := range map[string]string{
		"/file": dir + "/file <nil>", "/none": dir + "/none <nil>", "/none/x": dir + "/none/x <nil>", "/file/x": " not a directory",
		"/dangling": " resolve " + dir + "/dangling: link to a missing file", "/dangling/x": dir + "/dangling/x <nil>",
		"/loop": " EvalSymlinks: too many links", "/loop/x": " EvalSymlinks: too many links",
	} {
		got, err := OS{}.Resolve(dir + name)
		if s := fmt.Sprint(got, " ", err); s != want {
			t.Errorf("%s: %s, want %s", name, s, want)
		}
	}
	t.Chdir(dir + "/gone")
	check(t, os.Remove(dir+"/gone"))
	if got, err := (OS{}).Resolve("file"); got != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a working directory: %q, %v", got, err)
	}
}

// TestResolveDuringChanges resolves a name while another goroutine adds and removes
// a file in the place of a parent directory, until the file appears between the two
// looks at it. The directories above it make the time between them longer.
func TestResolveDuringChanges(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	dir += strings.Repeat("/d", 50)
	check(t, err, os.MkdirAll(dir, 0o700), os.WriteFile(dir+"/file", nil, 0o600))
	name := dir + "/parent/sub/name"
	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	wg.Go(func() {
		for !stop.Load() {
			os.Rename(dir+"/file", dir+"/parent")
			os.Rename(dir+"/parent", dir+"/file")
		}
	})
	for began := time.Now(); time.Since(began) < 5*time.Second; {
		got, err := OS{}.Resolve(name)
		if err == nil && got != name {
			t.Fatalf("%q, want %q", got, name)
		} else if err != nil && got != "" { // only the second look returns a name, too
			return
		}
	}
	t.Skip("SKIPPED: the file never appeared between the two looks")
}

// TestPropertiesOfMachine compares the boot ID, the type of a file system, and
// its free space with the values of the system.
func TestPropertiesOfMachine(t *testing.T) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	check(t, err)
	if got := (OS{}).BootID(); got != strings.TrimSpace(string(b)) {
		t.Errorf("BootID: %q, want %q", got, b)
	}
	dir := t.TempDir()
	var st syscall.Statfs_t
	check(t, syscall.Statfs("/proc", &st))
	remoteKinds[uint32(st.Type)], remoteKinds[0] = "processes", "zero"
	defer delete(remoteKinds, uint32(st.Type))
	defer delete(remoteKinds, 0)
	for name, want := range map[string]string{"/proc": "processes", dir: "", "/none/of/this/machine": ""} {
		if got := (OS{}).Remote(name); got != want {
			t.Errorf("Remote of %s: %q, want %q", name, got, want)
		}
	}
	for range 100 { // until no other program changes the free space
		var before, after syscall.Statfs_t
		check(t, syscall.Statfs(dir, &before))
		n, err := OS{}.Free(dir)
		check(t, err, syscall.Statfs(dir, &after))
		if before.Bavail != after.Bavail {
			continue
		}
		if n != int64(before.Bavail)*int64(before.Bsize) {
			t.Errorf("free space: %d, want %d blocks of %d bytes", n, before.Bavail, before.Bsize)
		}
		break
	}
	if n, err := (OS{}).Free("/proc"); n != 0 || err != nil {
		t.Errorf("free space of /proc: %d, %v", n, err)
	}
	n, err := OS{}.Free("/none/of/this/machine")
	wantError(t, "free space of a missing directory", err, "statfs /none/of/this/machine: no such file or directory", fs.ErrNotExist)
	if n != 0 {
		t.Errorf("free space of a missing directory: %d", n)
	}
	for _, c := range []struct{ blocks, size, want int64 }{
		{0, 4096, 0}, {-1, 4096, 0}, {1, 4096, 4096}, {3, 1, 3}, {3, 2, 6}, {3, 0, 3}, {math.MaxInt64, 1, math.MaxInt64},
		{math.MaxInt64 / 4096, 4096, math.MaxInt64 - 4095}, {math.MaxInt64/4096 + 1, 4096, math.MaxInt64 - 4095},
	} {
		if got := blockBytes(c.blocks, c.size); got != c.want {
			t.Errorf("%d blocks of %d bytes: %d, want %d", c.blocks, c.size, got, c.want)
		}
	}
}

// otherInfo is a FileInfo of another package.
type otherInfo struct {
	fs.FileInfo
	sys any
}

func (i otherInfo) Sys() any { return i.sys }

// TestIdentities compares files by identity, and by os.SameFile without one.
func TestIdentities(t *testing.T) {
	info := func(dev, ino uint64) fs.FileInfo { return otherInfo{sys: Identity{Dev: dev, Ino: ino}} }
	for _, c := range []struct {
		a, b fs.FileInfo
		want bool
	}{
		{info(1, 1), info(1, 1), true}, {info(1, 2), info(2, 2), false}, {info(2, 1), info(2, 2), false}, {info(3, 4), info(5, 6), false},
		{info(0, 7), info(0, 7), true}, {info(1, 0), info(1, 0), false}, {info(1, 1), info(1, 0), false}, {info(1, 0), info(1, 1), false},
	} {
		if got := SameFile(c.a, c.b); got != c.want {
			t.Errorf("%+v and %+v: %v, want %v", Identify(c.a), Identify(c.b), got, c.want)
		}
	}
	if got := Identify(otherInfo{}); got != (Identity{}) {
		t.Errorf("identity without a system value: %+v", got)
	}
	if uid, known := Owner(otherInfo{}); uid != 0 || known {
		t.Errorf("owner without a system value: %d, %v", uid, known)
	}
	withoutInode := func(name string) fs.FileInfo {
		fi, err := os.Lstat(name)
		check(t, err)
		fi.Sys().(*syscall.Stat_t).Ino = 0
		return fi
	}
	if !SameFile(withoutInode("/proc"), withoutInode("/proc")) || SameFile(withoutInode("/proc"), withoutInode("/dev")) {
		t.Error("SameFile does not use os.SameFile for files without inodes")
	}
	dir := t.TempDir()
	fi, err := os.Lstat(dir)
	check(t, err)
	if uid, known := Owner(fi); uid != os.Geteuid() || !known {
		t.Errorf("owner of a new directory: %d, %v", uid, known)
	}
	st := fi.Sys().(*syscall.Stat_t)
	if got, want := Identify(fi), (Identity{Dev: st.Dev, Ino: st.Ino, Links: uint64(st.Nlink)}); got != want {
		t.Errorf("identity %+v, want %+v", got, want)
	}
	st.Uid = 12345
	if uid, known := Owner(fi); uid != 12345 || !known {
		t.Errorf("owner: %d, %v", uid, known)
	}
}

// TestMakePrivateErrors checks each result of MakePrivate for directories that it
// cannot change.
func TestMakePrivateErrors(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(dir+"/file", nil, 0o644), os.Mkdir(dir+"/dir", 0o700), os.Mkdir(dir+"/shared", 0o700), os.Chmod(dir+"/shared", 0o777|fs.ModeSticky))
	foreign, user := "/", 0
	if os.Geteuid() == 0 {
		foreign, user = dir+"/foreign", 65534
		check(t, os.Mkdir(foreign, 0o777), os.Chown(foreign, user, -1))
	}
	for _, c := range []struct {
		dir, text string
		is        error
	}{
		{dir + "/none", "<nil>", nil}, {dir + "/file/x", "open " + dir + "/file/x: not a directory", syscall.ENOTDIR}, {dir + "/file", "open " + dir + "/file: not a directory", syscall.ENOTDIR},
		{dir + "/dir", "<nil>", nil}, {dir + "/shared", "<nil>", nil}, {foreign, fmt.Sprintf("use %s: it belongs to user %d: permission denied", foreign, user), fs.ErrPermission},
	} {
		changed, err := MakePrivate(c.dir)
		wantError(t, c.dir, err, c.text, c.is)
		if changed {
			t.Errorf("%s: changed", c.dir)
		}
	}
	// The directory of this process allows no change of the mode, also to root.
	if _, err := MakePrivate("/proc/self/task"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("directory with a fixed mode: %v", err)
	}
	keepsDescriptors(t, "MakePrivate", func() { _, _ = MakePrivate(dir + "/dir") })
}

// TestReplaceReturnsBuffers checks that Replace reuses its write buffer, and that
// the buffer releases the file.
func TestReplaceReturnsBuffers(t *testing.T) {
	name := t.TempDir() + "/file"
	for _, failure := range []error{nil, syscall.EIO} {
		err := Replace(OS{}, name, 0o600, func(w io.Writer) error {
			_, err := io.WriteString(w, "text")
			return errors.Join(err, failure)
		})
		if !errors.Is(err, failure) {
			t.Errorf("Replace: %v", err)
		}
		w := buffers.Get()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the buffer writes to the file after Replace")
				}
			}()
			w.(io.StringWriter).WriteString("x")
			_ = w.(interface{ Flush() error }).Flush()
		}()
	}
}
