package vfs_test

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestConformCommitFailure commits over a directory. The commit returns the
// error, the directory stays, and Discard removes the temporary file.
func TestConformCommitFailure(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, _ scene) {
		must(t, fsys.Mkdir(dir+"/sub", 0o700), fsys.Mkdir(dir+"/sub/file", 0o700))
		put(t, fsys, dir+"/sub/file/inside", "kept")
		root, err := fsys.Root(dir)
		must(t, err)
		for what, tree := range map[string]vfs.Tree{"path": fsys, "root": root} {
			name := "sub/file"
			if what == "path" {
				name = dir + "/sub/file"
			}
			p, err := tree.Pending(name, 0o600)
			must(t, err)
			if _, err := p.Write([]byte("new")); err != nil {
				t.Fatal(err)
			}
			if err := p.Commit(); err == nil {
				t.Errorf("%s: a file replaced a directory that is not empty", what)
			}
			must(t, p.Discard())
			if got := get(fsys, dir+"/sub/file/inside"); got != "kept" {
				t.Errorf("%s: %q", what, got)
			}
			if list, err := fsys.ReadDir(dir + "/sub"); err != nil || len(list) != 1 {
				t.Errorf("%s: %v, %v", what, list, err)
			}
			err = vfs.Replace(tree, name, 0o600, func(io.Writer) error { return nil })
			if err == nil {
				t.Errorf("%s: Replace replaced a directory", what)
			}
		}
		must(t, root.Close())
	})
}

// TestConformOpenNeedsFile opens a missing file for reading. Open creates no
// file and returns a file that refuses writes.
func TestConformOpenNeedsFile(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, _ scene) {
		if _, err := fsys.Open(dir + "/file"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open of a missing file: %v", err)
		}
		if _, err := fsys.Lstat(dir + "/file"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("then lstat: %v", err)
		}
		put(t, fsys, dir+"/file", "text")
		f, err := fsys.Open(dir + "/file")
		must(t, err)
		if _, err := f.Write([]byte("x")); err == nil {
			t.Error("a file that is open for reading took a write")
		}
		must(t, f.Close())
		if got := get(fsys, dir+"/file"); got != "text" {
			t.Errorf("%q", got)
		}
	})
}

// TestMemLimitOfOneByte fills the smallest disk. A limit of 0 is no limit.
func TestMemLimitOfOneByte(t *testing.T) {
	m := faultfs.NewMem()
	m.Limit = 1
	f := create(t, m, "/f", "")
	if n, err := f.Write([]byte("ab")); n != 1 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("two bytes on a disk of one: %d, %v", n, err)
	}
	m = faultfs.NewMem()
	f = create(t, m, "/f", "")
	if n, err := f.Write([]byte("ab")); n != 2 || err != nil {
		t.Errorf("without a limit: %d, %v", n, err)
	}
}

// TestMemGarbage checks the bytes of a torn write: they differ from the old
// ones, the new ones and zeros, and are equal in each run.
func TestMemGarbage(t *testing.T) {
	m := faultfs.NewMem()
	f := create(t, m, "/f", strings.Repeat("a", 512))
	must(t, f.Sync(), m.SyncDir("/"))
	write(t, f, strings.Repeat("b", 512))
	garbage := get(m.Crash(faultfs.Garbage), "/f")[512:]
	values := make(map[rune]int)
	for _, b := range []byte(garbage) {
		values[rune(b)]++
	}
	if len(garbage) != 512 || len(values) < 128 {
		t.Errorf("%d bytes with %d values", len(garbage), len(values))
	}
	if again := get(m.Crash(faultfs.Garbage), "/f")[512:]; again != garbage {
		t.Error("garbage differs from one crash to the next")
	}
	m = faultfs.NewMem()
	f = create(t, m, "/f", "")
	must(t, f.Sync(), m.SyncDir("/"))
	write(t, f, "b")
	if garbage := get(m.Crash(faultfs.Garbage), "/f"); garbage == "\x00" || garbage == "b" {
		t.Errorf("the garbage of one byte is %q", garbage)
	}
}

// TestMemBlockEdges writes up to and around the edges of blocks, with holes,
// and reads each file in pieces.
func TestMemBlockEdges(t *testing.T) {
	const block = 4096
	for _, size := range []int{1, block - 1, block, block + 1, 2*block - 1, 2 * block, 2*block + 1} {
		for _, hole := range []int{0, 1, block - 1, block, block + 1} {
			m := faultfs.NewMem()
			f := create(t, m, "/f", "")
			if hole > 0 {
				must(t, f.Truncate(int64(hole)))
			}
			g, err := m.OpenFile("/f", syscall.O_RDWR|syscall.O_APPEND, 0)
			must(t, err)
			write(t, g, strings.Repeat("x", size))
			want := strings.Repeat("\x00", hole) + strings.Repeat("x", size)
			if got := get(m, "/f"); got != want {
				t.Errorf("hole %d, size %d: %d bytes differ", hole, size, len(got))
			}
			for _, off := range []int{0, 1, hole, block - 1, block, block + 1, hole + size - 1, hole + size} {
				if off > len(want) {
					continue
				}
				b := make([]byte, 3)
				n, _ := g.ReadAt(b, int64(off))
				if string(b[:n]) != want[off:min(off+3, len(want))] {
					t.Errorf("hole %d, size %d: read %q at %d", hole, size, b[:n], off)
				}
			}
			must(t, g.Truncate(int64(hole+size)), g.Truncate(int64(hole+size+block)))
			want += strings.Repeat("\x00", block)
			if got := get(m, "/f"); got != want {
				t.Errorf("hole %d, size %d, extended: %d bytes, want %d", hole, size, len(got), len(want))
			}
		}
	}
}

// TestMemHashOfEqualContents makes files of equal contents by one write, by a
// truncation and by an extension. Their images have equal hashes.
func TestMemHashOfEqualContents(t *testing.T) {
	for _, size := range []int{1, 4095, 4096, 4097, 8191, 8192, 8193} {
		text := strings.Repeat("x", size-1) + "\x00"
		hash := func(fill func(f vfs.File)) [32]byte {
			m := faultfs.NewMem()
			f := create(t, m, "/f", "")
			fill(f)
			must(t, f.Sync(), f.Close(), m.SyncDir("/"))
			if got := get(m.Crash(), "/f"); got != text {
				t.Errorf("%d bytes: %d on disk", size, len(got))
			}
			return m.Hash()
		}
		written := hash(func(f vfs.File) { write(t, f, text) })
		cut := hash(func(f vfs.File) {
			write(t, f, text+strings.Repeat("y", 5000))
			must(t, f.Truncate(int64(size)))
		})
		extended := hash(func(f vfs.File) {
			write(t, f, text[:size-1])
			must(t, f.Truncate(int64(size)))
		})
		if written != cut || written != extended {
			t.Errorf("%d bytes: hashes %x, %x after a truncation, %x after an extension", size, written[:4], cut[:4], extended[:4])
		}
	}
}
