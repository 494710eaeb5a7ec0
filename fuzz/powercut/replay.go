//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"crabmem/crmem/vfs"
)

// stateLimit is the timeout of the check of a state.
const stateLimit = 10 * time.Minute

// result contains the results of the states of one run.
type result struct {
	events, states int
	second         int          // states after a second power cut
	bad            []string     // descriptions of the first bad states
	nbad           int          // number of bad states
	image          []byte       // disk of the first bad state
	next           []startState // states for a second power cut
}

// startState contains the disk and the mark file before a workload.
type startState struct {
	image, marks []byte
}

// replay builds each state in memory, mounts it, which runs the file system's
// recovery, and checks it. It returns up to keep states in next.
func replay(r run, from startState, events []event, dir string, keep int) (result, error) {
	epochs := split(events)
	marks := slices.Clone(from.marks)
	for _, ev := range events {
		if ev.kind == marked {
			marks = append(marks, ev.data...)
		}
	}
	states := crashes(from.image, epochs, r.states, r.mustFail, r.rng())
	res := result{events: len(events), states: len(states)}
	check := workloads[r.workload].checker(r)

	type job struct {
		c  crash
		fd int
	}
	jobs := make(chan job)
	var mu sync.Mutex // guards res and first
	var first *crash  // a bad state
	var wg sync.WaitGroup
	for i := range filesystems[r.fs].workers {
		mnt := filepath.Join(dir, fmt.Sprintf("state%d", i))
		if err := (vfs.OS{}).Mkdir(mnt, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return res, err
		}
		wg.Go(func() {
			for j := range jobs {
				marks := marks[:len(from.marks)+j.c.marks]
				what := fmt.Sprintf("epoch %d of %d, %s, %d unflushed pieces kept", j.c.epoch, len(epochs), j.c.how, len(j.c.kept))
				hang := time.AfterFunc(stateLimit, func() {
					fmt.Fprintf(os.Stderr, "powercut: %s: %s: check not complete after %v\n", r, what, stateLimit)
					os.Exit(1)
				})
				err := r.try(j.fd, mnt, func() error { return check(mnt, marks) })
				hang.Stop()
				if err != nil {
					mu.Lock()
					res.nbad++
					if first == nil {
						first = &j.c
					}
					if len(res.bad) < 3 {
						res.bad = append(res.bad, fmt.Sprintf("%s: %v", what, err))
					}
					mu.Unlock()
				}
				unix.Close(j.fd)
			}
		})
	}

	d := newDisk(from.image)
	at := 0
	var err error
	for i, c := range states {
		for ; at < c.epoch; at++ {
			d.write(epochs[at].pieces)
		}
		var fd int
		if fd, err = d.with(c.kept); err != nil {
			break
		}
		if keep > 0 && i*keep/len(states) != (i+1)*keep/len(states) {
			res.next = append(res.next, startState{d.copyWith(c.kept), marks[:len(from.marks)+c.marks]})
		}
		jobs <- job{c, fd}
	}
	close(jobs)
	wg.Wait()
	if first != nil {
		d := newDisk(from.image)
		for _, e := range epochs[:first.epoch] {
			d.write(e.pieces)
		}
		d.write(first.kept)
		res.image = d.image
	}
	return res, err
}

// copyWith returns the image with the pieces written.
func (d *disk) copyWith(pieces []piece) []byte {
	image := slices.Clone(d.image)
	for _, p := range pieces {
		copy(image[p.off:], p.data)
	}
	return image
}

// with returns a file in memory that contains the image with the pieces written.
func (d *disk) with(pieces []piece) (int, error) {
	fd, err := memfd(len(d.image))
	if err != nil {
		return 0, err
	}
	var all []piece
	for b := 0; b < len(d.zero); b++ {
		start := b
		for b < len(d.zero) && !d.zero[b] {
			b++
		}
		if b > start {
			all = append(all, piece{int64(start * block), d.image[start*block : b*block]})
		}
	}
	for _, p := range append(all, pieces...) {
		if _, err := unix.Pwrite(fd, p.data, p.off); err != nil {
			return 0, errors.Join(err, unix.Close(fd))
		}
	}
	return fd, nil
}

// try mounts the image, calls check, and unmounts the image. It returns a panic
// as an error.
func (r run) try(fd int, mnt string, check func() error) (err error) {
	if err := r.mountImage(fd, mnt); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		err = errors.Join(err, unmount(mnt))
	}()
	return check()
}

// unmountLimit is the timeout of an unmount. It is long enough for a loaded
// machine.
const unmountLimit = 2 * time.Minute

func unmount(mnt string) error {
	var err error
	for began := time.Now(); time.Since(began) < unmountLimit; {
		if err = unix.Unmount(mnt, 0); !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("unmount %s: %w: a file is still open", mnt, err)
}

func (r result) String() string {
	s := fmt.Sprintf("%d events, %d states, %d bad", r.events, r.states, r.nbad)
	if len(r.bad) > 0 {
		s += "\n\t" + strings.Join(r.bad, "\n\t")
	}
	return s
}
