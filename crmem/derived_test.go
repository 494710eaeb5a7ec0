package crmem

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

func always() bool { return true }

// derivedText returns the text of a derived file, or "missing".
func derivedText(t *testing.T, m *faultfs.Mem, name string) string {
	t.Helper()
	f, fi, err := vfs.OpenDerived(m, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "missing"
	}
	noErr(t, err)
	b := make([]byte, fi.Size())
	_, err = f.ReadAt(b, 0)
	noErr(t, err)
	noErr(t, f.Close())
	return string(b)
}

// names returns the names in the root directory.
func names(t *testing.T, m *faultfs.Mem) (list []string) {
	t.Helper()
	entries, err := m.ReadDir("/")
	noErr(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWriteDerived(t *testing.T) {
	m := faultfs.NewMem()
	m.WriteFile("/.m.db-usage12", []byte("of a crash"), 0o600)
	m.WriteFile("/.m.db-wal12", []byte("of another writer"), 0o600)
	m.WriteFile("/.m.db12", []byte("of another writer"), 0o600)
	for _, text := range []string{"one", strings.Repeat("two", 1<<16)} {
		written, err := writeDerived(m, "/m.db", indexPlainSuffix, 3, always, bytesTo([]byte(text)))
		if !written || err != nil || derivedText(t, m, "/m.db-index-plain") != text {
			t.Fatalf("write: %v, %v", written, err)
		}
		// At the second call the state changed during the write.
		calls := 0
		changes := func() bool { calls++; return calls == 1 }
		for range 2 {
			if written, err := writeDerived(m, "/m.db", indexPlainSuffix, 3, changes, bytesTo([]byte("stale"))); written || err != nil {
				t.Fatalf("write of an older state: %v, %v", written, err)
			}
		}
		m.WriteFile("/m.db-purge", nil, 0o600)
		if written, err := writeDerived(m, "/m.db", indexPlainSuffix, 3, always, bytesTo([]byte("purged"))); written || err != nil {
			t.Fatalf("write during a purge: %v, %v", written, err)
		}
		noErr(t, m.Remove("/m.db-purge"))
		if derivedText(t, m, "/m.db-index-plain") != text || m.OpenFiles() != 0 {
			t.Fatal("a write without effect changed the file, or left a file open")
		}
	}
	fi, err := m.Lstat("/m.db-index-plain")
	noErr(t, err)
	want := []string{".m.db-wal12", ".m.db12", "m.db-derived-lock", "m.db-index-plain"}
	if got := names(t, m); !slices.Equal(got, want) || fi.Mode() != 0o600 {
		t.Errorf("files %q with mode %v, want %q", got, fi.Mode(), want)
	}
	for _, c := range []struct {
		size  int64
		write bool
	}{{9, true}, {10, true}, {11, false}} {
		_, err := writeDerived(faultfsWith(20), "/m.db", usageSuffix, c.size, always, bytesTo(nil))
		if (err == nil) != c.write {
			t.Errorf("write of %d bytes with 20 free: %v", c.size, err)
		}
	}
}

// faultfsWith returns a file system with limit bytes.
func faultfsWith(limit int64) *faultfs.Mem {
	m := faultfs.NewMem()
	m.Limit = limit
	return m
}

// TestWriteDerivedFails fails each call of a write. The file has its old or new bytes,
// no temporary file remains if it can be removed, and the next write succeeds.
func TestWriteDerivedFails(t *testing.T) {
	failed := 0
	for _, disk := range []error{syscall.ENOSPC, syscall.EIO, &faultfs.Fault{Err: syscall.EIO, Done: true}} {
		for _, forever := range []bool{false, true} {
			for fail, hit := 1, true; hit; fail++ {
				m := faultfs.NewMem()
				m.WriteFile("/m.db-usage", []byte("old"), 0o600)
				calls, op := 0, ""
				hit = false
				m.Hook = func(c faultfs.Call) error {
					if calls++; hit && !forever || calls < fail {
						return nil
					}
					if !hit {
						op = c.Op
					}
					hit = true
					return disk
				}
				written, err := writeDerived(m, "/m.db", usageSuffix, 3, always, bytesTo([]byte("new")))
				m.Hook = nil
				if hit && err == nil && op != "readdir" || !hit && !written {
					t.Errorf("%s, %v: written %v, %v", op, disk, written, err)
				}
				if err != nil {
					failed++
				}
				switch got := derivedText(t, m, "/m.db-usage"); {
				case got != "old" && got != "new", written && got != "new", m.OpenFiles() != 0 && op != "unlock" && !forever:
					t.Errorf("%s, %v: %q, %d open files; written %v", op, disk, got, m.OpenFiles(), written)
				}
				for _, name := range names(t, m) {
					if strings.HasPrefix(name, ".") && !forever && op != "create" { // a file whose name the writer does not know
						t.Errorf("%s, %v: %s remains", op, disk, name)
					}
				}
				m = m.Crash()
				if written, err := writeDerived(m, "/m.db", usageSuffix, 3, always, bytesTo([]byte("next"))); !written || err != nil {
					t.Fatalf("the next write: %v, %v", written, err)
				}
				if got := names(t, m); !slices.Equal(got, []string{"m.db-derived-lock", "m.db-usage"}) {
					t.Errorf("%s, %v: files %q", op, disk, got)
				}
			}
		}
	}
	if failed < 50 {
		t.Errorf("%d writes failed", failed)
	}
}

// TestWriteDerivedTwice writes while another process writes.
func TestWriteDerivedTwice(t *testing.T) {
	m := faultfs.NewMem()
	written, err := writeDerived(m, "/m.db", usageSuffix, 5, always, func(w io.Writer) error {
		for _, suffix := range derivedSuffixes {
			if written, err := writeDerived(m, "/m.db", suffix, 6, always, bytesTo([]byte("second"))); written || err != nil {
				t.Errorf("a concurrent write: %v, %v", written, err)
			}
		}
		_, err := io.WriteString(w, "first")
		return err
	})
	if got := derivedText(t, m, "/m.db-usage"); !written || err != nil || got != "first" || len(names(t, m)) != 2 {
		t.Errorf("written %v, %v, %q, files %q", written, err, got, names(t, m))
	}
}

// TestDerivedReadOnly writes to a directory that this user may not write.
func TestDerivedReadOnly(t *testing.T) {
	m := faultfs.NewMem()
	noErr(t, m.Mkdir("/dir", 0o700))
	m.Chmod("/dir", 0o500)
	if written, err := writeDerived(m, "/dir/m.db", usageSuffix, 1, always, bytesTo([]byte("x"))); written || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("write: %v, %v", written, err)
	}
	if list, err := m.ReadDir("/dir"); err != nil || len(list) > 0 {
		t.Errorf("files %v, %v", list, err)
	}
}

// TestDerivedHostile puts other things than a file of this user at the names.
func TestDerivedHostile(t *testing.T) {
	m := faultfs.NewMem()
	m.WriteFile("/other", []byte("secret"), 0o600)
	m.Symlink("/other", "/m.db-usage")
	m.Mkfifo("/n.db-usage")
	noErr(t, m.Mkdir("/d.db-usage", 0o700))
	m.Symlink("/other", "/l.db-derived-lock")
	for _, name := range []string{"/m.db-usage", "/n.db-usage", "/d.db-usage"} {
		if _, _, err := vfs.OpenDerived(m, name); !errors.Is(err, vfs.ErrNotRegular) {
			t.Errorf("open %s: %v", name, err)
		}
	}
	for path, want := range map[string]bool{"/m.db": true, "/n.db": true, "/d.db": false, "/l.db": false} {
		if written, err := writeDerived(m, path, usageSuffix, 1, always, bytesTo([]byte("x"))); written != want || (err == nil) != want {
			t.Errorf("write of %s: %v, %v", path, written, err)
		}
	}
	if got := memBytes(t, m, "/other"); string(got) != "secret" {
		t.Errorf("the target of a link: %q", got)
	}
	for mode := range fs.FileMode(0o1000) {
		if mode&0o400 == 0 {
			continue
		}
		m.WriteFile("/p.db-usage", nil, mode)
		f, _, err := vfs.OpenDerived(m, "/p.db-usage")
		if (err == nil) != (mode&0o022 == 0) {
			t.Errorf("mode %o: %v", mode, err)
		}
		if err == nil {
			noErr(t, f.Close())
		}
	}
	if m.OpenFiles() != 0 {
		t.Errorf("%d open files", m.OpenFiles())
	}
}

// TestDerivedOfOtherUser opens a file of another user.
func TestDerivedOfOtherUser(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can change the owner of a file")
	}
	name := filepath.Join(t.TempDir(), "m.db-usage")
	noErr(t, os.WriteFile(name, nil, 0o600))
	f, _, err := vfs.OpenDerived(vfs.OS{}, name)
	noErr(t, errors.Join(err, f.Close(), os.Chown(name, 65534, -1)))
	if _, _, err := vfs.OpenDerived(vfs.OS{}, name); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("open: %v", err)
	}
}
