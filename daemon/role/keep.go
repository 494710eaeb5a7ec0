package role

import (
	"errors"
	"strings"
	"time"
)

// sweepDaily sweeps 10 minutes after the start, and then every day, until Stop.
func (r *Roles) sweepDaily() {
	for wait := 10 * time.Minute; ; wait = 24 * time.Hour {
		select {
		case <-time.After(wait):
		case <-r.ctx.Done():
			return
		}
		if err := r.sweep(); err != nil {
			r.o.Log.Warn("move the sessions of old work to the trash", "error", err)
		}
	}
}

// sweep moves the sessions of delivered work into the trash after [roles] keep.
func (r *Roles) sweep() error {
	children, err := r.o.Work.Sessions.Children()
	swept := make(map[string]bool)
	for _, of := range children {
		parent, _, _ := strings.Cut(of, "/")
		if swept[parent] {
			continue
		}
		swept[parent] = true
		p, perr := r.use(parent)
		if perr != nil { // a deleted session may be restored
			continue
		}
		gone, derr := p.Discard(r.o.Now().Add(-r.o.Setup().Config.Roles.Keep))
		r.done(p)
		for _, id := range gone {
			derr = errors.Join(derr, r.o.Sessions.DropResults(id))
		}
		err = errors.Join(err, derr)
	}
	return err
}
