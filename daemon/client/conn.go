package client

import (
	"errors"

	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// conn is a connection to the daemon.
type conn struct{ *wire.Conn }

// send writes a request. If the daemon closed the connection, the error is the
// reason that it sent.
func (c *conn) send(m *pb.ClientMessage) error {
	err := c.write(m)
	if _, large := errors.AsType[*wire.TooLargeError](err); err == nil || large {
		return err
	}
	for r := new(pb.ServerMessage); c.Read(r) == nil; {
		if err := reported(m, r); err != nil {
			return err
		}
	}
	return err
}

// write writes a request, in several messages if it is a large call.
func (c *conn) write(m *pb.ClientMessage) error {
	call := m.GetCall()
	body := call.GetBody()
	if len(body) <= op.MaxBody {
		return c.Write(m)
	}
	defer func() { call.Body, call.More = body, false }() // for another connection
	call.Body, call.More = body[:op.MaxBody], true
	for rest := body[op.MaxBody:]; call.More; rest = rest[len(call.Body):] {
		if err := c.Write(m); err != nil {
			return err
		}
		call.Body = rest[:min(len(rest), op.MaxBody)]
		call.More = len(call.Body) < len(rest)
	}
	return c.Write(m)
}
