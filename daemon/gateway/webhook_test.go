package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/box"
	"crabmem/daemon/model/modeltest"
)

// poll reads the answers of a conversation, and the largest number.
func (r *rig) poll(who, conversation, query string) (list []string, last string) {
	r.t.Helper()
	p := r.want("poll", r.do(who, "GET", hookPath+"poll/"+conversation+query, nil), 200, "")
	for _, m := range p.field("messages").([]any) {
		m := m.(map[string]any)
		list, last = append(list, m["content"].(string)), fmt.Sprint(uint64(m["seq"].(float64)))
		if m["type"] != "text" || m["filename"] != nil {
			r.t.Errorf("message %v", m)
		}
	}
	return list, last
}

// TestWebhook sends messages of two conversations, and reads the answers: each once, or
// until a client confirms them.
func TestWebhook(t *testing.T) {
	r := newRig(t)
	r.model.Func(func(q modeltest.Request) modeltest.Reply {
		return modeltest.Say("to " + q.LastUser())
	})
	send := func(conversation, content string, header ...string) string {
		t.Helper()
		p := r.want("send", r.do("ann", "POST", hookPath+"send", object{"conversation_id": conversation, "content": content, "sender_id": "webhook"}, header...), 202, "")
		return p.field("id").(string)
	}
	one := send("a", "1", "Idempotency-Key", "k")
	if again := send("a", "1", "Idempotency-Key", "k"); again != one {
		t.Errorf("a repeated message has the ID %s, want %s", again, one)
	}
	if list, _ := r.poll("ann", "a", "?wait=60"); fmt.Sprint(list) != "[to 1]" {
		t.Errorf("answers %q", list)
	}
	if list, _ := r.poll("ann", "a", ""); list != nil {
		t.Errorf("answers that were read: %q", list)
	}
	r.want("send with a sender", r.do("ann", "POST", hookPath+"send", object{"conversation_id": "b", "content": "hi", "sender_id": "mia"}), 202, "")
	for range 2 {
		if list, _ := r.poll("ann", "b", "?after=0&wait=60"); fmt.Sprint(list) != "[to mia: hi]" {
			t.Errorf("answers %q", list)
		}
	}
	_, last := r.poll("ann", "b", "?after=0")
	send("b", "2")
	if list, _ := r.poll("ann", "b", "?wait=60&after="+last); fmt.Sprint(list) != "[to 2]" {
		t.Errorf("answers %q", list)
	}
	if list, _ := r.poll("bob", "b", "?after=0"); list != nil {
		t.Errorf("answers of another key: %q", list)
	}
	if n := len(r.model.Requests()); n != 3 {
		t.Errorf("%d requests to the model", n)
	}
	for _, q := range r.model.Requests() {
		for _, tool := range q.Tools { // hook:ann/… has no rule in [origins]
			if name := tool; name != "ask_user" {
				t.Errorf("an untrusted conversation has the tool %s", name)
			}
		}
	}
	var sessions []string
	for _, s := range r.do("root", "GET", "/v1/sessions", nil).field("items").([]any) {
		sessions = append(sessions, fmt.Sprint(s.(map[string]any)["created_by"]))
	}
	if slices.Sort(sessions); fmt.Sprint(sessions) != "[hook:ann/a hook:ann/b]" {
		t.Errorf("sessions of %q", sessions)
	}
	if p := r.want("sessions of ann", r.do("ann", "GET", "/v1/sessions", nil), 200, ""); len(p.field("items").([]any)) != 0 {
		t.Errorf("sessions: %s", p.body)
	}
}

// TestWebhookRestart: a message that was accepted without a daemon is answered after
// gateway and daemon started again. A failed run has an answer, too.
func TestWebhookRestart(t *testing.T) {
	r := newRig(t)
	r.model.Queue(modeltest.Say("one"), modeltest.Say("two"))
	r.daemon()
	for _, content := range []string{"1", "2"} {
		r.want("send", r.do("ann", "POST", hookPath+"send", object{"conversation_id": "a", "content": content}), 202, "")
	}
	r.want("unknown agent", r.do("ann", "POST", hookPath+"send", object{"conversation_id": "b", "content": "x", "agent_id": "missing"}), 202, "")
	if p := r.want("health", r.do("", "GET", hookPath+"health", nil), 200, ""); p.field("status") != "no_daemon" {
		t.Errorf("health: %s", p.body)
	}
	r.stop()
	r.startDaemon()
	c := DefaultConfig()
	c.Limits.Rate, c.Limits.Burst = 1e5, 1e5
	r.start(c)
	var got []string
	for after := "0"; len(got) < 2; {
		list, last := r.poll("ann", "a", "?wait=60&after="+after)
		got, after = append(got, list...), last
	}
	if fmt.Sprint(got) != "[one two]" {
		t.Errorf("answers %q", got)
	}
	if list, _ := r.poll("ann", "b", "?wait=60"); len(list) != 1 || !strings.HasPrefix(list[0], "error: ") {
		t.Errorf("answers of an unknown agent: %q", list)
	}
}

// TestWebhookRefusals covers the refusals of the webhook.
func TestWebhookRefusals(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Limits.StreamsPerKey = 1 })
	r.keys["crab"] = r.addKey(Key{Name: "crab", Agents: []string{"other"}})
	good := object{"conversation_id": "a", "content": "x"}
	for _, bad := range []object{{"content": "x"}, {"conversation_id": "a/b", "content": "x"}, {"conversation_id": "a\n", "content": "x"}, {"conversation_id": strings.Repeat("x", 129), "content": "x"},
		{"conversation_id": "a", "content": " "}, {"conversation_id": "a", "content": "x", "sender_id": "a\nb"}, {"conversation_id": "a", "content": "x", "sender_id": strings.Repeat("x", 129)}, {"conversation_id": "a", "content": "x", "message": "x"}} {
		r.want(fmt.Sprint(bad), r.do("ann", "POST", hookPath+"send", bad), 400, "invalid")
	}
	r.want("agent", r.do("crab", "POST", hookPath+"send", good), 403, "agent")
	r.want("poll", r.do("ann", "GET", hookPath+"poll/a%2Fb", nil), 400, "invalid")
	r.want("wait", r.do("ann", "GET", hookPath+"poll/a?wait=61", nil), 400, "invalid")

	r.daemon() // messages wait
	r.want("send", r.do("ann", "POST", hookPath+"send", good, "Idempotency-Key", "k"), 202, "")
	r.want("another message with the key", r.do("ann", "POST", hookPath+"send", object{"conversation_id": "a", "content": "y"}, "Idempotency-Key", "k"), 409, "reused")
	for i := range 255 {
		if _, err := r.g.hooks.box.Add("hook:ann/", fmt.Sprint("hook:ann/", i%7), "", box.Message{Agent: "crab", Content: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if p := r.want("full", r.do("ann", "POST", hookPath+"send", good), 429, "full"); p.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r.want("another key", r.do("bob", "POST", hookPath+"send", good), 202, "")

	r.g.clients.of("api:ann").streams <- struct{}{}
	r.want("streams", r.do("ann", "GET", hookPath+"poll/a", nil), 429, "streams")
	<-r.g.clients.of("api:ann").streams

	for i, header := range [][]string{{"X-Webhook-Token", r.keys["ann"]}, {"X-Api-Key", r.keys["ann"]}} {
		r.want(fmt.Sprint("key ", i), r.do("", "GET", hookPath+"poll/a", nil, header...), 200, "")
		r.want("two keys", r.do("ann", "GET", hookPath+"poll/a", nil, header...), 401, "no_key")
	}
	r.want("two keys", r.do("", "GET", hookPath+"poll/a", nil, "X-Webhook-Token", r.keys["ann"], "X-Api-Key", r.keys["ann"]), 401, "no_key")
	r.want("wrong key", r.do("", "GET", hookPath+"poll/a", nil, "X-Webhook-Token", "cmk_x"), 401, "key")
	r.want("no key", r.do("", "POST", hookPath+"send", good), 401, "no_key")
	r.want("the header elsewhere", r.do("", "GET", "/v1/agents", nil, "X-Webhook-Token", r.keys["ann"]), 401, "no_key")
}
