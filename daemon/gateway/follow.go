package gateway

import (
	"reflect"
	"slices"

	"crabmem/daemon/client"
)

// followed is an event of a session, which is named by its kind.
type followed struct {
	Session string      `json:"session" jsonschema:"ID of the session"`
	Agent   string      `json:"agent"`
	Time    string      `json:"time" jsonschema:"RFC 3339"`
	Content string      `json:"content,omitempty" jsonschema:"the text of user, text_delta, thinking_delta, tool_result, and scope_violation"`
	Calls   []toolCall  `json:"calls,omitempty" jsonschema:"of tool_start"`
	ID      string      `json:"id,omitempty" jsonschema:"of the call, of tool_result"`
	Usage   *tokenUsage `json:"usage,omitempty"`
	Summary string      `json:"summary,omitempty" jsonschema:"of compact"`
	Error   string      `json:"error,omitempty" jsonschema:"of done"`
	Lost    uint64      `json:"lost,omitempty" jsonschema:"of gap: events that this client read too slowly"`
	Archive string      `json:"archive,omitempty" jsonschema:"of compact: the entry that contains the summary"`
}

// followKinds are the names of the events.
var followKinds = []string{"user", "text_delta", "thinking_delta", "tool_start", "tool_result", "tools_complete", "usage", "compact", "scope_violation", "done", "gap"}

var followRoutes = []route{
	{method: "GET", path: "/v1/events", summary: "Receive what happens in sessions from now on", kind: streamKind, events: followEvents(), out: of[followed](), status: 200, fails: []int{429},
		query: []param{{name: "session", summary: "only events of this session", kind: "string"}, {name: "agent", summary: "only events of this agent", kind: "string"},
			{name: "kind", summary: "only events of this kind, and gap", kind: "string", words: followKinds}},
		run: (*call).followSessions},
}

func followEvents() map[string]reflect.Type {
	events := map[string]reflect.Type{"error": of[Problem]()}
	for _, name := range followKinds {
		events[name] = of[followed]()
	}
	return events
}

// followedOf converts an event; name is empty for one of a newer daemon.
func followedOf(e *client.Event) (name string, out followed) {
	out = followed{Session: e.StoredID, Agent: e.Agent, Time: e.Time, Content: e.Text, ID: e.CallID, Summary: e.Summary, Archive: e.Archive, Lost: e.Lost}
	for _, call := range e.Calls {
		out.Calls = append(out.Calls, toolCall{call.ID, call.Function.Name, call.Function.Arguments})
	}
	if e.Usage != nil {
		u := usageOf(e.Usage)
		out.Usage = &u
	}
	if e.Err != nil && e.Kind == "done" {
		out.Error = e.Err.Message
	}
	if name = e.Kind; name == "lag" {
		name, out.Content = "gap", ""
	}
	if !slices.Contains(followKinds, name) {
		name = ""
	}
	return name, out
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
	for e, err := range c.daemon.Events(ctx, client.EventFilter{StoredID: c.text("session"), Agent: c.text("agent")}) {
		if err != nil {
			if ctx.Err() == nil {
				_ = out.event("error", c.g.problem(err)) // the client may be gone
			}
			return nil, nil
		}
		name, data := followedOf(e)
		if name == "" || only != "" && name != only && name != "gap" {
			continue
		}
		data.Error = c.g.hide(data.Error)
		if out.event(name, data) != nil {
			return nil, nil
		}
	}
	return nil, nil
}
