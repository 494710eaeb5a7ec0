package op

import (
	"context"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/session"
)

// Compaction replaces the history of a session with a summary.
type Compaction struct {
	Session string `json:"session,omitempty" op:"path=id"`
	Number  uint64 `json:"number,omitempty" op:"owner"` // of a loaded session, in place of Session
	Focus   string `json:"focus,omitempty" jsonschema:"topics that the summary should cover"`
	Tokens  int    `json:"tokens,omitempty" jsonschema:"limit of the summary"` // 0: the default
}

// Compacted is the result of a compaction.
type Compacted struct {
	Summary      string `json:"summary"`
	Archive      string `json:"archive" jsonschema:"the entry that contains the summary; empty: none"`
	TokensBefore uint64 `json:"tokens_before"`
	TokensAfter  uint64 `json:"tokens_after"`
}

const maxSummaryTokens = 1 << 20

var CompactSession = Add(errtable.Session, Op[Daemon, Compaction, Compacted]{
	Name: "sessions.compact", Does: "Replace the history of a session with a summary.", Effect: Writes, Need: NeedChanges, Files: true,
	Path: "POST /v1/sessions/{id}/compact",
	Permit: func(d Daemon, in *Compaction) error {
		if in.Session != "" {
			return d.OwnStored(in.Session)
		}
		return d.OwnLoaded(in.Number)
	},
	Run: func(ctx context.Context, d Daemon, in *Compaction) (out Compacted, err error) {
		if in.Tokens < 0 || in.Tokens > maxSummaryTokens {
			return out, errtable.Invalidf("tokens: want 0 to %d", maxSummaryTokens)
		}
		l, err := d.Loaded.Named(ctx, in.Number, in.Session)
		if err != nil {
			return out, err
		}
		err = d.Loaded.With(ctx, l.ID(), func(ctx context.Context, s session.Setup, a *agent.Agent, history *agent.Session) (err error) {
			out.TokensBefore = uint64(agent.Estimate(history.Messages))
			out.Summary, out.Archive, err = s.Runner.Compact(ctx, a, history, agent.CompactOptions{Focus: in.Focus, Tokens: in.Tokens})
			if out.Summary == "" {
				return err
			}
			if err != nil {
				d.Log.Warn("archive summary", "session", history.Log.ID(), "error", err)
			}
			out.TokensAfter = uint64(agent.Estimate(history.Messages))
			d.Publish(&agent.Turn{Agent: a, Session: history}, agent.Event{Kind: agent.Compacted, Summary: out.Summary, Archive: out.Archive})
			return nil
		})
		return out, err
	},
})

// Summarize returns a summary of a loaded session.
var Summarize = Add(errtable.Other, Op[Daemon, SessionNumber, string]{
	Name: "sessions.summarize", Does: "Summarize a loaded session, which does not change.", Effect: Reads, Files: true,
	Run: func(ctx context.Context, d Daemon, in *SessionNumber) (summary string, err error) {
		err = d.Loaded.With(ctx, in.Number, func(ctx context.Context, s session.Setup, a *agent.Agent, history *agent.Session) (err error) {
			summary, err = s.Runner.Summarize(ctx, a, history, agent.CompactOptions{})
			return err
		})
		return summary, err
	},
})
