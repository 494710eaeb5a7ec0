package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

const (
	maxEvent   = 64 << 20              // bytes of a line of a stream
	maxLost    = 8                     // connections in a row that are lost without an event
	lostWait   = 25 * time.Millisecond // doubled after each of them
	cancelTime = 5 * time.Second
)

// runs are the runs that this client began. A gateway names a run by a text, and the
// operations by the number of its session.
type runs struct {
	mu  sync.Mutex
	ids []string // of number i+1
}

func (r *runs) add(id string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, id)
	return uint64(len(r.ids))
}

func (r *runs) id(number uint64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number == 0 || number > uint64(len(r.ids)) {
		return ""
	}
	return r.ids[number-1]
}

// callRun carries out an operation on a run: a gateway keeps a run while its client is away, so
// these operations have paths of another form. ok is false for other operations.
func (c *Client) callRun(ctx context.Context, row *op.Row, in, out any, part func() error) (ok bool, err error) {
	switch in := in.(type) {
	case *op.Message:
		if e, ok := out.(*agent.Event); ok {
			return true, c.stream(ctx, row, in, e, part)
		}
	case *op.Reply:
		return true, c.post(ctx, row, c.runs.id(in.Number), "answer", map[string]string{"content": in.Content}, part)
	case *op.SessionNumber:
		if row.Name == "runs.cancel" {
			return true, c.post(ctx, row, c.runs.id(in.Number), "cancel", nil, part)
		}
	}
	return false, nil
}

// post changes a run.
func (c *Client) post(ctx context.Context, row *op.Row, id, verb string, body any, part func() error) error {
	q, err := c.newRequest(http.MethodPost, "/v1/runs/"+url.PathEscape(id)+"/"+verb, body)
	if err == nil {
		_, err = c.exchange(ctx, row, q)
	}
	if err != nil {
		return err
	}
	return part()
}

// newRequest returns a request with a JSON body; nil: without one.
func (c *Client) newRequest(method, path string, body any) (q *request, err error) {
	q = &request{method: method, target: c.base.String() + path, header: http.Header{"Authorization": {"Bearer " + c.key}}}
	if body != nil {
		q.header.Set("Content-Type", "application/json")
		q.body, err = json.Marshal(body)
	}
	return q, err
}

// stream runs an agent, and receives the events of the run. After a lost connection, it
// continues with the next event. It cancels the run if the caller leaves it.
func (c *Client) stream(ctx context.Context, row *op.Row, in *op.Message, out *agent.Event, part func() error) (err error) {
	if in.Dir != "" || in.Number != 0 || in.Sender != "" {
		return c.Refused("a working directory, a number, or a sender of a message")
	}
	q, err := c.newRequest(http.MethodPost, "/v1/runs", map[string]any{
		"content": in.Content, "agent": in.Agent, "session": in.Session, "new": in.New, "model": in.Model, "commands": in.Commands})
	if err != nil {
		return err
	}
	q.header.Set("Idempotency-Key", newKey())
	begin := *row
	begin.Repeats = true
	body, err := c.exchange(ctx, &begin, q)
	if ctx.Err() != nil { // the run may have begun: the gateway tells its name again
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer cancel()
		body, _ = c.exchange(late, &begin, q) // else there is no run to cancel
		err = nil
	}
	if err != nil {
		return err
	}
	s := &runStream{c: c, row: row, out: out, part: part}
	if err := json.Unmarshal(body, &s.run); err != nil || s.run.ID == "" {
		return c.unknown(row, fmt.Errorf("read response: %w", errors.Join(err, errors.New("it names no run"))))
	}
	s.number = c.runs.add(s.run.ID)
	defer func() {
		if s.ended {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer cancel()
		if cerr := c.post(ctx, row, s.run.ID, "cancel", nil, func() error { return nil }); err == nil {
			err = cerr // the caller may compare its own error
		}
	}()
	for lost := 0; !s.ended; {
		last := s.last
		err := s.receive(ctx)
		switch {
		case s.ended:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.broken || errors.As(err, new(*op.Error)):
			return err
		case s.last > last:
			lost = 0
		}
		if lost++; lost > maxLost {
			return c.unknown(row, err)
		}
		if err := pause(ctx, lostWait<<lost); err != nil {
			return err
		}
	}
	return nil
}

// runStream receives the events of a run.
type runStream struct {
	c   *Client
	row *op.Row
	run struct {
		ID string `json:"run"`
	}
	number uint64
	last   int // ID of the last event
	ended  bool
	broken bool // the caller has enough
	wrote  bool // text
	passed bool // a tool has ended since the last text
	out    *agent.Event
	part   func() error
}

// receive receives events until the run or the connection ends.
func (s *runStream) receive(ctx context.Context) error {
	q, err := s.c.newRequest(http.MethodGet, "/v1/runs/"+url.PathEscape(s.run.ID)+"/events", nil)
	if err != nil {
		return err
	}
	q.header.Set("Last-Event-ID", strconv.Itoa(s.last))
	p, err := s.c.send(ctx, q)
	if err != nil {
		return err
	}
	defer p.Body.Close()
	if p.StatusCode != http.StatusOK {
		a := answer{status: p.StatusCode, header: p.Header}
		if a.body, err = io.ReadAll(io.LimitReader(p.Body, maxRoots)); err != nil {
			return err
		}
		return s.c.refusal(s.row, &a)
	}
	lines := bufio.NewScanner(p.Body)
	lines.Buffer(nil, maxEvent)
	var id, name, data string
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch key {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			data = value
		}
		if lines.Text() != "" || data == "" {
			continue
		}
		if s.last, err = strconv.Atoi(id); err != nil {
			return fmt.Errorf("event with the ID %q", id)
		}
		if err := s.event(name, []byte(data)); err != nil || s.ended {
			return err
		}
		id, name, data = "", "", ""
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// eventKinds are the kinds of events whose names in a stream differ.
var eventKinds = map[string]agent.Kind{"appended": agent.User, "thinking": agent.ThinkingDelta, "ask": agent.AskUser, "compacted": agent.Compacted, "gap": agent.Lag}

// event passes an event to the caller.
func (s *runStream) event(name string, data []byte) error {
	*s.out = agent.Event{}
	var err error
	switch name {
	case "error", errtable.Cancelled:
		s.ended = true
		return s.c.refusal(s.row, &answer{status: statusOf(data), body: data})
	case "":
		var chunk struct {
			Content string `json:"content"`
			Done    bool   `json:"done"`
		}
		if err = json.Unmarshal(data, &chunk); err == nil {
			s.out.Kind, s.out.Content, s.ended = agent.TextDelta, chunk.Content, chunk.Done
		}
		if chunk.Done {
			s.out.Kind = agent.Done
		} else if err == nil {
			err = s.split()
		}
	case string(agent.Usage):
		s.out.Kind, s.out.Usage = agent.Usage, new(agent.TokenUsage)
		err = json.Unmarshal(data, s.out.Usage)
	default:
		if err = json.Unmarshal(data, s.out); err == nil {
			s.out.Kind = agent.Kind(name)
		}
		if kind, ok := eventKinds[name]; ok {
			s.out.Kind = kind
		}
	}
	if err != nil && !s.broken {
		err = fmt.Errorf("read event %d of the run: %w", s.last, err)
	}
	if err != nil {
		return err
	}
	s.passed = s.passed || s.out.Kind == agent.ToolResult
	return s.pass()
}

// split adds the event between a round of tools and a text, and removes the line end that a
// stream has in place of it.
func (s *runStream) split() error {
	text := *s.out
	if s.passed {
		*s.out = agent.Event{Kind: agent.ToolsComplete}
		if err := s.pass(); err != nil {
			return err
		}
		if s.wrote {
			text.Content = strings.TrimPrefix(text.Content, "\n")
		}
	}
	s.wrote, s.passed, *s.out = true, false, text
	return nil
}

// pass passes the event in out to the caller.
func (s *runStream) pass() error {
	s.out.Number = s.number
	err := s.part()
	s.broken = err != nil
	return err
}

// statusOf returns the status in a problem.
func statusOf(data []byte) int {
	var p struct {
		Status int `json:"status"`
	}
	_ = json.Unmarshal(data, &p) // 0 has no meaning for callers
	return p.Status
}
