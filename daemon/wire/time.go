package wire

import (
	"context"
	"time"
)

// The limits of time and memory, as a Conn asks for them. One of a client has
// none.

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

// untime takes the bound away: an idle connection may wait for ever.
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

// timeWrite bounds the wait for a peer that does not read. The bound is renewed
// when a part of it has gone: a write that is done at once needs no new one.
func (c *served) timeWrite() error {
	patience := c.s.limits.Progress
	if c.farWell {
		patience = min(patience, time.Second)
	}
	now := time.Now()
	if c.writeBy.Sub(now) > patience-patience/16 {
		return nil
	}
	c.writeBy = now.Add(patience)
	return c.c.SetWriteDeadline(c.writeBy)
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
