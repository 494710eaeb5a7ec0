package role

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"crabmem/daemon/errtable"
	"crabmem/daemon/work"
)

// InUse returns an error if a session has open work, or does it.
func (r *Roles) InUse(session string) error {
	r.opening.Lock()
	defer r.opening.Unlock()
	what := ""
	if r.parents[session] != nil {
		what = " has open work"
	}
	for _, p := range r.parents {
		if slices.ContainsFunc(p.Items(), func(i *work.Item) bool { return i.Session == session }) {
			what = " does work that is open"
		}
	}
	if what == "" {
		return nil
	}
	return &errtable.Error{HTTP: http.StatusConflict, Kind: "busy", Message: "session " + session + what, Fix: "crabmem work list lists it; wait until it has ended, or cancel it"}
}

// Abandon cancels a session's work before the session is deleted, and waits until its runs
// have ended. The outcomes are on the disk, and are not delivered.
func (r *Roles) Abandon(ctx context.Context, session string) error {
	p := r.open(session)
	if p == nil {
		return nil
	}
	defer r.done(p)
	for _, w := range r.of(p) {
		w.mu.Lock()
		w.quiet = true
		w.mu.Unlock()
		w.stop(errCancelled)
		select {
		case <-w.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, i := range p.Items() {
		if err := i.End(closed, ""); err != nil && !errors.Is(err, work.ErrTransition) {
			return err
		}
	}
	r.opening.Lock()
	defer r.opening.Unlock()
	delete(r.parents, session)
	p.quit()
	return p.Abandon()
}
