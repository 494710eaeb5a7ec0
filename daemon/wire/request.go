package wire

import (
	"context"
	"sync"
	"time"
)

// request is the context of a request. Its channel is created on demand,
// because most requests never use it.
type request struct {
	conn  context.Context // of the connection
	mu    sync.Mutex
	inner context.Context // nil before its first use
	stop  context.CancelFunc
	ended bool
}

func (r *request) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.stop != nil {
		r.stop()
	}
}

func (r *request) context() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inner == nil {
		r.inner, r.stop = context.WithCancel(r.conn)
		if r.ended {
			r.stop()
		}
	}
	return r.inner
}

func (r *request) Done() <-chan struct{}       { return r.context().Done() }
func (r *request) Err() error                  { return r.context().Err() }
func (r *request) Value(key any) any           { return r.context().Value(key) }
func (r *request) Deadline() (time.Time, bool) { return r.conn.Deadline() }
