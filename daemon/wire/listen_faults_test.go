//go:build unix

package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// fileInfo is a directory or file of a user.
type fileInfo struct {
	mode fs.FileMode
	sys  any
}

func (f fileInfo) Name() string       { return "name" }
func (f fileInfo) Size() int64        { return 0 }
func (f fileInfo) Mode() fs.FileMode  { return f.mode }
func (f fileInfo) ModTime() time.Time { return time.Time{} }
func (f fileInfo) IsDir() bool        { return f.mode.IsDir() }
func (f fileInfo) Sys() any           { return f.sys }

// faultyFS is the machine's file system with other results of Lstat and Remove
// for the base names of files, and of Resolve.
type faultyFS struct {
	vfs.OS
	lstat, remove map[string]error
	real          string
}

func (f faultyFS) Resolve(name string) (string, error) {
	if f.real != "" {
		return f.real, nil
	}
	return f.OS.Resolve(name)
}

func (f faultyFS) Lstat(name string) (fs.FileInfo, error) {
	if err := f.lstat[filepath.Base(name)]; err != nil {
		return nil, err
	}
	return f.OS.Lstat(name)
}

func (f faultyFS) Remove(name string) error {
	if err := f.remove[filepath.Base(name)]; err != nil {
		_ = f.OS.Remove(name)
		return err
	}
	return f.OS.Remove(name)
}

// TestListenUnixFaults checks the error of ListenUnix after each failing call.
func TestListenUnixFaults(t *testing.T) {
	path := socket(t)
	dir, base := filepath.Dir(path), filepath.Base(path)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stale := map[string]func() error{
		"": func() error { return nil },
		"stream": func() error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return l.Close()
		},
		"packet": func() error {
			c, err := net.ListenPacket("unixgram", path)
			if err == nil {
				t.Cleanup(func() { c.Close() })
			}
			return err
		},
	}
	for _, tt := range []struct {
		name, socket string
		fsys         faultyFS
		is           error
		text         string // "" = it listens
	}{
		{"no socket", "", faultyFS{}, nil, ""},
		{"stale socket", "stream", faultyFS{}, nil, ""},
		{"lstat of the socket fails", "", faultyFS{lstat: map[string]error{base: syscall.EIO}}, syscall.EIO, "input/output error"},
		{"lstat of the directory fails", "", faultyFS{lstat: map[string]error{filepath.Base(dir): syscall.EIO}}, syscall.EIO, "input/output error"},
		{"remove fails", "stream", faultyFS{remove: map[string]error{base: syscall.EIO}}, syscall.EIO, "input/output error"},
		{"removed concurrently", "stream", faultyFS{remove: map[string]error{base: fs.ErrNotExist}}, nil, ""},
		{"created concurrently", "stream", faultyFS{lstat: map[string]error{base: fs.ErrNotExist}}, ErrInUse, "another daemon uses the socket"},
		{"no directory", "", faultyFS{real: file}, nil, dir + " is not a directory"},
		{"directory removed concurrently", "", faultyFS{real: file + "x"}, fs.ErrNotExist, "no such file"},
		{"another kind of socket", "packet", faultyFS{}, syscall.EPROTOTYPE, "cannot check for another daemon"},
	} {
		if err := stale[tt.socket](); err != nil {
			t.Fatal(err)
		}
		l, err := ListenUnix(tt.fsys, path)
		if (err == nil) != (tt.text == "") || (l == nil) != (err != nil) || err != nil && !strings.Contains(err.Error(), tt.text) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.text)
		}
		if l != nil {
			l.Close()
		}
		_ = os.Remove(path)
	}
}

// TestCheckOwn checks directories of each user and mode.
func TestCheckOwn(t *testing.T) {
	own, other := uint32(os.Geteuid()), uint32(os.Geteuid()+1)
	for _, tt := range []struct {
		fi   fileInfo
		want string
	}{
		{fileInfo{0o700, &syscall.Stat_t{Uid: own}}, "<nil>"}, {fileInfo{0o700, nil}, "<nil>"}, {fileInfo{0, &syscall.Stat_t{Uid: own}}, "<nil>"},
		{fileInfo{0o700, &syscall.Stat_t{Uid: other}}, fmt.Sprintf("listen in /dir: the directory belongs to user %d: permission denied", other)},
		{fileInfo{0o701, &syscall.Stat_t{Uid: own}}, "listen in /dir: mode 0701 lets other users connect: run chmod 700 on the directory, or set CRABMEM_SOCKET: permission denied"},
		{fileInfo{0o010, nil}, "listen in /dir: mode 0010 lets other users connect: run chmod 700 on the directory, or set CRABMEM_SOCKET: permission denied"},
	} {
		err := checkOwn("/dir", tt.fi)
		if fmt.Sprint(err) != tt.want || err != nil && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%+v: %v, want %s", tt.fi, err, tt.want)
		}
	}
	if !mayUse(os.Geteuid()) || !mayUse(0) || mayUse(os.Geteuid()+1) || ownUID() != os.Geteuid() {
		t.Error("only this user and root may connect")
	}
}

// TestPrivateFaults fails each call that checks the directory.
func TestPrivateFaults(t *testing.T) {
	for n := 1; ; n++ {
		m := faultfs.NewMem()
		m.Hook = func(c faultfs.Call) error {
			if c.N == n {
				return syscall.EIO
			}
			return nil
		}
		err := private(m, "/a/b")
		if m.Calls() < n {
			if err != nil {
				t.Errorf("no call fails: %v", err)
			}
			break
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("call %d fails: %v", n, err)
		}
	}
}
