package client

import (
	"context"
	"errors"

	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
)

// Daemon describes a daemon.
type Daemon = op.DaemonInfo

// Ping asks whether the daemon is there.
func (c *Client) Ping(ctx context.Context) error {
	m := &pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}}
	for r, err := range c.requestStream(ctx, m, func(*pb.ServerMessage) bool { return true }) {
		if err == nil && r.GetPong() == nil {
			err = &unexpectedError{r}
		}
		return err
	}
	return nil // a response is never empty
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
