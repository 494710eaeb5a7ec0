package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/process"
	"crabmem/daemon/tool"
)

// pollingServer closes the streams of calls. The script of a call has a part for
// each stream: the status, a space, and what the stream contains. OK is the
// response of the call.
type pollingServer struct {
	scripts map[string][]string

	mu      sync.Mutex
	script  []string
	call    string
	resumed []string // last event of each continuation
	began   int      // sessions
}

func (p *pollingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method != http.MethodPost {
		last := r.Header.Get("Last-Event-ID")
		if r.Method != http.MethodGet || last == "" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if r.Header.Get("Mcp-Session-Id") != "session" || r.Header.Get("Authorization") != "Bearer token" || r.ContentLength > 0 || r.Header.Get("Accept") != "text/event-stream" {
			last = fmt.Sprintf("%v", r.Header)
		}
		p.resumed = append(p.resumed, last)
		p.stream(w)
		return
	}
	var request struct {
		ID     json.RawMessage
		Method string
		Params struct{ Arguments struct{ P string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Mcp-Session-Id", "session")
	w.Header().Set("Content-Type", "application/json")
	switch request.Method {
	case "initialize":
		p.began++
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, withTools)
	case "tools/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`, request.ID, toolA)
	case "tools/call":
		p.script, p.call, p.resumed = p.scripts[request.Params.Arguments.P], string(request.ID), nil
		p.stream(w)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// stream sends the next part of the script. The last one is repeated.
func (p *pollingServer) stream(w http.ResponseWriter) {
	part := p.script[0]
	if len(p.script) > 1 {
		p.script = p.script[1:]
	}
	var status int
	fmt.Sscan(part, &status)
	_, events, _ := strings.Cut(part, " ")
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(status)
	cut := strings.HasSuffix(events, "CUT")
	events = strings.ReplaceAll(strings.TrimSuffix(events, "CUT"), "OK", `data: {"result":{"content":[{"type":"text","text":"done"}]},"id":`+p.call+`,"jsonrpc":"2.0"}`+"\n\n")
	io.WriteString(w, events)
	if cut {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// TestPolling calls a tool of servers that close the stream of the call.
func TestPolling(t *testing.T) {
	const first = "200 id: 1\nretry: 1\ndata: \n\n"
	const progress = `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}` + "\n\n"
	for _, c := range []struct {
		name    string
		script  []string
		want    string // the result, or the error
		resumed string
	}{
		{"response at once", []string{"200 id: 1\nOKid: 2\n\n"}, "done", ""},
		{"poll", []string{first, "200 id: 2\n" + progress, "200 id: 3\nOK"}, "done", "1 2"},
		{"message with an ID of its own", []string{first, `200 id: 2` + "\n" + `data: {"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n\n", "200 id: 3\nOK"}, "done", "1 2"},
		{"half an event", []string{first + "id: 7\ndata: {\"jsonrpc\":\"2.0\",CUT", "200 OK"}, "done", "1"},
		{"half a line", []string{first + "id: 7\ndaCUT", "200 OK"}, "done", "1"},
		{"busy", []string{first, "503 ", "429 ", "200 OK"}, "done", "1 1 1"},
		{"connection ends", []string{first, "200 CUT", "200 OK"}, "done", "1 1"},
		{"gone", []string{first, "404 "}, "mcp call failed: calling \"tools/call\": resume stream: server does not continue the stream: 404 Not Found", "1"},
		{"nothing more", []string{first, "200 "}, "mcp call failed: calling \"tools/call\": resume stream: server sent nothing on 5 streams", "1 1 1 1 1"},
		{"no ID", []string{"200 retry: 1\ndata: \n\n"}, "request terminated without response", ""},
		{"without end", []string{"200 id: 1\nretry: 1000\ndata: \n\n"}, "polls did not respond within 1.5s", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &pollingServer{scripts: map[string][]string{"it": c.script, "well": {"200 OK"}}}
			h := httptest.NewServer(p)
			defer h.Close()
			timeout := time.Minute
			if c.name == "without end" {
				timeout = 1500 * time.Millisecond
			}
			s := manager(t, Server{Name: "polls", URL: h.URL, Token: "token", Timeout: timeout})
			text, err := s.call(tool.Unbounded(), "a", `{"p":"it"}`)
			if err != nil {
				text = err.Error()
			}
			p.mu.Lock()
			resumed := strings.Join(p.resumed, " ")
			p.mu.Unlock()
			if !strings.HasSuffix(text, c.want) || (err == nil) != (c.want == "done") || resumed != c.resumed {
				t.Errorf("%q, resumed after %q, want %q, %q", text, resumed, c.want, c.resumed)
			}
			// The session is still good.
			if text, err := s.call(tool.Unbounded(), "a", `{"p":"well"}`); err != nil || text != "done" || p.began != 1 {
				t.Errorf("the next call: %q, %v, %d sessions", text, err, p.began)
			}
		})
	}
}

// TestResumeLimits reads streams of servers that never respond, in time of the test.
func TestResumeLimits(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         string
		resumes      int
		after        time.Duration
	}{
		{"tries", "id: %d\ndata: \n\n", "server closed the stream 100 times", 100, 100 * firstPause},
		{"bytes", "id: %d\nretry: 1\ndata: " + strings.Repeat("x", maxFrame/2) + "\n\n", "server sent more than 32 MiB without a response", 8, 0},
		{"long pause", "id: %d\nretry: 4000000000\ndata: \n\n", "server closed the stream 100 times", 100, 100 * longPause},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			stream := func() io.ReadCloser {
				n++
				return io.NopCloser(strings.NewReader(fmt.Sprintf(c.stream, n)))
			}
			began := time.Now()
			f := &followedBody{boundedBody: &boundedBody{ReadCloser: stream(), end: func() {}, Shape: process.Shape{Events: true}}, ctx: t.Context(), call: json.RawMessage("5")}
			f.open = func(last string) (*http.Response, error) {
				if last != fmt.Sprint(n) {
					return nil, errors.New("after event " + last)
				}
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: stream()}, nil
			}
			var tail tailWriter
			if _, err := io.Copy(&tail, f); err != nil {
				t.Fatal(err)
			}
			if want := `data: {"error":{"code":-32603,"message":"resume stream: ` + c.want + `"},"id":5,"jsonrpc":"2.0"}` + "\n\n"; !strings.HasSuffix(string(tail), want) {
				t.Errorf("%s: %q", c.name, tail)
			}
			if got := time.Since(began); n-1 != c.resumes || got < c.after || got > c.after+time.Minute {
				t.Errorf("%s: %d streams in %v", c.name, n, got)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // the end of the call ends a pause
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		began := time.Now()
		f := &followedBody{boundedBody: &boundedBody{ReadCloser: io.NopCloser(strings.NewReader("id: 1\ndata: \n\n")), end: func() {}, Shape: process.Shape{Events: true}}, ctx: ctx, call: json.RawMessage("5")}
		if b, err := io.ReadAll(f); err != nil || string(b) != "id: 1\ndata: \n\n" || time.Since(began) != 500*time.Millisecond {
			t.Errorf("%q, %v after %v", b, err, time.Since(began))
		}
	})
}

// TestStandaloneStream: a stream that belongs to no call continues, too, and ends if
// the server does not continue it.
func TestStandaloneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := []string{"id: 2\ndata: b\n\nid: 9\nda", "data: c\n\n"}
		var after []string
		f := &followedBody{boundedBody: &boundedBody{ReadCloser: io.NopCloser(strings.NewReader("id: 1\ndata: a\n\n")), end: func() {}, Shape: process.Shape{Events: true}}, ctx: t.Context()}
		f.open = func(last string) (*http.Response, error) {
			after = append(after, last)
			if len(parts) == 0 {
				return &http.Response{StatusCode: http.StatusMethodNotAllowed, Body: http.NoBody}, nil
			}
			part := parts[0]
			parts = parts[1:]
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(part))}, nil
		}
		b, err := io.ReadAll(f)
		const want = "id: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 9\nda:\nevent: interrupted\n\ndata: c\n\n"
		if err != nil || string(b) != want || strings.Join(after, " ") != "1 2 2" {
			t.Errorf("%q, %v, after %q", b, err, after)
		}
	})
}

// tailWriter keeps the end of what it is written.
type tailWriter []byte

func (w *tailWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	*w = (*w)[max(len(*w)-300, 0):]
	return len(p), nil
}
