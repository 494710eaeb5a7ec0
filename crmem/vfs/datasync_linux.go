package vfs

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
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
	0x6969:     "NFS",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB",
	0x517b:     "SMB",
	0x01021997: "9P",
	0x65735546: "FUSE or virtiofs",
	0x00c36400: "Ceph",
	0x5346414f: "AFS",
}

func remote(dir string) string {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return ""
	}
	return remoteKinds[uint32(st.Type)]
}

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
