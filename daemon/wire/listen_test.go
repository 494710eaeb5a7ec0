package wire

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
)

func TestListenUnix(t *testing.T) {
	path := filepath.Join(filepath.Dir(socket(t)), "a", "b", "daemon.sock")
	l, err := ListenUnix(vfs.OS{}, path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" {
		for name, want := range map[string]fs.FileMode{path: 0, filepath.Dir(path): 0, filepath.Dir(filepath.Dir(path)): 0} {
			if fi, err := os.Lstat(name); err != nil || fi.Mode().Perm()&0o077 != want {
				t.Errorf("%s: mode %v, %v", name, fi.Mode(), err)
			}
		}
	}
	if _, err := ListenUnix(vfs.OS{}, path); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("a second daemon: %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of the first: %v", err)
	}
	l.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a socket after Close: %v", err)
	}
}

func TestStaleSocket(t *testing.T) {
	path := socket(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as after a crash
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	serveAt, err := ListenUnix(vfs.OS{}, path)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, &Server{Handler: pinger}, serveAt)
	ping(t, dial(t, Addr{Network: "unix", Address: path}))
}

func TestListenUnixRefuses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: there are no modes")
	}
	path := socket(t)
	dir := filepath.Dir(path)
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(vfs.OS{}, path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("over a file: %v", err)
	}
	if b, err := os.ReadFile(path); string(b) != "mine" {
		t.Errorf("the file is %q, %v", b, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o755, 0o770, 0o777 | fs.ModeSticky} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ListenUnix(vfs.OS{}, path); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("in a directory of mode %v: %v", mode, err)
		}
		if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != mode.Perm() {
			t.Errorf("the mode was changed to %v", fi.Mode())
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Mkdir(filepath.Join(dir, "open"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("open", link); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(vfs.OS{}, filepath.Join(link, "s")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("through a link: %v", err)
	}
	if os.Geteuid() == 0 {
		foreign := filepath.Join(dir, "foreign")
		if err := os.Mkdir(foreign, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := ListenUnix(vfs.OS{}, filepath.Join(foreign, "s")); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "user 12345") {
			t.Errorf("in another user's directory: %v", err)
		}
	}
	long := filepath.Join(dir, strings.Repeat("x", 108-len(dir)-1))
	if _, err := ListenUnix(vfs.OS{}, long); err == nil || !strings.Contains(err.Error(), "shorter home") {
		t.Errorf("a path of 108 bytes: %v", err)
	}
	if _, err := Dial(t.Context(), Addr{Network: "unix", Address: long}); err == nil || !strings.Contains(err.Error(), "shorter home") {
		t.Errorf("Dial to a path of 108 bytes: %v", err)
	}
	if runtime.GOOS == "linux" {
		l, err := ListenUnix(vfs.OS{}, long[:107])
		if err != nil {
			t.Fatalf("a path of 107 bytes: %v", err)
		}
		l.Close()
	}
}

func TestListenTCP(t *testing.T) {
	l, err := ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := ListenTCP(l.Addr().String()); !errors.Is(err, ErrInUse) {
		t.Errorf("a taken port: %v", err)
	}
}

// TestOtherMachines wants a token before it listens for them.
func TestOtherMachines(t *testing.T) {
	l, err := ListenTCP("0.0.0.0:0")
	if err != nil {
		t.Skip("SKIPPED:", err)
	}
	s := &Server{Handler: pinger}
	if err := s.Serve(l); err == nil || !strings.Contains(err.Error(), "set a token") {
		t.Errorf("Serve: %v", err)
	}
	_ = s.Shutdown(t.Context())
}

func TestTCP(t *testing.T) {
	ping(t, dial(t, serveTCP(t, &Server{Handler: pinger})))
}

func TestTCPWithToken(t *testing.T) {
	a := serveTCP(t, &Server{Handler: pinger, Token: "secret"})
	a.Token = "secret"
	ping(t, dial(t, a))
	a.Token = "wrong"
	if c, err := Dial(t.Context(), a); runtime.GOOS == "linux" {
		// The user is known, so the token is ignored.
		if err != nil {
			t.Errorf("Dial as the same user: %v", err)
		} else {
			c.Close()
		}
	} else if !errors.Is(err, ErrRefused) {
		t.Errorf("Dial with another token: %v", err)
	}
}
