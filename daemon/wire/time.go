package wire

import (
	"context"
	"time"
)

// The limits of time and memory of a Conn. A Conn of a client has no limits.

// timeHeader bounds the wait for the rest of a header, from its first byte on.
func (c *served) timeHeader() error {
	if c == nil || c.timed {
		return nil
	}
	return c.setRead(time.Now().Add(c.s.limits.Header))
}

// timeProgress bounds the wait for the next bytes of a payload.
func (c *served) timeProgress() error {
	if c == nil {
		return nil
	}
	return c.setRead(time.Now().Add(c.s.limits.Progress))
}

// untime removes the deadline: an idle connection has no time limit.
func (c *served) untime() error {
	if c == nil || !c.timed {
		return nil
	}
	return c.setRead(time.Time{})
}

// setRead sets the deadline of reads. It fails for a connection that was given
// up: the deadline that wakes it may be the one that was just replaced.
func (c *served) setRead(t time.Time) error {
	if !c.authBy.IsZero() && (t.IsZero() || c.authBy.Before(t)) {
		t = c.authBy
	}
	c.timed = !t.IsZero()
	if err := c.c.SetReadDeadline(t); err != nil {
		return err
	}
	if s := c.state.Load(); s == evicted || s == stopped {
		return errStopped
	}
	return nil
}

// patient reports whether to continue a write that failed. There is
// always a deadline for writes, and to look at the clock for each would cost as
// much as a part of it: the deadline may have been set long before the write.
// Only the second one that passes without progress has been waited for. So it
// is between a half of Limits.Progress and all of it.
func (c *served) patient(n int, err error) bool {
	if c == nil || !timedOut(err) {
		return false
	}
	if n < smallFrame && (c.late || c.farWell) {
		return false
	}
	c.late = true
	return c.timeWrite(c.s.limits.Progress/2) == nil
}

// wrote forgets how long a write took.
func (c *served) wrote() {
	if c != nil {
		c.late = false
	}
}

func (c *served) timeWrite(d time.Duration) error {
	return c.c.SetWriteDeadline(time.Now().Add(d))
}

// reserve takes n bytes of what all connections together may hold.
func (c *served) reserve(n int) error {
	if c.s.inFlight.TryAcquire(int64(n)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.s.limits.Progress)
	defer cancel()
	if c.s.inFlight.Acquire(ctx, int64(n)) == nil {
		return nil
	}
	if c.ctx.Err() != nil {
		return errStopped
	}
	return &fullError{}
}

func (c *served) release(n int) { c.s.inFlight.Release(int64(n)) }
