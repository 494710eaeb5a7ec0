package page

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/model/modeltest"
)

// TestWork shows the work of a conversation, answers its question, sends it a message, and
// cancels it.
func TestWork(t *testing.T) {
	r := newRig(t, `role = "channel"`)
	r.model.Func(func(q modeltest.Request) modeltest.Reply {
		last := q.Messages[len(q.Messages)-1]
		switch {
		case slices.Contains(q.Tools, "outcome") && last.Role == "tool":
			return modeltest.Call("outcome", `{"text":"12 <b>passed</b>"}`)
		case slices.Contains(q.Tools, "outcome") && strings.Contains(last.Content, "more"):
			return modeltest.Stall()
		case slices.Contains(q.Tools, "outcome"):
			return modeltest.Call("bash", `{"command":"touch /tmp/<i>x"}`)
		case last.Role == "user" && strings.HasSuffix(last.Content, "go"):
			return modeltest.Call("spawn_worker", `{"task":"count <u>all","interactive":true}`)
		}
		return modeltest.Say("fine")
	})
	p := r.visitor().open("/ui/chat")
	p.submit("/ui/chat", map[string]string{"content": "go"}).until("touch /tmp/&lt;i&gt;x")
	session, _, _ := strings.Cut(p.at, "?")
	path := session + "/work/w1/"
	for _, want := range []string{"w1 <bdi>worker</bdi>, running, 1 call", "<pre>count &lt;u&gt;all</pre>", `value="y" formnovalidate>Yes`} {
		if !strings.Contains(p.text, want) {
			t.Errorf("no %q in %s", want, p.text)
		}
	}
	if other := *p; other.submit(path+"answer", map[string]string{"question": "another", "content": "y"}).code != http.StatusConflict {
		t.Errorf("the answer to another question: %d", other.code)
	}
	p.until(`name="request"`) // the channel's own run has ended
	p.submit(path+"answer", map[string]string{"content": "n"}).until("waiting").until(`name="request"`)
	if !strings.Contains(p.text, "<pre>12 &lt;b&gt;passed&lt;/b&gt;</pre>") || strings.Contains(p.text, path+"answer") {
		t.Errorf("after the answer: %s", p.text)
	}
	p.submit(path+"route", map[string]string{"content": "more"}).until("w1 <bdi>worker</bdi>, running")
	p.submit(path+"cancel", nil).until("w1 <bdi>worker</bdi>, failed (cancelled)")
	if strings.Contains(p.text, path) {
		t.Errorf("after the cancellation: %s", p.text)
	}
}
