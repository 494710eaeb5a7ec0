package role

import (
	"context"
	"errors"
	"net/http"

	"crabmem/daemon/errtable"
	"crabmem/daemon/work"
	"crabmem/sessionlog/record"
)

// InUse returns an error if a session has open work, or does it.
func (r *Roles) InUse(session string) error {
	r.mu.Lock()
	_, works := r.items[session]
	r.mu.Unlock()
	r.opening.Lock()
	defer r.opening.Unlock()
	if r.parents[session] != nil || works {
		return &errtable.Error{HTTP: http.StatusConflict, Kind: "busy", Message: "session " + session + " has open work", Fix: "crabmem work list lists it; wait until it has ended, or cancel it"}
	}
	for _, p := range r.parents { // work that waits has its file open
		for _, i := range p.Items() {
			if i.Session == session {
				return &errtable.Error{HTTP: http.StatusConflict, Kind: "busy", Message: "session " + session + " does work that is open", Fix: "crabmem work list lists it; wait until it has ended, or cancel it"}
			}
		}
	}
	return nil
}

// Abandon cancels the work of a session that is about to be deleted, and waits until its
// runs have ended. The outcomes are on the disk, and are not delivered.
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
		if status, _ := i.Status(); status.State == record.Waiting {
			if err := i.End(work.Status{State: record.Done, Reason: work.Closed}, ""); err != nil && !errors.Is(err, work.ErrTransition) {
				return err
			}
		}
	}
	r.opening.Lock()
	defer r.opening.Unlock()
	delete(r.parents, session)
	p.quit()
	return p.Abandon()
}
