package daemoncrash

import (
	"context"

	"crabmem/daemon"
	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
)

// caller carries out operations with requests to a daemon. It is an [op.Caller].
type caller struct{ *daemon.Daemon }

func (c caller) Call(_ context.Context, row *op.Row, in, out any, part func() error) error {
	request, err := op.Encode(in)
	if err != nil {
		return err
	}
	var body []byte
	var failed error
	err = send(c.Daemon, &pb.ClientMessage{Msg: &pb.ClientMessage_Call{Call: &pb.Call{Op: row.Name, Body: request}}}, func(m *pb.ServerMessage) {
		r := m.GetResult()
		if failed != nil || row.Parts && !r.GetMore() {
			return
		}
		if body = append(body, r.GetBody()...); r.GetPartial() {
			return
		}
		if failed = op.Decode(body, out); failed == nil {
			failed = part()
		}
		body = nil
	})
	if err == nil {
		err = failed
	}
	return err
}
