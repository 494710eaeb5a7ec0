package daemon

import (
	"crabmem/crmem"
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
	on := d.on(r)
	if err := row.PermitRequest(&r.as, on, in); err != nil {
		return err
	}
	run := func() error {
		did, err := row.Run(r.ctx, on, in, func(part []byte) error { return r.part(part, row.Parts) })
		r.effect = did
		if err == nil && row.Parts {
			err = r.part(nil, false)
		}
		return err
	}
	if m.GetOnce() != nil && row.Repeats {
		return d.doOnce(r, m, run)
	}
	return run()
}

// on returns what operations of a request run on.
func (d *Daemon) on(r *request) op.Daemon {
	return op.Daemon{Parts: d.parts, As: r.as, By: crmem.Actor(r.by)}
}

// part sends a part of a response, in several messages if it is large. more reports
// whether another part may follow.
func (r *request) part(body []byte, more bool) error {
	for {
		n := min(len(body), op.MaxBody)
		rest := len(body) - n
		err := r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Result{Result: &pb.Result{Body: body[:n], More: more || rest > 0, Partial: rest > 0}}})
		if err != nil || rest == 0 {
			return err
		}
		body = body[n:]
	}
}
