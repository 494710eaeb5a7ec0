package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/model/modeltest"
)

// TestSend sends messages, in sessions of the key.
func TestSend(t *testing.T) {
	r := newRig(t)
	r.model.Queue(modeltest.Say("hello ann"), modeltest.Say("again"), modeltest.Say("new"))
	p := r.want("send", r.do("ann", "POST", "/v1/send", object{"content": "hi", "agent_id": "crab"}), 200, "")
	id, _ := p.field("session").(string)
	if p.field("content") != "hello ann" || p.field("agent") != "crab" || id == "" || p.field("usage.context_limit") == nil {
		t.Errorf("send: %s", p.body)
	}
	p = r.want("in the session", r.do("ann", "POST", "/v1/send", object{"content": "hi", "session": id}), 200, "")
	if p.field("session") != id {
		t.Errorf("in the session: %s", p.body)
	}
	if p = r.do("ann", "POST", "/v1/send", object{"content": "hi", "new": true}); p.field("session") == id {
		t.Errorf("new: %s", p.body)
	}
	for what, c := range map[string]struct {
		body   object
		status int
		kind   string
	}{
		"empty":         {object{"content": " "}, 400, "invalid"},
		"two agents":    {object{"content": "x", "agent": "crab", "agent_id": "other"}, 400, "invalid"},
		"unknown agent": {object{"content": "x", "agent": "nobody"}, 404, "unknown_agent"},
		"new session":   {object{"content": "x", "new": true, "session": id}, 400, "invalid"},
		"other agent":   {object{"content": "x", "agent": "other", "session": id}, 400, "invalid"},
		"no session":    {object{"content": "x", "session": "crab_x_1"}, 404, "not_found"},
		"unknown model": {object{"content": "x", "model": "nothing"}, 404, "unknown_model"},
		"a path":        {object{"content": "x", "session": "../config.toml"}, 404, "not_found"},
	} {
		r.want(what, r.do("ann", "POST", "/v1/send", c.body), c.status, c.kind)
		r.want(what+", stream", r.do("ann", "POST", "/v1/stream", c.body), c.status, c.kind)
	}
	for _, who := range []string{"bob", "eve"} {
		r.want(who, r.do(who, "POST", "/v1/send", object{"content": "what did ann say?", "session": id}), 404, "not_found")
	}
	r.model.Queue(modeltest.Status(401, "sk-planted is not a key"))
	r.want("a model that fails", r.do("ann", "POST", "/v1/send", object{"content": "x"}), 502, "model_key")
	r.model.Queue(modeltest.Say(""))
	r.want("an empty answer", r.do("ann", "POST", "/v1/send", object{"content": "x"}), 500, "failed")
	r.model.Queue(modeltest.Status(429, "sk-planted: slow down"))
	limited := r.want("a rate limit", r.do("ann", "POST", "/v1/send", object{"content": "x"}), 429, "model_rate_limit")
	if limited.Header.Get("Retry-After") == "" || !strings.Contains(fmt.Sprint(limited.field("remedy")), "wait") {
		t.Errorf("a rate limit: %v %s", limited.Header, limited.field("remedy"))
	}
	if !strings.Contains(r.log.String(), "request failed") {
		t.Errorf("log: %s", r.log)
	}
	if n := len(r.model.Requests()); n != 6 {
		t.Errorf("%d requests to the model", n)
	}
}

// TestStream receives all events of a run with a tool.
func TestStream(t *testing.T) {
	r := newRig(t)
	r.model.Queue(modeltest.Reply{}.Think("hm").Text("let me ", "look").Call("recall", `{"query":"walrus"}`), modeltest.Say("no ", "walrus"))
	p := r.want("stream", r.do("root", "POST", "/v1/stream", object{"content": "is there a walrus?"}, "Idempotency-Key", "k"), 200, "")
	var names []string
	text := ""
	list := eventsOf(p.body)
	for i, e := range list {
		if e.id != fmt.Sprint(i+1) {
			t.Errorf("event %d has the ID %s", i, e.id)
		}
		if len(names) == 0 || names[len(names)-1] != e.name {
			names = append(names, e.name)
		}
		if e.name == "" {
			text += (&response{body: []byte(e.data)}).field("content").(string)
		}
	}
	if got := strings.Join(names, ","); got != "start,appended,thinking,,tool_start,usage,tool_start,tool_result,,usage," {
		t.Errorf("events %s:\n%s", got, p.body)
	}
	if text != "let me look\nno walrus" {
		t.Errorf("text %q", text)
	}
	if last := list[len(list)-1]; last.data != `{"content":"","agent":"crab","done":true}` {
		t.Errorf("the last event: %s", last.data)
	}
	again := r.want("again", r.do("root", "POST", "/v1/stream", object{"content": "is there a walrus?"}, "Idempotency-Key", "k"), 200, "")
	if got := eventsOf(again.body); len(got) != 4 || !strings.Contains(got[1].data, `"repeated":true`) || !strings.Contains(got[2].data, "no walrus") {
		t.Errorf("again: %s", again.body)
	}
	r.want("the key with another message", r.do("root", "POST", "/v1/send", object{"content": "other"}, "Idempotency-Key", "k"), 409, "request")
	if p := r.want("the key again", r.do("root", "POST", "/v1/send", object{"content": "is there a walrus?"}, "Idempotency-Key", "k"), 200, ""); p.field("repeated") != true {
		t.Errorf("sent again: %s", p.body)
	}
	r.model.Queue(modeltest.Reply{}.Text("half").Cut())
	p = r.want("a model that fails", r.do("root", "POST", "/v1/stream", object{"content": "x"}), 200, "")
	list = eventsOf(p.body)
	if n := len(list); n < 3 || list[n-2].name != "error" || !strings.Contains(list[n-2].data, "model_cut") || !strings.Contains(list[n-1].data, `"done":true`) {
		t.Errorf("a failure: %s", p.body)
	}
}

// TestCompactedRun: the answer of a run that compacts its session does not contain the
// note of the compaction.
func TestCompactedRun(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("many words ", 60_000)
	r.model.Queue(modeltest.Say("short"), modeltest.Say("a summary"), modeltest.Say("fine"))
	p := r.want("stream", r.do("ann", "POST", "/v1/stream", object{"content": long}), 200, "")
	text, compacted := "", false
	for _, e := range eventsOf(p.body) {
		if e.name == "" {
			text += (&response{body: []byte(e.data)}).field("content").(string)
		}
		compacted = compacted || e.name == "compacted"
	}
	if text != "short" || !compacted {
		t.Errorf("text %q, compacted %t", text, compacted)
	}
}

// TestHangUp ends runs when their clients disconnect, and streams when the gateway stops.
func TestHangUp(t *testing.T) {
	r := newRig(t)
	r.check = false
	for _, path := range []string{"/v1/send", "/v1/stream"} {
		r.model.Queue(modeltest.Reply{}.Text("half").Stall(0))
		ctx, cancel := context.WithCancel(t.Context())
		q, err := http.NewRequestWithContext(ctx, "POST", r.url+path, strings.NewReader(`{"content":"go"}`))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+r.keys["ann"])
		q.Header.Set("Content-Type", "application/json")
		before := len(r.model.Requests())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if p, err := http.DefaultClient.Do(q); err == nil {
				_, _ = io.Copy(io.Discard, p.Body)
				p.Body.Close()
			}
		}()
		r.eventually("the model is asked by "+path, func() bool { return len(r.model.Requests()) > before })
		cancel()
		<-ended
		r.eventually("the run ends", func() bool { return r.do("ann", "GET", "/v1/status", nil).field("active") == 0.0 })
	}
	r.model.Queue(modeltest.Reply{}.Text("half").Stall(0))
	q, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/v1/stream", strings.NewReader(`{"content":"go"}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+r.keys["ann"])
	q.Header.Set("Content-Type", "application/json")
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Body.Close()
	lines := bufio.NewScanner(p.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "half") {
	}
	began := time.Now()
	r.stop()
	for lines.Scan() {
	}
	gate.Time(t, "stop", began, shutdownTime)
}

// TestUntrustedRuns: a key that is not trusted begins at most so many runs in a minute.
func TestUntrustedRuns(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Limits.UntrustedRuns = 2 })
	r.model.Func(func(modeltest.Request) modeltest.Reply { return modeltest.Say("fine") })
	for _, who := range []string{"ann", "eve"} {
		for _, path := range []string{"/v1/send", "/v1/stream"} {
			r.want(who+" "+path, r.do(who, "POST", path, object{"content": "x"}), 200, "")
		}
	}
	for _, path := range []string{"/v1/send", "/v1/stream", "/v1/runs"} {
		p := r.want("eve "+path, r.do("eve", "POST", path, object{"content": "x"}), 429, "rate")
		if wait, err := strconv.Atoi(p.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 31 {
			t.Errorf("Retry-After %q", p.Header.Get("Retry-After"))
		}
	}
	r.want("ann again", r.do("ann", "POST", "/v1/send", object{"content": "x"}), 200, "")
	r.want("eve reads", r.do("eve", "GET", "/v1/sessions", nil), 200, "")
}

// TestRunLimit: a run beyond a limit of the daemon is refused, also as a stream, with the
// time until the next one.
func TestRunLimit(t *testing.T) {
	r := newRig(t)
	r.model.Func(func(modeltest.Request) modeltest.Reply { return modeltest.Say("fine") })
	r.want("a run", r.do("ann", "POST", "/v1/send", object{"content": "x"}), 200, "")
	r.configure("tokens_per_day = 1\n")
	for _, path := range []string{"/v1/send", "/v1/stream", "/v1/runs"} {
		p := r.want("ann "+path, r.do("ann", "POST", path, object{"content": "x"}), 429, "limit")
		if wait, err := strconv.Atoi(p.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 25*3600 {
			t.Errorf("%s: Retry-After %q", path, p.Header.Get("Retry-After"))
		}
	}
	r.want("ann reads the usage", r.do("ann", "GET", "/v1/usage", nil), 403, "scope")
	p := r.want("root reads the usage", r.do("root", "GET", "/v1/usage?by=agent&days=1", nil), 200, "")
	if !strings.Contains(string(p.body), `"name":"crab","runs":1,`) {
		t.Errorf("the usage is %s", p.body)
	}
	r.want("a wrong group", r.do("root", "GET", "/v1/usage?by=week", nil), 400, "invalid")
}

// TestNextRun: who reads the end of a run may begin the next one.
func TestNextRun(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Limits.RunsPerKey, c.Gateway.OpenAI = 1, true })
	r.model.Func(func(q modeltest.Request) modeltest.Reply { return modeltest.Say("fine") })
	for range 50 {
		at := r.want("a run", r.do("ann", "POST", "/v1/runs", object{"content": "x"}), 202, "").Header.Get("Location")
		r.eventually("it ends", func() bool { return r.do("ann", "GET", at, nil).field("state") == succeeded })
		q, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/v1/stream", strings.NewReader(`{"content":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+r.keys["ann"])
		q.Header.Set("Content-Type", "application/json")
		p, err := http.DefaultClient.Do(q)
		if err != nil || p.StatusCode != 200 {
			t.Fatal(p, err)
		}
		for lines := bufio.NewScanner(p.Body); lines.Scan() && !strings.Contains(lines.Text(), `"done":true`); { // it does not wait for the end of the response
		}
		r.want("the next one", r.do("ann", "POST", "/v1/send", object{"content": "x"}), 200, "")
		p.Body.Close()
	}
}

// TestRunsOfKey: a key has at most so many runs and streams.
func TestRunsOfKey(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Limits.RunsPerKey, c.Limits.StreamsPerKey, c.Limits.Streams = 1, 1, 1 })
	ann := r.g.clients.of("api:ann")
	ann.runs.take()
	r.want("a second run", r.do("ann", "POST", "/v1/send", object{"content": "x"}), 429, "runs")
	ann.runs.give()
	ann.streams.take()
	r.want("a second stream", r.do("ann", "POST", "/v1/stream", object{"content": "x"}), 429, "streams")
	r.want("a second stream of events", r.do("ann", "GET", "/v1/events", nil), 429, "streams")
	r.model.Queue(modeltest.Say("fine"))
	at := r.want("a run", r.do("ann", "POST", "/v1/runs", object{"content": "x"}), 202, "").Header.Get("Location")
	r.eventually("it ends", func() bool { return r.do("ann", "GET", at, nil).field("state") == succeeded })
	r.want("a second stream of a run", r.do("ann", "GET", at+"/events", nil), 429, "streams")
	ann.streams.give()
	r.g.streams.take()
	r.want("a stream of another key", r.do("ann", "POST", "/v1/stream", object{"content": "x"}), 503, "busy")
	r.g.streams.give()
	r.model.Queue(modeltest.Say("fine"), modeltest.Say("fine"))
	for range 2 {
		r.want("a stream", r.do("ann", "POST", "/v1/stream", object{"content": "x"}), 200, "")
	}
}
