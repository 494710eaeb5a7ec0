package client

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
	"crabmem/daemon/wire"
)

const (
	// HelloWait is how long a daemon may take to respond to the first request.
	HelloWait = 5 * time.Second
	// minHelloWait is the lower limit of [helloTimeout]: a daemon on a busy
	// machine must be able to respond.
	minHelloWait = time.Second
	// tryWait is how long one attempt waits for a lock.
	tryWait = 50 * time.Millisecond
)

// KindNoResponse is the kind of the error for a daemon that does not respond.
const KindNoResponse = "no_response"

// Access lets an operation run under a lock or, if the daemon holds the lock, in
// the daemon.
type Access struct {
	// LockWait limits the wait for a lock that another process holds.
	LockWait time.Duration
	// Hello replaces [Client.Hello] if it is set.
	Hello func(context.Context, *Client) (Daemon, error)
	// Watch, if set, is the Client.Watch for the daemon at an address.
	Watch func(wire.Addr) error
	// Locked, if set, describes the error of a lock that remains held.
	// unresponsive is set if its holder is a daemon that did not respond.
	Locked func(err error, unresponsive bool) error
}

// helloTimeout returns how long to wait for a daemon's Hello if left remains of
// the wait for the lock.
func helloTimeout(left time.Duration) time.Duration {
	return min(HelloWait, max(left, minHelloWait))
}

// Step returns how long one attempt waits for the lock.
func (a *Access) Step() time.Duration { return min(a.LockWait, tryWait) }

// LocalOrDaemon calls local, which waits for a lock for [Access.Step] at most.
// If a daemon holds the lock and serves accepts it, LocalOrDaemon calls remote. It
// repeats both until LockWait has passed while another process holds the lock, or
// while daemons stop before they receive the request.
func (a *Access) LocalOrDaemon(ctx context.Context, local func() error, serves func(Daemon) bool, remote func(*Client) error) error {
	t := a.attempts()
	for {
		d, err := t.connect(ctx, local, serves)
		if d == nil {
			return err
		}
		err = errors.Join(remote(d), d.Close())
		if !isUnsent(err) {
			return err
		}
		if err := t.failed(err); err != nil {
			return err
		}
	}
}

// attempts are the attempts of one operation.
type attempts struct {
	*Access
	end  time.Time
	lock error // of the last attempt to lock
	lost error // of the last retryable request without a response
}

func (a *Access) attempts() *attempts {
	return &attempts{Access: a, end: time.Now().Add(a.LockWait)}
}

// connect calls local until it does not fail with [vfs.ErrLocked], or returns a
// client of the daemon that holds the lock. The caller closes it.
func (t *attempts) connect(ctx context.Context, local func() error, serves func(Daemon) bool) (*Client, error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if t.lock = local(); !errors.Is(t.lock, vfs.ErrLocked) {
			return nil, t.lock
		}
		d, unresponsive, err := t.lockingDaemon(ctx, t.lock, helloTimeout(time.Until(t.end)), serves)
		if d != nil || err != nil {
			return d, err
		}
		if !time.Now().Before(t.end) {
			return nil, t.expired(unresponsive)
		}
	}
}

// failed notes the error of a request that the daemon did not receive. It
// returns an error if the time is over.
func (t *attempts) failed(err error) error {
	if e, ok := errors.AsType[*retryableError](err); ok {
		t.lost = e.error
	}
	if time.Now().Before(t.end) {
		return nil
	}
	return t.expired(false)
}

func (t *attempts) expired(unresponsive bool) error {
	switch {
	case t.lost != nil:
		return OutcomeUnknown(t.lost)
	case t.Locked != nil:
		return t.Locked(t.lock, unresponsive)
	}
	return t.lock
}

// lockingDaemon returns a client of the daemon named in a [vfs.LockedError] if
// serves accepts its Hello, else nil. unresponsive is set if the daemon did not
// respond within wait. The error is one of version skew.
func (a *Access) lockingDaemon(ctx context.Context, err error, wait time.Duration, serves func(Daemon) bool) (d *Client, unresponsive bool, _ error) {
	locked, ok := errors.AsType[*vfs.LockedError](err)
	if !ok || locked.Holder.Socket == "" {
		return nil, false, nil
	}
	d = &Client{Addr: wire.Addr{Network: "unix", Address: locked.Holder.Socket}}
	if a.Watch != nil {
		addr := d.Addr
		d.Watch = func() error { return a.Watch(addr) }
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	hello := (*Client).Hello
	if a.Hello != nil {
		hello = func(d *Client, ctx context.Context) (Daemon, error) { return a.Hello(ctx, d) }
	}
	h, err := hello(d, waiting)
	if err == nil && serves(h) {
		return d, false, nil
	}
	if skew, ok := errors.AsType[*SkewError](err); ok {
		return nil, false, Unreachable(errors.Join(d.Close(), skew))
	}
	return nil, IsTimeout(ctx, err), d.Close()
}

// IsTimeout reports whether a call of the daemon failed because the daemon did
// not respond in time. It is false if ctx, the context of the caller, ended.
func IsTimeout(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.EAGAIN))
}

// isUnsent reports whether the daemon did not receive a request, or the request
// may be repeated: another daemon, or this process, can run it.
func isUnsent(err error) bool {
	if errors.As(err, new(*NoDaemonError)) || errors.As(err, new(*retryableError)) {
		return true
	}
	e, ok := errors.AsType[*net.OpError](err)
	return ok && (e.Op == "dial" || e.Op == "write")
}

// retryableError is the error of a request without a response that has the same
// effect if it is repeated.
type retryableError struct{ error }

func (e *retryableError) Unwrap() error { return e.error }

// MarkRetryable returns the error of a request that has the same effect if it is
// repeated. [Access.LocalOrDaemon] repeats the request if err is a lost response.
func MarkRetryable(err error) error {
	if e, ok := errors.AsType[*errtable.Error](OutcomeUnknown(err)); ok && e.Kind == kindOutcomeUnknown {
		return &retryableError{err}
	}
	return err
}

const kindOutcomeUnknown = "outcome_unknown"

// OutcomeUnknown returns the error of a request that the daemon may have
// received, and to which it did not respond, as an error of that kind. It returns
// other errors unchanged.
func OutcomeUnknown(err error) error {
	if err == nil || isUnsent(err) || errors.As(err, new(*Error)) || errors.Is(err, context.Canceled) {
		return err
	}
	if e, ok := errors.AsType[*errtable.Error](err); ok && e.Kind == kindOutcomeUnknown {
		return err
	}
	e := &errtable.Error{
		Kind: kindOutcomeUnknown, Exit: errtable.ExitUnknown, Err: err,
		Message: "wait for response: outcome unknown: " + err.Error(),
		Fix:     "check whether the change was made before you retry; run crabmem daemon start",
	}
	if none, ok := errors.AsType[*errtable.Error](err); ok && none.Kind == KindNoResponse {
		e.Message = "wait for response: outcome unknown: " + none.Message
		e.Fix = none.Fix + "; then check whether the change was made before you retry"
	}
	return e
}

// Unreachable returns the error of an operation that needs the daemon with its
// fix, if no daemon of this version received the request. It returns other errors
// unchanged.
func Unreachable(err error) error {
	e := &errtable.Error{Exit: errtable.ExitUnreachable, Kind: "no_daemon", Fix: "crabmem daemon start", Err: err}
	if none, ok := errors.AsType[*NoDaemonError](err); ok {
		e.Message = none.cause()
		return e
	}
	if skew, ok := errors.AsType[*SkewError](err); ok {
		e.Kind, e.Message, e.Fix = "daemon_version", skew.cause(), "run crabmem daemon stop, then crabmem daemon start"
		if skew.Protocol == 0 {
			e.Fix = "stop the process that listens on the socket, then run crabmem daemon start"
		}
		return e
	}
	if !isUnsent(err) {
		return err
	}
	e.Message = err.Error()
	return e
}
