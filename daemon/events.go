package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/tool"
	"crabmem/sessionlog/record"
)

// maxLost is the number of missed events after which a subscriber is dropped.
const maxLost = 4096

// maxQueued limits the queue of a subscriber in bytes, because an event may be
// as long as a response.
const maxQueued = 4 << 20

// hub sends the events of all sessions to the subscribers.
type hub struct {
	count atomic.Int32 // of subscribers; without subscribers no events are built

	mu   sync.Mutex
	subs map[*subscriber]struct{}
}

// subscriber has a queue of a fixed length. The hub counts events that do not
// fit and reports the count when the queue has room again.
type subscriber struct {
	only    op.EventFilter
	created func(by string) bool // selects sessions by their creators
	queue   chan *agent.Event
	bytes   atomic.Int64 // in the queue
	lost    atomic.Uint64
}

func (h *hub) add(only op.EventFilter, created func(by string) bool, n, limit int) (*subscriber, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subs) >= limit {
		return nil, &errtable.Error{HTTP: http.StatusServiceUnavailable, Kind: "too_many", Message: "too many subscribers: " + strconv.Itoa(limit),
			Fix: "stop a subscriber, or raise subscribers in [limits]"}
	}
	if h.subs == nil {
		h.subs = make(map[*subscriber]struct{})
	}
	s := &subscriber{only: only, created: created, queue: make(chan *agent.Event, n)}
	h.subs[s] = struct{}{}
	h.count.Add(1)
	return s, nil
}

func (h *hub) remove(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, s)
	h.count.Add(-1)
}

// followers returns the number of subscribers to the events of a session.
func (h *hub) followers(session string) (n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		if s.only.Session == session {
			n++
		}
	}
	return n
}

// wants reports whether the subscriber receives an event of a session.
func (s *subscriber) wants(e *agent.Event, createdBy string) bool {
	return (s.only.Session == "" || s.only.Session == e.Session) && (s.only.Agent == "" || s.only.Agent == e.Agent) && s.created(createdBy)
}

// publish never waits. createdBy is the identity that created the session.
func (h *hub) publish(e *agent.Event, createdBy string) {
	n := int64(e.Size())
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		if !s.wants(e, createdBy) {
			continue
		}
		if queued := s.bytes.Load(); queued > 0 && queued+n > maxQueued {
			s.lost.Add(1)
			continue
		}
		select {
		case s.queue <- e:
			s.bytes.Add(n)
		default:
			s.lost.Add(1)
		}
	}
}

// publish shows an event of a run to the subscribers. They receive no results of tools, and
// no event that only the run's client needs.
func (d *Daemon) publish(t *agent.Turn, e agent.Event) {
	if d.events.count.Load() == 0 {
		return
	}
	e.Agent, e.Number, e.Tag, e.Time = t.Agent.Name, t.Session.ID, t.Tag, record.Timestamp(d.now())
	if l := t.Session.Log; l != nil {
		e.Session = l.ID()
	}
	switch e.Kind {
	case agent.Notice:
		return
	case agent.AskUser:
		e.Questions = nil
	case agent.User:
		e.Line = 0
	case agent.ToolStart:
		if e.Early {
			return
		}
		e.Content = describe(e.Calls)
	case agent.ToolResult:
		e.Content, e.Result = strconv.FormatInt(e.Millis, 10)+"ms", nil
	case agent.Compacted:
		e.Content = e.Archive
	case agent.Refused:
		e.Content = e.Refused.Kind + " " + e.Refused.Name
		e.Error = &agent.Failure{Code: http.StatusForbidden, Kind: "scope", Message: e.Refused.Error()}
	case agent.Done:
		e.Content = ""
		if e.Err != nil {
			m := reported(e.Err)
			e.Error = &agent.Failure{Code: m.Code, Kind: m.Kind, Message: strings.ToValidUTF8(m.Message, "\uFFFD")}
			e.Content = e.Error.Message
		}
	}
	d.events.publish(&e, t.Session.CreatedBy)
}

// publishWork shows an event of a session's work to the subscribers.
func (d *Daemon) publishWork(session, agentName, createdBy string, e agent.Event) {
	if d.events.count.Load() == 0 {
		return
	}
	e.Session, e.Agent, e.Time = session, agentName, record.Timestamp(d.now())
	d.events.publish(&e, createdBy)
}

// describe names calls in one line, a command by its first line.
func describe(calls []agent.Call) string {
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = c.Name
		var args struct{ Command string }
		if c.Name == tool.Bash && json.Unmarshal([]byte(c.Arguments), &args) == nil {
			line, _, _ := strings.Cut(args.Command, "\n")
			names[i] += "(" + line + ")"
		}
	}
	return strings.Join(names, ", ")
}

// follow sends the events of the sessions that the client selects, until it
// disconnects or the daemon stops, and then the events that it has. It reports the number
// of events that a slow client missed, and ends the request if this number is too large.
func (d *Daemon) follow(ctx context.Context, as *op.Identity, f op.EventFilter, send func(agent.Event) error) error {
	limits := d.setup().config.Limits
	s, err := d.events.add(f, as.MayRead, limits.SendQueue, limits.Subscribers)
	if err != nil {
		return err
	}
	defer d.events.remove(s)
	for {
		var e *agent.Event
		select {
		case e = <-s.queue:
		case <-ctx.Done():
			select {
			case e = <-s.queue:
			default:
				return ctx.Err()
			}
		}
		s.bytes.Add(-int64(e.Size()))
		if err := send(*e); err != nil {
			return err
		}
		lost := s.lost.Load()
		if lost == 0 || len(s.queue) > 0 && lost <= maxLost {
			continue
		}
		s.lost.Add(-lost)
		lag := agent.Event{Kind: agent.Lag, Lost: lost, Content: strconv.FormatUint(lost, 10) + " events were lost: read faster", Time: record.Timestamp(d.now())}
		if err := send(lag); err != nil {
			return err
		}
		if lost > maxLost {
			return &errtable.Error{HTTP: http.StatusServiceUnavailable, Kind: "lag", Message: "unsubscribed: events were read too slowly", Fix: "subscribe again, and read faster"}
		}
	}
}
