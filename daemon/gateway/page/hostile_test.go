package page

import (
	"context"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"

	"golang.org/x/net/html"
)

// hostile are texts that would be code, if a page did not escape them.
var hostile = []string{
	`<script>alert(1)</script>`, `"><script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</textarea><script>alert(1)</script>`,
	`</title><script>alert(1)</script>`, `{{.Token}}{{template "x"}}`, `[x](javascript:alert(1))`, `[x](JaVaScRiPt&colon;alert(1))`, `[x](data:text/html,<script>alert(1)</script>)`,
	`[x](vbscript:x)`, `[x](file:///etc/passwd)`, `<a href="javascript:alert(1)">x</a>`, `<svg onload=alert(1)>`, `<iframe src="http://evil.example">`, `<base href="http://evil.example/">`,
	`<style>body{display:none}</style>`, `[[x|<script>alert(1)</script>]]`, `[[a](javascript:alert(1))]]`, `[[a)](javascript:alert(1))|b]]`, "[[x]\x00]](javascript:alert(1))", `<form action="http://evil.example"><button>x</button></form>`,
	"```\n<script>alert(1)</script>\n```", `<javascript:alert(1)>`, `[x]: javascript:alert(1)`, `![x](javascript:alert(1))`, `<!--><script>alert(1)</script>`, `<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>`,
}

// TestHostileTexts shows hostile texts in each place of each page. person.check finds what
// a browser would execute or load.
func TestHostileTexts(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	all := strings.Join(hostile, "\n\n")
	for _, text := range hostile {
		name := strings.ReplaceAll(text, "\x00", "") // no name contains NUL
		path := r.remember(name, all+"\n\n"+text, name+" alias")
		r.remember(name, "---\ntype: decision\nnote: x\n---\n"+text, name+" alias")
		for _, at := range []string{"", "/edit", "/history", "/remove"} {
			if p.open(path + at); p.code != 200 && p.code != 409 {
				t.Errorf("%s%s: %d", text, at, p.code)
			}
		}
		for _, version := range p.open(path + "/history").links(path + "/history/") {
			p.open(version)
		}
	}
}

// TestHostileQueries searches for hostile texts.
func TestHostileQueries(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	r.remember("alert", strings.Join(hostile, "\n\n"))
	for _, text := range hostile {
		for _, path := range []string{"/ui/memories", "/ui/sessions"} {
			p.open(path)
			if p.submit(path, map[string]string{"q": text}); p.code != 200 {
				t.Errorf("%s: %d", text, p.code)
			}
		}
	}
}

// TestSessions reads a session with hostile messages, arguments, and results.
func TestSessions(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	text := strings.Join(hostile, "\n\n")
	r.model.Queue(modeltest.Call("recall", `{"query":"<script>alert(1)</script>"}`), modeltest.Say("**done** "+text), modeltest.Say("a summary of the talk"))
	r.remember("planted", text+" walrus")
	answer, err := op.SendMessage.Do(t.Context(), r.daemon, op.Message{Agent: "crab", Content: "find the walrus " + text})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := op.TitleSession.Do(t.Context(), r.daemon, op.SessionTitle{Session: answer.Session, Title: `<script>alert("title")</script>`}); err != nil {
		t.Fatal(err)
	}
	if p.open("/ui/sessions"); len(p.links("/ui/sessions/")) != 1 {
		t.Fatalf("sessions: %s", p.text)
	}
	p.open(p.links("/ui/sessions/")[0])
	var roles []string
	for _, n := range p.find(func(n *html.Node) bool { return n.Data == "h2" && !inProse(n) }) {
		roles = append(roles, textOf(n))
	}
	if got := strings.Join(roles, " "); got != "user assistant tool assistant" {
		t.Errorf("messages of %s", got)
	}
	if !strings.Contains(p.text, "<strong>done</strong>") || !strings.Contains(p.text, "Tool recall") {
		t.Errorf("session: %s", p.text)
	}
	p.open("/ui/sessions").submit("/ui/sessions", map[string]string{"q": "walrus"})
	if hits := p.links("/ui/sessions/"); len(hits) == 0 {
		t.Errorf("search: %s", p.text)
	} else if p.open(hits[0]); p.code != 200 {
		t.Errorf("the hit: %d", p.code)
	}
	if p.open("/ui/status"); !strings.Contains(p.text, "1 note, 0 archives") || !strings.Contains(p.text, "script") {
		t.Errorf("status: %s", p.text)
	}
}

// TestSessionParts reads a long session in parts, and a compacted one.
func TestSessionParts(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	r.model.Func(func(q modeltest.Request) modeltest.Reply { return modeltest.Say("reply to " + q.LastUser()) })
	id := ""
	for range 40 {
		a, err := op.SendMessage.Do(t.Context(), r.daemon, op.Message{Agent: "crab", Content: "message", Session: id})
		if err != nil {
			t.Fatal(err)
		}
		id = a.Session
	}
	if _, err := op.CompactSession.Do(t.Context(), r.daemon, op.Compaction{Session: id}); err != nil {
		t.Fatal(err)
	}
	messages, summaries := 0, 0
	p.open("/ui/sessions/" + id)
	for {
		for _, n := range p.find(func(n *html.Node) bool { return n.Data == "li" && n.Parent.Data == "ol" }) {
			switch class, _ := attr(n, "class"); class {
			case "user", "assistant":
				messages++
			case "summary":
				summaries++
			}
		}
		if !strings.Contains(p.text, "Newer messages") {
			break
		}
		p.follow("Newer messages")
	}
	r.model.Queue(modeltest.Stall())
	if p.submit("/ui/sessions/"+id, map[string]string{"content": "one more"}); p.next == "" {
		t.Errorf("the end of an active session: no Refresh: %s", p.text)
	}
	if p.open("/ui/sessions/" + id); p.next != "" || !strings.Contains(p.text, "To the last messages") {
		t.Errorf("the beginning of an active session: Refresh %q", p.next)
	}
	if messages != 80 || summaries != 1 {
		t.Errorf("%d messages, %d summaries", messages, summaries)
	}
}

// TestCostlyMarkdown: a text whose signs nest is not rendered, and ordinary texts are.
func TestCostlyMarkdown(t *testing.T) {
	race.Skip(t)
	p := &Page{rendering: make(chan struct{}, 1)}
	for _, part := range []string{"*a_", "[a](", "> ", "[", "`", "[[x]] ", "_a ", "<a ", "~~"} {
		text := strings.Repeat(part, 1<<20/len(part))
		if got := p.render(context.Background(), text); got.HTML != "" || got.Plain != text {
			t.Errorf("1 MiB of %q was rendered", part)
		}
	}
	text := strings.Repeat("An ordinary line with *one* word and a [link](https://example.com).\n", 300)
	if got := p.render(context.Background(), text); got.Plain != "" || !strings.Contains(string(got.HTML), "<em>one</em>") {
		t.Error("an ordinary text was not rendered")
	}
	if text := strings.Repeat("words without signs ", 1<<18); p.render(context.Background(), text).Plain != "" {
		t.Error("a long text without signs was not rendered")
	}
	p.rendering <- struct{}{}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got := p.render(ctx, "*x*"); got.Plain != "*x*" {
		t.Error("a text was rendered after the request")
	}
}

// TestLongEntries shows an entry of the largest size.
func TestLongEntries(t *testing.T) {
	race.Skip(t)
	r := newRig(t)
	p := r.visitor()
	text := strings.Repeat("[x](y) ", (8<<20)/7)
	path := r.remember("big", text)
	if p.open(path); p.code != 200 || len(p.elements("pre")) != 1 {
		t.Errorf("a text of 8 MiB: %d", p.code)
	}
	p.open(path+"/edit").submit(path+"/edit", nil)
	if p.at != path || r.content("big") != text {
		t.Errorf("the form of a text of 8 MiB: %d, %s", p.code, p.at)
	}
	if p.open(path+"/edit").submit(path+"/edit", map[string]string{"content": strings.Repeat("x", 9<<20)}); p.code != 422 {
		t.Errorf("a text of 9 MiB: %d", p.code)
	}
	if p.open(path+"/edit").submit(path+"/edit", map[string]string{"content": strings.Repeat("é", 8<<20)}); p.code != 413 {
		t.Errorf("a form of 50 MiB: %d", p.code)
	}
	if _, err := op.ApplyOps(t.Context(), r.daemon, crmem.Remove{Name: "big"}); err != nil {
		t.Fatal(err)
	}
}
