package sandbox

import (
	"io"
	"syscall"
	"unsafe"

	"crabmem/crmem/vfs"

	"golang.org/x/sys/unix"
)

// system contains system calls of process 1. Tests replace them.
var system = systemCalls{
	open:         func(name string) (io.ReadCloser, error) { return vfs.OS{}.Open(name) },
	statx:        unix.Statx,
	access:       unix.Access,
	mount:        unix.Mount,
	mountSetattr: unix.MountSetattr,
	openTree:     unix.OpenTree,
	moveMount:    unix.MoveMount,
	close:        unix.Close,
	closeRange:   unix.CloseRange,
	mknod:        unix.Mknod,
	mkdir:        unix.Mkdir,
	symlink:      unix.Symlink,
	readlink:     readlink,
	writeFile:    writeFile,
	pivotRoot:    pivotRoot,
	prctl:        unix.Prctl,
	capset:       unix.Capset,
	setFilter:    setFilter,
	read:         syscall.Read,
	wait4:        syscall.Wait4,
}

type systemCalls struct {
	open         func(name string) (io.ReadCloser, error)
	statx        func(dir int, path string, flags, mask int, s *unix.Statx_t) error
	access       func(path string, mode uint32) error
	mount        func(source, target, kind string, flags uintptr, data string) error
	mountSetattr func(dir int, path string, flags uint, attr *unix.MountAttr) error
	openTree     func(dir int, path string, flags uint) (int, error)
	moveMount    func(fromDir int, from string, toDir int, to string, flags int) error
	close        func(fd int) error
	closeRange   func(first, last, flags uint) error
	mknod        func(path string, mode uint32, dev int) error
	mkdir        func(path string, mode uint32) error
	symlink      func(target, path string) error
	readlink     func(path string) (string, error)
	writeFile    func(path, text string) error // creates the file
	pivotRoot    func(dir string) error        // and unmounts the old root
	prctl        func(option int, arg2, arg3, arg4, arg5 uintptr) error
	capset       func(h *unix.CapUserHeader, data *unix.CapUserData) error
	setFilter    func(filter []unix.SockFilter) error
	read         func(fd int, b []byte) (int, error)
	wait4        func(pid int, status *syscall.WaitStatus, options int, usage *syscall.Rusage) (int, error)
}

// setFilter adds a filter for the system calls of this thread.
func setFilter(filter []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Not unix.Prctl: the stack, and prog on it, may move at its call.
	_, _, err := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)))
	if err != 0 {
		return err
	}
	return nil
}

// readlink returns the target of a symbolic link.
func readlink(path string) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlink(path, b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// writeFile creates a file that everyone may read.
func writeFile(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		unix.Close(fd)
		return err
	}
	return unix.Close(fd)
}

// pivotRoot makes the mount at dir the root directory, and detaches the old one.
func pivotRoot(dir string) error {
	if err := unix.Chdir(dir); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}
