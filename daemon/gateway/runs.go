package gateway

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strconv"
	"sync"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// Limits of runs without a client.
const (
	maxRunBytes = 4 << 20 // of the events of a run
	maxRuns     = 1024    // that the gateway keeps
	keepRun     = time.Hour
)

// runTable contains the active runs that need no client, and those that ended.
type runTable struct {
	now func() time.Time

	mu    sync.Mutex
	byID  map[string]*run
	byKey map[string]*run // by identity and Idempotency-Key
}

func newRunTable(now func() time.Time) *runTable {
	return &runTable{now: now, byID: make(map[string]*run), byKey: make(map[string]*run)}
}

// run is a run of an agent, with its last events. It is a sink.
type run struct {
	id       string
	owner    string // the identity that began it
	once     string // Idempotency-Key
	message  message
	cancel   context.CancelFunc
	appended chan struct{} // closed when the message is durable, or the run ended

	mu      sync.Mutex
	state   string
	session string
	number  uint64 // of the session in the daemon
	agent   string
	answer  string
	failure *Problem
	ended   time.Time
	events  [][]byte
	first   int // ID of events[0]
	bytes   int
	changed chan struct{} // closed and replaced by each event
}

// The states of a run.
const (
	running   = "running"
	succeeded = "succeeded"
	failed    = "failed"
)

// Run describes a run.
type Run struct {
	Run     string   `json:"run"`
	State   string   `json:"state" jsonschema:"running, succeeded, or failed"`
	Session string   `json:"session" jsonschema:"ID of the session"`
	Agent   string   `json:"agent"`
	Content string   `json:"content" jsonschema:"the answer so far: the text after the last round of tools"`
	Error   *Problem `json:"error,omitempty" jsonschema:"why the run failed"`
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

func (r *run) describe() Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Run{Run: r.id, State: r.state, Session: r.session, Agent: r.agent, Content: r.answer, Error: r.failure, Last: r.first + len(r.events) - 1}
}

// event keeps an event, and drops the first ones beyond the limit.
func (r *run) event(name string, data any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := encodeEvent(r.first+len(r.events), name, data)
	if err != nil {
		return err
	}
	r.events = append(r.events, b)
	for r.bytes += len(b); r.bytes > maxRunBytes && len(r.events) > 1; r.first++ {
		r.bytes -= len(r.events[0])
		r.events = r.events[1:]
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// after returns the events after an ID as a stream contains them, the ID of the last
// one, how many are dropped, whether the run has ended, and a channel that is closed by
// the next event.
func (r *run) after(id int) (events []byte, last int, lost int, ended bool, changed chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost = max(r.first-1-id, 0)
	for i := max(id+1-r.first, 0); i < len(r.events); i++ {
		events = append(events, r.events[i]...)
	}
	return events, max(id, r.first+len(r.events)-1), lost, r.state != running, r.changed
}

// earlier returns the run of an earlier request with a key, unless it failed: then the
// daemon continues the turn. The caller holds mu.
func (t *runTable) earlier(owner, once string, m *message) (*run, *Problem) {
	old := t.byKey[owner+"\x00"+once]
	if old == nil || once == "" {
		return nil, nil
	}
	if old.message != *m {
		return nil, problemf(http.StatusConflict, "request", "an earlier request has this Idempotency-Key and another body").fix("use another key")
	}
	if old.describe().State == failed {
		return nil, nil
	}
	return old, nil
}

// find is earlier for a caller that does not hold mu.
func (t *runTable) find(owner, once string, m *message) (*run, *Problem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.earlier(owner, once, m)
}

// add adds a run, or returns an earlier one of the same request. It removes runs that
// ended long ago and, if there are too many, the oldest ones.
func (t *runTable) add(r *run) (*run, *Problem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, p := t.earlier(r.owner, r.once, &r.message); old != nil || p != nil {
		return old, p
	}
	now := t.now()
	for id, old := range t.byID {
		old.mu.Lock()
		gone := old.state != running && (now.Sub(old.ended) > keepRun || len(t.byID) >= maxRuns)
		old.mu.Unlock()
		if gone {
			t.remove(id, old)
		}
	}
	if len(t.byID) >= maxRuns {
		return nil, busy("runs")
	}
	t.byID[r.id] = r
	if r.once != "" {
		t.byKey[r.owner+"\x00"+r.once] = r
	}
	return r, nil
}

// remove forgets a run. The caller holds mu.
func (t *runTable) remove(id string, r *run) {
	delete(t.byID, id)
	if key := r.owner + "\x00" + r.once; t.byKey[key] == r {
		delete(t.byKey, key)
	}
}

func newRun(owner, once string, m *message) *run {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return &run{id: "run_" + base64.RawURLEncoding.EncodeToString(random[:]), owner: owner, once: once, message: *m, state: running, first: 1,
		appended: make(chan struct{}), changed: make(chan struct{})}
}

// beginRun begins a run, and responds when the message is durable. A repeated request
// needs no slot.
func (c *call) beginRun(in *message) (any, error) {
	r, p := c.g.runs.find(c.key.Identity(), c.once, in)
	if p != nil {
		return nil, p
	}
	if r == nil {
		var err error
		if r, err = c.newRun(in); err != nil {
			return nil, err
		}
	}
	select {
	case <-r.appended:
	case <-c.r.Context().Done():
		return nil, c.r.Context().Err()
	}
	d := r.describe()
	if d.Session == "" && d.Error != nil { // the daemon refused the message
		c.g.runs.mu.Lock()
		defer c.g.runs.mu.Unlock()
		c.g.runs.remove(r.id, r)
		return nil, d.Error
	}
	c.w.Header().Set("Location", "/v1/runs/"+r.id)
	return d, nil
}

// newRun begins a run, unless an earlier request with the key has begun it.
func (c *call) newRun(in *message) (*run, error) {
	m, end, err := c.prepare(in)
	if err != nil {
		return nil, err
	}
	mine := newRun(c.key.Identity(), c.once, in)
	r, p := c.g.runs.add(mine)
	if p != nil {
		end()
		return nil, p
	}
	if r != mine {
		end()
		return r, nil
	}
	ctx, cancel := context.WithCancel(c.g.ending)
	mine.cancel = cancel
	c.g.background.Go(func() {
		defer cancel()
		mine.follow(ctx, c.g, c.daemon.Client, m, end)
	})
	return mine, nil
}

// follow runs the agent and keeps the events.
func (r *run) follow(ctx context.Context, g *Gateway, d *client.Client, m op.Message, end func()) {
	w := &runWriter{g: g, out: r, agent: m.Agent}
	appended := sync.OnceFunc(func() { close(r.appended) })
	defer appended()
	fresh := true // the next text begins the answer
	var failed error
	for e, err := range op.StreamMessage.All(ctx, d, m) {
		if err != nil {
			failed = err
			break
		}
		_ = w.write(e)
		r.mu.Lock()
		r.agent = w.agent
		switch e.Kind {
		case agent.Start:
			r.session, r.number = e.Session, e.Number
		case agent.ToolsComplete:
			fresh = true
		case agent.TextDelta:
			if fresh {
				r.answer, fresh = "", false
			}
			r.answer += e.Content
		}
		r.mu.Unlock()
		if e.Kind == agent.User {
			appended()
		}
	}
	end()
	r.finish(w, failed, g)
}

// finish ends a run, and keeps its error.
func (r *run) finish(w *runWriter, err error, g *Gateway) {
	if err != nil {
		_ = w.failed(err) // a run receives every event
	} else {
		_ = w.done()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.ended = succeeded, g.o.Now()
	if err != nil {
		r.state, r.failure = failed, g.problem(err)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// run returns the run in the path, if its key began it.
func (c *call) run() (*run, error) {
	c.g.runs.mu.Lock()
	defer c.g.runs.mu.Unlock()
	r := c.g.runs.byID[c.r.PathValue("id")]
	if r == nil || r.owner != c.key.Identity() {
		return nil, problemf(http.StatusNotFound, "not_found", "no run %s", printable(c.r.PathValue("id"))).fix("the gateway keeps a run for an hour; read the session")
	}
	return r, nil
}

func (c *call) readRun() (any, error) {
	r, err := c.run()
	if err != nil {
		return nil, err
	}
	return r.describe(), nil
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
		events, next, lost, ended, changed := r.after(last)
		if lost > 0 {
			b, err := encodeEvent(last+lost, "gap", agent.Event{Lost: uint64(lost)})
			if err != nil {
				return nil, err
			}
			events = append(b, events...)
		}
		if out.copy(events) != nil {
			return nil, nil // the client is gone
		}
		if last = next; ended {
			return nil, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

func (c *call) cancelRun() (any, error) {
	r, err := c.run()
	if err == nil {
		r.cancel()
	}
	return nil, err
}

func (c *call) answerRun(in *runAnswer) (any, error) {
	r, err := c.run()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	state, number := r.state, r.number
	r.mu.Unlock()
	if state != running {
		return nil, problemf(http.StatusConflict, "ended", "the run has ended").fix("send a message to the session")
	}
	_, err = op.ReplyToRun.Do(c.r.Context(), c.daemon, op.Reply{Number: number, Content: in.Content})
	return nil, err
}
