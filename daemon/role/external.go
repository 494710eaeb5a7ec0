package role

import (
	"context"
	"errors"
	"slices"

	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/work"
	"crabmem/daemon/work/external"
	"crabmem/sessionlog/record"
)

// external returns the configured program that does an agent's work.
func (r *Roles) external(agent string) (*config.ExternalWorker, bool) {
	list := r.o.Setup().Config.Workers
	i := slices.IndexFunc(list, func(w config.ExternalWorker) bool { return w.Name == agent })
	if i < 0 {
		return nil, false
	}
	return &list[i], true
}

// IsExternal reports whether another program does an agent's work. No such program
// continues its work after a restart.
func (r *Roles) IsExternal(agent string) (is, resumes bool) {
	_, is = r.external(agent)
	return is, false
}

// runExternal runs the work's program on its task.
func (w *running) runExternal(ctx context.Context, e *config.ExternalWorker) result {
	if _, err := w.Begin(); err != nil {
		return w.resultOf(ctx, err, "")
	}
	out := external.Run(ctx, e, external.Input{Task: w.Task, Dir: w.grant.Dir, Version: w.r.o.Version}, external.Callbacks{Status: func(text string) {
		text = w.r.o.Record(text)
		w.mu.Lock()
		w.status, w.progress = text, w.r.o.Now()
		w.mu.Unlock()
		w.p.publish(agent.WorkStatus, w.ID, text, w.ID+" "+text)
	}})
	if out.Text = w.r.o.Record(out.Text); out.Text != "" {
		if err := w.Answer(out.Text); err != nil {
			return w.resultOf(ctx, err, "")
		}
	}
	if why := context.Cause(ctx); errors.Is(why, errTimeout) {
		out.Status = work.Status{State: record.Failed, Reason: work.Timeout}
	}
	return result{out.Status, out.Text}
}
