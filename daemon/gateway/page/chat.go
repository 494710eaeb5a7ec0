package page

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"crabmem/bm25/clip"
	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

const (
	maxRuns    = 100 // runs that the page remembers
	maxRunning = 8   // runs of the page at the same time
	refresh    = "2" // seconds between two loads of the page of a run
)

// runTable has the newest runs of the page, by the ID of their session. A run continues when
// the browser closes the page, and ends with the gateway.
type runTable struct {
	ctx    context.Context
	end    context.CancelFunc
	active sync.WaitGroup
	slots  chan struct{}

	mu        sync.Mutex
	bySession map[string]*run
}

func newRunTable() *runTable {
	t := &runTable{slots: make(chan struct{}, maxRunning), bySession: make(map[string]*run)}
	t.ctx, t.end = context.WithCancel(context.Background())
	return t
}

// close cancels the runs and waits for them.
func (t *runTable) close() {
	t.end()
	t.active.Wait()
}

// run is a run of an agent.
type run struct {
	mu   sync.Mutex
	seen runView
}

// runView is what the page shows of a run.
type runView struct {
	Session  string
	Number   uint64 // of the session in the daemon
	Text     string // of the answer so far
	Tools    []string
	Question *agent.Question // that waits for an answer
	Asked    string          // ID of the newest question
	Failure  string
	Active   bool
}

// view returns what the page shows of a run. A session without one has no active run.
func (t *run) view() runView {
	if t == nil {
		return runView{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen
}

// of returns the newest run of a session, or nil.
func (t *runTable) of(session string) *run {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bySession[session]
}

// add makes a run the newest of its session. It forgets a run that has ended if there are
// too many.
func (t *runTable) add(session string, one *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, old := range t.bySession {
		if len(t.bySession) < maxRuns {
			break
		}
		if !old.view().Active {
			delete(t.bySession, id)
		}
	}
	t.bySession[session] = one
}

// begin sends a message to an agent. It returns the ID of the session when the message is
// durable, and then reads the rest of the run.
func (t *runTable) begin(ctx context.Context, d *client.Client, m op.Message) (session string, err error) {
	select {
	case t.slots <- struct{}{}:
	default:
		return "", &errtable.Error{HTTP: http.StatusServiceUnavailable, Message: "too many agents answer at the same time", Fix: "wait for one of them"}
	}
	one := &run{seen: runView{Active: true}}
	durable := make(chan error, 1)
	report := func(err error) { // the first one counts
		select {
		case durable <- err:
		default:
		}
	}
	t.active.Go(func() {
		defer func() { <-t.slots }()
		for e, err := range op.StreamMessage.All(t.ctx, d, m) {
			if err != nil {
				one.fail(err)
				report(err)
				break
			}
			one.update(e)
			switch e.Kind {
			case agent.Start:
				t.add(e.Session, one)
			case agent.User:
				report(nil)
			}
		}
		one.stop()
		report(nil)
	})
	select {
	case err = <-durable:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if session = one.view().Session; session != "" {
		err = nil // the page of the session shows the failure
	}
	return session, err
}

func (t *run) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.Failure = display.Printable(clip.Bytes(err.Error(), 1<<10))
}

// answered removes a question. The agent may have asked another one since.
func (t *run) answered(q *agent.Question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen.Question == q {
		t.seen.Question = nil
	}
}

func (t *run) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.Active, t.seen.Question = false, nil
}

// update adds an event to what the page shows.
func (t *run) update(e *agent.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Kind {
	case agent.Start:
		t.seen.Session, t.seen.Number = e.Session, e.Number
	case agent.TextDelta:
		if len(t.seen.Text) < maxMessage {
			t.seen.Text += e.Content
		}
	case agent.ToolStart:
		t.seen.Text, t.seen.Question = "", nil // the session contains the message
		t.seen.Tools = nil
		for _, call := range e.Calls {
			t.seen.Tools = append(t.seen.Tools, call.Name)
		}
	case agent.ToolResult:
		t.seen.Question = nil
	case agent.ToolsComplete:
		t.seen.Tools = nil
	case agent.AskUser:
		if len(e.Questions) > 0 {
			t.seen.Question, t.seen.Asked = &e.Questions[0], rand.Text()
		}
	}
}

type chatView struct {
	Agents  []op.Agent
	Request string
}

// newRequest returns an ID that makes a message, which a browser sends twice, one message.
func newRequest() string { return "page-" + rand.Text() }

func (v *visit) chat() error {
	agents, err := op.ListAgents.Do(v.r.Context(), v.store(), op.AgentNames{})
	if err != nil {
		return err
	}
	return v.show("chat.html", http.StatusOK, view{Title: "New conversation", Nav: "sessions", Data: chatView{agents, newRequest()}})
}

// message returns the message of a form.
func (v *visit) message() (op.Message, error) {
	form := v.r.PostForm
	m := op.Message{Content: strings.TrimSpace(unixLines(form.Get("content"))), Request: form.Get("request"), Commands: true}
	if m.Content == "" {
		return m, &errtable.Error{HTTP: http.StatusUnprocessableEntity, Message: "the message is empty", Fix: "write a message"}
	}
	return m, nil
}

// startChat begins a session.
func (v *visit) startChat() error {
	m, err := v.message()
	if err != nil {
		return err
	}
	m.Agent, m.New = v.r.PostForm.Get("agent"), true
	return v.send(m)
}

// continueChat sends a message to the session in the path.
func (v *visit) continueChat() error {
	m, err := v.message()
	if err != nil {
		return err
	}
	m.Session = v.r.PathValue("id")
	return v.send(m)
}

func (v *visit) send(m op.Message) error {
	session, err := v.p.runs.begin(v.r.Context(), v.store(), m)
	if err != nil {
		return err
	}
	return v.see(endOf(session, 1))
}

// endOf returns the address of the last messages of a session. Each load has another one.
func endOf(session string, load int) string {
	return "/ui/sessions/" + url.PathEscape(session) + "?last=" + strconv.Itoa(load) + "#end"
}

// cancel cancels the run of the session in the path.
func (v *visit) cancel() error {
	if t := v.p.runs.of(v.r.PathValue("id")).view(); t.Active {
		if _, err := op.CancelRun.Do(v.r.Context(), v.store(), op.SessionNumber{Number: t.Number}); err != nil {
			return err
		}
	}
	return v.see(endOf(v.r.PathValue("id"), 1))
}

// reply answers the question of an agent.
func (v *visit) reply() error {
	one := v.p.runs.of(v.r.PathValue("id"))
	t := one.view()
	if t.Question == nil {
		return &errtable.Error{HTTP: http.StatusConflict, Message: "no question waits for an answer", Fix: "load the session again"}
	}
	if id := v.r.PostForm.Get("question"); id != "" && id != t.Asked { // a second click
		return &errtable.Error{HTTP: http.StatusConflict, Message: "the agent asks another question", Fix: "load the session again"}
	}
	if _, err := op.ReplyToRun.Do(v.r.Context(), v.store(), op.Reply{Number: t.Number, Content: unixLines(v.r.PostForm.Get("content"))}); err != nil {
		return err
	}
	one.answered(t.Question)
	return v.see(endOf(v.r.PathValue("id"), 1))
}
