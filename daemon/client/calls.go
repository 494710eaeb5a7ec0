package client

import (
	"context"
	"errors"

	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
)

// Ping asks whether the daemon is there.
func (c *Client) Ping(ctx context.Context) error {
	_, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}}, (*pb.ServerMessage).GetPong)
	return err
}

// Hello describes the daemon. The error is a *SkewError if the daemon does not
// have the operations of this program's version.
func (c *Client) Hello(ctx context.Context) (Daemon, error) {
	h, err := op.Hello.Do(ctx, unagreed{c}, op.None{})
	if e, ok := errors.AsType[*Error](err); ok && e.Code == 400 {
		return Daemon{}, &SkewError{} // it does not know the operation
	}
	if err == nil && h.Protocol != pb.Version {
		return h, &SkewError{Daemon: h.Version, Protocol: h.Protocol}
	}
	c.agreed.Store(c.agreed.Load() || err == nil)
	return h, err
}

// Compact returns a summary of a live session, and changes nothing.
func (c *Client) Compact(ctx context.Context, session uint64) (string, error) {
	r, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Compact{Compact: &pb.CompactMsg{Session: session}}}, (*pb.ServerMessage).GetCompact)
	return r.GetSummary(), err
}

// Kill ends a loaded session. Its file stays.
func (c *Client) Kill(ctx context.Context, session uint64) error {
	_, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Kill{Kill: &pb.KillMsg{Session: session}}}, (*pb.ServerMessage).GetPong)
	return err
}
