//go:build unix

package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"crabmem/crmem/vfs"
)

func TestMakePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	if changed, err := vfs.MakePrivate(dir); changed || err != nil {
		t.Errorf("a missing directory: %v, %v", changed, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o755, 0o777, 0o750, 0o701, 0o700, 0o500} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		changed, err := vfs.MakePrivate(dir)
		if err != nil || changed != (mode&0o077 != 0) {
			t.Errorf("mode %o: %v, %v", mode, changed, err)
		}
		fi, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := fi.Mode().Perm(); got != mode&0o700 {
			t.Errorf("mode %o became %o", mode, got)
		}
	}
	if err := os.Chmod(dir, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if changed, err := vfs.MakePrivate(dir); changed || err != nil {
		t.Errorf("a shared directory: %v, %v", changed, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := vfs.MakePrivate(file); err == nil {
		t.Error("MakePrivate of a file: no error")
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED the rest: only root can change the owner of a directory")
	}
	if err := os.Chown(dir, 65534, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := vfs.MakePrivate(dir); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a directory of another user: %v", err)
	}
}
