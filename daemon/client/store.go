package client

import (
	"context"
	"errors"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/recall"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
	"crabmem/daemon/memtool"
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
	Guard memtool.Guard
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
func OpenStore(ctx context.Context, o StoreOptions) (memtool.Store, error) {
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
	return s, s.do(ctx, func(memtool.Store) error { return nil }, func(*Client) error { return nil })
}

// store is a memtool.Store. One of local and daemon is set after the first call
// of do.
type store struct {
	o      StoreOptions
	local  memtool.Store
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
		s.local = s.o.Guard.Store(memtool.Local(f))
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
func (s *store) do(ctx context.Context, local func(memtool.Store) error, remote func(*Client) error) error {
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
			d, g := s.daemon, &s.o.Guard
			d.By, d.Space = s.o.Options.By, s.o.Space
			d.AllowSecrets, d.AllowEmpty, d.Warn = g.AllowSecrets, g.AllowEmpty, g.Warn
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
	err = s.do(ctx, func(l memtool.Store) error {
		list, err = l.Update(ctx, plan)
		return err
	}, func(d *Client) error {
		for try := 1; ; try++ {
			list, err = s.update(ctx, d, plan)
			if try == memtool.MaxTries || !errors.Is(err, crmem.ErrStale) {
				return err
			}
		}
	})
	return list, err
}

func (s *store) Remember(ctx context.Context, o crmem.Remember) (r memtool.Remembered, err error) {
	err = s.do(ctx, func(l memtool.Store) error {
		r, err = l.Remember(ctx, o)
		return err
	}, func(d *Client) error {
		// Text that is not UTF-8 would change on the wire.
		if err := o.Validate(); err != nil {
			return err
		}
		r, err = d.Overwrite(ctx, o)
		return MarkRetryable(err)
	})
	return r, err
}

func (s *store) Undo(ctx context.Context, seq uint64) (before, after crmem.Entry, err error) {
	err = s.do(ctx, func(l memtool.Store) error {
		before, after, err = l.Undo(ctx, seq)
		return err
	}, func(d *Client) error {
		before, after, err = d.Undo(ctx, seq)
		return err
	})
	return before, after, err
}

func (s *store) Purge(ctx context.Context, name string, archives bool) (p memtool.Purged, err error) {
	err = s.do(ctx, func(l memtool.Store) error {
		p, err = l.Purge(ctx, name, archives)
		return err
	}, func(d *Client) error {
		p, err = d.Purge(ctx, name, archives)
		return err
	})
	return p, err
}

func (s *store) Redact(ctx context.Context, id, seq uint64) (deleted []string, err error) {
	err = s.do(ctx, func(l memtool.Store) error {
		deleted, err = l.Redact(ctx, id, seq)
		return err
	}, func(d *Client) error {
		deleted, err = d.Redact(ctx, id, seq)
		return MarkRetryable(err)
	})
	return deleted, err
}

func (s *store) Prune(ctx context.Context, before time.Time) (freed int64, err error) {
	err = s.do(ctx, func(l memtool.Store) error {
		freed, err = l.Prune(ctx, before)
		return err
	}, func(d *Client) error {
		freed, err = d.Prune(ctx, before)
		return MarkRetryable(err)
	})
	return freed, err
}

func (s *store) Checkpoint(ctx context.Context) (c memtool.Checkpointed, err error) {
	err = s.do(ctx, func(l memtool.Store) error {
		c, err = l.Checkpoint(ctx)
		return err
	}, func(d *Client) error {
		c, err = d.Checkpoint(ctx)
		return MarkRetryable(err)
	})
	return c, err
}

func (s *store) Load(ctx context.Context, dir string, o *tree.LoadOptions) (r tree.LoadReport, err error) {
	err = s.do(ctx, func(l memtool.Store) error {
		r, err = l.Load(ctx, dir, o)
		return err
	}, func(d *Client) error {
		r, err = d.Load(ctx, dir, o)
		return err
	})
	return r, err
}

func (s *store) Recall(ctx context.Context, q crmem.Query, o recall.Options) (a *recall.Answer, err error) {
	err = s.do(ctx, func(l memtool.Store) error {
		a, err = l.Recall(ctx, q, o)
		return err
	}, func(d *Client) error {
		a, _, err = d.Search(ctx, q, o)
		return MarkRetryable(err)
	})
	return a, err
}

// ReadWait is how long a daemon may take to respond to Hello where the files can
// be read instead.
const ReadWait = 500 * time.Millisecond

// reader is a store with Options.ReadOnly. The daemon, which has the index, serves
// Recall; the files serve the rest, and Recall if the daemon fails.
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

func (r *reader) Recall(ctx context.Context, q crmem.Query, o recall.Options) (a *recall.Answer, err error) {
	if r.asked != nil {
		if a, _, err = r.asked.Search(ctx, q, o); err == nil {
			return a, nil // the files give the reason of an error
		}
	}
	err = r.Read(func(s *crmem.Store) error {
		a, err = recall.Search(ctx, s, q, o)
		return err
	})
	return a, err
}

func (r *reader) Close() error {
	if r.asked != nil {
		return errors.Join(r.asked.Close(), r.store.Close())
	}
	return r.store.Close()
}
