package chat

import (
	"context"
	"strings"

	"crabmem/cmd/crabmem/internal/chat/tty"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

// others is the state of the subscription to runs of other clients in the current
// session.
type others struct {
	session string // whose events arrive; empty: none
	stop    context.CancelFunc
	run     bool            // events belong to another client's run
	text    strings.Builder // incomplete response
}

// The goroutine of follow posts values of these types.
type (
	otherEvent struct{ *agent.Event }
	unfollowed struct{ session string }
)

// follow subscribes to the events of the current session. Its goroutine ends when ctx
// or the subscription ends, or when the screen follows another session.
func (s *screen) follow(ctx context.Context) {
	if s.End != nil || s.Stored == s.others.session {
		return
	}
	if s.others.stop != nil {
		s.others.stop()
	}
	s.others = others{session: s.Stored}
	if s.Stored == "" {
		return
	}
	ctx, s.others.stop = context.WithCancel(ctx)
	session, tag := s.Stored, s.Tag
	s.runs.Go(func() {
		defer s.raw.Guard()
		for e, err := range op.FollowEvents.All(ctx, s.Client, op.EventFilter{Session: session}) {
			if err != nil {
				break
			}
			if e.Session == session && e.Tag != tag {
				s.post(otherEvent{e})
			}
		}
		s.post(unfollowed{session})
	})
}

// other shows an event of another client's run. It shows no event before the user's
// message of that run, except of work.
func (s *screen) other(e *agent.Event) {
	o := &s.others
	if e.Kind == agent.User {
		s.flush()
		o.run = true
		o.text.Reset()
		for l := range strings.SplitSeq(cli.Clean(e.Content), "\n") {
			s.line(s.c.Bold("other> " + l))
		}
		return
	}
	switch e.Kind {
	case agent.Wake:
		o.run = true
		o.text.Reset()
	case agent.WorkStarted, agent.WorkStatus, agent.WorkWaiting, agent.WorkEnded, agent.Notice:
		for _, l := range EventLines(e) {
			s.flush()
			s.dimLine(l)
		}
		return
	}
	if !o.run {
		return
	}
	if e.Kind == agent.TextDelta || e.Kind == agent.Reply {
		if o.text.Len() < MaxMessage {
			o.text.WriteString(e.Content)
		}
		return
	}
	if o.text.Len() > 0 {
		s.flush()
		m := tty.Markdown{Width: s.width - 1, Color: s.c.Color()}
		s.scroll.WriteString(m.Write(o.text.String()) + m.Flush())
		o.text.Reset()
	}
	if e.Kind == agent.Done {
		o.run = false
		if e.Error != nil && e.Error.Kind == errtable.Cancelled {
			s.dimLine("the other client's run was canceled")
		} else if e.Error != nil {
			s.dimLine("the other client's run failed: " + display.Printable(display.OneLine(e.Error.Message)))
		}
		return
	}
	if e.Kind == agent.ToolStart || e.Kind == agent.Compacted || e.Kind == agent.Flushed {
		for _, l := range EventLines(e) {
			s.flush()
			s.dimLine(l)
		}
	}
}
