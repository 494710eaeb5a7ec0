package wire

import (
	"context"
	"io/fs"
	"net"
	"syscall"
)

// Errors of the system for an address without a listener and with one.
const (
	errRefused = syscall.Errno(10061) // WSAECONNREFUSED
	errInUse   = syscall.Errno(10048) // WSAEADDRINUSE
)

// checkOwn accepts every directory, because inherited permissions protect a
// user's directories.
func checkOwn(string, fs.FileInfo) error { return nil }

func listenPrivate(path string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "unix", path)
}

func ownUID() int { return -1 }

func mayUse(int) bool { return false }
