package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func datasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		// Interrupted before anything was tried; every other error is final.
		if err != syscall.EINTR {
			return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}

// remoteKinds are the magic numbers of statfs(2).
var remoteKinds = map[uint32]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.V9FS_MAGIC:       "9P",
	unix.FUSE_SUPER_MAGIC: "FUSE or virtiofs",
	unix.CEPH_SUPER_MAGIC: "Ceph",
	unix.AFS_SUPER_MAGIC:  "AFS",
}

func remote(dir string) string {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return ""
	}
	return remoteKinds[uint32(st.Type)]
}

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// lstat is os.Lstat with fewer allocations: a writer calls it three times for
// each group commit.
func lstat(name string) (fs.FileInfo, error) {
	fi := &fileInfo{name: name}
	for {
		switch err := syscall.Lstat(name, &fi.st); err {
		case nil:
			return fi, nil
		case syscall.EINTR:
		default:
			return nil, &fs.PathError{Op: "lstat", Path: name, Err: err}
		}
	}
}

type fileInfo struct {
	name string // the path
	st   syscall.Stat_t
}

func (i *fileInfo) Name() string { return filepath.Base(i.name) }

func (i *fileInfo) Size() int64 { return i.st.Size }

func (i *fileInfo) ModTime() time.Time { return time.Unix(i.st.Mtim.Unix()) }

func (i *fileInfo) IsDir() bool { return i.Mode().IsDir() }

func (i *fileInfo) Sys() any { return &i.st }

var fileTypes = map[uint32]fs.FileMode{
	syscall.S_IFBLK:  fs.ModeDevice,
	syscall.S_IFCHR:  fs.ModeDevice | fs.ModeCharDevice,
	syscall.S_IFDIR:  fs.ModeDir,
	syscall.S_IFIFO:  fs.ModeNamedPipe,
	syscall.S_IFLNK:  fs.ModeSymlink,
	syscall.S_IFSOCK: fs.ModeSocket,
}

var modeBits = map[uint32]fs.FileMode{
	syscall.S_ISUID: fs.ModeSetuid,
	syscall.S_ISGID: fs.ModeSetgid,
	syscall.S_ISVTX: fs.ModeSticky,
}

func (i *fileInfo) Mode() fs.FileMode {
	m := fs.FileMode(i.st.Mode)&fs.ModePerm | fileTypes[i.st.Mode&syscall.S_IFMT]
	for bit, mode := range modeBits {
		if i.st.Mode&bit != 0 {
			m |= mode
		}
	}
	return m
}

func changeTime(fi fs.FileInfo) time.Time {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(st.Ctim.Unix())
}
