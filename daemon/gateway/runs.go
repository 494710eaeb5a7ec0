package gateway

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
)

// The states of a run.
const (
	running   = "running"
	succeeded = "succeeded"
	failed    = errtable.Failed
	cancelled = errtable.Cancelled
)

// Run describes a run.
type Run struct {
	Run     string   `json:"run"`
	State   string   `json:"state" jsonschema:"running, succeeded, failed, or cancelled"`
	Session string   `json:"session" jsonschema:"ID of the session"`
	Agent   string   `json:"agent"`
	Content string   `json:"content" jsonschema:"the answer so far: the text after the last round of tools"`
	Error   *Problem `json:"error,omitempty" jsonschema:"why the run has no answer"`
	Last    int      `json:"last_event" jsonschema:"ID of the last event"`
}

type runAnswer struct {
	Content string `json:"content"`
}

var runRoutes = []route{
	{method: "POST", path: "/v1/runs", summary: "Send a message to an agent; the run continues without the client", in: of[message](), once: true, out: of[Run](), status: 202,
		fails: []int{403, 409, 429}, run: with((*call).beginRun)},
	{method: "GET", path: "/v1/runs/{id}", summary: "Describe a run", out: of[Run](), status: 200, run: (*call).readRun},
	{method: "GET", path: "/v1/runs/{id}/events", summary: "Receive the events of a run, also the earlier ones", kind: streamKind, events: namedEvents, out: of[chunk](), status: 200,
		fails: []int{429}, run: (*call).runEvents},
	{method: "POST", path: "/v1/runs/{id}/cancel", summary: "End a run", status: 204, run: (*call).cancelRun},
	{method: "POST", path: "/v1/runs/{id}/answer", summary: "Answer the question of a run", in: of[runAnswer](), status: 204, fails: []int{409}, run: with((*call).answerRun)},
}

// describe returns what clients see of a run.
func (g *Gateway) describe(r *session.DetachedRun) Run {
	s := r.State()
	out := Run{Run: r.ID(), State: succeeded, Session: s.Session, Agent: s.Agent, Content: s.Content, Last: s.Last}
	switch {
	case s.Active:
		out.State = running
	case s.Err != nil:
		if out.State, out.Error = failed, g.problem(s.Err); out.Error.Kind == cancelled {
			out.State = cancelled
		}
	}
	return out
}

// beginRun begins a run, and responds when the message is durable. A repeated request
// needs no slot.
func (c *call) beginRun(in *message) (any, error) {
	r, err := c.g.runs.Find(c.key.Identity(), c.once, *in)
	if err == nil && r == nil {
		r, err = c.newRun(in)
	}
	if err != nil {
		return nil, err
	}
	select {
	case <-r.Appended():
	case <-c.r.Context().Done():
		return nil, c.r.Context().Err()
	}
	d := c.g.describe(r)
	if d.Session == "" && d.Error != nil { // the daemon refused the message
		c.g.runs.Forget(r)
		return nil, d.Error
	}
	c.w.Header().Set("Location", "/v1/runs/"+r.ID())
	return d, nil
}

// newRun begins a run, unless an earlier request with the key has begun it.
func (c *call) newRun(in *message) (*session.DetachedRun, error) {
	m, end, err := c.prepare(in)
	if err != nil {
		return nil, err
	}
	r, began, err := c.g.runs.Start(session.NewRun{Owner: c.key.Identity(), Key: c.once, Request: *in, Agent: m.Agent, Ended: end,
		Events: func(ctx context.Context) iter.Seq2[*agent.Event, error] {
			return op.StreamMessage.All(ctx, c.daemon, m)
		}})
	if !began {
		end()
	}
	if errors.Is(err, session.ErrTooMany) {
		err = busy("runs")
	}
	return r, err
}

// run returns the run in the path, if its key began it.
func (c *call) run() (*session.DetachedRun, error) {
	r := c.g.runs.Run(c.key.Identity(), c.r.PathValue("id"))
	if r == nil {
		return nil, problemf(http.StatusNotFound, "not_found", "no run %s", printable(c.r.PathValue("id"))).fix("the gateway keeps a run for an hour; read the session")
	}
	return r, nil
}

func (c *call) readRun() (any, error) {
	r, err := c.run()
	if err != nil {
		return nil, err
	}
	return c.g.describe(r), nil
}

// runEvents sends the events after Last-Event-ID until the run ends.
func (c *call) runEvents() (any, error) {
	r, err := c.run()
	if err != nil {
		return nil, err
	}
	last := 0
	if text := c.r.Header.Get("Last-Event-ID"); text != "" {
		if last, err = strconv.Atoi(text); err != nil || last < 0 {
			return nil, invalidf("Last-Event-ID: want the ID of an event")
		}
	}
	ctx, out, leave, err := c.openStream()
	if err != nil {
		return nil, err
	}
	defer leave()
	for {
		events, first, ended, changed := r.After(last)
		text, err := c.g.encodeRun(events, first, last, r.State().Agent)
		if err != nil {
			return nil, err
		}
		if out.copy(text) != nil {
			return nil, nil // the client is gone
		}
		if last = max(last, first+len(events)-1); ended {
			return nil, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// encodeRun returns the events of a run as a stream contains them, which a client that has
// those up to last receives.
func (g *Gateway) encodeRun(events []agent.Event, first, last int, agentName string) (text []byte, err error) {
	if lost := first - last - 1; lost > 0 {
		if text, err = encodeEvent(first-1, "gap", agent.Event{Lost: uint64(lost)}); err != nil {
			return nil, err
		}
	}
	for i := range events {
		name, data := g.streamed(&events[i], agentName)
		b, err := encodeEvent(first+i, name, data)
		if err != nil {
			return nil, err
		}
		text = append(text, b...)
	}
	return text, nil
}

func (c *call) cancelRun() (any, error) {
	r, err := c.run()
	if err == nil {
		r.Cancel()
	}
	return nil, err
}

func (c *call) answerRun(in *runAnswer) (any, error) {
	r, err := c.run()
	if err != nil {
		return nil, err
	}
	s := r.State()
	if !s.Active {
		return nil, problemf(http.StatusConflict, "ended", "the run has ended").fix("send a message to the session")
	}
	_, err = op.ReplyToRun.Do(c.r.Context(), c.daemon, op.Reply{Number: s.Number, Content: in.Content})
	return nil, err
}
