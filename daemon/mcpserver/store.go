package mcpserver

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/op"
)

// store reads and writes the store for the MCP server. A write holds the lock
// until it ends, or the daemon executes it, as for a command. Reads take no lock:
// they share a view, which the next read reopens after a change of the files.
type store struct {
	o       Options
	serving context.Context // its end cancels every wait for the lock

	turn     chan struct{}      // full during a write
	messages op.MessageSearcher // nil: no sessions

	mu   sync.Mutex
	view *view // the newest; nil before the first read and after a write
}

// view is the store at the time it was opened.
type view struct {
	store *crmem.Store
	seen  storeFiles // before it was opened
	users int
	old   bool // the last user closes it
	names func() uint64
}

// storeFiles are the states of the store's two files.
type storeFiles [2]vfs.FileState

func newStore(serving context.Context, o Options) *store {
	return &store{o: o, serving: serving, turn: make(chan struct{}, 1)}
}

// files returns the state of the snapshot and the log. A missing file is zero.
func (m *store) files() (storeFiles, error) {
	var seen storeFiles
	path, err := m.o.FS.Resolve(m.o.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return seen, nil // the directory does not exist yet
	}
	if err != nil {
		return seen, err
	}
	for i, name := range []string{path, path + "-wal"} {
		fi, err := m.o.FS.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return seen, err
		}
		seen[i] = vfs.StateOf(fi)
	}
	return seen, nil
}

// Read calls f with the current state. A missing store is empty.
func (m *store) Read(f func(s *crmem.Store) error) error {
	v, err := m.current()
	if err != nil {
		return err
	}
	return errors.Join(f(v.store), m.release(v))
}

// names returns a checksum of the names and kinds of all entries.
func (m *store) names() (uint64, error) {
	v, err := m.current()
	if err != nil {
		return 0, err
	}
	sum := v.names()
	return sum, m.release(v)
}

func (m *store) current() (*view, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Get the state before opening: the next read then sees a concurrent write.
	seen, err := m.files()
	if err != nil {
		return nil, err
	}
	if m.view == nil || m.view.seen != seen {
		s, err := crmem.Open(m.o.Path, &crmem.Options{
			FS: m.o.FS, Now: m.o.Now, ReadOnly: true, MustExist: m.o.ReadOnly, Warn: m.warn, CountReads: !m.o.ReadOnly,
			ImportanceWeight: m.o.ImportanceWeight, HalfLife: m.o.HalfLife, Embed: m.o.Embed,
		})
		if err != nil {
			return nil, err
		}
		err = m.retire()
		m.view = &view{store: s, seen: seen, names: sync.OnceValue(func() uint64 { return sumNames(s) })}
		if err != nil {
			return nil, err
		}
	}
	m.view.users++
	return m.view, nil
}

func (m *store) warn(s string) { m.o.Log.Warn(s) }

// retire drops the newest view. The caller holds mu.
func (m *store) retire() error {
	v := m.view
	m.view = nil
	if v == nil {
		return nil
	}
	v.old = true
	if v.users > 0 {
		return nil
	}
	return v.store.Close()
}

func (m *store) release(v *view) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.users--; v.users == 0 && v.old {
		return v.store.Close()
	}
	return nil
}

// close waits for the active write, prevents further ones, and closes the view.
func (m *store) close() error {
	m.turn <- struct{}{}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.retire()
}

// Call carries out an operation. It is a method of [op.Caller].
func (m *store) Call(ctx context.Context, row *op.Row, in, out any, part func() error) error {
	if m.o.Remote != nil {
		return m.o.Remote.Call(ctx, row, in, out, part)
	}
	if row.Effect != op.Reads {
		return m.write(ctx, func(ctx context.Context, s op.Memory) error { return s.Call(ctx, row, in, out, part) })
	}
	return m.Read(func(s *crmem.Store) error {
		return op.Store{Store: s, As: owner, Semantic: m.o.Semantic, Messages: m.messages, Now: m.o.Now, Sessions: op.SessionsIn(m.o.Sessions)}.Call(ctx, row, in, out, part)
	})
}

// Change applies the operations that plan returns for the current state, all or
// none. It may call plan more than once.
func (m *store) Change(ctx context.Context, plan func(s *crmem.Store) ([]crmem.Op, error)) error {
	try := func() error {
		return m.write(ctx, func(ctx context.Context, s op.Memory) error {
			_, err := s.Update(ctx, plan)
			return err
		})
	}
	err := try()
	// A missing store had no lock: another process may have created the store
	// and the entries of the plan.
	if errors.Is(err, crmem.ErrExists) {
		err = try()
	}
	return err
}

// write calls f with the store open for writing. It runs one write at a time.
func (m *store) write(ctx context.Context, f func(ctx context.Context, s op.Memory) error) error {
	if m.o.ReadOnly {
		return crmem.ErrReadOnly
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.serving, func() { cancel(context.Cause(m.serving)) })()
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-m.turn }()
	err := m.o.Write(ctx, func(s op.Memory) error { return f(ctx, s) })
	m.mu.Lock()
	defer m.mu.Unlock()
	if rerr := m.retire(); rerr != nil {
		m.warn("close the previous reader: " + rerr.Error())
	}
	return err
}
