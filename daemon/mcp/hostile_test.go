package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/mcpserver/mcptest"
	"crabmem/daemon/tool"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// hostile is a server at the other end of a pipe, which sends its script.
type hostile struct {
	http bool
	// answers are the responses to calls; $id is the call's ID. An empty
	// response is replaced with that of a good server. The last one is
	// repeated.
	answers []string
	// unasked is sent before that; over HTTP, in a stream of events.
	unasked string
	times   int  // repetitions of unasked; 0 is once
	deaf    bool // it stops reading after its first response
	// reply, if set, returns a response; "" is the next one of answers.
	reply func(method string, params json.RawMessage) string
	// silent is the method, or GET, that gets no response.
	silent string
	// pushes, if set, are sent in a stream of events.
	pushes chan string

	mu    sync.Mutex
	calls int
	said  atomic.Int32 // repetitions so far
}

// answer returns the response to a message, or "" if the message is not a call.
func (h *hostile) answer(message []byte) string {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	err := json.Unmarshal(message, &m)
	var text string
	if h.reply != nil {
		text = h.reply(m.Method, m.Params)
	}
	if h.silent != "" && m.Method == h.silent {
		return silence
	}
	if err != nil || len(m.ID) == 0 || m.Method == "" {
		return ""
	}
	h.mu.Lock()
	if n := len(h.answers); n > 0 && text == "" {
		text = h.answers[min(h.calls, n-1)]
	}
	h.calls++
	h.mu.Unlock()
	if text == "" {
		result := map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"h","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"a","description":"A.","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}}]}`,
			"tools/call": `{"content":[{"type":"text","text":"done"}]}`,
		}[m.Method]
		if result == "" {
			result = "{}"
		}
		text = `{"jsonrpc":"2.0","id":$id,"result":` + result + `}`
	}
	return strings.ReplaceAll(text, "$id", string(m.ID))
}

// say sends unasked; $n is a new number each time.
func (h *hostile) say(w io.Writer) error {
	for n := 0; ; n++ {
		_, err := io.WriteString(w, strings.ReplaceAll(h.unasked, "$n", strconv.Itoa(n)))
		if h.said.Add(1); err != nil || n+1 >= h.times {
			return err
		}
	}
}

// turns lets one write at a time, without a lock: who waits for one is not seen
// to wait.
type turns chan struct{}

type turn struct {
	turns
	io.Writer
}

func (t turns) of(w io.Writer) io.Writer { return turn{t, w} }

func (t turn) Write(p []byte) (int, error) {
	t.turns <- struct{}{}
	defer func() { <-t.turns }()
	return t.Writer.Write(p)
}

// overPipe serves messages on lines, until the other end closes in.
func (h *hostile) overPipe(in io.ReadCloser, out io.WriteCloser) {
	lines := make(turns, 1)
	var talking sync.WaitGroup
	defer talking.Wait()
	defer out.Close()
	r := bufio.NewReader(in)
	for n := 0; ; n++ {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		if text := h.answer(line); text != "" {
			if _, err := io.WriteString(lines.of(out), text+"\n"); err != nil {
				return
			}
		}
		if n == 0 {
			talking.Go(func() { h.say(lines.of(out)) })
			if h.deaf {
				talking.Wait()
				return
			}
		}
	}
}

const stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

// silence is an answer that is not sent.
const silence = "silence"

// push sends pushes in a stream of events until the connection has ended.
func (h *hostile) push(c net.Conn, ended <-chan struct{}) {
	for text := stream; ; {
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
		select {
		case text = <-h.pushes:
			text = "data: " + text + "\n\n"
		case <-ended:
			return
		}
	}
}

// overHTTP serves one connection. An answer that does not begin with a status
// line is JSON, or a stream of events when it begins like one.
func (h *hostile) overHTTP(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		text := h.answer(body)
		switch {
		case text == silence, req.Method == h.silent:
			io.Copy(io.Discard, r)
			return
		case req.Method == http.MethodGet && h.pushes != nil:
			ended := make(chan struct{})
			go func() { io.Copy(io.Discard, r); close(ended) }()
			h.push(c, ended)
			return
		case req.Method == http.MethodGet && h.unasked != "":
			if _, err := io.WriteString(c, stream); err == nil && h.say(c) == nil {
				io.Copy(io.Discard, r) // keeps the stream open
			}
			return
		case req.Method == http.MethodGet:
			text = "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"
		case text == "" && h.deaf && bytes.Contains(body, []byte(`"id"`)): // a response to its request
			io.Copy(io.Discard, r)
			return
		case text == "":
			text = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
		case strings.HasPrefix(text, "HTTP/"):
		case strings.HasPrefix(text, "data:"), strings.HasPrefix(text, ":"):
			text = stream + text
		default:
			text = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: 1\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		}
		if _, err := io.WriteString(c, text); err != nil || !strings.Contains(text, "Content-Length") {
			return
		}
	}
}

// meet connects to a hostile server, calls use after the connection succeeded
// or failed, and returns the log. It runs in a synctest bubble, so that time
// does not delay it and leaked goroutines fail the test.
func (h *hostile) meet(t *testing.T, use func(*testing.T, *Manager)) (log string) {
	synctest.Test(t, func(t *testing.T) {
		var text mcptest.Buffer
		m := New(Options{
			Log:      slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Reserved: func(name string) bool { return name == "bash" },
		})
		var others sync.WaitGroup // the server
		ctx, cancel := context.WithCancel(m.ctx)
		s := &server{
			Server: Server{Name: "h", Timeout: 2 * time.Second}, m: m, log: m.o.Log, ctx: ctx, cancel: cancel,
			kick: make(chan struct{}, 1), state: connecting,
		}
		m.configured["h"] = s
		m.wg.Go(func() {
			life, cut := context.WithCancel(ctx)
			defer cut()
			var err error
			if h.http {
				client := httpClient(life, "http://127.0.0.1:1/mcp", "planted", s.timeout()+writeTimeout, nil)
				client.Transport.(*bearer).next.DialContext = func(context.Context, string, string) (net.Conn, error) {
					here, there := net.Pipe()
					others.Go(func() { h.overHTTP(there) })
					return here, nil
				}
				_, err = s.talk(overHTTP("http://127.0.0.1:1/mcp", client), connectTimeout, cut)
				client.CloseIdleConnections()
			} else {
				theirs, in := net.Pipe()
				out, ours := net.Pipe()
				c := &child{
					log: m.o.Log, in: in, writing: make(chan struct{}, 1), messages: make(chan jsonrpc.Message, 16), closed: make(chan struct{}),
				}
				c.readers.Go(func() { c.read(out) })
				others.Go(func() { h.overPipe(theirs, ours) })
				stop := context.AfterFunc(life, func() { c.Close() })
				_, err = s.talk(c, startTimeout, cut)
				stop()
				c.Close()
				out.Close()
				c.readers.Wait()
			}
			s.ended(true, err)
			for s.set(over, nil, nil); ctx.Err() == nil; {
				select {
				case <-s.kick:
					s.set(over, nil, nil) // it cannot be reached again
				case <-ctx.Done():
				}
			}
		})
		m.settle(t.Context(), tool.Everything().Allows, func() bool { return false })
		if use != nil {
			use(t, m)
		}
		began := time.Now()
		m.Close()
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it was left after %s", took)
		}
		others.Wait()
		log = text.String()
	})
	return log
}
