package session

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
)

// Limits of detached runs.
const (
	maxDetached      = 1024 // runs of a table
	keepDetached     = time.Hour
	maxDetachedBytes = 4 << 20 // of the events of a run
)

// ErrTooMany refuses a run if all runs of a table are active.
var ErrTooMany = errtable.Errorf(http.StatusServiceUnavailable, "busy", "too many runs are active")

var errOtherRequest = &errtable.Error{HTTP: http.StatusConflict, Kind: "request", Message: "an earlier request has this Idempotency-Key and another body", Fix: "use another key"}

// Detached is a table of runs that continue without their clients, and of those that
// ended in the last hour. It is safe for concurrent use.
type Detached struct {
	ctx    context.Context
	now    func() time.Time
	active sync.WaitGroup

	mu        sync.Mutex // locked before a run's mu
	byID      map[string]*DetachedRun
	byKey     map[[2]string]*DetachedRun // by owner and key
	bySession map[[2]string]*DetachedRun // the newest ones, by owner and session
}

// NewDetached returns an empty table. The end of ctx cancels the runs.
func NewDetached(ctx context.Context, now func() time.Time) *Detached {
	return &Detached{ctx: ctx, now: now, byID: make(map[string]*DetachedRun), byKey: make(map[[2]string]*DetachedRun), bySession: make(map[[2]string]*DetachedRun)}
}

// Wait waits until all runs have ended.
func (t *Detached) Wait() { t.active.Wait() }

// NewRun describes a run that begins.
type NewRun struct {
	Owner   string // only the owner finds the run
	Key     string // of the request; empty: the owner does not repeat it
	Request any    // the request, which must be comparable
	Agent   string // until the run names another one
	// Events runs the agent. The run ends with its events.
	Events func(ctx context.Context) iter.Seq2[*agent.Event, error]
	// Ended is called once, when the agent has ended and the run is still active.
	Ended func()
}

// DetachedRun is a run with its newest events.
type DetachedRun struct {
	id       string
	begun    NewRun
	cancel   context.CancelFunc
	appended chan struct{} // closed when the message is durable, or the run ended

	mu      sync.Mutex
	state   DetachedState // without Content, which answer has
	ended   time.Time
	texts   TextJoiner
	answer  strings.Builder
	fresh   bool          // the next text begins the answer
	events  []agent.Event // the newest ones
	bytes   int           // of events
	changed chan struct{} // closed and replaced by each event
}

// DetachedState describes a run.
type DetachedState struct {
	Active  bool
	Session string // ID; empty: the run has not started
	Number  uint64 // of the session in the daemon
	Agent   string
	Content string // of the answer
	// Stored is set if the session contains Content, because calls of tools follow it.
	Stored   bool
	Tools    []string        // names of the active calls
	Question *agent.Question // that awaits a reply; nil: none
	Asked    string          // ID of the newest question
	Err      error           // why the run failed
	Last     int             // position of the last event
}

// Find returns the run of an earlier request with a key, or nil. It returns no failed run:
// the daemon continues its turn.
func (t *Detached) Find(owner, key string, request any) (*DetachedRun, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.find(owner, key, request)
}

// find is Find for a caller that holds mu.
func (t *Detached) find(owner, key string, request any) (*DetachedRun, error) {
	old := t.byKey[[2]string{owner, key}]
	switch {
	case old == nil || key == "":
		return nil, nil
	case old.begun.Request != request:
		return nil, errOtherRequest
	case old.State().Err != nil:
		return nil, nil
	}
	return old, nil
}

// Start begins a run, or returns the one that an earlier request began; began is then
// false. It removes runs that ended long ago and, if there are too many, all that ended.
func (t *Detached) Start(n NewRun) (r *DetachedRun, began bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, err := t.find(n.Owner, n.Key, n.Request); old != nil || err != nil {
		return old, false, err
	}
	now := t.now()
	for _, old := range t.byID {
		old.mu.Lock()
		gone := !old.state.Active && (now.Sub(old.ended) > keepDetached || len(t.byID) >= maxDetached)
		old.mu.Unlock()
		if gone {
			t.remove(old)
		}
	}
	if len(t.byID) >= maxDetached {
		return nil, false, ErrTooMany
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	r = &DetachedRun{id: "run_" + base64.RawURLEncoding.EncodeToString(random[:]), begun: n, fresh: true,
		state: DetachedState{Active: true, Agent: n.Agent}, appended: make(chan struct{}), changed: make(chan struct{})}
	t.byID[r.id] = r
	if n.Key != "" {
		t.byKey[[2]string{n.Owner, n.Key}] = r
	}
	ctx, cancel := context.WithCancel(t.ctx)
	r.cancel = cancel
	t.active.Go(func() {
		defer cancel()
		t.follow(ctx, r)
	})
	return r, true, nil
}

// follow runs the agent and keeps the events.
func (t *Detached) follow(ctx context.Context, r *DetachedRun) {
	appended := sync.OnceFunc(func() { close(r.appended) })
	defer appended()
	var failed error
	for e, err := range r.begun.Events(ctx) {
		if err != nil {
			failed = err
			break
		}
		r.add(*e)
		switch e.Kind {
		case agent.Start:
			t.mu.Lock()
			t.bySession[[2]string{r.begun.Owner, e.Session}] = r
			t.mu.Unlock()
		case agent.User:
			appended()
		}
	}
	r.begun.Ended()
	r.end(failed, t.now())
}

// Run returns the run of an owner with an ID, or nil.
func (t *Detached) Run(owner, id string) *DetachedRun {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.byID[id]; r != nil && r.begun.Owner == owner {
		return r
	}
	return nil
}

// Latest returns the newest run of an owner in a session, or nil.
func (t *Detached) Latest(owner, session string) *DetachedRun {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bySession[[2]string{owner, session}]
}

// Forget removes a run, such as one whose message the daemon refused.
func (t *Detached) Forget(r *DetachedRun) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(r)
}

// remove removes a run. The caller holds mu.
func (t *Detached) remove(r *DetachedRun) {
	delete(t.byID, r.id)
	if key := [2]string{r.begun.Owner, r.begun.Key}; t.byKey[key] == r {
		delete(t.byKey, key)
	}
	if at := [2]string{r.begun.Owner, r.State().Session}; t.bySession[at] == r {
		delete(t.bySession, at)
	}
}

// ID returns the ID of the run.
func (r *DetachedRun) ID() string { return r.id }

// Appended returns a channel that is closed when the message is durable, or the run ended.
func (r *DetachedRun) Appended() <-chan struct{} { return r.appended }

// Cancel ends the run.
func (r *DetachedRun) Cancel() { r.cancel() }

// State describes the run. The caller must not change what it contains.
func (r *DetachedRun) State() DetachedState {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	s.Content = r.answer.String()
	return s
}

// Replied removes a question that got a reply. The agent may have asked another one since.
func (r *DetachedRun) Replied(q *agent.Question) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Question == q {
		r.state.Question = nil
	}
}

// add adds an event.
func (r *DetachedRun) add(e agent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	switch e.Kind {
	case agent.Start:
		s.Session, s.Number = e.Session, e.Number
		if e.Agent != "" {
			s.Agent = e.Agent
		}
	case agent.TextDelta:
		if r.fresh {
			r.answer.Reset()
			r.fresh = false
		}
		r.answer.WriteString(e.Content)
		s.Stored = false
	case agent.ToolStart:
		s.Stored, s.Question, s.Tools = true, nil, nil
		for _, c := range e.Calls {
			s.Tools = append(s.Tools, c.Name)
		}
	case agent.ToolResult:
		s.Question = nil
	case agent.ToolsComplete:
		s.Tools, r.fresh = nil, true
	case agent.AskUser:
		if len(e.Questions) > 0 {
			s.Question, s.Asked = &e.Questions[0], rand.Text()
		}
	}
	r.keep(e)
}

// end ends the run: the last event is agent.Done. Before it, another one has the error.
func (r *DetachedRun) end(err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.keep(agent.Event{Kind: agent.Done, Err: err})
	}
	r.keep(agent.Event{Kind: agent.Done})
	r.state.Active, r.state.Question, r.state.Err, r.ended = false, nil, err, now
}

// keep keeps an event, and drops the first ones beyond the limit. agent.ToolsComplete has
// no position. The caller holds mu.
func (r *DetachedRun) keep(e agent.Event) {
	if r.texts.Join(&e); e.Kind == agent.ToolsComplete {
		return
	}
	r.state.Last++
	r.events = append(r.events, e)
	for r.bytes += e.Size(); r.bytes > maxDetachedBytes && len(r.events) > 1; r.events = r.events[1:] {
		r.bytes -= r.events[0].Size()
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// After returns the events after a position, the position of the first one, whether the
// run has ended, and a channel that is closed by the next event. If the run no longer has
// all events after the position, first is more than its successor. The caller must not
// change the events.
func (r *DetachedRun) After(position int) (events []agent.Event, first int, ended bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.state.Last - len(r.events) + 1
	first = max(position+1, oldest)
	return r.events[min(first-oldest, len(r.events)):], first, !r.state.Active, r.changed
}

// TextJoiner separates the texts before and after a round of tools with a line end: they
// would be one text otherwise.
type TextJoiner struct {
	wrote  bool // text
	passed bool // a round of tools has ended since the last text
}

// Join changes the next event of a run.
func (j *TextJoiner) Join(e *agent.Event) {
	switch e.Kind {
	case agent.ToolsComplete:
		j.passed = true
	case agent.TextDelta:
		if j.wrote && j.passed {
			e.Content = "\n" + e.Content
		}
		j.wrote, j.passed = true, false
	}
}
