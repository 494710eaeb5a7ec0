package daemon

import (
	"cmp"
	"errors"
	"path/filepath"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/wire/pb"
)

// call carries out an operation: each face of the daemon passes here.
func (d *Daemon) call(r *request, m *pb.Call) error {
	row := op.Find(m.GetOp())
	if row == nil {
		return errUnknownRequest
	}
	if err := d.readHead(r, m.GetHead()); err != nil {
		return err
	}
	if err := row.Permit(&r.as, r.Space); err != nil {
		return space.Relabel(err, r.Space, r.label)
	}
	if len(m.GetBody()) > op.MaxBody && r.As != "" {
		return r.as.Refused("send a request in several messages")
	}
	in, err := row.Request(m.GetBody())
	if err == nil {
		err = row.PermitRequest(&r.as, d.permitting(r, row), in)
	}
	if t, ok := in.(*op.TreeLoad); ok && err == nil && !filepath.IsAbs(t.Dir) {
		err = errtable.Invalidf("dir %q: want an absolute path", t.Dir)
	}
	if err != nil {
		return err
	}
	run := func() error { return d.run(r, row, in) }
	if r.Once == nil || !row.Repeats {
		return run()
	}
	if err = d.doOnce(r, run); errors.Is(err, errRepeated) {
		return d.again(r, row)
	}
	return err
}

// readHead reads the header of a call, and identifies who asks.
func (d *Daemon) readHead(r *request, head []byte) (err error) {
	if r.Header, err = op.ReadHeader(head); err != nil {
		return err
	}
	if len(r.As) > crmem.MaxActorField {
		return errtable.Invalidf("as: %d bytes, want at most %d", len(r.As), crmem.MaxActorField)
	}
	r.as = op.IdentityOf(d.setup().config.Origins, r.As)
	r.By.Client, r.By.Origin = cmp.Or(r.By.Client, crmem.ClientWire), cmp.Or(r.As, r.By.Origin)
	if r.label = r.Space; r.label != "" {
		r.Space = space.Named(d.fs, d.home, r.label)
		return nil
	}
	r.Space = cmp.Or(r.as.Space, space.Main)
	if r.label = r.Space; space.IsOfSender(r.Space) {
		r.label = r.as.Name
	}
	return nil
}

// again answers a request that repeats an earlier one, which had its effect.
func (d *Daemon) again(r *request, row *op.Row) error {
	o, err := d.outcome(r.ctx, &r.as, r.Once)
	if err != nil {
		return err
	}
	body, ok, err := row.Again(&o)
	if !ok {
		return errRepeated
	}
	if err != nil {
		return err
	}
	return r.part(body, false)
}

// run carries out a permitted request.
func (d *Daemon) run(r *request, row *op.Row, in any) error {
	on := func(host any) error {
		did, err := row.Run(r.ctx, host, in, func(part []byte) error { return r.part(part, row.Parts) })
		r.effect = did
		if err == nil && row.Parts {
			err = r.part(nil, false)
		}
		return err
	}
	if !row.OnStore {
		return on(d.on(r))
	}
	err := space.Relabel(d.onStore(r, func(s op.Store) error { return on(s) }), r.Space, r.label)
	if errors.Is(err, crmem.ErrNoStore) {
		err = row.NoStore(err, func(body []byte) error { return r.part(body, false) })
	}
	return err
}

// on returns what operations of a request run on that need no store.
func (d *Daemon) on(r *request) op.Daemon {
	return op.Daemon{Parts: d.parts, As: r.as, By: r.By}
}

// permitting returns what the check of a request runs on. It needs no open store.
func (d *Daemon) permitting(r *request, row *op.Row) any {
	if row.OnStore {
		return op.Store{As: r.as}
	}
	return d.on(r)
}

// part sends a part of a response, in several messages if it is large. more reports
// whether another part may follow.
func (r *request) part(body []byte, more bool) error {
	for {
		n := min(len(body), op.MaxBody)
		rest := len(body) - n
		err := r.result(&pb.Result{Body: body[:n], More: more || rest > 0, Partial: rest > 0})
		if err != nil || rest == 0 {
			return err
		}
		body = body[n:]
	}
}

// result sends a message of a response to a call.
func (r *request) result(m *pb.Result) error {
	m.Warnings, r.warnings = r.warnings, nil
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Result{Result: m}})
}
