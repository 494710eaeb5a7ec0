package gateway

import (
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/model/modeltest"
)

// TestSocketWithoutHello runs agents for a client of version 0.1, whose frames are a closed
// list of types: a run with thinking, tools, and a question, one that fails, and one that
// another client cancels. After an error, the client stops reading.
func TestSocketWithoutHello(t *testing.T) {
	r := newRig(t)
	w, _, err := r.dial("root")
	if err != nil {
		t.Fatal(err)
	}
	w.want(`{"type":"authenticated","session_id":"api:root"}`)
	r.model.Queue(modeltest.Reply{}.Think("hm").Text("let me ask").Call("ask_user", `{"questions":[{"question":"Which?","header":"which"}]}`), modeltest.Say("done"),
		modeltest.Status(401, "no"), modeltest.Reply{}.Text("half").Stall(0), modeltest.Say("fine"))
	stream := func(content, last string) (kinds []string, text string) {
		w.write(`{"type":"stream","agent":"crab","content":"` + content + `"}`)
		for {
			_, f := w.read()
			if kinds = append(kinds, f.Type); f.Content != nil {
				text += *f.Content
			}
			if f.Type == "stream_end" || f.Type == "error" {
				return kinds, text + f.Message
			}
			if last != "" && text == last {
				r.want("cancel", r.do("root", "POST", "/v1/sessions/"+r.do("root", "GET", "/v1/sessions", nil).field("items.0.session").(string)+"/cancel", nil), 204, "")
			}
		}
	}
	kinds, text := stream("hi", "")
	if got := strings.Join(slices.Compact(kinds), " "); got != "stream_start stream_chunk stream_end" || text != "let me ask\ndone" {
		t.Errorf("frames %s: %s", got, text)
	}
	if sent := r.model.Requests()[1].Messages; !strings.Contains(sent[len(sent)-1].Content, "cannot show questions") {
		t.Errorf("the reply to the question: %+v", sent[len(sent)-1])
	}
	kinds, text = stream("fail", "")
	if got := strings.Join(kinds, " "); got != "stream_start error" {
		t.Errorf("a run that fails: frames %s: %s", got, text)
	}
	kinds, text = stream("long", "half")
	if got := strings.Join(kinds, " "); got != "stream_start stream_chunk error" || text != "halfthe run was canceled" {
		t.Errorf("a canceled run: frames %s: %s", got, text)
	}
	w.write(`{"type":"send","agent":"crab","content":"and?"}`)
	if text, f := w.read(); f.Type != "response" || *f.Content != "fine" {
		t.Errorf("after an error: %s", text)
	}
}
