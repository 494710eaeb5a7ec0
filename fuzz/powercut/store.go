//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/check"
	"crabmem/fuzz/kill/history"
)

// store writes a history to a crmem.Store. The modes are:
//
//	log      one writer; explicit and background checkpoints; prunes; reopens
//	literal  one writer; a checkpoint for every operation
//	writers  three concurrent writers, which share syncs
//
// All modes purge entries and undo changes. After an acknowledged purge no file contains
// a text of the entry; free blocks of the disk may. On a crash state store continues
// after the last operation of the history.
var store = workload{write: writeStore, checker: storeChecker, resumes: true}

const logLimit = 8 << 10 // small, so that background checkpoints are frequent

func storeOptions(fsys vfs.FS) *crmem.Options {
	return &crmem.Options{FS: fsys, Now: func() time.Time { return history.Stamp }, LogLimit: logLimit}
}

// writers returns the number of writers of a run.
func writers(r run) int {
	if r.mode == "writers" {
		return 3
	}
	return 1
}

// storePath returns a path in a directory that the first write creates.
func storePath(dir string) string { return filepath.Join(dir, "home", "memory.db") }

func writeStore(r run, fsys vfs.FS, dir string, mark func([]byte) error) error {
	o := storeOptions(fsys)
	if r.mode == "literal" {
		o.Literal = true
	}
	if r.mode == "writers" {
		return writeTogether(r, o, dir, mark)
	}
	s, done, err := begin(r, o, dir, mark)
	if err != nil {
		return err
	}
	rng := r.rng()
	w := history.NewWriter(r.seed, 0, true)
	skip(w, done[0])
	for n := done[0] + 1; n <= done[0]+count(r, 80); n++ {
		switch rng.IntN(14) {
		case 2, 3:
			// The clock stands still, so this removes all changes, or none.
			if _, err := s.Prune(history.Stamp.Add(time.Duration(rng.IntN(2)) * time.Second)); err != nil {
				return fmt.Errorf("prune before operation %d: %w", n, err)
			}
		case 0:
			if err := s.Checkpoint(); err != nil {
				return fmt.Errorf("checkpoint before operation %d: %w", n, err)
			}
		case 1:
			if s, err = reopen(s, dir, o, rng); err != nil {
				return fmt.Errorf("reopen before operation %d: %w", n, err)
			}
		}
		if err := step(s, w, 0, n, mark); err != nil {
			return err
		}
	}
	return s.Close()
}

// count returns the number of operations of a writer. It is smaller on a crash state,
// because that run tests the recovery.
func count(r run, n int) int {
	if r.resume {
		return n / 8
	}
	return n
}

// begin opens the store and returns the number of operations by writer. The recovered
// operations count as acknowledged.
func begin(r run, o *crmem.Options, dir string, mark func([]byte) error) (*crmem.Store, []int, error) {
	s, err := crmem.Open(storePath(dir), o)
	if err != nil {
		return nil, nil, err
	}
	any := history.NewProgress(writers(r)) // accepts every state
	for i := range any.Issued {
		any.Issued[i] = 1000
	}
	done, err := history.NewChecker(r.seed, writers(r)).Check(any, s.NextID(), s.All())
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	for i, n := range done {
		if n > 0 {
			if err := errors.Join(mark(history.Issued(i, n)), mark(history.Acked(i, n))); err != nil {
				return nil, nil, errors.Join(err, s.Close())
			}
		}
	}
	return s, done, nil
}

// skip skips n operations of a writer.
func skip(w *history.Writer, n int) {
	for range n {
		w.Next()
	}
}

// reopen closes the store and opens it with a random CheckpointOnClose.
func reopen(s *crmem.Store, dir string, o *crmem.Options, rng *rand.Rand) (*crmem.Store, error) {
	if err := s.Close(); err != nil {
		return nil, err
	}
	o.CheckpointOnClose = []crmem.CheckpointMode{crmem.CheckpointAlways, crmem.CheckpointNever, crmem.CheckpointAuto}[rng.IntN(3)]
	return crmem.Open(storePath(dir), o)
}

// step executes operation n of a writer and marks the start and the acknowledgement.
func step(s *crmem.Store, w *history.Writer, writer, n int, mark func([]byte) error) error {
	if err := mark(history.Issued(writer, n)); err != nil {
		return err
	}
	if err := history.Apply(s, n, w.Next()); err != nil {
		return fmt.Errorf("writer %d, operation %d: %w", writer, n, err)
	}
	return mark(history.Acked(writer, n))
}

// writeTogether writes to one store from one goroutine per writer.
func writeTogether(r run, o *crmem.Options, dir string, mark func([]byte) error) error {
	s, done, err := begin(r, o, dir, mark)
	if err != nil {
		return err
	}
	errs := make([]error, writers(r))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			w := history.NewWriter(r.seed, i, false)
			skip(w, done[i])
			for n := done[i] + 1; n <= done[i]+count(r, 40) && errs[i] == nil; n++ {
				errs[i] = step(s, w, i, n, mark)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, s.Close())...)
}

// siblings matches the permitted file names in the store's directory after an open and
// a close. Temporary files are not permitted.
var siblings = regexp.MustCompile(`^memory\.db(-id|-wal|-wal\.held|-lock|-reserve|-history|-usage|-index-plain|-index-standard|-vectors|-derived-lock|-wal\.torn-[0-9.]+)?$`)

func storeChecker(r run) func(string, []byte) error {
	checker := history.NewChecker(r.seed, writers(r))
	return func(dir string, marks []byte) error {
		p := history.NewProgress(writers(r))
		if err := p.Read(bytes.NewReader(marks)); err != nil {
			return err
		}
		path := storePath(dir)
		o := storeOptions(vfs.OS{})
		if _, err := checker.CheckPurged(p, dir); err != nil {
			return err
		}

		// A reader and the writer must find the same state.
		o.ReadOnly = true
		seen, err := open(path, o, func(s *crmem.Store) ([]int, error) { return checker.Check(p, s.NextID(), s.All()) })
		if err != nil {
			return fmt.Errorf("read only: %w", err)
		}
		o.ReadOnly = false
		found, err := open(path, o, func(s *crmem.Store) ([]int, error) {
			found, err := checker.Check(p, s.NextID(), s.All())
			if err != nil {
				return nil, err
			}
			return found, s.Apply(crmem.Add{Name: "after", Content: "the crash"})
		})
		if err != nil {
			return err
		}
		if !slices.Equal(seen, found) {
			return fmt.Errorf("a reader found %v operations, the writer recovered %v", seen, found)
		}
		_, err = open(path, o, func(s *crmem.Store) ([]int, error) {
			_, err := s.Get("after")
			if err == nil {
				err = s.Apply(crmem.Remove{Name: "after"})
			}
			_, perr := check.Past(s, true)
			return nil, errors.Join(err, perr)
		})
		if err != nil {
			return fmt.Errorf("after recovery: %w", err)
		}
		if _, err := checker.CheckPurged(p, dir); err != nil {
			return fmt.Errorf("after recovery: %w", err)
		}
		return tidy(filepath.Dir(path))
	}
}

// open opens a store, calls use, and closes the store.
func open(path string, o *crmem.Options, use func(*crmem.Store) ([]int, error)) ([]int, error) {
	s, err := crmem.Open(path, o)
	if err != nil {
		return nil, err
	}
	n, err := use(s)
	return n, errors.Join(err, s.Close())
}

// tidy returns an error if dir contains a file that siblings does not match.
func tidy(dir string) error {
	list, err := vfs.OS{}.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !siblings.MatchString(e.Name()) {
			return fmt.Errorf("unexpected file %s", e.Name())
		}
	}
	return nil
}
