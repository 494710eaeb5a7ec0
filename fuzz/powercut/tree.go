//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/kill/history"
)

// treeDumps repeatedly dumps a changing store into one Markdown tree. After a power
// cut, load must return the last acknowledged tree or the tree in progress. Load may
// also refuse an unfinished tree. Then another dump must complete the tree.
var treeDumps = workload{write: writeTree, checker: treeChecker}

func treePath(dir string) string { return filepath.Join(dir, "home", "brain") }

// memStore is an in-memory store with the first n operations of the history.
type memStore struct {
	s *crmem.Store
	w *history.Writer
	n int
}

func newMemStore(seed uint64, fsys vfs.FS) *memStore {
	return &memStore{
		s: crmem.New(&crmem.Options{FS: fsys, Now: func() time.Time { return history.Stamp }}),
		w: history.NewWriter(seed, 0, true),
	}
}

// until executes the operations up to n.
func (m *memStore) until(n int) error {
	for ; m.n < n; m.n++ {
		if err := m.s.Apply(m.w.Next()...); err != nil {
			return err
		}
	}
	return nil
}

func (m *memStore) dump(dir string) error {
	_, err := tree.Dump(m.s, treePath(dir), &tree.DumpOptions{Bases: treePath(dir) + tree.BasesSuffix})
	return err
}

func writeTree(r run, fsys vfs.FS, dir string, mark func([]byte) error) error {
	m := newMemStore(r.seed, fsys)
	for n := 4; n <= 40; n += 4 {
		if err := mark(history.Issued(0, n)); err != nil {
			return err
		}
		if err := errors.Join(m.until(n), m.dump(dir)); err != nil {
			return fmt.Errorf("dump after operation %d: %w", n, err)
		}
		if err := mark(history.Acked(0, n)); err != nil {
			return err
		}
	}
	return nil
}

func treeChecker(r run) func(string, []byte) error {
	checker := history.NewChecker(r.seed, 1)
	// load loads the tree. It must equal the dump after one of the given numbers of
	// operations.
	load := func(dir string, dumped ...int) error {
		s := crmem.New(nil)
		if _, err := tree.Load(s, treePath(dir), nil); err != nil {
			return err
		}
		var errs []error
		for _, n := range dumped {
			_, err := checker.Check(&history.Progress{Issued: []int{n}, Acked: []int{n}}, s.NextID(), s.All())
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	return func(dir string, marks []byte) error {
		p := history.NewProgress(1)
		if err := p.Read(bytes.NewReader(marks)); err != nil {
			return err
		}
		acked, issued := p.Acked[0], p.Issued[0]
		if issued == 0 {
			return nil
		}
		err := load(dir, acked, issued)
		unfinished := errors.Is(err, tree.ErrTree) || errors.Is(err, fs.ErrNotExist)
		if err != nil && (acked == issued || !unfinished) {
			return err
		}
		m := newMemStore(r.seed, vfs.OS{})
		if err := errors.Join(m.until(issued), m.dump(dir)); err != nil {
			return fmt.Errorf("dump to complete the tree: %w", err)
		}
		return load(dir, issued)
	}
}
