package kill_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/fuzz/kill/history"
	"crabmem/fuzz/seed"
)

// tmpfs mounts a file system of size bytes until the end of the test, and returns
// the mount point.
func tmpfs(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if os.Getuid() != 0 {
		skipWithout(t, "root", "mounting a tmpfs needs root")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", size)); err != nil {
		skipWithout(t, "root", fmt.Sprintf("mount: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill fills the remaining space of dir's file system with the file ballast, and
// returns the file's name.
func fill(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return name
}

// fullDisk is a store on a small disk, with its acknowledged operations.
type fullDisk struct {
	t     *testing.T
	dir   string
	path  string
	s     *crmem.Store
	acked map[string]string
}

func (d *fullDisk) open() {
	d.t.Helper()
	var err error
	o := options()
	o.LogLimit = 1 << 40 // only the test checkpoints
	if d.s, err = crmem.Open(d.path, o); err != nil {
		d.t.Fatal(err)
	}
}

// add adds an entry of n bytes and returns the error of the store.
func (d *fullDisk) add(name string, n int) error {
	content := strings.Repeat("x", n)
	err := d.s.Apply(crmem.Add{Name: name, Content: content})
	if err == nil {
		d.acked[name] = content
	}
	return err
}

// check compares the store, in memory and on disk, with the acknowledged
// operations.
func (d *fullDisk) check(when string) {
	d.t.Helper()
	memory := make(map[string]string)
	for e := range d.s.All() {
		memory[e.Name] = e.Content
	}
	for where, got := range map[string]map[string]string{"memory": memory, "disk": contents(d.t, d.path)} {
		if len(got) != len(d.acked) {
			d.t.Errorf("%s: %d entries in %s, %d acknowledged", when, len(got), where, len(d.acked))
		}
		for name, content := range d.acked {
			if got[name] != content {
				d.t.Errorf("%s: %q in %s differs from the acknowledged content", when, name, where)
			}
		}
	}
}

// TestDiskFull fills small disks with a store. It checkpoints and removes entries on
// the full disk, then frees space and writes again.
func TestDiskFull(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	disks, adds, refused, removed, checkpoints := rounds(10, 40), 0, 0, 0, 0
	for i := range disks {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			dir := tmpfs(t, 5<<20-i*2*4096)
			d := &fullDisk{t: t, dir: dir, path: filepath.Join(dir, "home", "memory.db"), acked: map[string]string{}}
			d.open()

			// The ballast is later removed. Its sizes range from too small to large
			// enough for a checkpoint.
			err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, []int{20, 1000, 2800, 3300}[i%4]<<10), 0o600)
			if err == nil {
				err = d.add("first", 1<<20) // large enough for a reserve file
			}
			if err != nil {
				t.Fatal(err)
			}
			for n := 0; err == nil; n++ {
				err = d.add(fmt.Sprintf("entry %d", n), 500+rng.IntN(60_000))
				adds++
			}
			if !errors.Is(err, crmem.ErrNotApplied) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("a write to the full disk: %v, want ErrNotApplied for ENOSPC", err)
			}
			refused++
			ballast := fill(t, dir)
			// The log's last page has room for small writes.
			for n := 0; !errors.Is(err, crmem.ErrNotApplied) || n == 0; n++ {
				if err = d.add(fmt.Sprintf("small %d", n), 1); err != nil && !errors.Is(err, crmem.ErrNotApplied) {
					t.Fatal(err)
				}
			}
			d.check("full")

			// Without space, a checkpoint must fail without an effect.
			if err := d.s.Checkpoint(); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("a checkpoint on the full disk: %v, want ENOSPC", err)
			}
			d.check("after the failed checkpoint")
			if err := d.add("no room", 5000); !errors.Is(err, crmem.ErrNotApplied) {
				t.Fatalf("a write after the failed checkpoint: %v, want ErrNotApplied", err)
			}

			// Removes must succeed, as they use the reserve file.
			for name := range d.acked {
				if err := d.s.Apply(crmem.Remove{Name: name}); err != nil {
					t.Fatalf("a remove on the full disk: %v", err)
				}
				delete(d.acked, name)
				if removed++; removed%5 == 0 {
					break
				}
			}
			d.check("after removes")

			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			if err := d.add("room again", 3000); err != nil {
				t.Fatalf("a write after space was freed: %v", err)
			}
			d.check("after space was freed")
			if err := d.s.Checkpoint(); err == nil {
				checkpoints++
			} else if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("checkpoint with little free space: %v", err)
			}
			d.check("after the checkpoint")
			if err := d.s.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("close: %v", err)
			}
			d.open()
			d.check("reopened")
			if err := d.s.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("close: %v", err)
			}
		})
	}
	if refused == 0 {
		return // all disks were skipped or failed
	}
	if checkpoints == 0 && !testing.Short() {
		t.Error("no checkpoint succeeded: the test is ineffective")
	}
	t.Logf("disk full: %d disks, %d writes, %d refused, %d removes on a full disk, %d later checkpoints, 0 lost", disks, adds, refused, removed, checkpoints)
}

// TestDiskFullDump dumps to disks with increasing free space. After a failed dump, a
// dump with enough space must complete the tree.
func TestDiskFullDump(t *testing.T) {
	sd := seed.Of(t)
	s := crmem.New(options())
	w := history.NewWriter(sd, 0, true)
	var want []crmem.Entry
	sizes, failed := rounds(10, 40), 0
	for i := range sizes {
		dir := tmpfs(t, 1<<20)
		brain := filepath.Join(dir, "brain")
		dump := func() error {
			_, err := tree.Dump(s, brain, &tree.DumpOptions{Bases: brain + tree.BasesSuffix})
			return err
		}
		for range 10 {
			if err := s.Apply(w.Next()...); err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 1 { // start with an older tree
			if err := dump(); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if err := s.Apply(w.Next()...); err != nil {
					t.Fatal(err)
				}
			}
		}
		want = slices.Collect(s.All())
		ballast := fill(t, dir)
		if err := os.Truncate(ballast, max(0, size(t, ballast)-int64(i/2)*2*4096)); err != nil {
			t.Fatal(err)
		}
		err := dump()
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("a dump to a full disk: %v", err)
		}
		if err != nil {
			failed++
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if err := dump(); err != nil {
			t.Fatalf("the dump after space was freed: %v", err)
		}
		back := crmem.New(options())
		if _, err := tree.Load(back, brain, nil); err != nil {
			t.Fatal(err)
		}
		if got := slices.Collect(back.All()); !slices.EqualFunc(got, want, crmem.Entry.Equal) {
			t.Fatalf("load returned %d entries that differ from the %d dumped ones", len(got), len(want))
		}
	}
	t.Logf("disk full: %d dumps, %d failed and were completed later", sizes, failed)
	if failed == 0 && !testing.Short() {
		t.Error("no dump failed: the test is ineffective")
	}
}

func size(t *testing.T, name string) int64 {
	t.Helper()
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Size()
}

// TestDiskFullOnOpen recovers a store on a full disk. The open may fail, but must
// not lose an entry.
func TestDiskFullOnOpen(t *testing.T) {
	dir := tmpfs(t, 1<<20)
	path := filepath.Join(dir, "memory.db")
	cmd := child("hold", path)
	line, err := firstLine(cmd)
	if err != nil || line != "ready\n" {
		t.Fatalf("the child printed %q: %v", line, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	ballast := fill(t, dir)
	for range 3 {
		err := withStore(path, options(), func(*crmem.Store) error { return nil })
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("open on a full disk: %v", err)
		}
		if got := contents(t, path); got["held"] == "" {
			t.Fatalf("entry lost on a full disk: %v", got)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, path); got["held"] == "" {
		t.Errorf("entry lost: %v", got)
	}
	checkHealthy(t, path)
}
