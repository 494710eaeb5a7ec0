package vfs

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestLstat compares OS.Lstat with os.Lstat for each kind of file.
func TestLstat(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(at("file"), []byte("12345"), 0o640))
	must(os.WriteFile(at("set"), nil, 0o700))
	must(os.Chmod(at("set"), 0o750|fs.ModeSetuid|fs.ModeSetgid))
	must(os.Mkdir(at("dir"), 0o700))
	must(os.Chmod(at("dir"), 0o777|fs.ModeSticky))
	must(os.Symlink("nowhere", at("link")))
	must(syscall.Mkfifo(at("fifo"), 0o600))
	l, err := net.Listen("unix", at("socket"))
	must(err)
	defer l.Close()

	for _, name := range []string{at("file"), at("set"), at("dir"), at("dir") + "/", at("link"), at("fifo"), at("socket"), "/dev/null", "/", "."} {
		want, err := os.Lstat(name)
		must(err)
		got, err := OS{}.Lstat(name)
		must(err)
		if fs.FormatFileInfo(got) != fs.FormatFileInfo(want) || !got.ModTime().Equal(want.ModTime()) {
			t.Errorf("%s: %s, want %s", name, fs.FormatFileInfo(got), fs.FormatFileInfo(want))
		}
		if !SameFile(got, want) || Identify(got) != Identify(want) {
			t.Errorf("%s: Identify %+v, want %+v", name, Identify(got), Identify(want))
		}
	}
	for _, name := range []string{at("none"), at("file/x"), "", "nul\x00"} {
		_, want := os.Lstat(name)
		if _, err := (OS{}).Lstat(name); err == nil || err.Error() != want.Error() || errors.Is(err, fs.ErrNotExist) != errors.Is(want, fs.ErrNotExist) {
			t.Errorf("%q: error %v, want %v", name, err, want)
		}
	}
}
