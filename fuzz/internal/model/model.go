// Package model is an OpenAI-compatible model for programs that test the daemon
// for long: it does what the newest message of the user says, and keeps nothing.
//
//	flood N        a stream of N bytes of text
//	stall          nothing, until the daemon hangs up
//	endless        a call of recall, again and again
//	ask            a call of ask_user
//	note NAME      a call of remember, then text
//	run COMMAND    a call of bash, then text
//	anything else  text
//
// The text is what [Answer] says.
package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Server is the model.
type Server struct {
	URL       string // ends in /v1
	Requests  atomic.Int64
	summaries atomic.Int64
	Dangling  atomic.Int64 // requests in which a call had no result, or a result no call
	// Key, where it is set, is asked for.
	Key  string
	http *http.Server
}

// Answer is what the model says to a message.
func Answer(message string) string {
	return "you said <" + message + "> and that is what there is to say to it, in a few words more than one chunk has"
}

// Start starts a model.
func Start() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + l.Addr().String() + "/v1"}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(l) }() // ends with Close
	return s, nil
}

// Close ends the model, and the answers under way.
func (s *Server) Close() error { return s.http.Close() }

type message struct {
	Role      string
	Content   any
	ToolCall  string                `json:"tool_call_id"`
	ToolCalls []struct{ ID string } `json:"tool_calls"`
}

func (m *message) text() string {
	s, _ := m.Content.(string)
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Requests.Add(1)
	var q struct {
		Stream   bool
		Messages []message
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) == 0 {
		http.Error(w, `{"error":{"message":"no messages"}}`, http.StatusBadRequest)
		return
	}
	if s.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.Key {
		w.WriteHeader(http.StatusUnauthorized)
		// Some providers send the key back.
		fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s"}}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		return
	}
	if !paired(q.Messages) {
		s.Dangling.Add(1)
	}
	if !q.Stream {
		n := s.summaries.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop",
			"message": map[string]any{"role": "assistant", "content": fmt.Sprintf("summary %d of %d messages, at %d", n, len(q.Messages), time.Now().UnixNano())},
		}}})
		return
	}
	a := answer{w: w, r: r}
	a.stream(q.Messages)
}

// paired reports whether every call has its result right behind it.
func paired(ms []message) bool {
	open := make(map[string]bool)
	for _, m := range ms {
		if m.Role == "tool" {
			if !open[m.ToolCall] {
				return false
			}
			delete(open, m.ToolCall)
			continue
		}
		if len(open) > 0 {
			return false
		}
		for _, c := range m.ToolCalls {
			open[c.ID] = true
		}
	}
	return len(open) == 0
}

type answer struct {
	w   http.ResponseWriter
	r   *http.Request
	err error
}

var calls atomic.Int64

func (a *answer) stream(ms []message) {
	a.w.Header().Set("Content-Type", "text/event-stream")
	last := ms[len(ms)-1]
	said := ""
	for _, m := range ms {
		if m.Role == "user" {
			said = m.text()
		}
	}
	word, rest, _ := strings.Cut(said, " ")
	switch {
	case word == "flood":
		n := 0
		_, _ = fmt.Sscan(rest, &n)
		text := strings.Repeat("flood of words ", 1000)
		for ; n > 0 && a.err == nil; n -= len(text) {
			a.delta(map[string]any{"content": text})
		}
	case word == "stall":
		a.delta(map[string]any{"content": "wait"})
		<-a.r.Context().Done()
		return
	case word == "endless":
		a.call("recall", map[string]any{"query": "again"})
		return
	case last.Role == "tool":
		a.text(Answer(said))
	case word == "ask":
		a.call("ask_user", map[string]any{"questions": []any{map[string]any{"question": "which?", "header": "which", "options": []any{}}}})
		return
	case word == "note":
		a.call("remember", map[string]any{"name": rest, "content": Answer(rest)})
		return
	case word == "run":
		a.call("bash", map[string]any{"command": rest})
		return
	default:
		a.text(Answer(said))
	}
	a.end("stop")
}

func (a *answer) text(s string) {
	for len(s) > 0 {
		n := min(len(s), 16)
		a.delta(map[string]any{"content": s[:n]})
		s = s[n:]
	}
}

func (a *answer) call(name string, args any) {
	b, _ := json.Marshal(args)
	a.delta(map[string]any{"tool_calls": []any{map[string]any{
		"index": 0, "id": fmt.Sprintf("call_%d", calls.Add(1)), "type": "function", "function": map[string]any{"name": name, "arguments": string(b)},
	}}})
	a.end("tool_calls")
}

func (a *answer) delta(d any) { a.event(map[string]any{"index": 0, "delta": d}) }

func (a *answer) end(reason string) {
	a.event(map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": reason})
	if a.err == nil {
		_, a.err = io.WriteString(a.w, "data: [DONE]\n\n")
	}
}

func (a *answer) event(choice any) {
	if a.err != nil {
		return
	}
	b, _ := json.Marshal(map[string]any{"choices": []any{choice}})
	if _, a.err = fmt.Fprintf(a.w, "data: %s\n\n", b); a.err == nil {
		a.err = http.NewResponseController(a.w).Flush()
	}
}
