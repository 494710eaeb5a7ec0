//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// event is a write or a flush of the disk, or a write to the mark file.
type event struct {
	kind eventKind
	off  int64  // offset of a write, in bytes
	data []byte // bytes of a write or a mark
}

type eventKind uint8

const (
	wrote eventKind = iota
	flushed
	marked
)

// recorder is a file system with two files. "disk" is a disk image for a loop
// device. The workload writes its acknowledgements to "mark". The recorder logs
// the events of both files in one order.
type recorder struct {
	fs.Inode
	mu     sync.Mutex
	image  []byte
	events []event
}

func (r *recorder) OnAdd(ctx context.Context) {
	r.AddChild("disk", r.NewPersistentInode(ctx, &diskFile{rec: r}, fs.StableAttr{Mode: syscall.S_IFREG}), false)
	r.AddChild("mark", r.NewPersistentInode(ctx, &markFile{rec: r}, fs.StableAttr{Mode: syscall.S_IFREG}), false)
}

type diskFile struct {
	fs.Inode
	rec *recorder
}

func (f *diskFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = 0o600, uint64(len(f.rec.image))
	return 0
}

func (f *diskFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

func (f *diskFile) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	f.rec.mu.Lock()
	defer f.rec.mu.Unlock()
	if off >= int64(len(f.rec.image)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(dest[:copy(dest, f.rec.image[off:])]), 0
}

func (f *diskFile) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	f.rec.mu.Lock()
	defer f.rec.mu.Unlock()
	if off+int64(len(data)) > int64(len(f.rec.image)) {
		return 0, syscall.ENOSPC
	}
	copy(f.rec.image[off:], data)
	f.rec.events = append(f.rec.events, event{wrote, off, bytes.Clone(data)})
	return uint32(len(data)), 0
}

// Fsync receives a FLUSH of the loop device.
func (f *diskFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	f.rec.mu.Lock()
	defer f.rec.mu.Unlock()
	f.rec.events = append(f.rec.events, event{kind: flushed})
	return 0
}

type markFile struct {
	fs.Inode
	rec *recorder
}

func (f *markFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = 0o600
	return 0
}

func (f *markFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (f *markFile) Write(_ context.Context, _ fs.FileHandle, data []byte, _ int64) (uint32, syscall.Errno) {
	f.rec.mu.Lock()
	defer f.rec.mu.Unlock()
	f.rec.events = append(f.rec.events, event{kind: marked, data: bytes.Clone(data)})
	return uint32(len(data)), 0
}

// workLimit is the timeout of a workload.
const workLimit = 10 * time.Minute

// recordRun runs a workload in a separate process on the disk base, and returns
// all events.
//
// This process never accesses the mounted disk, and the disk is not in this
// process's mount namespace. Otherwise it could wait for its own recorder, and
// then no signal could kill it.
func recordRun(r run, base []byte, dir string) (events []event, err error) {
	rec := &recorder{image: bytes.Clone(base)}
	srv, err := fs.Mount(dir, rec, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, FsName: "powercut", Name: "powercut"}})
	if err != nil {
		return nil, fmt.Errorf("mount the recorder: %w", err)
	}
	defer func() {
		// The loop device releases the image shortly after the unmount.
		for began := time.Now(); time.Since(began) < unmountLimit; {
			if uerr := srv.Unmount(); uerr == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		err = errors.Join(err, errors.New("unmount the recorder: still mounted"))
	}()
	// Child processes inherit /dev/fuse from go-fuse. The recorder stops only when no
	// process has /dev/fuse open.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("close-on-exec: %w", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), workLimit)
	defer stop()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", r.args(dir)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run the workload: %w", err)
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return slices.Clone(rec.events), nil
}
