package gateway

import (
	"fmt"
	"testing"

	"crabmem/daemon/model/modeltest"
)

// TestSessions lists, reads, searches, titles, deletes, restores, compacts, and cancels
// sessions.
func TestSessions(t *testing.T) {
	r := newRig(t)
	var ids []string
	for i := range 3 {
		r.model.Queue(modeltest.Say(fmt.Sprint("the walrus number ", i)))
		p := r.do("ann", "POST", "/v1/send", object{"content": fmt.Sprint("question ", i), "new": true})
		ids = append(ids, p.field("session").(string))
	}
	p := r.want("list", r.do("ann", "GET", "/v1/sessions?limit=2", nil), 200, "")
	if p.field("items.0.session") != ids[2] || p.field("items.1.session") != ids[1] || p.field("next") != "2" || p.field("total") != 3.0 || p.field("items.0.created_by") != "api:ann" {
		t.Errorf("list: %s", p.body)
	}
	if p := r.do("ann", "GET", "/v1/sessions?limit=0", nil); len(p.field("items").([]any)) != 1 || p.field("next") != "1" {
		t.Errorf("a page of no sessions: %s", p.body)
	}
	if p := r.do("ann", "GET", "/v1/sessions?limit=2&after=2", nil); p.field("items.0.session") != ids[0] || p.field("next") != nil {
		t.Errorf("second page: %s", p.body)
	}
	if p := r.do("ann", "GET", "/v1/sessions?agent=other", nil); p.field("items.0") != nil {
		t.Errorf("of another agent: %s", p.body)
	}
	at := "/v1/sessions/" + ids[0]
	if p := r.want("read", r.do("ann", "GET", at, nil), 200, ""); p.field("messages") != 2.0 || p.field("title") != "" || p.field("loaded") != true {
		t.Errorf("read: %s", p.body)
	}
	if p := r.want("history", r.do("ann", "GET", at+"/history", nil), 200, ""); p.field("items.0.kind") != "meta" || p.field("items.1.record.content") != "question 0" ||
		p.field("items.2.record.content") != "the walrus number 0" || p.field("items.2.line") != 3.0 || p.field("session.session") != ids[0] {
		t.Errorf("history: %s", p.body)
	}
	if p := r.do("ann", "GET", at+"/history?limit=1&after=1", nil); p.field("items.0.line") != 2.0 || p.field("items.1") != nil || p.field("next") != "2" {
		t.Errorf("history in pages: %s", p.body)
	}
	ask := object{"query": "walrus", "limit": 2, "window": 0, "roles": []string{"assistant"}, "since": "2020-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"}
	if p := r.want("search", r.do("ann", "POST", "/v1/sessions/search", ask), 200, ""); p.field("total") != 3.0 || p.field("hits.1.role") != "assistant" || p.field("hits.2") != nil {
		t.Errorf("search: %s", p.body)
	}
	if p := r.do("ann", "POST", "/v1/sessions/search", object{"query": "walrus", "window": 3, "semantic": true}); p.field("hits.0.window.0") == nil || p.field("meaning") == nil {
		t.Errorf("window: %s", p.body)
	}
	for _, body := range []object{{"query": ""}, {"query": "x", "limit": 21}, {"query": "x", "window": 17}, {"query": "x", "since": "yesterday"}} {
		r.want(fmt.Sprint(body), r.do("ann", "POST", "/v1/sessions/search", body), 400, "invalid")
	}
	if p := r.want("title", r.do("ann", "PATCH", at, object{"title": "a walrus"}), 200, ""); p.field("title") != "a walrus" {
		t.Errorf("title: %s", p.body)
	}
	r.want("cancel", r.do("ann", "POST", at+"/cancel", nil), 204, "")
	r.model.Queue(modeltest.Say("They spoke of a walrus."))
	if p := r.want("compact", r.do("ann", "POST", at+"/compact", object{"focus": "walruses"}), 200, ""); p.field("summary") != "They spoke of a walrus." {
		t.Errorf("compact: %s", p.body)
	}
	r.want("delete", r.do("ann", "DELETE", at, nil), 200, "")
	r.want("read it", r.do("ann", "GET", at, nil), 404, "not_found")
	if p := r.do("ann", "GET", "/v1/sessions?trash=true", nil); p.field("items.0.session") != ids[0] {
		t.Errorf("trash: %s", p.body)
	}
	r.want("restore", r.do("ann", "POST", at+"/restore", nil), 200, "")
	r.want("restore again", r.do("ann", "POST", at+"/restore", nil), 404, "not_found")
	r.want("read it again", r.do("ann", "GET", at, nil), 200, "")
	trashed := ids[1]
	r.want("delete another", r.do("ann", "DELETE", "/v1/sessions/"+trashed, nil), 200, "")
	for _, who := range []string{"bob", "eve"} {
		for what, p := range map[string]*response{
			"read": r.do(who, "GET", at, nil), "history": r.do(who, "GET", at+"/history", nil), "cancel": r.do(who, "POST", at+"/cancel", nil),
		} {
			r.want(who+": "+what, p, 404, "not_found")
		}
		status, kind := 404, "not_found"
		if who == "eve" {
			status, kind = 403, "scope"
		}
		for what, p := range map[string]*response{
			"title": r.do(who, "PATCH", at, object{"title": "x"}), "delete": r.do(who, "DELETE", at, nil), "compact": r.do(who, "POST", at+"/compact", object{}),
		} {
			r.want(who+": "+what, p, status, kind)
		}
		r.want(who+": tools", r.do(who, "POST", "/v1/sessions/search", object{"query": "walrus", "tools": true}), 403, "scope")
		r.want(who+": restore", r.do(who, "POST", "/v1/sessions/"+trashed+"/restore", nil), status, kind)
		if p := r.do(who, "GET", "/v1/sessions", nil); p.field("items.0") != nil || p.field("total") != 0.0 {
			t.Errorf("%s sees %s", who, p.body)
		}
		if p := r.do(who, "POST", "/v1/sessions/search", object{"query": "walrus"}); p.field("hits.0") != nil {
			t.Errorf("%s finds %s", who, p.body)
		}
	}
	if p := r.do("root", "GET", "/v1/sessions", nil); p.field("total") != 2.0 {
		t.Errorf("an admin sees %s", p.body)
	}
}

// TestBusySession refuses to delete a session with a run, which cancel ends.
func TestBusySession(t *testing.T) {
	r := newRig(t)
	r.model.Queue(modeltest.Say("fine"), modeltest.Reply{}.Text("half").Stall(0))
	at := "/v1/sessions/" + r.do("ann", "POST", "/v1/send", object{"content": "one"}).field("session").(string)
	ended := make(chan *response)
	go func() { ended <- r.do("ann", "POST", "/v1/stream", object{"content": "two"}) }()
	r.eventually("a run", func() bool { return r.do("ann", "GET", at, nil).field("active") == true })
	r.want("delete", r.do("ann", "DELETE", at, nil), 409, "busy")
	r.want("cancel", r.do("ann", "POST", at+"/cancel", nil), 204, "")
	list := eventsOf((<-ended).body)
	if n := len(list); n < 2 || list[n-2].name != cancelled {
		t.Errorf("the run ended with %+v", list)
	}
	r.want("delete", r.do("ann", "DELETE", at, nil), 200, "")
}

// TestAgentsAndStatus reads agents, models, and figures.
func TestAgentsAndStatus(t *testing.T) {
	r := newRig(t)
	if p := r.want("agents", r.do("ann", "GET", "/v1/agents", nil), 200, ""); p.field("0.name") != "crab" || p.field("0.tools.0") == nil {
		t.Errorf("agents: %s", p.body)
	}
	if p := r.want("agent", r.do("ann", "GET", "/v1/agents/crab", nil), 200, ""); p.field("name") != "crab" {
		t.Errorf("agent: %s", p.body)
	}
	r.want("no agent", r.do("ann", "GET", "/v1/agents/nobody", nil), 404, "unknown_agent")
	if p := r.want("status", r.do("eve", "GET", "/v1/status", nil), 200, ""); p.field("version") != "test" || p.field("agents") != 1.0 || p.field("models.0.name") == nil {
		t.Errorf("status: %s", p.body)
	}
}
