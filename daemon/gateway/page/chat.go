package page

import (
	"cmp"
	"context"
	"crypto/rand"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
)

const (
	maxRunning = 8      // runs of the page at the same time
	refresh    = "2"    // seconds between two loads of the page of a run
	pageOwner  = "page" // of the runs of the page: no identity of a key
)

// runView is what the page shows of a run.
type runView struct {
	session.DetachedState
	Text    string // of the answer so far
	Failure string // why there is no answer
}

// run returns the newest run that the page began in a session, or nil. The run continues
// when the browser closes the page, and ends with the gateway.
func (p *Page) run(id string) *session.DetachedRun { return p.o.Runs.Latest(pageOwner, id) }

// viewOf returns what the page shows of a run, which may be nil.
func viewOf(r *session.DetachedRun) (v runView) {
	if r == nil {
		return v
	}
	v.DetachedState = r.State()
	if !v.Stored { // else the session contains it
		v.Text = clip.Bytes(v.Content, maxMessage)
	}
	if v.Err != nil {
		v.Failure = "The run failed: " + display.Printable(clip.Bytes(v.Err.Error(), 1<<10))
		if errtable.Find(v.Err).Kind == errtable.Cancelled {
			v.Failure = "The run was canceled."
		}
	}
	return v
}

// begin sends a message to an agent. It returns the ID of the session when the message is
// durable.
func (p *Page) begin(ctx context.Context, d *client.Client, m op.Message) (id string, err error) {
	select {
	case p.running <- struct{}{}:
	default:
		return "", &errtable.Error{HTTP: http.StatusServiceUnavailable, Message: "too many agents answer at the same time", Fix: "wait for one of them"}
	}
	ended := func() { <-p.running }
	r, _, err := p.o.Runs.Start(session.NewRun{Owner: pageOwner, Ended: ended,
		Events: func(ctx context.Context) iter.Seq2[*agent.Event, error] { return op.StreamMessage.All(ctx, d, m) }})
	if err != nil {
		ended()
		return "", err
	}
	select {
	case <-r.Appended():
	case <-ctx.Done():
		err = ctx.Err()
	}
	s := r.State()
	if s.Session != "" {
		return s.Session, nil // the page of the session shows the failure
	}
	return "", cmp.Or(err, s.Err)
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
	id, err := v.p.begin(v.r.Context(), v.store(), m)
	if err != nil {
		return err
	}
	return v.see(endOf(id, 1))
}

// endOf returns the address of the last messages of a session. Each load has another one.
func endOf(session string, load int) string {
	return "/ui/sessions/" + url.PathEscape(session) + "?last=" + strconv.Itoa(load) + "#end"
}

// cancel cancels the run of the session in the path.
func (v *visit) cancel() error {
	if t := viewOf(v.p.run(v.r.PathValue("id"))); t.Active {
		if _, err := op.CancelRun.Do(v.r.Context(), v.store(), op.SessionNumber{Number: t.Number}); err != nil {
			return err
		}
	}
	return v.see(endOf(v.r.PathValue("id"), 1))
}

// reply answers the question of an agent.
func (v *visit) reply() error {
	run := v.p.run(v.r.PathValue("id"))
	t := viewOf(run)
	if t.Question == nil {
		return &errtable.Error{HTTP: http.StatusConflict, Message: "no question waits for an answer", Fix: "load the session again"}
	}
	if id := v.r.PostForm.Get("question"); id != "" && id != t.Asked { // a second click
		return &errtable.Error{HTTP: http.StatusConflict, Message: "the agent asks another question", Fix: "load the session again"}
	}
	if _, err := op.ReplyToRun.Do(v.r.Context(), v.store(), op.Reply{Number: t.Number, Content: unixLines(v.r.PostForm.Get("content"))}); err != nil {
		return err
	}
	run.Replied(t.Question)
	return v.see(endOf(v.r.PathValue("id"), 1))
}
