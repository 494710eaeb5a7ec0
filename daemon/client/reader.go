package client

import (
	"context"
	"errors"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/recall"
	"crabmem/daemon/errtable"
)

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

func (r *reader) Recall(ctx context.Context, q crmem.Query, o recall.Options) (*recall.Answer, error) {
	if r.asked != nil {
		if a, _, err := r.asked.Search(ctx, q, o); err == nil {
			return a, nil // the files give the reason of an error
		}
	}
	return r.store.Recall(ctx, q, o)
}

func (r *reader) Close() error {
	if r.asked != nil {
		return errors.Join(r.asked.Close(), r.store.Close())
	}
	return r.store.Close()
}
