package gateway

import (
	"fmt"
	"strings"
	"testing"

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
	p := r.want("chat", r.do("ann", "POST", "/v1/chat/completions", body), 200, "")
	session := p.Header.Get("X-Crabmem-Session")
	if p.field("choices.0.message.content") != "first" || p.field("choices.0.message.role") != "assistant" || p.field("choices.0.finish_reason") != "stop" ||
		p.field("object") != "chat.completion" || p.field("model") != "crab" || p.field("usage.total_tokens") == nil || !strings.HasPrefix(fmt.Sprint(p.field("id")), "chatcmpl-") {
		t.Errorf("chat: %s", p.body)
	}
	if got := p.Header.Get("X-Crabmem-Ignored"); got != "max_tokens, n, temperature, tools" {
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
	if p.Header.Get("X-Crabmem-Session") != chat || chat == session {
		t.Errorf("the chat c1 is in %s and %s", chat, p.Header.Get("X-Crabmem-Session"))
	}
	r.want("bob in ann's session", r.do("bob", "POST", "/v1/chat/completions", ask("x"), "X-Crabmem-Session", session), 404, "not_found")
	parts := object{"model": "crab", "messages": []object{{"role": "user", "content": []object{{"type": "text", "text": "a"}, {"type": "text", "text": "b"}}}}}
	r.model.Queue(modeltest.Say("parts"))
	if p := r.do("ann", "POST", "/v1/chat/completions", parts); p.field("choices.0.message.content") != "parts" {
		t.Errorf("parts: %s", p.body)
	}
	for what, change := range map[string]object{
		"no messages": {"messages": []object{}}, "tools": {"tools": []object{{"type": "function"}}}, "two answers": {"n": 2}, "last of the assistant": {"messages": []object{{"role": "assistant", "content": "x"}}},
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
	if got := p.Header.Get("X-Crabmem-Session"); got != session.field("items.1.id") {
		t.Errorf("the conversation is in %s, want %v", got, session.field("items.1.id"))
	}
	body["model"] = "nobody"
	r.want("no agent", r.do("root", "POST", "/v1/chat/completions", body), 404, "unknown_agent")
}

// TestChatTable forgets the oldest conversations.
func TestChatTable(t *testing.T) {
	var table chatTable
	for i := range maxChats + 10 {
		table.set(fmt.Sprint(i), "s")
	}
	if len(table.session) != maxChats || len(table.order) != maxChats || table.get("9") != "" || table.get("10") != "s" {
		t.Errorf("%d and %d conversations", len(table.session), len(table.order))
	}
}
