package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/op"
	"crabmem/daemon/trust"
)

// message is a message to an agent.
type message struct {
	Content string `json:"content"`
	Agent   string `json:"agent,omitempty" jsonschema:"absent: the agent of the session, or crab"`
	AgentID string `json:"agent_id,omitempty" jsonschema:"another name of agent"`
	Session string `json:"session,omitempty" jsonschema:"ID of the session; absent: the latest one of key and agent"`
	New     bool   `json:"new,omitempty" jsonschema:"begin a session"`
	Model   string `json:"model,omitempty" jsonschema:"for this message only"`
	// Commands is as in op.Message.
	Commands bool `json:"commands,omitempty" jsonschema:"true: refuse a content /NAME if no skill has the name, and send //NAME as the text /NAME"`
}

var messageRoutes = []route{
	{method: "POST", path: "/v1/send", summary: "Send a message to an agent, and wait for the answer", in: of[message](), once: true, out: of[op.Answer](), status: 200,
		fails: []int{403, 409, 429, client.StatusCanceled}, run: with((*call).send)},
	{method: "POST", path: "/v1/stream", summary: "Send a message to an agent, and receive the answer as it is written", in: of[message](), once: true, kind: streamKind, events: namedEvents,
		out: of[chunk](), status: 200, fails: []int{403, 429}, run: with((*call).stream)},
}

// request returns the message as the daemon receives it, and checks that the key may
// send it.
func (c *call) request(in *message) (m op.Message, err error) {
	if in.Agent != "" && in.AgentID != "" && in.Agent != in.AgentID {
		return m, invalidf("agent and agent_id differ: send one of them")
	}
	m = op.Message{Content: in.Content, Agent: in.Agent + in.AgentID, Session: in.Session, New: in.New, Model: in.Model, Commands: in.Commands, Sender: c.key.Identity(), Request: c.once}
	if in.Agent == in.AgentID {
		m.Agent = in.Agent
	}
	switch {
	case strings.TrimSpace(in.Content) == "":
		return m, invalidf("content is empty")
	case in.New && in.Session != "":
		return m, invalidf("new and session: send one of them")
	case in.Session == "" && m.Agent == "":
		m.Agent = config.Crab
	}
	agent := m.Agent
	if in.Session != "" {
		s, err := op.ShowSession.Do(c.r.Context(), c.daemon, op.SessionID{Session: in.Session})
		if err != nil {
			return m, err
		}
		if agent = s.Agent; m.Agent != "" && m.Agent != agent {
			return m, invalidf("the session is of the agent %s", printable(agent))
		}
	}
	return m, c.permitAgent(agent)
}

// permitAgent returns an error if the key may not use an agent.
func (c *call) permitAgent(agent string) error {
	if c.key.Allows(agent) {
		return nil
	}
	return problemf(http.StatusForbidden, "agent", "the key may not talk to the agent %s", printable(agent)).fix("GET /v1/agents lists the agents of the key")
}

// begin takes a slot for a run of the key. The daemon decides whether a key is trusted.
// end gives the slot back, once: before a client reads that the run has ended, or its next
// run could be refused.
func (c *call) begin() (end func(), err error) {
	if !c.daemon.runs.take() {
		n := c.g.o.Config.Limits.RunsPerKey
		return nil, problemf(http.StatusTooManyRequests, "runs", "%d runs of the key are active", n).fix("wait until one of them ends").after(1)
	}
	end = sync.OnceFunc(c.daemon.runs.give)
	d, err := c.daemon.Hello(c.r.Context())
	if err != nil {
		end()
		return nil, err
	}
	if trust.Level(d.Trust) != trust.Untrusted {
		return end, nil
	}
	if wait := delayOf(c.daemon.untrusted, c.g.o.Now()); wait > 0 {
		end()
		return nil, problemf(http.StatusTooManyRequests, "rate", "too many runs of an untrusted key").fix("begin at most %d runs in a minute", c.g.o.Config.Limits.UntrustedRuns).after(1 + int(wait/time.Second))
	}
	return end, nil
}

// prepare returns the message as the daemon receives it, and takes a slot for its run.
func (c *call) prepare(in *message) (m op.Message, end func(), err error) {
	if m, err = c.request(in); err == nil {
		end, err = c.begin()
	}
	return m, end, err
}

// send runs an agent. A client that disconnects ends the run.
func (c *call) send(in *message) (any, error) {
	m, end, err := c.prepare(in)
	if err != nil {
		return nil, err
	}
	defer end()
	c.unlimited()
	return op.SendMessage.Do(c.r.Context(), c.daemon, m)
}

// chunk is an unnamed event of a stream: a part of the answer. The last one has done.
type chunk struct {
	Content string `json:"content"`
	Agent   string `json:"agent"`
	Done    bool   `json:"done"`
}

// stream runs an agent, and sends what it does as events.
func (c *call) stream(in *message) (any, error) {
	m, end, err := c.prepare(in)
	if err != nil {
		return nil, err
	}
	defer end()
	ctx, out, leave, err := c.openStream()
	if err != nil {
		return nil, err
	}
	defer leave()
	started := false
	w := &runWriter{g: c.g, out: out, agent: m.Agent}
	for e, err := range op.StreamMessage.All(ctx, c.daemon, m) {
		if err != nil && !started {
			return nil, err
		}
		started = true
		if err != nil {
			end()
			return nil, w.failed(err)
		}
		if err := w.write(e); err != nil {
			return nil, nil // the client is gone
		}
	}
	end()
	return nil, w.done()
}

// enter takes slots for a stream.
func (c *call) enter() (leave func(), err error) {
	if !c.daemon.streams.take() {
		n := c.g.o.Config.Limits.StreamsPerKey
		return nil, problemf(http.StatusTooManyRequests, "streams", "%d streams of the key are open", n).fix("close one of them").after(1)
	}
	if !c.g.streams.take() {
		c.daemon.streams.give()
		return nil, busy("streams")
	}
	return func() {
		c.g.streams.give()
		c.daemon.streams.give()
	}, nil
}

// openStream takes slots for a stream of events, and returns it with its context, which
// ends with the request or when the server stops. The caller must call leave.
func (c *call) openStream() (ctx context.Context, out *eventStream, leave func(), err error) {
	free, err := c.enter()
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithCancel(c.r.Context())
	stop := context.AfterFunc(c.g.ending, cancel)
	out = newEventStream(c.w)
	return ctx, out, func() {
		out.close()
		stop()
		cancel()
		free()
	}, nil
}
