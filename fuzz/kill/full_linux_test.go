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
)

// tmpfs mounts a file system of so many bytes for the time of a test.
func tmpfs(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if os.Getuid() != 0 {
		lacks(t, "root", "a file system of 1 MiB needs it")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", size)); err != nil {
		lacks(t, "root", fmt.Sprintf("mount: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill writes a file, ballast, over the remaining space of dir's file system,
// and returns its name.
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
	o.LogLimit = 1 << 40 // the log is folded when the test says so
	if d.s, err = crmem.Open(d.path, o); err != nil {
		d.t.Fatal(err)
	}
}

// add adds an entry of so many bytes and returns the error.
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
	ram := make(map[string]string)
	for e := range d.s.All() {
		ram[e.Name] = e.Content
	}
	for where, got := range map[string]map[string]string{"RAM": ram, "disk": contents(d.t, d.path)} {
		if len(got) != len(d.acked) {
			d.t.Errorf("%s: %d entries in %s, %d acknowledged", when, len(got), where, len(d.acked))
		}
		for name, content := range d.acked {
			if got[name] != content {
				d.t.Errorf("%s: %q is not as acknowledged in %s", when, name, where)
			}
		}
	}
}

// TestDiskFull fills small disks while a store writes and checkpoints, removes
// entries on the full disk, frees space, and continues.
func TestDiskFull(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	disks, adds, refused, removed, folds := scale(10, 40), 0, 0, 0, 0
	for i := range disks {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			dir := tmpfs(t, 1<<20-i*2*4096)
			d := &fullDisk{t: t, dir: dir, path: filepath.Join(dir, "home", "memory.db"), acked: map[string]string{}}
			d.open()

			// From little to enough for the checkpoint that comes when it is
			// freed.
			err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, []int{20, 100, 300, 420}[i%4]<<10), 0o600)
			if err != nil {
				t.Fatal(err)
			}
			for n := 0; err == nil; n++ {
				err = d.add(fmt.Sprintf("entry %d", n), 500+rng.IntN(20_000))
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

			// The checkpoint has no space: it must fail without an effect.
			if err := d.s.Checkpoint(); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("a checkpoint on the full disk: %v, want ENOSPC", err)
			}
			d.check("after the failed checkpoint")
			if err := d.add("no room", 5000); !errors.Is(err, crmem.ErrNotApplied) {
				t.Fatalf("a write after the failed checkpoint: %v, want ErrNotApplied", err)
			}

			// Removing must work, by the reserve.
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
				folds++
			} else if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("checkpoint with little room: %v", err)
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
		return // every one of them was skipped, or failed
	}
	if folds == 0 && !testing.Short() {
		t.Error("no checkpoint ever had room: the test does not test")
	}
	t.Logf("disk full: %d disks, %d writes, %d refused, %d removes on a full disk, %d checkpoints after, 0 lost", disks, adds, refused, removed, folds)
}

// TestDiskFullDump dumps to disks that are full after ever fewer bytes. A later
// dump with space must complete the tree.
func TestDiskFullDump(t *testing.T) {
	sd := seed(t)
	s := crmem.New(options())
	w := history.NewWriter(sd, 0, true)
	var want []crmem.Entry
	sizes, failed := scale(10, 40), 0
	for i := range sizes {
		dir := tmpfs(t, 1<<20)
		brain := filepath.Join(dir, "brain")
		for range 10 {
			if err := s.Apply(w.Next()...); err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 1 { // there is an older tree
			if _, err := tree.Dump(s, brain, nil); err != nil {
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
		_, err := tree.Dump(s, brain, nil)
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("a dump to a full disk: %v", err)
		}
		if err != nil {
			failed++
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if _, err := tree.Dump(s, brain, nil); err != nil {
			t.Fatalf("the dump after space was freed: %v", err)
		}
		back := crmem.New(options())
		if _, err := tree.Load(back, brain, nil); err != nil {
			t.Fatal(err)
		}
		if got := slices.Collect(back.All()); !slices.EqualFunc(got, want, crmem.Entry.Equal) {
			t.Fatalf("%d entries come back of %d, or others", len(got), len(want))
		}
	}
	t.Logf("disk full: %d dumps, %d of them failed and were finished", sizes, failed)
	if failed == 0 && !testing.Short() {
		t.Error("no dump failed: the test does not test")
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

// TestDiskFullOnOpen recovers on a full disk. It may fail, but without an
// effect.
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
		err := with(path, options(), func(*crmem.Store) error { return nil })
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("open on a full disk: %v", err)
		}
		if got := contents(t, path); got["held"] == "" {
			t.Fatalf("lost on a full disk: %v", got)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, path); got["held"] == "" {
		t.Errorf("lost: %v", got)
	}
	healthy(t, path)
}
