package daemon

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/tool"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"

	"encoding/json"

	"google.golang.org/protobuf/proto"
)

// maxLost is the number of missed events after which a subscriber is dropped.
const maxLost = 4096

// maxQueued limits the queue of a subscriber in bytes, because an event may be
// as long as a response.
const maxQueued = 4 << 20

// noticeKind is the kind of an error event that does not end its stream.
const noticeKind = "notice"

// hub sends the events of all sessions to the subscribers.
type hub struct {
	count atomic.Int32 // of subscribers; without subscribers no events are built

	mu   sync.Mutex
	subs map[*subscriber]struct{}
}

// subscriber has a queue of a fixed length. The hub counts events that do not
// fit and reports the count when the queue has room again.
type subscriber struct {
	only    *pb.SubscribeEvents
	created func(by string) bool // selects sessions by their creators
	queue   chan *pb.AgentEventMsg
	bytes   atomic.Int64 // in the queue
	lost    atomic.Uint64
}

func (h *hub) add(only *pb.SubscribeEvents, created func(by string) bool, n, limit int) (*subscriber, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subs) >= limit {
		return nil, &errtable.Error{HTTP: http.StatusServiceUnavailable, Kind: "too_many", Message: "too many subscribers: " + strconv.Itoa(limit),
			Fix: "stop a subscriber, or raise subscribers in [limits]"}
	}
	if h.subs == nil {
		h.subs = make(map[*subscriber]struct{})
	}
	s := &subscriber{only: only, created: created, queue: make(chan *pb.AgentEventMsg, n)}
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
		if s.only.GetStoredId() == session {
			n++
		}
	}
	return n
}

// wants reports whether the subscriber receives an event of a session.
func (s *subscriber) wants(m *pb.AgentEventMsg, createdBy string) bool {
	o := s.only
	return (o.GetStoredId() == "" || o.GetStoredId() == m.StoredId) && (o.GetAgent() == "" || o.GetAgent() == m.Agent) &&
		(o.GetSession() == 0 || o.GetSession() == m.Session) && s.created(createdBy)
}

// publish never waits. createdBy is the identity that created the session.
func (h *hub) publish(m *pb.AgentEventMsg, createdBy string) {
	n := int64(proto.Size(m))
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		if !s.wants(m, createdBy) {
			continue
		}
		if queued := s.bytes.Load(); queued > 0 && queued+n > maxQueued {
			s.lost.Add(1)
			continue
		}
		select {
		case s.queue <- m:
			s.bytes.Add(n)
		default:
			s.lost.Add(1)
		}
	}
}

// publish shows an event of a run to the subscribers.
func (d *Daemon) publish(t *agent.Turn, e agent.Event) {
	if d.events.count.Load() == 0 {
		return
	}
	m := d.eventOf(t)
	switch e.Kind {
	case agent.Appended:
		m.Kind, m.Content = pb.AgentEventKind_USER, e.Text
	case agent.TextDelta:
		m.Kind, m.Content = pb.AgentEventKind_TEXT_DELTA, e.Text
	case agent.ThinkingDelta:
		m.Kind, m.Content = pb.AgentEventKind_THINKING_DELTA, e.Text
	case agent.ToolStart:
		if e.Early {
			return
		}
		m.Kind, m.Content, m.Calls = pb.AgentEventKind_TOOL_START, describe(e.Calls), callInfos(e)
	case agent.ToolResult:
		m.Kind, m.Content, m.CallId = pb.AgentEventKind_TOOL_RESULT, strconv.FormatInt(e.Result.Took.Milliseconds(), 10)+"ms", e.Result.CallID
	case agent.ToolsComplete:
		m.Kind = pb.AgentEventKind_TOOLS_COMPLETE
	case agent.Done:
		m.Kind = pb.AgentEventKind_DONE
		if e.Err != nil {
			m.Error = message(e.Err)
			m.Content = m.Error.Message
		}
	case agent.Compacted:
		m.Kind, m.Content, m.Compacted = pb.AgentEventKind_COMPACT, e.Archive, &pb.Compacted{Summary: e.Text, Archive: e.Archive}
	case agent.Refused:
		m.Kind, m.Content = pb.AgentEventKind_SCOPE_VIOLATION, e.Refused.Kind+" "+e.Refused.Name
		m.Error = &pb.ErrorMsg{Code: 403, Kind: "scope", Message: e.Refused.Error()}
	case agent.Usage:
		m.Kind, m.Usage = pb.AgentEventKind_USAGE, usage(e.Usage)
	default:
		return
	}
	d.events.publish(m, t.Session.CreatedBy)
}

// eventOf returns an event of a run. The caller sets the kind.
func (d *Daemon) eventOf(t *agent.Turn) *pb.AgentEventMsg {
	m := &pb.AgentEventMsg{Agent: t.Agent.Name, Session: t.Session.ID, Timestamp: record.Timestamp(d.now()), Tag: t.Tag}
	if l := t.Session.Log; l != nil {
		m.StoredId = l.ID()
	}
	return m
}

// describe names calls in one line, a command by its first line.
func describe(calls []sessionlog.ToolCall) string {
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = c.Function.Name
		var args struct{ Command string }
		if c.Function.Name == tool.Bash && json.Unmarshal([]byte(c.Function.Arguments), &args) == nil {
			line, _, _ := strings.Cut(args.Command, "\n")
			names[i] += "(" + line + ")"
		}
	}
	return strings.Join(names, ", ")
}

func callInfos(e agent.Event) []*pb.ToolCallInfo {
	infos := make([]*pb.ToolCallInfo, len(e.Calls))
	for i, c := range e.Calls {
		infos[i] = &pb.ToolCallInfo{Name: c.Function.Name, Arguments: c.Function.Arguments}
		if !e.Early {
			infos[i].Id = c.ID
		}
	}
	return infos
}

func usage(u agent.TokenUsage) *pb.Usage {
	return &pb.Usage{
		Prompt: uint64(u.Prompt), Completion: uint64(u.Completion), Total: uint64(u.Prompt + u.Completion),
		ContextLimit: uint64(u.Limit), Estimated: u.Estimated,
	}
}

// streamEvent converts an event for the client of the run; nil if the event is
// only for subscribers.
func streamEvent(e agent.Event) *pb.StreamEvent {
	switch e.Kind {
	case agent.Appended:
		return &pb.StreamEvent{Event: &pb.StreamEvent_Appended{Appended: &pb.Appended{Line: uint64(e.Line), Repeated: e.Repeated}}}
	case agent.TextDelta:
		return &pb.StreamEvent{Event: &pb.StreamEvent_Chunk{Chunk: &pb.StreamChunk{Content: e.Text}}}
	case agent.ThinkingDelta:
		return &pb.StreamEvent{Event: &pb.StreamEvent_Thinking{Thinking: &pb.StreamThinking{Content: e.Text}}}
	case agent.ToolStart:
		return &pb.StreamEvent{Event: &pb.StreamEvent_ToolStart{ToolStart: &pb.ToolStartEvent{Calls: callInfos(e)}}}
	case agent.AskUser:
		return &pb.StreamEvent{Event: &pb.StreamEvent_AskUser{AskUser: &pb.AskUserEvent{Questions: questions(e.Questions)}}}
	case agent.ToolResult:
		r := e.Result
		return &pb.StreamEvent{Event: &pb.StreamEvent_ToolResult{ToolResult: &pb.ToolResultEvent{
			CallId: r.CallID, Output: r.Output, DurationMs: uint64(r.Took.Milliseconds()), IsError: r.Failed}}}
	case agent.ToolsComplete:
		return &pb.StreamEvent{Event: &pb.StreamEvent_ToolsComplete{ToolsComplete: &pb.ToolsCompleteEvent{}}}
	case agent.Usage:
		return &pb.StreamEvent{Event: &pb.StreamEvent_Usage{Usage: usage(e.Usage)}}
	case agent.Compacted:
		return &pb.StreamEvent{Event: &pb.StreamEvent_Compacted{Compacted: &pb.Compacted{Summary: e.Text, Archive: e.Archive}}}
	case agent.Notice:
		return &pb.StreamEvent{Event: &pb.StreamEvent_Error{Error: &pb.ErrorMsg{Kind: noticeKind, Message: e.Text}}}
	}
	return nil
}

func questions(qs []agent.Question) []*pb.AskQuestion {
	list := make([]*pb.AskQuestion, len(qs))
	for i, q := range qs {
		list[i] = &pb.AskQuestion{Question: q.Question, Header: q.Header, MultiSelect: q.MultiSelect}
		for _, o := range q.Options {
			list[i].Options = append(list[i].Options, &pb.AskOption{Label: o.Label, Description: o.Description})
		}
	}
	return list
}

// subscribe sends the events of the sessions that the client selects, until it
// disconnects. It reports the number of events that a slow client missed, and ends
// the request if this number is too large.
func (d *Daemon) subscribe(r *request, m *pb.SubscribeEvents) error {
	limits := d.setup().config.Limits
	s, err := d.events.add(m, r.as.MayRead, limits.SendQueue, limits.Subscribers)
	if err != nil {
		return err
	}
	defer d.events.remove(s)
	for {
		select {
		case m := <-s.queue:
			s.bytes.Add(-int64(proto.Size(m)))
			if err := r.agentEvent(m); err != nil {
				return err
			}
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
		lost := s.lost.Load()
		if lost == 0 || len(s.queue) > 0 && lost <= maxLost {
			continue
		}
		s.lost.Add(-lost)
		lag := &pb.AgentEventMsg{Kind: pb.AgentEventKind_LAG, Lost: lost, Content: strconv.FormatUint(lost, 10) + " events were lost: read faster",
			Timestamp: record.Timestamp(d.now())}
		if err := r.agentEvent(lag); err != nil {
			return err
		}
		if lost > maxLost {
			return &errtable.Error{HTTP: http.StatusServiceUnavailable, Kind: "lag", Message: "unsubscribed: events were read too slowly", Fix: "subscribe again, and read faster"}
		}
	}
}
