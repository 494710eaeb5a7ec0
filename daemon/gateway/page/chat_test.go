package page

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/model/modeltest"
)

// until loads the current session again until a text is on the page.
func (p *person) until(text string) *person {
	p.Helper()
	for began := time.Now(); !strings.Contains(p.text, text); p.open(p.at) {
		if time.Since(began) > gate.Hang {
			p.Fatalf("%s never shows %q: %s", p.at, text, p.text)
		}
	}
	return p
}

// users returns the number of messages of the user on the page.
func (p *person) users() int { return strings.Count(p.text, `class="user"`) }

// TestChat sends messages to an agent, and loads the page while it answers.
func TestChat(t *testing.T) {
	r := newRig(t)
	p := r.visitor().open("/ui/chat")
	r.model.Queue(modeltest.Say("**half** of").Stall(0).Text(" it"), modeltest.Say("the second answer"))
	p.submit("/ui/chat", map[string]string{"content": "one\ntwo"})
	session, _, _ := strings.Cut(strings.TrimPrefix(p.at, "/ui/sessions/"), "?")
	if p.code != 200 || p.users() != 1 || !strings.Contains(p.text, "<p>one<br>\ntwo</p>") {
		t.Fatalf("send: %d, %s, %s", p.code, p.at, p.text)
	}
	p.until("<strong>half</strong>")
	if p.next != "2; url=/ui/sessions/"+session+"?last=2#end" || !strings.Contains(p.text, "The agent is answering") || strings.Contains(p.text, `name="request"`) {
		t.Errorf("during the run: Refresh %q, %s", p.next, p.text)
	}
	if other := p.visitor().open("/ui/sessions/" + session + "?after=0"); other.next == "" {
		t.Error("another browser does not load the page again")
	}
	r.model.Release()
	p.until(`name="request"`)
	if p.next != "" || !strings.Contains(p.text, "<strong>half</strong> of it") || strings.Contains(p.text, "The agent is answering") {
		t.Errorf("after the run: Refresh %q, %s", p.next, p.text)
	}
	// A browser may send a form twice.
	form := "/ui/sessions/" + session
	twice := *p
	p.submit(form, map[string]string{"content": "again"}).until("the second answer")
	twice.submit(form, map[string]string{"content": "again"}).until(`name="request"`)
	if twice.users() != 2 || strings.Count(twice.text, "the second answer") != 1 {
		t.Errorf("a form that was sent twice: %d messages", twice.users())
	}
	if p.until(`name="request"`); p.submit(form, map[string]string{"content": " \n"}).code != http.StatusUnprocessableEntity {
		t.Errorf("an empty message: %d", p.code)
	}
	if p.open("/ui/chat").submit("/ui/chat", map[string]string{"content": "x", "agent": "missing"}); p.code < 400 || !strings.Contains(p.text, "missing") {
		t.Errorf("another agent: %d, %s", p.code, p.text)
	}
}

// TestChatFails: the page of a session shows why its run failed, until the next one.
func TestChatFails(t *testing.T) {
	r := newRig(t)
	p := r.visitor().open("/ui/chat")
	r.model.Queue(modeltest.Status(500, "out of paper"), modeltest.Say("better"))
	p.submit("/ui/chat", map[string]string{"content": "one"}).until("The run failed")
	if !strings.Contains(p.text, "out of paper") || p.users() != 1 {
		t.Errorf("failure: %s", p.text)
	}
	session, _, _ := strings.Cut(p.at, "?")
	if p.until(`name="request"`); p.next != "" {
		t.Errorf("after the failure: Refresh %q", p.next)
	}
	if p.submit(session, map[string]string{"content": "two"}).until("better"); strings.Contains(p.text, "The run failed") {
		t.Errorf("after a success: %s", p.text)
	}
}

// TestChatQuestion answers a question of an agent, and cancels a run.
func TestChatQuestion(t *testing.T) {
	r := newRig(t)
	p := r.visitor().open("/ui/chat")
	r.model.Queue(modeltest.Call("ask_user", `{"questions":[{"question":"Which <b>one</b>?","header":"which","options":[{"label":"red","description":"a color"}]}]}`),
		modeltest.Call("ask_user", `{"questions":[{"question":"Why?","header":"why"}]}`), modeltest.Say("thanks"), modeltest.Stall())
	p.submit("/ui/chat", map[string]string{"content": "one"}).until("The agent asks")
	if p.next != "" || !strings.Contains(p.text, "Which &lt;b&gt;one&lt;/b&gt;?") || !strings.Contains(p.text, `value="red" formnovalidate>red</button>: a color`) {
		t.Errorf("question: Refresh %q, %s", p.next, p.text)
	}
	session, _, _ := strings.Cut(p.at, "?")
	late := *p
	p.submit(session+"/answer", map[string]string{"content": "the blue one"}).until("Why?").until(session + "/answer") // the call is shown before it asks
	if twice := late; twice.submit(session+"/answer", map[string]string{"content": "the blue one"}).code != http.StatusConflict {
		t.Errorf("the answer to another question: %d", twice.code)
	}
	p.submit(session+"/answer", map[string]string{"content": "the red one"}).until("thanks")
	if asked := r.model.Requests(); !strings.Contains(asked[len(asked)-1].Messages[len(asked[len(asked)-1].Messages)-1].Content, "the red one") {
		t.Errorf("the model received %v", asked[len(asked)-1].Messages)
	}
	p.until(`name="request"`)
	if late.submit(session+"/answer", map[string]string{"content": "the blue one"}); late.code != http.StatusConflict {
		t.Errorf("a late answer: %d", late.code)
	}
	p.submit(session, map[string]string{"content": "two"}).until("Cancel the run")
	p.submit(session+"/cancel", nil).until(`name="request"`)
	if p.users() != 2 || !strings.Contains(p.text, "The run was canceled.") {
		t.Errorf("after the cancellation: %d messages, %s", p.users(), p.text)
	}
}

// TestChatLimits: the runs of the page are limited, and end with it.
func TestChatLimits(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	var sessions []string
	for range maxRunning {
		r.model.Queue(modeltest.Stall())
		if p.open("/ui/chat").submit("/ui/chat", map[string]string{"content": "one"}); p.code != 200 {
			t.Fatalf("send: %d, %s", p.code, p.text)
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(p.at, "/ui/sessions/"), "?")
		sessions = append(sessions, id)
	}
	if p.open("/ui/chat").submit("/ui/chat", map[string]string{"content": "one"}); p.code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", p.code)
	}
	r.endRuns()
	for _, id := range sessions {
		if v := viewOf(r.page.run(id)); v.Active || v.Failure == "" {
			t.Errorf("%s: %+v", id, v)
		}
	}
}
