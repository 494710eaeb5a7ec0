package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"

	"crabmem/crmem/vfs"
)

// ListenUnix listens on a socket. It creates a missing directory; only the user
// may have access to the directory. ListenUnix replaces a socket without a
// listener: the caller holds the lock that excludes a second daemon.
func ListenUnix(fsys vfs.FS, path string) (net.Listener, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if err := private(fsys, dir); err != nil {
		return nil, err
	}
	switch fi, err := fsys.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case fi.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("listen on %s: not a socket: move the file or set --home", path)
	default:
		if err := probe(path); err == nil {
			return nil, fmt.Errorf("listen on %s: another daemon uses the socket: %w", path, ErrInUse)
		} else if !errors.Is(err, errRefused) {
			return nil, fmt.Errorf("listen on %s: cannot check for another daemon: %w", path, err)
		}
		if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	l, err := listenPrivate(path)
	if errors.Is(err, errInUse) {
		return nil, fmt.Errorf("listen on %s: another daemon uses the socket: %w", path, ErrInUse)
	}
	return l, err
}

// private makes dir, or checks that it is the user's alone.
func private(fsys vfs.FS, dir string) error {
	if err := vfs.MkdirAll(fsys, dir, 0o700); err != nil {
		return err
	}
	real, err := fsys.Resolve(dir)
	if err != nil {
		return err
	}
	fi, err := fsys.Lstat(real)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	return checkOwn(dir, fi)
}

// ListenTCP listens on host:port. It returns an error if the port is in use.
func ListenTCP(address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if errors.Is(err, errInUse) {
		return nil, fmt.Errorf("listen on %s: another program uses the port: %w; stop it, or configure another port", address, ErrInUse)
	}
	return l, err
}
