package gateway

import (
	"errors"
	"strings"
	"testing"

	"crabmem/daemon/client"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"
)

// TestCancelled cancels a run over each interface, and reads that it was canceled, and not
// that it failed.
func TestCancelled(t *testing.T) {
	r := newRig(t, withOpenAI)
	calls := 0
	cancel := func() { // the active run
		t.Helper()
		r.eventually("the call of the model", func() bool { return len(r.model.Requests()) == calls })
		session := ""
		r.eventually("the run is active", func() bool {
			list := r.do("root", "GET", "/v1/sessions", nil)
			session, _ = list.field("items.0.session").(string)
			return r.do("root", "GET", "/v1/status", nil).field("active") == 1.0 && session != ""
		})
		r.want("cancel", r.do("root", "POST", "/v1/sessions/"+session+"/cancel", nil), 204, "")
		r.eventually("the run ended", func() bool { return r.do("root", "GET", "/v1/status", nil).field("active") == 0.0 })
	}
	stall := func() {
		r.model.Queue(modeltest.Reply{}.Text("half").Stall(0))
		calls++
	}
	_, follow := r.open(t.Context(), "root", "GET", "/v1/events?kind=done", nil)

	stall()
	at := r.want("begin", r.do("root", "POST", "/v1/runs", object{"content": "one"}), 202, "").Header.Get("Location")
	r.eventually("the text", func() bool { return r.do("root", "GET", at, nil).field("content") == "half" })
	r.want("cancel", r.do("root", "POST", at+"/cancel", nil), 204, "")
	r.eventually("the state", func() bool { return r.do("root", "GET", at, nil).field("state") == cancelled })
	if p := r.do("root", "GET", at, nil); p.field("error.kind") != cancelled || p.field("error.status") != 499.0 {
		t.Errorf("run: %s", p.body)
	}
	list := eventsOf(r.do("root", "GET", at+"/events", nil).body)
	if n := len(list); n < 2 || list[n-2].name != cancelled || list[n-1].data != `{"content":"","agent":"crab","done":true}` {
		t.Errorf("events: %+v", list)
	}
	if e, ok := follow(); !ok || (&response{body: []byte(e.data)}).field(cancelled) != true || (&response{body: []byte(e.data)}).field("error") != nil {
		t.Errorf("event of the session: %+v", e)
	}

	stall()
	_, next := r.open(t.Context(), "root", "POST", "/v1/stream", `{"content":"two"}`)
	for e, ok := next(); ok; e, ok = next() {
		if e.name == "" {
			break
		}
	}
	cancel()
	e, ok := next()
	for ok && e.name == "usage" {
		e, ok = next()
	}
	if e.name != cancelled {
		t.Errorf("stream: %+v", e)
	}

	sent := make(chan *response)
	stall()
	go func() { sent <- r.do("root", "POST", "/v1/send", object{"content": "three"}) }()
	cancel()
	r.want("send", <-sent, 499, cancelled)

	stall()
	ended := make(chan error)
	owner := &client.Client{Addr: r.addr}
	defer owner.Close()
	go func() {
		_, err := op.SendMessage.Do(t.Context(), owner, op.Message{Content: "four", Sender: "user"})
		ended <- err
	}()
	cancel()
	if err := <-ended; !client.IsKind(err, cancelled) {
		t.Errorf("client of the daemon: %v", err)
	}

	api := openai.NewClient(option.WithBaseURL(r.url+"/v1"), option.WithAPIKey(r.keys["root"]))
	in := openai.ChatCompletionNewParams{Model: "crab", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("five")}}
	check := func(what string, err error) {
		t.Helper()
		var e *openai.Error
		if !errors.As(err, &e) || e.StatusCode != 499 || e.Code != cancelled || e.Type != cancelled {
			t.Errorf("%s: %v", what, err)
		}
	}
	stall()
	go func() {
		_, err := api.Chat.Completions.New(t.Context(), in)
		ended <- err
	}()
	cancel()
	check("OpenAI", <-ended)
	seen.Store("post_v1_chat_completions 499", true)

	stall()
	stream := api.Chat.Completions.NewStreaming(t.Context(), in)
	defer stream.Close() // an error event leaves the end of the body unread
	for stream.Next() && (len(stream.Current().Choices) == 0 || stream.Current().Choices[0].Delta.Content == "") {
	}
	cancel()
	for stream.Next() {
	}
	if err := stream.Err(); err == nil || !strings.Contains(err.Error(), `"code":"cancelled"`) {
		t.Errorf("OpenAI stream: %v", err)
	}

	w, _, err := r.dial("root")
	if err != nil {
		t.Fatal(err)
	}
	w.read()
	w.write(`{"type":"hello"}`)
	w.read()
	stall()
	w.write(`{"type":"stream","content":"six"}`)
	w.until("stream_chunk")
	cancel()
	if last := w.until("stream_end"); len(last) < 2 || last[len(last)-2].Type != cancelled || last[len(last)-2].Code != 499 {
		t.Errorf("WebSocket: %+v", last)
	}
	if n := len(r.model.Requests()); n != calls {
		t.Errorf("%d requests to the model, want %d: a client repeated a canceled one", n, calls)
	}
}
