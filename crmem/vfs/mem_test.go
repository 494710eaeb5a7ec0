package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"

	"github.com/google/go-cmp/cmp"
)

// image maps the path of each file under dir to its contents. Directories map
// to "/".
func image(t *testing.T, m *faultfs.Mem, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	list, err := m.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		name := strings.TrimSuffix(dir, "/") + "/" + e.Name()
		if !e.IsDir() {
			files[name] = get(m, name)
			continue
		}
		files[name] = "/"
		for sub, text := range image(t, m, name) {
			files[sub] = text
		}
	}
	return files
}

func create(t *testing.T, m *faultfs.Mem, name, text string) vfs.File {
	t.Helper()
	f, err := m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f, text)
	return f
}

func write(t *testing.T, f vfs.File, text string) {
	t.Helper()
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func wantImage(t *testing.T, m *faultfs.Mem, want map[string]string) {
	t.Helper()
	if d := cmp.Diff(want, image(t, m, "/")); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// TestMemCrashOrder checks which changes each sync makes durable.
func TestMemCrashOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, m *faultfs.Mem)
		lost map[string]string // files after a crash that loses all unsynced changes
		kept map[string]string // files after a crash that keeps all unsynced changes
	}{
		{"no sync", func(t *testing.T, m *faultfs.Mem) { create(t, m, "/f", "text") },
			map[string]string{"/old": "old"}, map[string]string{"/old": "old", "/f": "text"}},
		{"file sync only", func(t *testing.T, m *faultfs.Mem) { must(t, create(t, m, "/f", "text").Sync()) },
			map[string]string{"/old": "old"}, map[string]string{"/old": "old", "/f": "text"}},
		{"directory sync only", func(t *testing.T, m *faultfs.Mem) { create(t, m, "/f", "text"); must(t, m.SyncDir("/")) },
			map[string]string{"/old": "old", "/f": ""}, map[string]string{"/old": "old", "/f": "text"}},
		{"file and directory sync", func(t *testing.T, m *faultfs.Mem) { must(t, create(t, m, "/f", "text").Datasync(), m.SyncDir("/")) },
			map[string]string{"/old": "old", "/f": "text"}, map[string]string{"/old": "old", "/f": "text"}},
		{"rename", func(t *testing.T, m *faultfs.Mem) {
			must(t, create(t, m, "/f", "text").Sync(), m.Rename("/f", "/old"))
		}, map[string]string{"/old": "old"}, map[string]string{"/old": "text"}},
		{"rename of an unsynced file", func(t *testing.T, m *faultfs.Mem) {
			create(t, m, "/f", "text")
			must(t, m.Rename("/f", "/old"), m.SyncDir("/"))
		}, map[string]string{"/old": ""}, map[string]string{"/old": "text"}},
		{"remove", func(t *testing.T, m *faultfs.Mem) { must(t, m.Remove("/old")) },
			map[string]string{"/old": "old"}, map[string]string{}},
		{"truncate", func(t *testing.T, m *faultfs.Mem) {
			f, err := m.OpenFile("/old", os.O_RDWR, 0)
			must(t, err)
			must(t, f.Truncate(1))
		}, map[string]string{"/old": "old"}, map[string]string{"/old": "o"}},
		{"name in an unsynced directory", func(t *testing.T, m *faultfs.Mem) {
			must(t, m.Mkdir("/d", 0o700), create(t, m, "/d/f", "text").Sync(), m.SyncDir("/d"))
		}, map[string]string{"/old": "old"}, map[string]string{"/old": "old", "/d": "/", "/d/f": "text"}},
		{"rename between directories, target synced", func(t *testing.T, m *faultfs.Mem) {
			must(t, m.Mkdir("/d", 0o700), m.SyncDir("/"), m.Rename("/old", "/d/new"), m.SyncDir("/d"))
		}, map[string]string{"/d": "/", "/d/new": "old"}, map[string]string{"/d": "/", "/d/new": "old"}},
		{"rename between directories, source synced", func(t *testing.T, m *faultfs.Mem) {
			must(t, m.Mkdir("/d", 0o700), m.SyncDir("/"), create(t, m, "/d/f", "text").Sync())
			must(t, m.Rename("/d/f", "/f"), m.SyncDir("/d"), m.Remove("/f"))
		}, map[string]string{"/old": "old", "/d": "/", "/f": "text"}, map[string]string{"/old": "old", "/d": "/"}},
		{"two renames between directories, one end synced", func(t *testing.T, m *faultfs.Mem) {
			must(t, m.Mkdir("/a", 0o700), m.Mkdir("/b", 0o700), m.SyncDir("/"), create(t, m, "/a/f", "text").Sync())
			must(t, m.Rename("/a/f", "/b/f"), m.Rename("/b/f", "/f"), m.SyncDir("/"), m.Remove("/f"))
		}, map[string]string{"/old": "old", "/a": "/", "/b": "/", "/f": "text"}, map[string]string{"/old": "old", "/a": "/", "/b": "/"}},
		{"replace", func(t *testing.T, m *faultfs.Mem) {
			must(t, vfs.Replace(m, "/old", 0o600, func(w io.Writer) error { _, err := w.Write([]byte("new")); return err }))
		}, map[string]string{"/old": "new"}, map[string]string{"/old": "new"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := faultfs.NewMem()
			m.WriteFile("/old", []byte("old"), 0o600)
			c.do(t, m)
			wantImage(t, m.Crash(), c.lost)
			var outcomes []faultfs.Outcome
			for range m.Unsynced() {
				outcomes = append(outcomes, faultfs.Kept)
			}
			wantImage(t, m.Crash(outcomes...), c.kept)
			wantImage(t, m.Kill(), c.kept)
			wantImage(t, m.Kill().Crash(), c.lost)
			wantImage(t, m.Kill().Crash(outcomes...), c.kept)
		})
	}
}

// TestMemOutcomes checks the contents of a file for each outcome of a write.
func TestMemOutcomes(t *testing.T) {
	m := faultfs.NewMem()
	f := create(t, m, "/f", strings.Repeat("a", 100))
	must(t, f.Sync(), m.SyncDir("/"))
	text := strings.Repeat("b", 9000)
	write(t, f, text[:200])
	write(t, f, text[200:])
	got := m.Unsynced()
	want := []faultfs.Change{
		{Op: "write", Name: "/f", Off: 100, Len: 3996, Cuts: 7},
		{Op: "write", Name: "/f", Off: 4096, Len: 4096, Cuts: 7},
		{Op: "write", Name: "/f", Off: 8192, Len: 908, Cuts: 1},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("unsynced (-want +got):\n%s", d)
	}
	a := strings.Repeat("a", 100)
	nul := strings.Repeat("\x00", 9000)
	for _, c := range []struct {
		outcomes []faultfs.Outcome
		want     string
	}{
		{nil, a},
		{[]faultfs.Outcome{faultfs.Kept, faultfs.Kept, faultfs.Kept}, a + text},
		{[]faultfs.Outcome{faultfs.Cut(1)}, a + text[:412]},
		{[]faultfs.Outcome{faultfs.Cut(7)}, a + text[:3484]},
		{[]faultfs.Outcome{faultfs.Zeroed}, a + nul[:3996]},
		{[]faultfs.Outcome{faultfs.Lost, faultfs.Lost, faultfs.Cut(1)}, a + nul[:8092] + text[:512]},
		{[]faultfs.Outcome{faultfs.Cut(2), faultfs.Kept}, a + text[:924] + nul[:3072] + text[:4096]},
	} {
		if got := get(m.Crash(c.outcomes...), "/f"); got != c.want {
			t.Errorf("outcomes %v: wrong contents, %d bytes, want %d", c.outcomes, len(got), len(c.want))
		}
	}
	garbage := get(m.Crash(faultfs.Garbage), "/f")
	if len(garbage) != 4096 || garbage[:100] != a || strings.Contains(garbage, "bb") {
		t.Errorf("garbage: %d bytes", len(garbage))
	}
	if get(m, "/f") != a+text {
		t.Error("Crash changed the original machine")
	}
}

// TestMemFailedSync checks the visible and durable state after a failed sync.
func TestMemFailedSync(t *testing.T) {
	m := faultfs.NewMem()
	f := create(t, m, "/f", "kept ")
	must(t, f.Sync(), m.SyncDir("/"))
	write(t, f, "lost ")
	fail := func(op string, err error) {
		m.Hook = func(c faultfs.Call) error {
			if c.Op == op {
				return err
			}
			return nil
		}
	}
	fail("sync", syscall.EIO)
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	m.Hook = nil
	must(t, f.Sync())
	if got := get(m, "/f"); got != "kept lost " {
		t.Errorf("read: %q", got)
	}
	if n := len(m.Unsynced()); n != 0 {
		t.Errorf("%d unsynced changes after the second sync", n)
	}
	if got := get(m.Crash(), "/f"); got != "kept " {
		t.Errorf("after a crash: %q", got)
	}
	write(t, f, "later")
	must(t, f.Datasync())
	if got := get(m.Crash(), "/f"); got != "kept \x00\x00\x00\x00\x00later" {
		t.Errorf("after a later sync and a crash: %q", got)
	}
	if got := get(m.Kill(), "/f"); got != "kept lost later" {
		t.Errorf("after a kill: %q", got)
	}
	if got := get(m.Kill().Crash(), "/f"); got != "kept \x00\x00\x00\x00\x00later" {
		t.Errorf("after a kill and a crash: %q", got)
	}
	k := m.Kill() // the page cache survives the process and still contains the lost bytes
	kf, err := k.OpenFile("/f", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	write(t, kf, "!")
	must(t, kf.Sync())
	if got := get(k, "/f") + get(k.Crash(), "/f"); got != "kept lost later!kept \x00\x00\x00\x00\x00later!" {
		t.Errorf("after a kill and a sync, then after a crash: %q", got)
	}

	create(t, m, "/g", "")
	fail("syncdir", syscall.EIO)
	if err := m.SyncDir("/"); !errors.Is(err, syscall.EIO) {
		t.Fatalf("syncdir: %v", err)
	}
	m.Hook = nil
	must(t, m.SyncDir("/"))
	if got := get(m, "/g") + get(m.Crash(faultfs.Kept), "/g"); got != fs.ErrNotExist.Error() {
		t.Errorf("visible, then after a crash, a name that a failed sync lost: %q", got)
	}

	// With Done, the sync takes effect and returns an error.
	h := create(t, m, "/f", "KEPT ")
	fail("sync", &faultfs.Fault{Err: syscall.EIO, Done: true})
	if err := h.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	if got := get(m.Crash(), "/f"); got[:5] != "KEPT " {
		t.Errorf("after a sync that took effect and failed: %q", got)
	}
}

// TestMkdirAllDurable repeats a MkdirAll that failed, and calls MkdirAll for an
// unsynced directory of another process. The names must be durable afterwards.
func TestMkdirAllDurable(t *testing.T) {
	for _, op := range []string{"syncdir", "mkdir"} {
		for n := 1; n <= 3; n++ {
			m := faultfs.NewMem()
			left := n
			m.Hook = func(c faultfs.Call) error {
				if c.Op != op {
					return nil
				}
				if left--; left == 0 {
					return syscall.EIO
				}
				return nil
			}
			if err := vfs.MkdirAll(m, "/a/b/c", 0o700); !errors.Is(err, syscall.EIO) {
				t.Fatalf("%s %d fails: %v", op, n, err)
			}
			if left != 0 {
				t.Fatalf("%s %d was not reached", op, n)
			}
			for _, m := range []*faultfs.Mem{m, m.Kill()} {
				must(t, vfs.MkdirAll(m, "/a/b/c", 0o700))
				wantImage(t, m.Crash(), map[string]string{"/a": "/", "/a/b": "/", "/a/b/c": "/"})
			}
		}
	}
	m := faultfs.NewMem()
	must(t, m.Mkdir("/a", 0o700))
	k := m.Kill()
	must(t, vfs.MkdirAll(k, "/a", 0o700))
	wantImage(t, k.Crash(), map[string]string{"/a": "/"})
}

func TestMemFaults(t *testing.T) {
	m := faultfs.NewMem()
	var calls []string
	fault := error(nil)
	m.Hook = func(c faultfs.Call) error {
		calls = append(calls, fmt.Sprint(c.N, " ", c.Op, " ", c.Name, " ", c.Size))
		return fault
	}
	f := create(t, m, "/f", "abc")
	must(t, f.Sync())
	fault = &faultfs.Fault{Err: syscall.ENOSPC, N: 2}
	if n, err := f.Write([]byte("defg")); n != 2 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("short write: %d, %v", n, err)
	}
	fault = syscall.EIO
	if n, err := f.Write([]byte("x")); n != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("failed write: %d, %v", n, err)
	}
	if err := m.Rename("/f", "/g"); !errors.Is(err, syscall.EIO) {
		t.Errorf("failed rename: %v", err)
	}
	if _, err := m.Open("/f"); !errors.Is(err, syscall.EIO) {
		t.Errorf("failed open: %v", err)
	}
	if err := f.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("failed close: %v", err)
	}
	fault = nil
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("close after a failed close: %v", err)
	}
	fault = &faultfs.Fault{Err: syscall.EIO, Done: true}
	if err := m.Rename("/f", "/g"); !errors.Is(err, syscall.EIO) {
		t.Errorf("rename: %v", err)
	}
	m.Hook = nil
	if n := m.Calls(); n != len(calls) {
		t.Errorf("%d calls, want %d", n, len(calls))
	}
	wantImage(t, m, map[string]string{"/g": "abcde"})
	want := []string{"1 create /f 0", "2 write /f 3", "3 sync /f 0", "4 write /f 4", "5 write /f 1", "6 rename /g 0", "7 open /f 0", "8 close /f 0", "9 close /f 0", "10 rename /g 0"}
	if d := cmp.Diff(want, calls); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
}

func TestMemDiskFull(t *testing.T) {
	m := faultfs.NewMem()
	m.Limit = 1000
	f := create(t, m, "/f", strings.Repeat("a", 600))
	g := create(t, m, "/g", strings.Repeat("b", 300))
	if n, err := f.Write(make([]byte, 200)); n != 100 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write beyond the limit: %d, %v", n, err)
	}
	if n, err := g.Write([]byte("b")); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write on a full disk: %d, %v", n, err)
	}
	must(t, f.Truncate(500))
	if n, err := g.Write(make([]byte, 200)); n != 200 || err != nil {
		t.Errorf("write after a truncation: %d, %v", n, err)
	}
	must(t, m.Remove("/g"))
	if n, err := f.Write(make([]byte, 400)); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write while a removed file is open: %d, %v", n, err)
	}
	must(t, g.Close())
	if n, err := f.Write(make([]byte, 200)); n != 200 || err != nil {
		t.Errorf("write after the removed file is closed: %d, %v", n, err)
	}
	k := m.Kill()
	h := create(t, k, "/h", "")
	if n, err := h.Write(make([]byte, 400)); n != 100 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write after a kill: %d, %v", n, err)
	}
}

func TestMemLocksReleased(t *testing.T) {
	m := faultfs.NewMem()
	l, err := m.Lock("/lock")
	must(t, err, l.SetText("me"), m.SyncDir("/"))
	k := m.Kill()
	if text := get(k, "/lock"); text != "me" || k.BootID() != m.BootID() {
		t.Errorf("after a kill: text %q, boot %s, was %s", text, k.BootID(), m.BootID())
	}
	if _, err := k.Lock("/lock"); err != nil {
		t.Errorf("lock after a kill: %v", err)
	}
	c := m.Crash()
	if text := get(c, "/lock"); text != "" || c.BootID() == m.BootID() {
		t.Errorf("after a crash: text %q, boot %s", text, c.BootID())
	}
	if _, err := c.Lock("/lock"); err != nil {
		t.Errorf("lock after a crash: %v", err)
	}
	if _, err := m.Lock("/lock"); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("lock on the original machine: %v", err)
	}
}

func TestMemPermissions(t *testing.T) {
	m := faultfs.NewMem()
	must(t, m.Mkdir("/d", 0o700))
	m.WriteFile("/d/f", []byte("text"), 0o400)
	denied := fs.ErrPermission.Error()
	open := func(name string, flag int) string {
		_, err := m.OpenFile(name, flag, 0o600)
		return class(err)
	}
	if got := open("/d/f", os.O_RDWR); got != denied {
		t.Errorf("open of 0400 for writing: %s", got)
	}
	m.Chmod("/d", 0o500)
	for call, got := range map[string]string{
		"create": open("/d/g", os.O_RDWR|os.O_CREATE), "remove": class(m.Remove("/d/f")),
		"mkdir": class(m.Mkdir("/d/e", 0o700)), "rename": class(m.Rename("/d/f", "/f")),
		"lock": func() string { _, err := m.Lock("/d/lock"); return class(err) }(),
	} {
		if got != denied {
			t.Errorf("%s in a 0500 directory: %s", call, got)
		}
	}
	if got := get(m, "/d/f"); got != "text" {
		t.Errorf("read in a 0500 directory: %s", got)
	}
	m.Chmod("/d", 0)
	if got := get(m, "/d/f"); got != denied {
		t.Errorf("read in a 0000 directory: %s", got)
	}
}

// TestMemHash checks that Hash covers the complete durable state and ignores
// unsynced changes.
func TestMemHash(t *testing.T) {
	now := time.Unix(1, 0)
	build := func() *faultfs.Mem {
		m := faultfs.NewMem()
		m.Now = func() time.Time { now = now.Add(time.Second); return now }
		m.WriteFile("/f", make([]byte, 5000), 0o600)
		must(t, m.Mkdir("/d", 0o700), m.SyncDir("/"))
		return m
	}
	m, other := build(), build()
	if m.Hash() != other.Hash() {
		t.Error("two equal states have different hashes")
	}
	f := create(t, m, "/f", "x")
	create(t, m, "/g", "x")
	if m.Hash() != other.Hash() {
		t.Error("an unsynced change altered the hash")
	}
	seen := map[[32]byte]string{m.Hash(): "no change"}
	for _, c := range []struct {
		what string
		do   func()
	}{
		{"contents", func() { must(t, f.Sync()) }},
		{"names", func() { must(t, m.SyncDir("/")) }},
		{"a mode", func() { m.Chmod("/d", 0o500) }},
		{"a size", func() { must(t, f.Truncate(6000), f.Sync()) }},
		{"a link", func() { m.Symlink("f", "/l") }},
	} {
		c.do()
		if was, ok := seen[m.Hash()]; ok {
			t.Errorf("the hash after a change of %s equals the hash after %s", c.what, was)
		}
		seen[m.Hash()] = c.what
	}
	if m.Crash().Hash() != m.Hash() || m.Kill().Hash() != m.Hash() {
		t.Error("Crash or Kill changed the hash")
	}
}

// TestMemCrashModel makes random writes and syncs, and crashes after each. In
// each crash state, the synced bytes are intact. Each other byte is as written
// or zero.
func TestMemCrashModel(t *testing.T) {
	race.Skip(t)
	r := seed.Random(t)
	m := faultfs.NewMem()
	f := create(t, m, "/f", "")
	must(t, m.SyncDir("/"))
	versions := [][]byte{nil} // contents at the last sync and after each later write
	kept := 0                 // unsynced bytes that survived
	for range 1500 {
		now := versions[len(versions)-1]
		if r.IntN(8) == 0 {
			must(t, f.Sync())
			versions = [][]byte{now}
		} else {
			p := make([]byte, 1+r.IntN(5000))
			for i := range p {
				p[i] = byte(1 + r.IntN(255))
			}
			write(t, f, string(p))
			versions = append(versions, append(bytes.Clone(now), p...))
		}
		now = versions[len(versions)-1]
		outcomes := make([]faultfs.Outcome, len(m.Unsynced()))
		for i := range outcomes {
			outcomes[i] = faultfs.Outcome(r.IntN(2))
		}
		got := []byte(get(m.Crash(outcomes...), "/f"))
		synced := versions[0]
		if !bytes.HasPrefix(got, synced) {
			t.Fatalf("a crash lost synced bytes: %d bytes left, %d synced", len(got), len(synced))
		}
		if len(got) > len(now) {
			t.Fatalf("%d bytes after a crash, want at most the %d written", len(got), len(now))
		}
		for i := range got {
			if got[i] != now[i] && got[i] != 0 {
				t.Fatalf("byte %d is %d after a crash, was %d", i, got[i], now[i])
			}
		}
		kept += len(got) - len(synced)
		if len(now) > 100_000 {
			must(t, f.Truncate(0), f.Close(), m.Remove("/f"))
			f = create(t, m, "/f", "")
			must(t, m.SyncDir("/"))
			versions = [][]byte{nil}
		}
	}
	if kept == 0 {
		t.Error("no unsynced byte survived a crash")
	}
}

func TestMemConcurrent(t *testing.T) {
	m := faultfs.NewMem()
	m.Hook = func(c faultfs.Call) error {
		if c.N%10 == 0 {
			m.Crash(faultfs.Kept).Hash()
			m.Kill()
		}
		return nil
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 50 {
				name := fmt.Sprintf("/f%d-%d", w, i%3)
				err := vfs.Replace(m, name, 0o600, func(w io.Writer) error { _, err := w.Write([]byte(name)); return err })
				if got := get(m, name); err != nil || got != name {
					t.Errorf("%s: %v, %q", name, err, got)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkMemCrash(b *testing.B) {
	m := faultfs.NewMem()
	for _, name := range []string{"/memory.db", "/memory.db-wal", "/memory.db-lock", "/memory.db-reserve"} {
		m.WriteFile(name, make([]byte, 700), 0o600)
	}
	f, err := m.OpenFile("/memory.db-wal", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 100)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		m.Crash(faultfs.Kept).Hash()
	}
}

// TestMemCorrupt changes the bytes of writes and reads. Each write succeeds and
// reports the number of bytes that its caller passed.
func TestMemCorrupt(t *testing.T) {
	m := faultfs.NewMem()
	corrupt := map[string]func([]byte) []byte{}
	m.Hook = func(c faultfs.Call) error {
		if f := corrupt[c.Op]; f != nil {
			return &faultfs.Fault{Corrupt: f}
		}
		return nil
	}
	twice := func(b []byte) []byte { return append(b, b...) }
	none := func([]byte) []byte { return nil }
	corrupt["write"] = func(b []byte) []byte { return bytes.ToUpper(b) }
	f := create(t, m, "/f", "ab")
	corrupt["write"] = twice
	write(t, f, "cd")
	corrupt["write"] = none
	write(t, f, "ef")
	corrupt = map[string]func([]byte) []byte{"sync": none}
	if err := errors.Join(f.Sync(), m.SyncDir("/")); err != nil {
		t.Errorf("sync: %v", err)
	}
	if got := get(m.Crash(), "/f"); got != "ABcdcd" {
		t.Errorf("stored %q", got)
	}
	// The position advanced by the six bytes that the calls reported.
	corrupt = nil
	write(t, f, "gh")
	if got := get(m, "/f"); got != "ABcdcdgh" {
		t.Errorf("stored %q", got)
	}
	for _, c := range []struct {
		corrupt func([]byte) []byte
		want    string
		err     error
	}{
		{bytes.ToLower, "abcdcdgh", nil},
		{func(b []byte) []byte { return b[:3] }, "ABc", io.EOF},
		{twice, "ABcdcdgh", nil},
		{none, "", io.EOF},
	} {
		corrupt = map[string]func([]byte) []byte{"read": c.corrupt}
		b := make([]byte, 8)
		n, err := f.ReadAt(b, 0)
		if string(b[:n]) != c.want || err != c.err {
			t.Errorf("read %q, %v; want %q, %v", b[:n], err, c.want, c.err)
		}
	}
	corrupt = nil
	b := make([]byte, 8)
	if n, err := f.ReadAt(b, 0); string(b[:n]) != "ABcdcdgh" || err != nil {
		t.Errorf("a corrupt read changed the file: %q, %v", b[:n], err)
	}
}
