// Package model is an OpenAI-compatible model server for long tests of the daemon.
// The first word of the newest user message selects the response:
//
//	flood N        a stream of at least N bytes of text
//	stall          one word, then no data until the daemon disconnects
//	cut            the text of [Half], then a cut connection
//	endless        a call of recall in every step
//	ask            a call of ask_user
//	note NAME      a call of remember, then text
//	run COMMAND    a call of bash, then text
//	anything else  text
//
// [Answer] returns the text. The server keeps no state except counters.
package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"crabmem/daemon/model/modeltest"
)

// Server is the model server.
type Server struct {
	*modeltest.Server
	Requests  atomic.Int64 // number of requests
	summaries atomic.Int64
	Dangling  atomic.Int64 // requests with a call without a result, or a result without a call
	// Key is the required API key. If it is empty, the server requires no key.
	Key string
}

// Answer returns the response to a message.
func Answer(message string) string {
	return "you said <" + message + "> and that is what there is to say to it, in a few words more than one chunk has"
}

// Half returns the incomplete response to a message that begins with cut.
func Half(message string) string { return "half a response to <" + message + ">" }

// Start starts a model server on a local port.
func Start() (*Server, error) {
	m, err := modeltest.Start("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{Server: m}
	m.Discard = true
	m.Func(s.reply)
	return s, nil
}

func (s *Server) reply(q modeltest.Request) modeltest.Reply {
	s.Requests.Add(1)
	if key := strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer "); s.Key != "" && key != s.Key {
		// Some providers quote the key in the error.
		return modeltest.Status(http.StatusUnauthorized, "Incorrect API key provided: "+key)
	}
	if !Paired(q.Messages) {
		s.Dangling.Add(1)
	}
	if !q.Stream {
		return modeltest.Say(fmt.Sprintf("summary %d of %d messages, at %d", s.summaries.Add(1), len(q.Messages), time.Now().UnixNano()))
	}
	message := q.LastUser()
	word, rest, _ := strings.Cut(message, " ")
	switch {
	case word == "flood":
		n := 0
		_, _ = fmt.Sscan(rest, &n)
		text := strings.Repeat("flood of words ", 1000)
		return modeltest.Say(slices.Repeat([]string{text}, (n+len(text)-1)/len(text))...)
	case word == "stall":
		return modeltest.Say("wait").Stall(0)
	case word == "cut":
		return modeltest.Say(Half(message)).Cut()
	case word == "endless":
		return call("recall", map[string]any{"query": "again"})
	case q.Messages[len(q.Messages)-1].Role == "tool":
	case word == "ask":
		return call("ask_user", map[string]any{"questions": []any{map[string]any{"question": "which?", "header": "which", "options": []any{}}}})
	case word == "note":
		return call("remember", map[string]any{"name": rest, "content": Answer(rest)})
	case word == "run":
		return call("bash", map[string]any{"command": rest})
	}
	var a modeltest.Reply
	for piece := range slices.Chunk([]byte(Answer(message)), 16) {
		a = a.Text(string(piece))
	}
	return a
}

func call(name string, args any) modeltest.Reply {
	b, _ := json.Marshal(args)
	return modeltest.Call(name, string(b))
}

// Paired reports whether the results of the calls of each message directly follow
// the message, and each result has a call.
func Paired(ms []modeltest.Message) bool {
	open := make(map[string]bool)
	for _, m := range ms {
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				return false
			}
			delete(open, m.ToolCallID)
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
