package daemon

import (
	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
)

// call carries out an operation: each face of the daemon passes here.
func (d *Daemon) call(r *request, m *pb.ClientMessage) error {
	row := op.Find(m.GetCall().GetOp())
	if row == nil {
		return errUnknownRequest
	}
	if err := r.identify(); err != nil {
		return err
	}
	if err := row.Permit(&r.as); err != nil {
		return err
	}
	in, err := row.Request(m.GetCall().GetBody())
	if err != nil {
		return err
	}
	run := func() error {
		body, did, err := row.Run(r.ctx, d.on(r), in)
		r.effect = did
		if err != nil {
			return err
		}
		return r.result(body)
	}
	if m.GetOnce() != nil && row.Repeats {
		return d.doOnce(r, m, run)
	}
	return run()
}

// on returns what operations of a request run on.
func (d *Daemon) on(r *request) op.Daemon { return op.Daemon{Parts: d.parts, As: r.as} }

// result sends a response in parts.
func (r *request) result(body []byte) error {
	for {
		n := min(len(body), op.MaxPart)
		last := n == len(body)
		if err := r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Result{Result: &pb.Result{Body: body[:n], More: !last}}}); err != nil || last {
			return err
		}
		body = body[n:]
	}
}
