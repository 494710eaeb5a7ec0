package gateway

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/model/modeltest"
)

// withOpenAI turns the paths of OpenAI on.
func withOpenAI(c *Config) { c.Gateway.OpenAI = true }

// ask sends messages, alternately of user and assistant.
func ask(texts ...string) object {
	var list []object
	for i, text := range texts {
		list = append(list, object{"role": []string{"user", "assistant"}[i%2], "content": text})
	}
	return object{"model": "crab", "messages": list}
}

// TestOpenAIOff: the paths are off by default.
func TestOpenAIOff(t *testing.T) {
	r := newRig(t)
	r.want("models", r.do("ann", "GET", "/v1/models", nil), 404, "no_route")
	r.want("chat", r.do("ann", "POST", "/v1/chat/completions", ask("x")), 404, "no_route")
}

// TestChat sends conversations as clients of OpenAI do, and finds their sessions.
func TestChat(t *testing.T) {
	r := newRig(t, withOpenAI)
	if p := r.want("models", r.do("ann", "GET", "/v1/models", nil), 200, ""); p.field("data.0.id") != "crab" || p.field("object") != "list" {
		t.Errorf("models: %s", p.body)
	}
	if p := r.want("model", r.do("ann", "GET", "/v1/models/crab", nil), 200, ""); p.field("id") != "crab" || p.field("owned_by") != "crabmem" {
		t.Errorf("model: %s", p.body)
	}
	r.want("no model", r.do("ann", "GET", "/v1/models/gpt", nil), 404, "unknown_agent")
	r.model.Queue(modeltest.Say("first"), modeltest.Say("second"), modeltest.Say("third"), modeltest.Say("fourth"), modeltest.Say("fifth"), modeltest.Say("sixth"))
	body := ask("one")
	body["temperature"], body["max_tokens"], body["n"], body["tools"] = 0.5, 10, 1, nil
	body["tool_choice"], body["response_format"] = "auto", object{"type": "text"}
	p := r.want("chat", r.do("ann", "POST", "/v1/chat/completions", body), 200, "")
	session := p.Header.Get("X-Crabmem-Session")
	if p.field("choices.0.message.content") != "first" || p.field("choices.0.message.role") != "assistant" || p.field("choices.0.finish_reason") != "stop" ||
		p.field("object") != "chat.completion" || p.field("model") != "crab" || p.field("usage.total_tokens") == nil || !strings.HasPrefix(fmt.Sprint(p.field("id")), "chatcmpl-") {
		t.Errorf("chat: %s", p.body)
	}
	if got := p.Header.Get("X-Crabmem-Ignored"); got != "max_tokens, n, response_format, temperature, tool_choice, tools" {
		t.Errorf("ignored: %q", got)
	}
	p = r.do("ann", "POST", "/v1/chat/completions", ask("one", "first", "two"))
	if p.field("choices.0.message.content") != "second" || p.Header.Get("X-Crabmem-Session") != session {
		t.Errorf("the same conversation: %s in %s", p.body, p.Header.Get("X-Crabmem-Session"))
	}
	if sent := r.model.Requests()[1].Messages; len(sent) < 3 || !strings.Contains(fmt.Sprint(sent), "first") || strings.Contains(fmt.Sprint(sent), "> user") {
		t.Errorf("the model received %v", sent)
	}
	p = r.do("ann", "POST", "/v1/chat/completions", ask("one", "another answer", "two"))
	other := p.Header.Get("X-Crabmem-Session")
	if other == session {
		t.Error("an edited conversation continues the session")
	}
	history := r.do("ann", "GET", "/v1/sessions/"+other+"/history", nil)
	if got := history.field("items.1.record.content"); got != "> user: one\n> assistant: another answer\n\ntwo" {
		t.Errorf("the transcript: %q", got)
	}
	p = r.do("ann", "POST", "/v1/chat/completions", ask("again"), "X-Crabmem-Session", session)
	if p.Header.Get("X-Crabmem-Session") != session {
		t.Error("the header names no session")
	}
	p = r.do("ann", "POST", "/v1/chat/completions", ask("hello"), "X-OpenWebUI-Chat-Id", "c1")
	chat := p.Header.Get("X-Crabmem-Session")
	p = r.do("ann", "POST", "/v1/chat/completions", ask("x", "edited", "y"), "X-OpenWebUI-Chat-Id", "c1")
	if p.Header.Get("X-Crabmem-Session") == chat || chat == session {
		t.Errorf("an edited chat c1 is in %s and %s", chat, p.Header.Get("X-Crabmem-Session"))
	}
	r.want("bob in ann's session", r.do("bob", "POST", "/v1/chat/completions", ask("x"), "X-Crabmem-Session", session), 404, "not_found")
	parts := object{"model": "crab", "messages": []object{{"role": "user", "content": []object{{"type": "text", "text": "a"}, {"type": "text", "text": "b"}}}}}
	r.model.Queue(modeltest.Say("parts"))
	if p := r.do("ann", "POST", "/v1/chat/completions", parts); p.field("choices.0.message.content") != "parts" {
		t.Errorf("parts: %s", p.body)
	}
	for what, change := range map[string]object{
		"no messages": {"messages": []object{}}, "tools": {"tools": []object{{"type": "function"}}},
		"a format": {"response_format": object{"type": "json_schema", "json_schema": object{"name": "n"}}}, "JSON": {"response_format": object{"type": "json_object"}}, "no format": {"response_format": 1},
		"no calls": {"tool_choice": "none"}, "calls": {"tool_choice": "required"}, "one tool": {"tool_choice": object{"type": "function", "function": object{"name": "recall"}}},
		"two answers": {"n": 2}, "last of the assistant": {"messages": []object{{"role": "assistant", "content": "x"}}},
		"an image": {"messages": []object{{"role": "user", "content": []object{{"type": "image_url", "image_url": "x"}}}}}, "a number": {"messages": []object{{"role": "user", "content": 1}}},
	} {
		body := ask("x")
		for k, v := range change {
			body[k] = v
		}
		r.want(what, r.do("ann", "POST", "/v1/chat/completions", body), 400, "invalid")
	}
	r.want("no agent", r.do("ann", "POST", "/v1/chat/completions", object{"model": "gpt-4o", "messages": ask("x")["messages"]}), 404, "unknown_agent")
	r.want("no key", r.do("", "POST", "/v1/chat/completions", ask("x")), 401, "no_key")
	ann := r.g.clients.of("api:ann")
	for ann.runs.take() {
	}
	r.want("runs", r.do("ann", "POST", "/v1/chat/completions", ask("x")), 429, "runs")
	for range cap(ann.runs) {
		ann.runs.give()
	}
	r.keys["only"] = r.addKey(Key{Name: "only", Agents: []string{"other"}})
	r.want("an agent of others", r.do("only", "POST", "/v1/chat/completions", ask("x")), 403, "agent")
	r.model.Queue(modeltest.Say("once"))
	r.do("ann", "POST", "/v1/chat/completions", ask("once"), "Idempotency-Key", "k")
	r.want("the key with another message", r.do("ann", "POST", "/v1/chat/completions", ask("other"), "Idempotency-Key", "k"), 409, "request")
}

// TestChatStream receives a streamed answer.
func TestChatStream(t *testing.T) {
	r := newRig(t, withOpenAI)
	r.model.Queue(modeltest.Reply{}.Think("hm").Text("let me look").Call("recall", `{"query":"walrus"}`), modeltest.Say("no ", "walrus"), modeltest.Reply{}.Text("half").Cut(), modeltest.Say("later"))
	body := ask("a walrus?")
	body["stream"], body["stream_options"] = true, object{"include_usage": true}
	p := r.want("stream", r.do("root", "POST", "/v1/chat/completions", body), 200, "")
	list := eventsOf(p.body)
	text := ""
	for i, e := range list {
		one := &response{body: []byte(e.data)}
		if s, ok := one.field("choices.0.delta.content").(string); ok {
			text += s
		}
		switch n := len(list) - i; {
		case i == 0 && (one.field("choices.0.delta.role") != "assistant" || one.field("choices.0.delta.content") != ""):
			t.Errorf("the first event: %s", e.data)
		case n == 3 && one.field("choices.0.finish_reason") != "stop", n == 2 && (one.field("usage.total_tokens") == nil || !strings.Contains(e.data, `"choices":[]`)), n == 1 && e.data != "[DONE]":
			t.Errorf("event %d from the end: %s", n, e.data)
		case n > 1 && (one.field("object") != "chat.completion.chunk" || e.name != "" || n > 2 && one.field("usage") != nil):
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if text != "let me look\nno walrus" {
		t.Errorf("text %q", text)
	}
	body = ask("x")
	body["stream"] = true
	p = r.want("a model that fails", r.do("root", "POST", "/v1/chat/completions", body), 200, "")
	list = eventsOf(p.body)
	if last := list[len(list)-1].data; !strings.Contains(last, `"error":{`) || strings.Contains(string(p.body), "[DONE]") {
		t.Errorf("a failure: %s", p.body)
	}
	// The next request continues the conversation of the stream.
	session := r.do("root", "GET", "/v1/sessions", nil)
	p = r.do("root", "POST", "/v1/chat/completions", ask("a walrus?", "let me look\nno walrus", "later?"))
	if got := p.Header.Get("X-Crabmem-Session"); got != session.field("items.1.session") {
		t.Errorf("the conversation is in %s, want %v", got, session.field("items.1.session"))
	}
	body["model"] = "nobody"
	r.want("no agent", r.do("root", "POST", "/v1/chat/completions", body), 404, "unknown_agent")
}

// chatOf sends a conversation, and returns its session and its answer.
func (r *rig) chatOf(texts []string, header ...string) (session, answer string) {
	r.t.Helper()
	p := r.want(fmt.Sprint(texts), r.do("ann", "POST", "/v1/chat/completions", ask(texts...), header...), 200, "")
	answer, _ = p.field("choices.0.message.content").(string)
	return p.Header.Get("X-Crabmem-Session"), answer
}

// TestChatSessions: a request continues the only session whose messages the client saw,
// also after a restart; the second of two equal conversations, a repeated message, and a
// message after a failed run begin others.
func TestChatSessions(t *testing.T) {
	r := newRig(t, withOpenAI)
	r.model.Func(func(q modeltest.Request) modeltest.Reply {
		if q.LastUser() == "fail" {
			return modeltest.Status(500, "no")
		}
		return modeltest.Say("Hello!")
	})
	a, _ := r.chatOf([]string{"hi"})
	if got, _ := r.chatOf([]string{" hi", "Hello!\n", "my PIN is 4711"}); got != a {
		t.Error("the only session of a conversation does not continue")
	}
	b, _ := r.chatOf([]string{"hi"})
	if got, _ := r.chatOf([]string{"hi", "Hello!", "edited"}); got == a || got == b {
		t.Error("a conversation that two sessions had continues one of them")
	}
	r.restart()
	if got, _ := r.chatOf([]string{"hi", "Hello!", "edited"}); got == a || got == b {
		t.Error("a conversation that two sessions had before a restart continues one of them")
	}
	if got, _ := r.chatOf([]string{"hi", "Hello!", "my PIN is 4711", "Hello!", "more"}); got != a {
		t.Error("the only session of a conversation does not continue after a restart")
	}
	// Another client continues the session.
	c, _ := r.chatOf([]string{"ho"})
	r.do("ann", "POST", "/v1/send", object{"content": "of another user", "session": c})
	if got, _ := r.chatOf([]string{"ho", "Hello!", "more"}); got == c {
		t.Error("a conversation continues a session that another client has continued")
	}
	// A run fails.
	d, _ := r.chatOf([]string{"ha"})
	if p := r.do("ann", "POST", "/v1/chat/completions", ask("ha", "Hello!", "fail")); p.StatusCode == 200 {
		t.Error("an answer of a model that fails")
	}
	if got, _ := r.chatOf([]string{"ha", "Hello!", "more"}); got == d {
		t.Error("a conversation continues after a message that it does not contain")
	}
	// Its session is removed.
	e, _ := r.chatOf([]string{"he"})
	r.want("delete", r.do("ann", "DELETE", "/v1/sessions/"+e, nil), 200, "")
	stream := ask("he", "Hello!", "more")
	stream["stream"] = true
	if p := r.want("a removed session", r.do("ann", "POST", "/v1/chat/completions", stream), 200, ""); p.Header.Get("X-Crabmem-Session") == e {
		t.Error("a conversation continues a removed session")
	}
	// The value of user distinguishes conversations.
	f := r.want("user", r.do("ann", "POST", "/v1/chat/completions", object{"model": "crab", "user": "f", "messages": ask("hu")["messages"]}), 200, "")
	if got, _ := r.chatOf([]string{"hu", "Hello!", "more"}); got == f.Header.Get("X-Crabmem-Session") {
		t.Error("a conversation continues the session of another user")
	}
}

// TestNamedChat: a session that a header names must have the other messages of the request,
// if there are any, and be of the key and the agent.
func TestNamedChat(t *testing.T) {
	r := newRig(t, withOpenAI)
	r.model.Func(func(q modeltest.Request) modeltest.Reply { return modeltest.Say("Hello!") })
	named := func(what, who, session string, status int, kind string, texts ...string) {
		t.Helper()
		p := r.want(what, r.do(who, "POST", "/v1/chat/completions", ask(texts...), "X-Crabmem-Session", session), status, kind)
		if got := p.Header.Get("X-Crabmem-Session"); status == 200 && got != session {
			t.Errorf("%s: the session %s", what, got)
		}
	}
	a, _ := r.chatOf([]string{"hi"})
	named("other messages", "ann", a, 409, "conversation", "ho", "Hello!", "more")
	named("all messages", "ann", a, 200, "", "hi", "Hello!", "more")
	named("an earlier state", "ann", a, 409, "conversation", "hi", "Hello!", "edited")
	named("the newest message", "ann", a, 200, "", "and then?")
	if got, _ := r.chatOf([]string{"hi", "Hello!", "more", "Hello!", "and then?", "Hello!", "last"}); got != a {
		t.Error("the session does not continue after a message without the others")
	}
	named("another key", "bob", a, 404, "not_found", "x")
	named("the session of another key, by an admin", "root", a, 403, "session", "x")
	body := ask("x")
	body["model"] = "other"
	r.want("another agent", r.do("ann", "POST", "/v1/chat/completions", body, "X-Crabmem-Session", a), 400, "invalid")
	sent := r.do("ann", "POST", "/v1/send", object{"content": "x", "new": true}).field("session").(string)
	named("a session of another path", "ann", sent, 409, "conversation", "x", "Hello!", "more")
	named("a session of another path, without messages", "ann", sent, 200, "", "more")
	r.do("ann", "POST", "/v1/send", object{"content": "of another client", "session": a})
	named("a session that another client has continued", "ann", a, 409, "continued", "hi", "Hello!", "more", "Hello!", "and then?", "Hello!", "last", "Hello!", "on")
}

// TestChatTwice repeats a request with an Idempotency-Key: in the session that it
// continued, in the one that it created, and after a restart.
func TestChatTwice(t *testing.T) {
	r := newRig(t, withOpenAI)
	var n atomic.Int32
	r.model.Func(func(modeltest.Request) modeltest.Reply { return modeltest.Say(fmt.Sprint("answer ", n.Add(1))) })
	twice := func(key string, texts ...string) (answer string) {
		t.Helper()
		session, answer := r.chatOf(texts, "Idempotency-Key", key)
		for _, restart := range []bool{false, true} {
			if restart {
				r.restart()
			}
			if s, a := r.chatOf(texts, "Idempotency-Key", key); s != session || a != answer {
				t.Errorf("%s again (restart %v): %s in %s, want %s in %s", key, restart, a, s, answer, session)
			}
			body := ask(texts...)
			body["messages"] = append([]object{{"role": "system", "content": "other"}}, body["messages"].([]object)...)
			r.want("another body", r.do("ann", "POST", "/v1/chat/completions", body, "Idempotency-Key", key), 409, "request")
		}
		return answer
	}
	one := twice("a", "hi")
	two := twice("b", "hi", one, "more")
	r.chatOf([]string{"hi", one, "more", two, "last"})
	twice("b", "hi", one, "more")
	twice("c", "hi", "edited", "more")
	if n := n.Load(); n != 4 {
		t.Errorf("%d requests to the model, want 4", n)
	}
}

// TestRepeatedByClient repeats a failed call as the libraries of OpenAI do. The calls leave
// one session, with the message once. The call of another client begins another session.
func TestRepeatedByClient(t *testing.T) {
	for _, stream := range []bool{false, true} {
		r := newRig(t, withOpenAI)
		send := func(retry int, texts ...string) *response {
			body := ask(texts...)
			body["stream"] = stream
			return r.do("ann", "POST", "/v1/chat/completions", body, "X-Stainless-Retry-Count", fmt.Sprint(retry))
		}
		sessions := func(want int) {
			if got := r.do("ann", "GET", "/v1/sessions", nil).field("items"); len(got.([]any)) != want {
				t.Errorf("stream %v: %d sessions, want %d", stream, len(got.([]any)), want)
			}
		}
		r.model.Queue(modeltest.Status(429, "slow down"), modeltest.Status(402, "no credit"), modeltest.Status(503, "busy"), modeltest.Say("hello"))
		for retry, status := range []int{429, 502, 503, 200} {
			if p := send(retry, "hi"); p.StatusCode != status || (p.Header.Get("Retry-After") != "") != (status == 429 || status == 503) {
				t.Fatalf("stream %v, retry %d: %d %s", stream, retry, p.StatusCode, p.body)
			}
		}
		sessions(1)
		r.model.Queue(modeltest.Status(503, "busy"), modeltest.Say("yes"))
		send(0, "hi", "hello", "go on")
		p := send(1, "hi", "hello", "go on")
		sessions(1)
		history := r.do("ann", "GET", "/v1/sessions/"+p.Header.Get("X-Crabmem-Session")+"/history", nil)
		if got := strings.Count(string(history.body), `"role":"user"`); got != 2 {
			t.Errorf("stream %v: %d messages of the user: %s", stream, got, history.body)
		}
		r.model.Queue(modeltest.Status(503, "busy"), modeltest.Status(503, "busy"), modeltest.Say("yes"), modeltest.Say("yes"))
		send(0, "new") // of one client
		send(0, "new") // of another one
		send(1, "new")
		send(1, "new")
		sessions(5)
	}
}

// TestLateHeader checks that the first comment sends the header of a stream only after
// await.
func TestLateHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := newEventStream(w)
		defer s.close()
		time.Sleep(2*aliveEvery + 1)
		if s.isOpen() {
			t.Error("the header is sent")
		}
		s.await()
		time.Sleep(aliveEvery)
		if synctest.Wait(); !s.isOpen() || w.Body.String() != ": alive\n\n" || w.Header().Get("X-Accel-Buffering") != "no" {
			t.Errorf("after await: %q, %v", w.Body, w.Header())
		}
	})
}
