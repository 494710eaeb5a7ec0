package client

import (
	"context"
	"errors"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/fusion"
	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
)

// StoreOptions say which store [OpenStore] opens, and how.
type StoreOptions struct {
	Access
	// Path is the store's file. It may be a link.
	Path string
	// Space, if set, is the space of a home whose file Path is.
	Space string
	// Options are those of the file, except for LockWait, which Access sets.
	Options crmem.Options
	// Daemon, if set, searches a store with Options.ReadOnly if it has the store
	// open. [OpenStore] takes it over, and Close closes it.
	Daemon *Client
	// Guard checks the texts that this process writes. The daemon has its own guard, of
	// which AllowSecrets and AllowEmpty skip a check.
	Guard op.Guard
	// Semantic is how this process uses the embedding model. nil: no model.
	Semantic *fusion.Request
	// Messages searches the messages of the home.
	Messages op.MessageSearcher
	// Open replaces [crmem.Open] if it is set.
	Open func(path string, o *crmem.Options) (*crmem.Store, error)
}

// OpenStore opens the store's file for writing or, if a daemon has it open, a
// connection to the daemon. If the daemon stops, or the file is missing and another
// process creates it, the store switches between file and daemon. If the outcome
// of an operation is then unknown, the store repeats the operation if that is
// safe; otherwise, the operation fails with crmem.ErrUnknown or the kind
// outcome_unknown.
//
// With Options.ReadOnly, OpenStore takes no lock and waits for none.
func OpenStore(ctx context.Context, o StoreOptions) (op.Memory, error) {
	if o.Options.FS == nil {
		o.Options.FS = vfs.OS{}
	}
	if o.Open == nil {
		o.Open = crmem.Open
	}
	if o.Options.ReadOnly {
		return openReader(ctx, o, o.Daemon)
	}
	s := &store{o: o}
	return s, s.do(ctx, func(op.Memory) error { return nil }, func(*Client) error { return nil })
}

// store is a op.Memory. One of local and daemon is set after the first call
// of do.
type store struct {
	o      StoreOptions
	local  op.Memory
	daemon *Client
}

// open opens the file, unless it is open.
func (s *store) open() error {
	if s.local != nil {
		return nil
	}
	o := s.o.Options
	o.LockWait = s.o.Step()
	f, err := s.o.Open(s.o.Path, &o)
	if err == nil {
		s.local = op.Store{Store: f, FS: s.o.Options.FS, Guard: s.o.Guard, Semantic: s.o.Semantic, Messages: s.o.Messages, Now: s.o.Options.Now}
	}
	return err
}

// serves reports whether a daemon has the store open.
func (s *store) serves(h Daemon) bool {
	path, err := s.o.Options.FS.Resolve(s.o.Path)
	return err == nil && h.Serves(path, s.o.Space)
}

// do calls one of local and remote. It calls them again after the store has
// changed from one to the other.
func (s *store) do(ctx context.Context, local func(op.Memory) error, remote func(*Client) error) error {
	t := s.o.attempts()
	try := func() error {
		if err := s.open(); err != nil {
			return err
		}
		err := local(s.local)
		if errors.Is(err, vfs.ErrLocked) { // the file was missing, and another process creates it
			cerr := s.local.Close()
			s.local = nil
			if cerr != nil {
				return cerr
			}
		}
		return err
	}
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if s.daemon == nil {
			var err error
			if s.daemon, err = t.connect(ctx, try, s.serves); s.daemon == nil {
				return err
			}
			g := &s.o.Guard
			s.daemon.Header = op.Header{By: s.o.Options.By, Space: s.o.Space, AllowSecrets: g.AllowSecrets, AllowEmpty: g.AllowEmpty}
			s.daemon.Warn = g.Warn
		}
		err := remote(s.daemon)
		if !isUnsent(err) {
			return err
		}
		cerr := s.daemon.Close()
		s.daemon = nil
		if err = t.failed(err); err != nil || cerr != nil {
			return errors.Join(err, cerr)
		}
	}
}

// Path returns the path with links resolved.
func (s *store) Path() string {
	if s.local != nil {
		return s.local.Path()
	}
	path, err := s.o.Options.FS.Resolve(s.o.Path)
	if err != nil {
		return s.o.Path
	}
	return path
}

// Close closes the store. The error of a checkpoint is a warning: what was
// written is durable.
func (s *store) Close() error {
	if s.daemon != nil {
		return s.daemon.Close()
	}
	if s.local == nil {
		return nil
	}
	err := s.local.Close()
	if err == nil || errors.Is(err, crmem.ErrUnknown) || errors.Is(err, crmem.ErrStopped) || errors.Is(err, crmem.ErrForeign) {
		return err
	}
	if s.o.Options.Warn != nil {
		s.o.Options.Warn("closing the store: " + err.Error())
	}
	return nil
}

// Read reads the files, which needs no lock, if the daemon has the store open.
func (s *store) Read(f func(*crmem.Store) error) error {
	if s.local != nil {
		return s.local.Read(f)
	}
	o := s.o.Options
	v, err := s.o.Open(s.o.Path, &crmem.Options{FS: o.FS, Now: o.Now, Warn: o.Warn, MaxBytes: o.MaxBytes, ReadOnly: true, MustExist: true})
	if err != nil {
		return err
	}
	return errors.Join(f(v), v.Close())
}

func (s *store) Update(ctx context.Context, plan func(*crmem.Store) ([]crmem.Op, error)) (list []crmem.Entry, err error) {
	err = s.do(ctx, func(l op.Memory) error {
		list, err = l.Update(ctx, plan)
		return err
	}, func(d *Client) error {
		for try := 1; ; try++ {
			list, err = s.update(ctx, d, plan)
			if try == op.MaxTries || !errors.Is(err, crmem.ErrStale) {
				return err
			}
		}
	})
	return list, err
}

// update has the daemon apply the operations of plan, on condition that the
// entries that they change are as the files have them.
func (s *store) update(ctx context.Context, d *Client, plan func(*crmem.Store) ([]crmem.Op, error)) ([]crmem.Entry, error) {
	var ops []crmem.Op
	err := s.Read(func(v *crmem.Store) error {
		changes, err := plan(v)
		for i := 0; i < len(changes) && err == nil; i++ {
			err = changes[i].Validate()
		}
		if err == nil && len(changes) > 0 {
			ops = append(op.Conditions(v, changes), changes...)
		}
		return err
	})
	if err != nil || len(ops) == 0 {
		return nil, err
	}
	return op.ApplyOps(ctx, d, ops...)
}

// Call carries out an operation on the store. It is a method of [op.Caller].
func (s *store) Call(ctx context.Context, row *op.Row, in, out any, part func() error) error {
	return s.do(ctx, func(l op.Memory) error { return l.Call(ctx, row, in, out, part) }, func(d *Client) error {
		err := d.Call(ctx, row, in, out, part)
		if row.Retry && !row.Parts {
			err = MarkRetryable(err)
		}
		return err
	})
}

// ReadWait is how long a daemon may take to respond to Hello where the files can
// be read instead.
const ReadWait = 500 * time.Millisecond

// reader is a store with Options.ReadOnly. The daemon, which has the index, serves
// operations; the files serve the rest, and the operations if the daemon fails.
type reader struct {
	store
	asked *Client // the daemon; nil: none serves the store
}

// openReader opens the files if the daemon does not serve the store, or d is nil.
func openReader(ctx context.Context, o StoreOptions, d *Client) (*reader, error) {
	r := &reader{store: store{o: o}}
	if d == nil {
		return r, r.open()
	}
	if o.Space != "" && o.Space != space.Main { // the daemon would open it, and keep it open
		return r, errors.Join(r.open(), d.Close())
	}
	hello, cancel := context.WithTimeout(ctx, ReadWait)
	defer cancel()
	h, err := d.Hello(hello)
	if err == nil && r.serves(h) {
		r.asked = d
		return r, nil
	}
	if IsTimeout(ctx, err) && d.Watch != nil && o.Options.Warn != nil {
		if err := d.Watch(); err != nil {
			o.Options.Warn(err.Error() + "; " + errtable.Find(err).Fix)
		}
	}
	return r, errors.Join(r.open(), d.Close())
}

// Call carries out an operation that reads. It is a method of [op.Caller].
func (r *reader) Call(ctx context.Context, row *op.Row, in, out any, part func() error) error {
	if r.asked != nil && !row.Parts && r.asked.Call(ctx, row, in, out, part) == nil {
		return nil // else the files give the reason of the error
	}
	return r.Read(func(s *crmem.Store) error {
		return op.Store{Store: s, FS: r.o.Options.FS, Semantic: r.o.Semantic, Messages: r.o.Messages, Now: r.o.Options.Now}.Call(ctx, row, in, out, part)
	})
}

func (r *reader) Close() error {
	if r.asked != nil {
		return errors.Join(r.asked.Close(), r.store.Close())
	}
	return r.store.Close()
}
