package role

import (
	"cmp"
	"context"
	"errors"
	"time"

	"crabmem/daemon/work"
	"crabmem/sessionlog/record"
)

// killGrace is how long a canceled run may take to end. Then its outcome is written
// without it.
const killGrace = 30 * time.Second

// supervise runs work until it has an outcome, and watches that it makes progress. A run
// that does not end after it was canceled loses its slot; a later outcome of it is
// refused.
func (w *running) supervise(ctx context.Context) {
	ended := make(chan result, 1)
	go func() { ended <- w.run(ctx) }() // ends with ctx; Stop waits for its session
	for {
		timer := time.NewTimer(w.next(ctx))
		select {
		case res := <-ended:
			timer.Stop()
			if err := w.finish(ctx, res); errors.Is(err, work.ErrPending) {
				go func() { ended <- w.run(ctx) }()
				continue
			}
			return
		case <-timer.C:
			if ctx.Err() != nil {
				w.r.o.Log.Error("a run of work does not end", "session", w.Session, "work", w.ID, "reason", context.Cause(ctx).Error())
				if w.r.ctx.Err() == nil {
					_ = w.finish(ctx, w.resultOf(ctx, context.Cause(ctx), "")) // logged
				}
				return
			}
			w.check()
		}
	}
}

// closed ends work that waits for input. No other work can end so.
var closed = work.Status{State: record.Done, Reason: work.Closed}

// closeLater closes work that waits for input unless a message arrives in time:
// a stop of the daemon does not count.
func (r *Roles) closeLater(p *parent, i *work.Item) {
	o := i.Last()
	if o == nil {
		return
	}
	session, id, n := p.ID(), i.ID, o.N
	time.AfterFunc(r.o.Setup().Config.Roles.WaitingTimeout, func() { // a later outcome has its own
		r.goes(func() { r.close(session, id, n) })
	})
}

// close closes work that waits since its n-th outcome.
func (r *Roles) close(session, id string, n int) {
	p := r.open(session)
	if p == nil {
		return
	}
	defer r.done(p)
	for _, i := range p.Items() {
		if o := i.Last(); i.ID != id || o == nil || o.N != n {
			continue
		}
		if err := i.End(closed, ""); err != nil && !errors.Is(err, work.ErrTransition) {
			r.o.Log.Warn("close work", "session", session, "work", id, "error", err)
		}
	}
}

// next returns how long to wait until the next check.
func (w *running) next(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return killGrace
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at, _ := w.deadline()
	return min(max(at.Sub(w.r.o.Now()), 0), look)
}

// look is the longest time between two checks: a deadline can become earlier.
const look = 30 * time.Second

// never exceeds the duration of any run.
const never = 1000 * time.Hour

// deadline returns when the run is asked to stop, or is canceled after that, and why. The
// caller holds mu.
func (w *running) deadline() (time.Time, error) {
	c := w.r.o.Setup().Config
	if !w.last.IsZero() {
		return w.last, errCancelled
	}
	if w.asked {
		return w.progress.Add(c.Roles.Grace), w.why
	}
	limit := c.Roles.WorkerTimeout
	if w.Kind == record.Branch {
		limit = c.Roles.BranchTimeout
	}
	end := w.begun.Add(cmp.Or(limit, never))
	stall := c.Roles.Stall
	_, other := w.r.external(w.Agent)
	switch {
	case other: // it has limits of its own
		return end, errTimeout
	case w.asking:
		stall, end = never, w.begun.Add(never)
	case w.tool > 0:
		stall = w.tool + time.Minute
	case w.stream: // the provider's own limits apply
		stall = never
	}
	if still := w.progress.Add(stall); still.Before(end) {
		return still, errStalled
	}
	return end, errTimeout
}

// check asks a run that is over a limit to stop, or cancels it.
func (w *running) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.r.o.Now()
	at, why := w.deadline()
	if now.Before(at) {
		return
	}
	if w.asked || w.Kind == record.Branch || !w.last.IsZero() {
		w.r.o.Log.Warn("canceled work", "session", w.Session, "work", w.ID, "reason", why.Error())
		w.stop(why)
		return
	}
	w.asked, w.why, w.progress = true, why, now
	w.r.o.Log.Warn("asked work to stop", "session", w.Session, "work", w.ID, "reason", why.Error())
}

// ending reports whether the next step is to be the last.
func (w *running) ending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked || w.outcome != nil
}
