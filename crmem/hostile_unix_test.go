//go:build unix

package crmem_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"crabmem/crmem"
)

// A FIFO without a writer stops whoever opens it plainly.
func hostileFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	ok(t, syscall.Mkfifo(path, 0o600))
	shut(t, path, "not a regular file")
	// In the place of the log and of the lock as well.
	for _, suffix := range []string{"-wal", "-lock"} {
		path := Place(t, map[string][]byte{"db": goldenFile(t, "basic.db")})
		ok(t, syscall.Mkfifo(path+suffix, 0o600))
		modest(t, func() {
			if _, err := crmem.Open(path, nil); err == nil {
				t.Errorf("a store with a FIFO for its %s was opened", suffix)
			}
		})
	}
}

// A link to a device: it has no end.
func hostileDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	ok(t, os.Symlink("/dev/zero", path))
	modest(t, func() {
		for _, o := range []*crmem.Options{nil, {ReadOnly: true}} {
			if _, err := crmem.Open(path, o); !errors.Is(err, crmem.ErrFormat) {
				t.Errorf("a device: %v", err)
			}
		}
	})
	if _, err := os.Lstat("/dev/zero-lock"); err == nil {
		os.Remove("/dev/zero-lock")
		t.Error("a lock file exists next to the device")
	}
}
