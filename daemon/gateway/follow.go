package gateway

import (
	"reflect"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

// followed is an event of a session, which is named by its kind.
type followed struct {
	*agent.Event
	Session string `json:"session" jsonschema:"ID of the session"`
	Agent   string `json:"agent"`
	Error   string `json:"error,omitempty" jsonschema:"of done"`
	// Cancelled is set instead of Error if a client ended the run.
	Cancelled bool `json:"cancelled,omitempty" jsonschema:"of done: the run was canceled"`
}

// followNames are the names of the events.
var followNames = func() (names []string) {
	for _, k := range agent.Kinds {
		if n := followName(k); n != "" {
			names = append(names, n)
		}
	}
	return names
}()

// followName returns the name of an event; empty: only the run's client receives it.
func followName(k agent.Kind) string {
	switch k {
	case agent.Start, agent.AskUser, agent.Notice:
		return ""
	case agent.Lag:
		return "gap"
	}
	return string(k)
}

var followRoutes = []route{
	{method: "GET", path: "/v1/events", summary: "Receive what happens in sessions from now on", kind: streamKind, events: followEvents(), out: of[followed](), status: 200, fails: []int{429},
		query: []op.Field{{Name: "session", Doc: "only events of this session", Type: of[string]()}, {Name: "agent", Doc: "only events of this agent", Type: of[string]()},
			{Name: "kind", Doc: "only events of this kind, and gap", Type: of[string](), Words: followNames}},
		run: (*call).followSessions},
}

func followEvents() map[string]reflect.Type {
	events := map[string]reflect.Type{"error": of[Problem]()}
	for _, name := range followNames {
		events[name] = of[followed]()
	}
	return events
}

// followedOf returns the event as clients receive it.
func (g *Gateway) followedOf(e *agent.Event) followed {
	data := *e
	data.Kind = ""
	f := followed{Event: &data, Session: e.Session, Agent: e.Agent}
	switch {
	case e.Kind == agent.Lag:
		data.Content = ""
	case e.Kind == agent.Done && e.Error != nil && e.Error.Kind == errtable.Cancelled:
		data.Content, f.Cancelled = "", true
	case e.Kind == agent.Done && e.Error != nil:
		f.Error = g.hide(e.Error.Message)
	}
	return f
}

// followSessions sends events until the client disconnects. There is no replay: history
// has after.
func (c *call) followSessions() (any, error) {
	ctx, out, leave, err := c.openStream()
	if err != nil {
		return nil, err
	}
	defer leave()
	// The daemon sends no response before the first event, so the header is sent first.
	if _, err := c.daemon.Hello(ctx); err != nil {
		return nil, err
	}
	if out.copy([]byte(": following\n\n")) != nil {
		return nil, nil
	}
	only := c.text("kind")
	for e, err := range op.FollowEvents.All(ctx, c.daemon, op.EventFilter{Session: c.text("session"), Agent: c.text("agent")}) {
		if err != nil {
			if ctx.Err() == nil {
				_ = out.event("error", c.g.problem(err)) // the client may be gone
			}
			return nil, nil
		}
		name := followName(e.Kind)
		if name == "" || only != "" && name != only && name != "gap" {
			continue
		}
		if out.event(name, c.g.followedOf(e)) != nil {
			return nil, nil
		}
	}
	return nil, nil
}
