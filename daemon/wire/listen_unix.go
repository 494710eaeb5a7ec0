//go:build unix

package wire

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// Errors of the system for an address without a listener and with one.
const (
	errRefused = syscall.ECONNREFUSED
	errInUse   = syscall.EADDRINUSE
)

// checkOwn refuses a directory in which others could reach a socket, or put
// one.
func checkOwn(dir string, fi fs.FileInfo) error {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return &fs.PathError{Op: "listen in", Path: dir, Err: fmt.Errorf("the directory belongs to user %d: %w", st.Uid, fs.ErrPermission)}
	}
	if mode := fi.Mode().Perm(); mode&0o077 != 0 {
		return &fs.PathError{Op: "listen in", Path: dir, Err: fmt.Errorf("mode %04o lets other users connect: run chmod 700 on the directory, or set CRABMEM_SOCKET: %w", mode, fs.ErrPermission)}
	}
	return nil
}

// listenPrivate makes a socket that is the user's alone. For that moment
// everything is that the process creates.
func listenPrivate(path string) (net.Listener, error) {
	before := syscall.Umask(0o077)
	defer syscall.Umask(before)
	return new(net.ListenConfig).Listen(context.Background(), "unix", path)
}

func ownUID() int { return os.Geteuid() }

func mayUse(uid int) bool { return uid == os.Geteuid() || uid == 0 }
