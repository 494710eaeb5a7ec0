package daemon

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/agent"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/sessionlog"
)

// followEvents returns the events of all runs until the daemon stops.
func (s *served) followEvents() <-chan *agent.Event {
	s.t.Helper()
	events := make(chan *agent.Event, 256)
	go func() {
		for e := range op.FollowEvents.All(s.t.Context(), s.client(), op.EventFilter{}) {
			events <- e
		}
	}()
	gate.Until(s.t, "a subscriber", func() bool { return s.events.count.Load() > 0 })
	return events
}

// userLines returns the user's messages of a session's file.
func (s *served) userLines(id string) (lines []string) {
	s.t.Helper()
	file, err := s.sessions.Read(id)
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	for l, err := range file.Lines(0) {
		if err != nil {
			s.t.Fatal(err)
		}
		if l.Message.Role == "user" {
			lines = append(lines, l.Message.Content)
		}
	}
	return lines
}

// TestRequestID repeats requests with IDs: in a new session, in the latest one, while
// the first one is active, after a restart, and with another message.
func TestRequestID(t *testing.T) {
	m := modeltest.New(t)
	at := home(t)
	s := serve(t, at, scripted(m))
	c := s.client()
	ctx := t.Context()
	events := s.followEvents()
	m.Queue(modeltest.Say("fine"))
	first := op.Message{Agent: "crab", Content: "go", Request: "a", New: true}
	var kinds []string
	stored := ""
	for e, err := range op.StreamMessage.All(ctx, c, first) {
		check(t, err)
		kinds = append(kinds, string(e.Kind))
		if e.Kind == agent.User && (e.Line != 2 || e.Repeated) {
			t.Errorf("appended %+v", e)
		}
		stored = cmp.Or(stored, e.Session)
	}
	if got := strings.Join(kinds, " "); got != "start user text_delta usage" {
		t.Errorf("events: %s", got)
	}
	again := func(what string, q op.Message) {
		t.Helper()
		r, err := op.SendMessage.Do(ctx, c, q)
		if err != nil || !r.Repeated || r.Content != "fine" || r.Session != stored {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
		kinds, text := "", ""
		for e, err := range op.StreamMessage.All(ctx, c, q) {
			check(t, err)
			if kinds += string(e.Kind) + " "; e.Kind == agent.User && (e.Line != 2 || !e.Repeated) {
				t.Errorf("%s: appended %+v", what, e)
			}
			if e.Kind == agent.TextDelta {
				text += e.Content
			}
		}
		if kinds != "start user text_delta " || text != "fine" {
			t.Errorf("%s: events %swith %q", what, kinds, text)
		}
	}
	latest := op.Message{Agent: "crab", Content: "go", Request: "a"}
	again("new chat", first)
	again("latest session", latest)
	_, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "stop", Request: "a"})
	wantError(t, err, 409, "request", "an earlier request has this ID and another message")
	_, err = op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "go", Request: strings.Repeat("x", 256)})
	wantError(t, err, 400, "invalid", "request_id: 256 bytes, want at most 255")
	// A client that disconnects, also after the answer of a first run, does not change the
	// turn that has the answer.
	l, err := s.loaded.Open(ctx, stored, "")
	check(t, err)
	gone := errors.New("gone")
	run := &session.Run{Session: l, Content: "go", Sender: "user", Request: "a", Each: func(agent.Event) error { return gone }}
	if err := s.loaded.Run(ctx, run); !errors.Is(err, gone) {
		t.Errorf("a run without a client: %v", err)
	}
	again("after a refusal and a disconnection", latest)
	m.Queue(modeltest.Say("last"))
	run = &session.Run{Session: l, Content: "the last", Sender: "user", Request: "z", Each: func(e agent.Event) error {
		if e.Kind == agent.Usage { // the answer is in the session
			return gone
		}
		return nil
	}}
	if err := s.loaded.Run(ctx, run); !errors.Is(err, gone) {
		t.Errorf("a run without a client: %v", err)
	}
	if r, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "the last", Request: "z"}); err != nil || !r.Repeated || r.Content != "last" {
		t.Errorf("after a disconnection at the end: %+v, %v", r, err)
	}
	users := 0
	for runs := 0; runs < 3; { // the refused request is a run, too
		switch e := <-events; {
		case e.Kind == agent.User && e.Content == "go":
			users++
		case e.Kind == agent.Done:
			runs++
		}
	}
	if users != 1 {
		t.Errorf("followers saw the message %d times", users)
	}
	s.stop()
	s = serve(t, at, "")
	c = s.client()
	again("new chat after a restart", first)
	again("latest session after a restart", latest)
	if n := len(m.Requests()); n != 2 {
		t.Errorf("%d requests to the model", n)
	}

	m.Queue(modeltest.Reply{}.Stall(50 * time.Millisecond).Text("slow"))
	var each sync.WaitGroup
	answers := make([]op.Answer, 8)
	for i := range answers {
		each.Go(func() {
			var err error
			if answers[i], err = op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "go", Request: "b", New: true}); err != nil {
				t.Error(err)
			}
		})
	}
	each.Wait()
	repeated := 0
	for _, r := range answers {
		if r.Repeated {
			repeated++
		}
		if r.Content != "slow" || r.Session != answers[0].Session || r.Session == stored {
			t.Errorf("concurrent: %+v", r)
		}
	}
	if n := len(m.Requests()); n != 3 || repeated != 7 {
		t.Errorf("concurrent: %d requests to the model, %d repeated", n-2, repeated)
	}
	for _, id := range []string{stored, answers[0].Session} {
		if got := s.userLines(id); slices.Compact(got)[0] != "go" || len(got) > 2 || id != stored && len(got) != 1 {
			t.Errorf("%s has the messages %q", id, got)
		}
	}
	if l, err := op.ListSessions.Do(ctx, c, op.SessionFilter{}); err != nil || l.Total != 2 {
		t.Errorf("%d sessions: %v", l.Total, err)
	}
	// Another sender's request with the ID is another request.
	m.Queue(modeltest.Say("for tg"))
	r, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "go", Request: "a", New: true, Sender: "tg:1"})
	if err != nil || r.Repeated || r.Content != "for tg" {
		t.Errorf("another sender: %+v, %v", r, err)
	}
}

// TestRequestWithoutSession creates no session for a message that is refused, and finds
// the session of a request whose daemon ended before the message was written.
func TestRequestWithoutSession(t *testing.T) {
	m := modeltest.New(t)
	at := home(t)
	s := serve(t, at, scripted(m))
	l, err := s.sessions.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user", Request: "a"})
	check(t, err)
	check(t, l.Close())
	s.stop()
	s = serve(t, at, "")
	m.Queue(modeltest.Say("fine"))
	r, err := op.SendMessage.Do(t.Context(), s.client(), op.Message{Agent: "crab", Content: "go", Request: "a", New: true})
	if err != nil || r.Session != l.ID() || r.Repeated {
		t.Errorf("%+v, %v; want the session %s", r, err, l.ID())
	}
}

// TestAfterRequest appends a message only after the newest turn, and only if that has an
// answer. It creates a session for an ID that is fresh.
func TestAfterRequest(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m))
	c := s.client()
	ctx := t.Context()
	m.Queue(modeltest.Say("one"), modeltest.Say("two"), modeltest.Status(500, "no"), modeltest.Say("five"))
	first, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "1", Request: "a", New: true})
	check(t, err)
	in := func(content, id, after string) (op.Answer, error) {
		return op.SendMessage.Do(ctx, c, op.Message{Session: first.Session, Content: content, Request: id, After: after})
	}
	refused := func(what, id, after string) {
		t.Helper()
		_, err := in(what, id, after)
		wantError(t, err, 409, "continued", "another message has continued the session")
	}
	refused("an unknown turn", "x", "other")
	if r, err := in("2", "b", "a"); err != nil || r.Content != "two" {
		t.Errorf("after the newest turn: %+v, %v", r, err)
	}
	if r, err := in("2", "b", "a"); err != nil || r.Content != "two" || !r.Repeated {
		t.Errorf("repeated: %+v, %v", r, err)
	}
	refused("an earlier turn", "x", "a")
	_, err = in("3", "c", "b")
	if err == nil {
		t.Error("no error of a model that fails")
	}
	refused("a turn without an answer", "x", "c")
	refused("the turn before it", "", "b")
	if got := s.userLines(first.Session); !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("the session has %q", got)
	}
	r, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "1", Request: "a", New: true, Fresh: true})
	if err != nil || r.Content != "five" || r.Session == first.Session {
		t.Errorf("a fresh ID: %+v, %v", r, err)
	}
}
