package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/model/modeltest"

	"github.com/coder/websocket"
)

// wsClient is a WebSocket client.
type wsClient struct {
	t *testing.T
	c *websocket.Conn
}

// dial opens a connection, with a key in the header unless who is empty.
func (r *rig) dial(who string) (*wsClient, *http.Response, error) {
	o := &websocket.DialOptions{HTTPHeader: http.Header{}}
	if who != "" {
		o.HTTPHeader.Set("Authorization", "Bearer "+r.keys[who])
	}
	c, p, err := websocket.Dial(r.t.Context(), r.url+"/ws", o)
	if err != nil {
		return nil, p, err
	}
	r.t.Cleanup(func() { c.CloseNow() })
	return &wsClient{r.t, c}, p, nil
}

func (w *wsClient) write(text string) {
	w.t.Helper()
	if err := w.c.Write(w.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		w.t.Fatal(err)
	}
}

// read returns the next frame as it is sent, and decoded.
func (w *wsClient) read() (string, frameOut) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), gate.Hang)
	defer cancel()
	_, b, err := w.c.Read(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	var f frameOut
	if err := json.Unmarshal(b, &f); err != nil {
		w.t.Fatal(err)
	}
	return string(b), f
}

// want reads a frame.
func (w *wsClient) want(text string) {
	w.t.Helper()
	if got, _ := w.read(); got != text {
		w.t.Errorf("got %s, want %s", got, text)
	}
}

// until reads frames up to one of a type.
func (w *wsClient) until(kind string) (list []frameOut) {
	w.t.Helper()
	for {
		_, f := w.read()
		if list = append(list, f); f.Type == kind {
			return list
		}
	}
}

// closed returns the status with which the server closes the connection.
func (w *wsClient) closed() websocket.StatusCode {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), gate.Hang)
	defer cancel()
	for {
		if _, _, err := w.c.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// TestSocketFrames sends each frame of the protocol.
func TestSocketFrames(t *testing.T) {
	r := newRig(t)
	w, p, err := r.dial("")
	if err != nil || p.StatusCode != 101 {
		t.Fatal(err)
	}
	seen.Store("get_ws 101", true)
	w.write(`{"type":"ping","id":7}`)
	w.want(`{"type":"error","id":7,"code":401,"message":"send authenticate with the key first"}`)
	w.write(`{"type":"send","content":"x"}`)
	w.want(`{"type":"error","code":401,"message":"send authenticate with the key first"}`)
	w.write(`{"type":"authenticate","token":""}`)
	if _, f := w.read(); f.Code != 401 {
		t.Errorf("an empty token: %+v", f)
	}
	w.write(`{"type":"authenticate","token":"` + r.keys["ann"] + `","id":"a"}`)
	w.want(`{"type":"authenticated","id":"a","session_id":"api:ann"}`)
	w.write(`{"type":"authenticate","token":"` + r.keys["bob"] + `"}`)
	if _, f := w.read(); f.Code != 409 {
		t.Errorf("a second token: %+v", f)
	}
	w.write(`{"type":"ping","id":{"n":[1]}}`)
	w.want(`{"type":"pong","id":{"n":[1]}}`)
	w.write(`{"type":"other"}`) // ignored
	w.write(`{"type":"hello","id":2}`)
	w.want(`{"type":"hello","id":2}`)
	for _, bad := range []string{"x", "[]", `{"type":1}`, `{"type":"ping","type":"ping"}`, `"ping"`, strings.Repeat(`{"a":`, 1000)} {
		w.write(bad)
		if _, f := w.read(); f.Type != "error" || f.Code != 400 {
			t.Errorf("%.20s: %+v", bad, f)
		}
	}
	r.model.Queue(modeltest.Say("hello ", "ann"), modeltest.Reply{}.Think("hm").Text("let me look").Call("recall", `{"query":"walrus"}`), modeltest.Say("no walrus"), modeltest.Say("new"))
	w.write(`{"type":"send","agent":"crab","content":"hi"}`)
	w.want(`{"type":"response","session":"crab_api-ann_1","agent":"crab","content":"hello ann"}`)
	w.write(`{"type":"stream","agent":"crab","content":"a walrus?","id":1}`)
	w.want(`{"type":"stream_start","id":1,"session":"crab_api-ann_1","agent":"crab"}`)
	text, kinds := "", ""
	for _, f := range w.until("stream_end") {
		if f.Content != nil {
			text += *f.Content
		}
		kinds += f.Type + " "
		if string(f.ID) != "1" {
			t.Errorf("frame without the id: %+v", f)
		}
	}
	if text != "let me look\nno walrus" || kinds != "appended thinking stream_chunk tool_start usage tool_start tool_result stream_chunk usage stream_end " {
		t.Errorf("text %q, frames %s", text, kinds)
	}
	w.write(`{"type":"clear_session","agent":"crab"}`)
	w.want(`{"type":"session_cleared","agent":"crab"}`)
	w.write(`{"type":"send","content":"hi"}`)
	w.want(`{"type":"response","session":"crab_api-ann_2","agent":"crab","content":"new"}`)
	for _, bad := range []string{`{"type":"send","content":""}`, `{"type":"stream","content":"x","agent":"nobody"}`, `{"type":"send","content":"x","session":"crab_user_1"}`, `{"type":"answer","content":"x"}`} {
		w.write(bad)
		if _, f := w.read(); f.Type != "error" || f.Code < 400 || f.Code > 499 {
			t.Errorf("%s: %+v", bad, f)
		}
	}
	if p := r.do("ann", "GET", "/v1/sessions", nil); p.field("total") != 2.0 {
		t.Errorf("sessions: %s", p.body)
	}
	if err := RemoveKey(vfs.OS{}, r.home, "ann"); err != nil {
		t.Fatal(err)
	}
	w.write(`{"type":"send","content":"hi"}`)
	if _, f := w.read(); f.Code != 401 {
		t.Errorf("with a removed key: %+v", f)
	}
}

// TestSocketRuns: one run at a time, which cancel and a disconnection end, and which may
// ask.
func TestSocketRuns(t *testing.T) {
	r := newRig(t)
	w, _, err := r.dial("root")
	if err != nil {
		t.Fatal(err)
	}
	w.want(`{"type":"authenticated","session_id":"api:root"}`)
	w.write(`{"type":"hello"}`)
	w.want(`{"type":"hello"}`)
	stalled := modeltest.Reply{}.Text("half").Stall(0)
	r.model.Queue(stalled, modeltest.Call("ask_user", `{"questions":[{"question":"Which?","header":"which","options":[]}]}`), modeltest.Say("thanks"), stalled)
	w.write(`{"type":"stream","content":"one"}`)
	w.until("stream_chunk")
	w.write(`{"type":"send","content":"two"}`)
	if _, f := w.read(); f.Code != 409 {
		t.Errorf("a second run: %+v", f)
	}
	w.write(`{"type":"ping"}`)
	w.want(`{"type":"pong"}`)
	w.write(`{"type":"cancel"}`)
	w.until("stream_end")
	r.eventually("the run ended", func() bool { return r.do("root", "GET", "/v1/status", nil).field("active") == 0.0 })
	ask := func() []frameOut {
		w.write(`{"type":"stream","content":"ask me"}`)
		return w.until("ask")
	}
	ask()
	w.write(`{"type":"answer","content":"this"}`)
	text := ""
	for _, f := range w.until("stream_end") {
		if f.Content != nil {
			text += *f.Content
		}
	}
	if text != "thanks" {
		t.Errorf("after the answer: %q", text)
	}
	w.write(`{"type":"stream","content":"four"}`)
	w.until("stream_chunk")
	w.c.CloseNow()
	r.eventually("the run ended", func() bool { return r.do("root", "GET", "/v1/status", nil).field("active") == 0.0 })
}

// TestSocketRefusals: connections that are not accepted, and ends of connections.
func TestSocketRefusals(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Limits.StreamsPerKey = 1 })
	r.keys["wrong"] = "cmk_" + strings.Repeat("A", 43)
	if _, p, err := r.dial("wrong"); err == nil || p.StatusCode != 401 {
		t.Errorf("a wrong key: %v", err)
	}
	r.want("no upgrade", r.do("ann", "GET", "/ws", nil), 426, "upgrade")
	r.want("a bad version", r.do("ann", "GET", "/ws", nil, "Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Version", "12", "Sec-WebSocket-Key", "x"), 400, "invalid")
	r.want("another site", r.do("ann", "GET", "/ws", nil, "Upgrade", "websocket", "Connection", "Upgrade", "Origin", "http://evil.example"), 403, "origin")
	w, _, err := r.dial("ann")
	if err != nil {
		t.Fatal(err)
	}
	w.read()
	if _, p, err := r.dial("ann"); err == nil || p.StatusCode != 429 {
		t.Errorf("a second connection of the key: %v", err)
	}
	if err := w.c.Write(t.Context(), websocket.MessageBinary, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if code := w.closed(); code != websocket.StatusUnsupportedData {
		t.Errorf("a binary frame: closed with %d", code)
	}
	r.eventually("the slot is free", func() bool {
		w, _, err = r.dial("ann")
		return err == nil
	})
	w.read()
	w.write(`{"type":"ping","content":"` + strings.Repeat("x", maxBody) + `"}`)
	if code := w.closed(); code != websocket.StatusMessageTooBig {
		t.Errorf("a long frame: closed with %d", code)
	}
	if w, _, err = r.dial("bob"); err != nil {
		t.Fatal(err)
	}
	w.read()
	ended := make(chan websocket.StatusCode)
	go func() { ended <- w.closed() }()
	r.stop()
	if code := <-ended; code != websocket.StatusGoingAway {
		t.Errorf("the gateway stopped: closed with %d", code)
	}
}
