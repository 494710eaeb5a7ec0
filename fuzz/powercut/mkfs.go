//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filesystem is a file system for the workloads.
type filesystem struct {
	size    int      // in bytes; small, so that mounting is fast
	mkfs    []string // command that formats a disk
	options string   // required mount options
	workers int      // maximum number of mounted disks
}

var filesystems = map[string]filesystem{
	// The options disable lazy initialization by the kernel, so that every recorded
	// write is from the workload.
	"ext4": {size: 32 << 20, workers: runtime.NumCPU(), mkfs: []string{"mkfs.ext4", "-q", "-F", "-b", "4096", "-N", "1024", "-m", "0",
		"-J", "size=4", "-O", "^resize_inode", "-E", "lazy_itable_init=0,lazy_journal_init=0"}},
	"xfs": {size: 300 << 20, workers: runtime.NumCPU(), options: "nouuid", mkfs: []string{"mkfs.xfs", "-q", "-f"}},
	// One worker: btrfs treats two copies of one disk as one disk.
	"btrfs": {size: 128 << 20, workers: 1, mkfs: []string{"mkfs.btrfs", "-q", "-f", "-m", "single", "-d", "single"}},
}

// mkfs returns the image of an empty file system.
func mkfs(name string) ([]byte, error) {
	f := filesystems[name]
	fd, err := memfd(f.size)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	path := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	out, err := exec.Command(f.mkfs[0], append(f.mkfs[1:len(f.mkfs):len(f.mkfs)], path)...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", f.mkfs[0], err, out)
	}
	image := make([]byte, f.size)
	if _, err := unix.Pread(fd, image, 0); err != nil {
		return nil, err
	}
	return image, nil
}

// btrfsForget is BTRFS_IOC_FORGET_DEV. Without a name, btrfs forgets all unmounted
// disks. Otherwise btrfs would confuse them with the next state.
const btrfsForget = 0x50009405

func forgetDisks() error {
	fd, err := unix.Open("/dev/btrfs-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/btrfs-control: %w", err)
	}
	defer unix.Close(fd)
	var none [4096]byte
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), btrfsForget, uintptr(unsafe.Pointer(&none))); errno != 0 {
		return fmt.Errorf("btrfs: forget devices: %w", errno)
	}
	return nil
}
