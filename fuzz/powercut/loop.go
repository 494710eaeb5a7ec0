//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// memfd returns an anonymous file in memory that contains size zero bytes.
func memfd(size int) (int, error) {
	fd, err := unix.MemfdCreate("powercut", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("memfd: %w", err)
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// mountImage mounts the image in the open file fd, with the options of the run.
// The kernel removes the loop device after the unmount of dir.
func (r run) mountImage(fd int, dir string) error {
	dev, name, err := attach(fd)
	if err != nil {
		return err
	}
	defer unix.Close(dev)
	options := strings.Trim(filesystems[r.fs].options+","+r.mount, ",")
	if r.fs == "btrfs" {
		if err := forgetDisks(); err != nil {
			return err
		}
	}
	if err := unix.Mount(name, dir, r.fs, unix.MS_NOATIME, options); err != nil {
		return fmt.Errorf("mount %s (%s %s): %w", name, r.fs, options, err)
	}
	return nil
}

// attach attaches the file to a free loop device and returns the open device.
func attach(fd int) (dev int, name string, err error) {
	ctl, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, "", fmt.Errorf("/dev/loop-control: %w", err)
	}
	defer unix.Close(ctl)
	// Another process may take the free device first.
	for range 100 {
		n, err := unix.IoctlRetInt(ctl, unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return 0, "", fmt.Errorf("no free loop device: %w", err)
		}
		name = fmt.Sprintf("/dev/loop%d", n)
		dev, err = unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, "", fmt.Errorf("%s: %w", name, err)
		}
		err = unix.IoctlLoopConfigure(dev, &unix.LoopConfig{Fd: uint32(fd), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}})
		if err == nil {
			return dev, name, nil
		}
		unix.Close(dev)
		if !errors.Is(err, unix.EBUSY) {
			return 0, "", fmt.Errorf("%s: configure: %w", name, err)
		}
	}
	return 0, "", errors.New("attach loop device: other processes took every free device")
}
