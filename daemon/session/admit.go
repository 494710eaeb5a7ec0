package session

import (
	"context"

	"crabmem/daemon/agent"
	"crabmem/daemon/usage"
)

// Check returns an error if a limit refuses a run now.
func (m *Manager) Check(ctx context.Context, r *Run) error {
	return m.admit(usage.With(ctx, r.Session.agent, r.Sender), r, false)
}

// admit returns an error if a limit refuses a run. Otherwise the run counts if begins is
// set. A request that the session has answered is not refused. The first refusal by a
// limit on a day is logged, and is a notice in the run that delegated the task.
func (m *Manager) admit(ctx context.Context, r *Run, begins bool) error {
	if m.o.Admit == nil {
		return nil
	}
	err := m.o.Admit(usage.PayerOf(ctx), begins)
	limit := usage.Refused(err)
	if limit != nil && r.Request != "" {
		if turn, _, failed := r.Session.log.Request(r.Request); failed == nil && turn.Answered {
			return nil
		}
	}
	if limit != nil && limit.First {
		m.o.Log.Warn("a limit refuses runs", "session", r.Session.log.ID(), "error", err)
		agent.Emit(ctx, agent.Event{Kind: agent.Notice, Note: err.Error()})
	}
	return err
}
