package wire

import (
	"fmt"
	"sync/atomic"
	"time"

	"crabmem/daemon/wire/pb"
)

// gather reads the rest of a request in several messages, and reports whether that is
// complete. Otherwise the connection ends. The server gathers one request at a time.
func (c *served) gather(m *pb.ClientMessage) bool {
	call := m.GetCall()
	if !call.GetMore() {
		return true
	}
	c.broken = true
	if !c.occupy(&c.s.gathering, 1, "another large request is being read: retry the request") {
		return false
	}
	defer c.s.gathering.Add(-1)
	for more := true; more; {
		part := new(pb.ClientMessage)
		err := c.timeProgress()
		if err == nil {
			err = c.Read(part)
		}
		switch next := part.GetCall(); {
		case err != nil:
			c.sendReason(err)
			return false
		case next == nil || next.GetOp() != call.GetOp():
			c.fail(400, "invalid", "the next message does not continue the request")
			return false
		case int64(len(call.Body)+len(next.GetBody())) > c.s.limits.Request:
			c.fail(400, "too_large", fmt.Sprintf("the request has more than %d bytes", c.s.limits.Request))
			return false
		default:
			call.Body, more = append(call.Body, next.GetBody()...), next.GetMore()
		}
	}
	c.broken = false
	return true
}

// occupy takes one of a number of places, or refuses the request after a short wait.
func (c *served) occupy(taken *atomic.Int64, limit int, full string) bool {
	for start := time.Now(); !take(taken, limit); {
		if time.Since(start) > workWait {
			c.fail(503, "busy", full)
			return false
		}
		select {
		case <-time.After(workWait / 50):
		case <-c.ctx.Done():
			c.broken = true
			return false
		}
	}
	return true
}
