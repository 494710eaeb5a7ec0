// Package modeltest provides a model that responds from a script, through the
// HTTP API of an OpenAI-compatible endpoint. It streams if the request asks for
// it, and records every request.
//
//	s := modeltest.New(t, modeltest.Say("hello"))
//	s.Queue(modeltest.Call("bash", `{"command":"ls"}`), modeltest.Say("two files"))
//	s.When("weather").Reply(modeltest.Say("sun"))
//	s.Func(func(r modeltest.Request) modeltest.Reply { return modeltest.Say(r.LastUser()) })
//
// The first rule that matches a request and has replies left provides the
// reply. If no rule matches, the response is 400 with code no_reply.
//
// # Scripts
//
// A script is a text file with one directive per line. Empty lines and lines
// that begin with # are ignored. A text may be quoted as in Go, for line ends
// and spaces at its ends.
//
//	when user TEXT     the last user message contains TEXT
//	when last TEXT     the last message, of any role, contains TEXT
//	when system TEXT   a system message contains TEXT
//	when model NAME    the request is for that model
//	always             any request
//
// begin a rule; consecutive when lines are conditions that must all match.
// Directives before the first rule belong to an implicit always rule. A rule is
// followed by its replies, in order:
//
//	reply              begins a reply; optional for the first
//	repeat             the last reply of the rule is repeated
//
// and the steps of a reply, in order:
//
//	text TEXT          a chunk of the response
//	words TEXT         a chunk for each word of the response
//	think TEXT         a chunk of reasoning
//	call NAME JSON     a tool call, its arguments in three parts
//	usage P C          token counts of prompt and completion
//	finish REASON      instead of stop or tool_calls
//	status CODE TEXT   an error with that message
//	header NAME: TEXT  a header of the response
//	stall              no data until the client disconnects or Release is called
//	stall MS           no data for that many milliseconds
//	drip MS            from here on a byte every MS milliseconds
//	cut                the connection is cut
//	garbage            an event with invalid JSON
//	raw TEXT           these bytes
package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// TB is the part of *testing.T that New uses.
type TB interface {
	Helper()
	Fatal(...any)
	Cleanup(func())
}

// Server is a scripted model.
type Server struct {
	URL string // ends in /v1
	// Log is called with each request, if set before the first.
	Log func(Request)
	// If Discard is set before the first request, the server records none.
	Discard bool

	http *http.Server
	done chan struct{} // closed when Serve has returned

	mu       sync.Mutex
	rules    []*Rule
	queue    *Rule // that Queue adds to
	requests []Request
	released chan struct{}
	calls    int // that were sent, for their ids
}

// New starts a server that ends with the test.
func New(t TB, replies ...Reply) *Server {
	t.Helper()
	s, err := Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.Queue(replies...)
	return s
}

// Start starts a server on an address like 127.0.0.1:0.
func Start(addr string) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + l.Addr().String() + "/v1", done: make(chan struct{}), released: make(chan struct{})}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.done)
		s.http.Serve(l)
	}()
	return s, nil
}

// Close ends the server and every reply under way.
func (s *Server) Close() {
	s.Release()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	<-s.done
}

// Release ends every stall, those under way and those to come.
func (s *Server) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.released:
	default:
		close(s.released)
	}
}

// A Rule replies to the requests that match its conditions.
type Rule struct {
	s       *Server
	when    []func(*Request) bool
	replies []Reply
	next    int
	repeat  bool
}

// Queue puts replies at the end of one queue that any request is answered
// from.
func (s *Server) Queue(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue == nil {
		s.queue = &Rule{s: s}
		s.rules = append(s.rules, s.queue)
	}
	s.queue.replies = append(s.queue.replies, replies...)
}

// When adds a rule for requests whose last user message contains text. It
// precedes the existing rules.
func (s *Server) When(text string) *Rule {
	return s.rule(func(r *Request) bool { return strings.Contains(r.LastUser(), text) })
}

// Func answers every request that no rule before it answers.
func (s *Server) Func(reply func(Request) Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, &Rule{s: s, replies: []Reply{{by: reply}}, repeat: true})
}

func (s *Server) rule(when func(*Request) bool) *Rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &Rule{s: s, when: []func(*Request) bool{when}}
	s.rules = slices.Insert(s.rules, 0, r)
	return r
}

// Reply adds replies, which are used in order.
func (r *Rule) Reply(replies ...Reply) *Rule {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.replies = append(r.replies, replies...)
	return r
}

// Repeat repeats the last reply.
func (r *Rule) Repeat() *Rule {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.repeat = true
	return r
}

func (r *Rule) meets(q *Request) bool {
	return !slices.ContainsFunc(r.when, func(w func(*Request) bool) bool { return !w(q) })
}

// Request is one that came.
type Request struct {
	Method, Path, Query string
	Header              http.Header
	Body                []byte // as it came

	// Of the body.
	Model    string
	Messages []Message
	Tools    []string // names
	Stream   bool
}

// Message is one of a request's.
type Message struct {
	Role             string
	Content          string // empty for null
	ReasoningContent string `json:"reasoning_content"`
	ToolCallID       string `json:"tool_call_id"`
	ToolCalls        []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// LastUser returns the last message of a user, without the blocks that an agent
// injects and a client joins with it.
func (r *Request) LastUser() string {
	const end = "\n</environment>\n\n"
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == "user" {
			_, text, joined := strings.Cut(m.Content, end)
			if !joined {
				text = m.Content
			}
			return text
		}
	}
	return ""
}

// Requests returns every request so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Left returns the number of unused replies. A repeated reply counts until it
// is used once.
func (s *Server) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.rules {
		n += len(r.replies) - r.next
	}
	return n
}

// take records a request and selects its reply.
func (s *Server) take(q Request) (Reply, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.Discard {
		s.requests = append(s.requests, q)
	}
	for _, r := range s.rules {
		if !r.meets(&q) {
			continue
		}
		if r.next < len(r.replies) {
			r.next++
			return r.replies[r.next-1], true
		}
		if r.repeat && len(r.replies) > 0 {
			return r.replies[len(r.replies)-1], true
		}
	}
	return Reply{}, false
}

func (s *Server) callID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return fmt.Sprintf("call_%d", s.calls)
}

// decode decodes the body of a request.
func decode(q *Request) error {
	var body struct {
		Model    string
		Messages []Message
		Tools    []struct{ Function struct{ Name string } }
		Stream   bool
	}
	if err := json.Unmarshal(q.Body, &body); err != nil {
		return err
	}
	if len(body.Messages) == 0 {
		return errors.New("the request has no messages")
	}
	q.Model, q.Messages, q.Stream = body.Model, body.Messages, body.Stream
	for _, t := range body.Tools {
		q.Tools = append(q.Tools, t.Function.Name)
	}
	return nil
}
