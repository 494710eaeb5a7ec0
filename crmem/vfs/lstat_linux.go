package vfs

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
)

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

func (i *fileInfo) Name() string       { return filepath.Base(i.name) }
func (i *fileInfo) Size() int64        { return i.st.Size }
func (i *fileInfo) ModTime() time.Time { return time.Unix(i.st.Mtim.Unix()) }
func (i *fileInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i *fileInfo) Sys() any           { return &i.st }

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
