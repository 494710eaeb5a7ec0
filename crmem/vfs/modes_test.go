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

// TestConformCommitFailure commits a file over a directory. Commit must fail and
// leave the directory unchanged. Discard must remove the temporary file.
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
				t.Errorf("%s: Commit over a directory: no error", what)
			}
			must(t, p.Discard())
			if got := get(fsys, dir+"/sub/file/inside"); got != "kept" {
				t.Errorf("%s: file in the directory contains %q", what, got)
			}
			if list, err := fsys.ReadDir(dir + "/sub"); err != nil || len(list) != 1 {
				t.Errorf("%s: files after Discard: %v, %v", what, list, err)
			}
			err = vfs.Replace(tree, name, 0o600, func(io.Writer) error { return nil })
			if err == nil {
				t.Errorf("%s: Replace of a directory: no error", what)
			}
		}
		must(t, root.Close())
	})
}

// TestConformOpenNeedsFile checks that Open does not create a missing file. The
// file that Open returns must reject writes.
func TestConformOpenNeedsFile(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string, _ scene) {
		if _, err := fsys.Open(dir + "/file"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open of a missing file: %v", err)
		}
		if _, err := fsys.Lstat(dir + "/file"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("lstat after the open: %v", err)
		}
		put(t, fsys, dir+"/file", "text")
		f, err := fsys.Open(dir + "/file")
		must(t, err)
		if _, err := f.Write([]byte("x")); err == nil {
			t.Error("write to a file open for reading: no error")
		}
		must(t, f.Close())
		if got := get(fsys, dir+"/file"); got != "text" {
			t.Errorf("contents %q, want %q", got, "text")
		}
	})
}

// TestMemLimitOfOneByte checks the lowest limit, and that 0 means no limit.
func TestMemLimitOfOneByte(t *testing.T) {
	m := faultfs.NewMem()
	m.Limit = 1
	f := create(t, m, "/f", "")
	if n, err := f.Write([]byte("ab")); n != 1 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write of two bytes with a limit of one: %d, %v", n, err)
	}
	m = faultfs.NewMem()
	f = create(t, m, "/f", "")
	if n, err := f.Write([]byte("ab")); n != 2 || err != nil {
		t.Errorf("write without a limit: %d, %v", n, err)
	}
}

// TestMemGarbage checks the bytes of the outcome Garbage. They have many values
// and are equal in each run. A single byte is neither zero nor the written byte.
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
		t.Errorf("garbage of %d bytes has %d values", len(garbage), len(values))
	}
	if second := get(m.Crash(faultfs.Garbage), "/f")[512:]; second != garbage {
		t.Error("two crashes with equal outcomes produce different garbage")
	}
	m = faultfs.NewMem()
	f = create(t, m, "/f", "")
	must(t, f.Sync(), m.SyncDir("/"))
	write(t, f, "b")
	if garbage := get(m.Crash(faultfs.Garbage), "/f"); garbage == "\x00" || garbage == "b" {
		t.Errorf("the garbage of one byte is %q", garbage)
	}
}

// TestMemBlockEdges writes bytes that start and end near block boundaries, some
// after a hole. It reads the bytes near each boundary.
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
				t.Errorf("hole %d, size %d: wrong contents, %d bytes, want %d", hole, size, len(got), len(want))
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
				t.Errorf("hole %d, size %d, extended: wrong contents, %d bytes, want %d", hole, size, len(got), len(want))
			}
		}
	}
}

// TestMemHashOfEqualContents creates equal contents with a write, a truncation,
// and an extension. The three states must have equal hashes.
func TestMemHashOfEqualContents(t *testing.T) {
	for _, size := range []int{1, 4095, 4096, 4097, 8191, 8192, 8193} {
		text := strings.Repeat("x", size-1) + "\x00"
		hash := func(fill func(f vfs.File)) [32]byte {
			m := faultfs.NewMem()
			f := create(t, m, "/f", "")
			fill(f)
			must(t, f.Sync(), f.Close(), m.SyncDir("/"))
			if got := get(m.Crash(), "/f"); got != text {
				t.Errorf("%d bytes: wrong contents after a crash, %d bytes", size, len(got))
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
