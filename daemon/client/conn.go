package client

import (
	"errors"

	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// conn is a connection to the daemon.
type conn struct {
	*wire.Conn
	hello bool // a call was sent on it
}

// helloMessage returns a request of [op.Hello]. Its body is an empty CBOR map.
func helloMessage() *pb.ClientMessage {
	return &pb.ClientMessage{Msg: &pb.ClientMessage_Call{Call: &pb.Call{Op: "daemon.hello", Body: []byte{0xa0}}}}
}

// needsHello reports whether the response to m can contain additions to RFC 0018.
// The daemon sends them only after Hello on the same connection.
func needsHello(m *pb.ClientMessage) bool {
	return m.GetStream() != nil || m.GetSubscribeEvents() != nil
}

// begin sends a request. If the request needs Hello, begin sends Hello first. Until
// the daemon has accepted a Hello, begin waits for the response to Hello: another
// daemon may respond to two requests in any order. Later, it sends both requests
// together. A daemon without Hello responds with an error, and its responses contain
// no additions.
func (c *Client) begin(conn *conn, m *pb.ClientMessage) error {
	if m.GetCall() == nil {
		m.As = c.As
	}
	conn.hello = conn.hello || m.GetCall() != nil
	if conn.hello || !needsHello(m) {
		return conn.send(m)
	}
	if err := conn.send(helloMessage()); err != nil {
		return err
	}
	together := c.agreed.Load()
	if together {
		if err := conn.send(m); err != nil {
			return err
		}
	}
	r := new(pb.ServerMessage)
	if err := conn.Read(r); err != nil {
		return err
	}
	if r.GetError().GetKind() == wire.Evicted {
		return reported(m, r)
	}
	conn.hello = true
	if together {
		return nil
	}
	var h Daemon
	if op.Decode(r.GetResult().GetBody(), &h) == nil && h.Protocol == pb.Version {
		c.agreed.Store(true)
	}
	return conn.send(m)
}

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
