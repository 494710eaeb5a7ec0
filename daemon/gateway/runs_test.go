package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"crabmem/daemon/agent"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
)

// open opens a stream. The caller reads its events with next.
func (r *rig) open(ctx context.Context, who, method, path string, body any, header ...string) (p *http.Response, next func() (sent, bool)) {
	r.t.Helper()
	var reader io.Reader
	if s, ok := body.(string); ok {
		reader = strings.NewReader(s)
	}
	q, err := http.NewRequestWithContext(ctx, method, r.url+path, reader)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+r.keys[who])
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		q.Header.Add(header[i], header[i+1])
	}
	if p, err = http.DefaultClient.Do(q); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { p.Body.Close() })
	lines := bufio.NewReader(p.Body)
	return p, func() (sent, bool) {
		var text strings.Builder
		for {
			line, err := lines.ReadString('\n')
			text.WriteString(line)
			if list := eventsOf([]byte(text.String())); len(list) > 0 {
				return list[0], true
			}
			if err != nil {
				return sent{}, false
			}
		}
	}
}

// TestRuns begins a run, whose client disconnects. Its events are read later, from the
// start and from an ID.
func TestRuns(t *testing.T) {
	r := newRig(t)
	r.model.Queue(modeltest.Reply{}.Text("let me look").Call("recall", `{"query":"walrus"}`), modeltest.Say("no ", "walrus"))
	p := r.want("begin", r.do("root", "POST", "/v1/runs", object{"content": "is there a walrus?"}, "Idempotency-Key", "k"), 202, "")
	at, id := p.Header.Get("Location"), p.field("run")
	if at != fmt.Sprint("/v1/runs/", id) || p.field("session") == "" {
		t.Fatalf("begin: %s", p.body)
	}
	r.eventually("the run ends", func() bool { return r.do("root", "GET", at, nil).field("state") != running })
	if p := r.want("read", r.do("root", "GET", at, nil), 200, ""); p.field("state") != succeeded || p.field("content") != "no walrus" || p.field("agent") != "crab" {
		t.Errorf("read: %s", p.body)
	}
	p = r.want("events", r.do("root", "GET", at+"/events", nil), 200, "")
	list := eventsOf(p.body)
	if n := len(list); n < 8 || list[0].name != "start" || list[1].name != "appended" || list[n-1].data != `{"content":"","agent":"crab","done":true}` || list[n-1].id != fmt.Sprint(n) {
		t.Errorf("events: %s", p.body)
	}
	p = r.want("events after 3", r.do("root", "GET", at+"/events", nil, "Last-Event-ID", "3"), 200, "")
	if got := eventsOf(p.body); len(got) != len(list)-3 || got[0] != list[3] {
		t.Errorf("events after 3: %s", p.body)
	}
	for _, last := range []string{fmt.Sprint(len(list)), "999"} {
		if p := r.want("events after the last", r.do("root", "GET", at+"/events", nil, "Last-Event-ID", last), 200, ""); len(p.body) != 0 {
			t.Errorf("events after the last: %s", p.body)
		}
	}
	r.want("a bad ID", r.do("root", "GET", at+"/events", nil, "Last-Event-ID", "x"), 400, "invalid")
	if p := r.want("again", r.do("root", "POST", "/v1/runs", object{"content": "is there a walrus?"}, "Idempotency-Key", "k"), 202, ""); p.field("run") != id {
		t.Errorf("again: %s", p.body)
	}
	r.want("another body", r.do("root", "POST", "/v1/runs", object{"content": "other"}, "Idempotency-Key", "k"), 409, "request")
	root := r.g.clients.of("api:root")
	taken := 0
	for ; root.runs.take(); taken++ {
	}
	if p := r.want("again without a slot", r.do("root", "POST", "/v1/runs", object{"content": "is there a walrus?"}, "Idempotency-Key", "k"), 202, ""); p.field("run") != id {
		t.Errorf("again without a slot: %s", p.body)
	}
	r.want("another key without a slot", r.do("root", "POST", "/v1/runs", object{"content": "is there a walrus?"}, "Idempotency-Key", "l"), 429, "runs")
	for range taken {
		root.runs.give()
	}
	for what, q := range map[string]*response{
		"read": r.do("ann", "GET", at, nil), "events": r.do("ann", "GET", at+"/events", nil), "cancel": r.do("ann", "POST", at+"/cancel", nil),
		"answer": r.do("ann", "POST", at+"/answer", object{"content": "x"}), "no run": r.do("root", "GET", "/v1/runs/run_x", nil),
	} {
		r.want("ann: "+what, q, 404, "not_found")
	}
	r.want("answer", r.do("root", "POST", at+"/answer", object{"content": "x"}), 409, "ended")
	r.want("refused", r.do("root", "POST", "/v1/runs", object{"content": "x", "agent": "nobody"}, "Idempotency-Key", "n"), 404, "unknown_agent")
	r.want("refused again", r.do("root", "POST", "/v1/runs", object{"content": "x", "agent": "nobody"}, "Idempotency-Key", "n"), 404, "unknown_agent")
	// After a failure, and after a restart of the gateway, the request continues the turn.
	r.model.Queue(modeltest.Status(401, "no key"), modeltest.Say("fine"))
	first := r.want("begin", r.do("ann", "POST", "/v1/runs", object{"content": "go"}, "Idempotency-Key", "f"), 202, "")
	at = first.Header.Get("Location")
	r.eventually("the run fails", func() bool { return r.do("ann", "GET", at, nil).field("error.kind") == "model_key" })
	again := r.want("begin again", r.do("ann", "POST", "/v1/runs", object{"content": "go"}, "Idempotency-Key", "f"), 202, "")
	at = again.Header.Get("Location")
	r.eventually("the run succeeds", func() bool { return r.do("ann", "GET", at, nil).field("state") == succeeded })
	r.stop()
	c := DefaultConfig()
	c.Limits.Rate, c.Limits.Burst = 1e5, 1e5
	r.start(c)
	r.want("a run of the gateway before", r.do("ann", "GET", at, nil), 404, "not_found")
	at = r.want("begin after a restart", r.do("ann", "POST", "/v1/runs", object{"content": "go"}, "Idempotency-Key", "f"), 202, "").Header.Get("Location")
	r.eventually("the answer", func() bool { return r.do("ann", "GET", at, nil).field("content") == "fine" })
	if n := len(r.model.Requests()); n != 4 {
		t.Errorf("%d requests to the model", n)
	}
}

// TestRunGoesOn: a run continues while no client listens, asks a question, and can be
// canceled. A key has at most two.
func TestRunGoesOn(t *testing.T) {
	r := newRig(t)
	r.model.Queue(modeltest.Call("ask_user", `{"questions":[{"question":"Which?","header":"which","options":[{"label":"a","description":"b"}]},{"question":"Why?","header":"why"}]}`), modeltest.Say("thanks"),
		modeltest.Reply{}.Text("half").Stall(0), modeltest.Reply{}.Text("half").Stall(0))
	ctx, cancel := context.WithCancel(t.Context())
	_, all := r.open(t.Context(), "root", "GET", "/v1/events", nil)
	r.eventually("the subscription", func() bool {
		st, err := op.ReadDaemonStats.Do(t.Context(), r.g.pinger, op.None{})
		return err == nil && st.Subscribers == 1
	})
	at := r.do("root", "POST", "/v1/runs", object{"content": "ask me"}).Header.Get("Location")
	_, next := r.open(ctx, "root", "GET", at+"/events", nil)
	e, ok := next()
	for ok && e.name != "ask" {
		e, ok = next()
	}
	if want := `{"question":"Why?","header":"why","options":[]}]}`; !strings.HasSuffix(e.data, want) {
		t.Errorf("asked %s", e.data)
	}
	cancel() // the tab is closed
	r.want("answer", r.do("root", "POST", at+"/answer", object{"content": "a"}), 204, "")
	r.eventually("the run ends", func() bool { return r.do("root", "GET", at, nil).field("content") == "thanks" })
	for e, ok := all(); e.name != "done"; e, ok = all() { // the question is for the run's client only
		if !ok || e.name == "" {
			t.Fatalf("event %+v", e)
		}
	}
	one := r.do("root", "POST", "/v1/runs", object{"content": "one"}).Header.Get("Location")
	two := r.do("root", "POST", "/v1/runs", object{"content": "two", "new": true}).Header.Get("Location")
	r.want("a third run", r.do("root", "POST", "/v1/runs", object{"content": "three", "new": true}), 429, "runs")
	for _, at := range []string{one, two} {
		r.want("cancel", r.do("root", "POST", at+"/cancel", nil), 204, "")
		r.eventually("it ends", func() bool { return r.do("root", "GET", at, nil).field("state") == cancelled })
	}
	r.eventually("no run is active", func() bool { return r.do("root", "GET", "/v1/status", nil).field("active") == 0.0 })
}

// TestLostEvents says how many events of a long run are dropped. The IDs of the others stay.
func TestLostEvents(t *testing.T) {
	var g Gateway
	b, err := g.encodeRun([]agent.Event{{Kind: agent.TextDelta, Content: "x"}, {Kind: agent.Done}}, 8, 2, "crab")
	list := eventsOf(b)
	if err != nil || len(list) != 3 || list[0] != (sent{"gap", "7", `{"lost":5}`}) || list[1].id != "8" || list[2] != (sent{"", "9", `{"content":"","agent":"crab","done":true}`}) {
		t.Errorf("%+v, %v", list, err)
	}
	if b, err := g.encodeRun([]agent.Event{{Kind: agent.Done}}, 8, 7, "crab"); err != nil || len(eventsOf(b)) != 1 {
		t.Errorf("%s, %v", b, err)
	}
}

// TestFollow receives the events of a key's sessions, and no others.
func TestFollow(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, ann := r.open(ctx, "ann", "GET", "/v1/events", nil)
	if p.StatusCode != 200 || p.Header.Get("Content-Type") != streamKind || p.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("%d %v", p.StatusCode, p.Header)
	}
	_, users := r.open(ctx, "root", "GET", "/v1/events?kind=user&agent=crab", nil)
	_, none := r.open(ctx, "root", "GET", "/v1/events?agent=other", nil)
	_, done := r.open(ctx, "root", "GET", "/v1/events?kind=done", nil)
	r.eventually("the subscriptions", func() bool {
		r.model.Queue(modeltest.Say("x"))
		r.do("bob", "POST", "/v1/send", object{"content": "warm up"})
		st, err := op.ReadDaemonStats.Do(t.Context(), r.g.pinger, op.None{})
		return err == nil && st.Subscribers == 4
	})
	r.model.Queue(modeltest.Say("for bob"), modeltest.Say("for ann"))
	r.do("bob", "POST", "/v1/send", object{"content": "hi from bob"})
	session := r.do("ann", "POST", "/v1/send", object{"content": "hi from ann"}).field("session")
	var kinds []string
	for {
		e, ok := ann()
		if !ok {
			t.Fatal("the stream ended")
		}
		if strings.Contains(e.data, "bob") || (&response{body: []byte(e.data)}).field("session") != session {
			t.Errorf("ann sees %s", e.data)
		}
		if kinds = append(kinds, e.name); e.name == "done" {
			break
		}
	}
	if got := strings.Join(kinds, " "); got != "user text_delta usage done" {
		t.Errorf("kinds: %s", got)
	}
	for {
		e, ok := users()
		if !ok || e.name != "user" {
			t.Fatalf("users: %+v", e)
		}
		if strings.Contains(e.data, "hi from ann") {
			break
		}
	}
	if e, ok := done(); !ok || e.name != "done" {
		t.Errorf("done: %+v", e)
	}
	cancel()
	if e, ok := none(); ok {
		t.Errorf("of another agent: %+v", e)
	}
	r.want("no kind", r.do("ann", "GET", "/v1/events?kind=other", nil), 400, "invalid")
	seen.Store("get_v1_events 200", true)
}
