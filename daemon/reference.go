package daemon

import (
	"crabmem/daemon/agent"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/daemon/wire/pb"
)

// The runs and events of RFC 0018. Clients of the RFC fail on an event that it does not
// define.

// requestOfRFC returns the request of a SendMsg or StreamMsg.
func requestOfRFC(agent, sender, content string, number *uint64, dir, resume *string, fresh bool) *runRequest {
	return &runRequest{Request: session.Request{Agent: agent, Sender: sender, Session: number, Dir: dir, Resume: resume, NewChat: fresh, Content: content}}
}

// send runs an agent and sends its final message.
func (d *Daemon) send(r *request, m *pb.SendMsg) error {
	a, err := d.runMessage(r.ctx, requestOfRFC(m.Agent, m.GetSender(), m.Content, m.Session, m.Cwd, m.ResumeFile, m.NewChat), nil)
	if err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Response{Response: &pb.SendResponse{Agent: a.Agent, Content: a.Content, Session: a.Number}}})
}

// stream runs an agent and sends its events. It sends the end after the session
// is on disk.
func (d *Daemon) stream(r *request, m *pb.StreamMsg) error {
	started := false
	each := func(e agent.Event) error {
		started = true
		if s := streamEvent(&e); s != nil {
			return r.event(s)
		}
		return nil
	}
	_, err := d.runMessage(r.ctx, requestOfRFC(m.Agent, m.GetSender(), m.Content, m.Session, m.Cwd, m.ResumeFile, m.NewChat), each)
	if err != nil && !started {
		if m.Session == nil {
			return err
		}
		if err := each(agent.Event{Kind: agent.Start, Agent: m.Agent, Number: *m.Session}); err != nil {
			return err
		}
	}
	end := &pb.StreamEnd{Agent: m.Agent}
	if err != nil {
		end.Error = reported(err).Message
	}
	return r.event(&pb.StreamEvent{Event: &pb.StreamEvent_End{End: end}})
}

func (r *request) event(e *pb.StreamEvent) error {
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Stream{Stream: e}})
}

// streamEvent returns an event of a stream, or nil if the RFC has no such event. A notice
// and a compaction are chunks.
func streamEvent(e *agent.Event) *pb.StreamEvent {
	switch e.Kind {
	case agent.Start:
		return &pb.StreamEvent{Event: &pb.StreamEvent_Start{Start: &pb.StreamStart{Agent: e.Agent, Session: e.Number}}}
	case agent.TextDelta:
		return chunk(e.Content)
	case agent.Notice:
		return chunk("\n[" + e.Note + "]\n")
	case agent.Compacted:
		return chunk("\n[context compacted]\n")
	case agent.ThinkingDelta:
		return &pb.StreamEvent{Event: &pb.StreamEvent_Thinking{Thinking: &pb.StreamThinking{Content: e.Content}}}
	case agent.ToolStart:
		start := &pb.ToolStartEvent{}
		for _, c := range e.Calls {
			start.Calls = append(start.Calls, &pb.ToolCallInfo{Name: c.Name, Arguments: c.Arguments})
		}
		return &pb.StreamEvent{Event: &pb.StreamEvent_ToolStart{ToolStart: start}}
	case agent.AskUser:
		return &pb.StreamEvent{Event: &pb.StreamEvent_AskUser{AskUser: &pb.AskUserEvent{Questions: questions(e.Questions)}}}
	case agent.ToolResult:
		return &pb.StreamEvent{Event: &pb.StreamEvent_ToolResult{ToolResult: &pb.ToolResultEvent{CallId: e.ID, Output: e.Output, DurationMs: uint64(e.Millis)}}}
	case agent.ToolsComplete:
		return &pb.StreamEvent{Event: &pb.StreamEvent_ToolsComplete{ToolsComplete: &pb.ToolsCompleteEvent{}}}
	}
	return nil
}

func chunk(text string) *pb.StreamEvent {
	return &pb.StreamEvent{Event: &pb.StreamEvent_Chunk{Chunk: &pb.StreamChunk{Content: text}}}
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

// agentKinds are the kinds of RFC 0018. The event of a compaction is that of its chunk.
var agentKinds = map[agent.Kind]pb.AgentEventKind{
	agent.TextDelta: pb.AgentEventKind_TEXT_DELTA, agent.Compacted: pb.AgentEventKind_TEXT_DELTA, agent.ThinkingDelta: pb.AgentEventKind_THINKING_DELTA,
	agent.ToolStart: pb.AgentEventKind_TOOL_START, agent.ToolResult: pb.AgentEventKind_TOOL_RESULT, agent.ToolsComplete: pb.AgentEventKind_TOOLS_COMPLETE,
	agent.Done: pb.AgentEventKind_DONE,
}

// subscribe sends the events of all sessions. Events of pieces have no text.
func (d *Daemon) subscribe(r *request) error {
	return d.follow(r.ctx, &r.as, op.EventFilter{}, func(e agent.Event) error {
		kind, ok := agentKinds[e.Kind]
		if !ok {
			return nil
		}
		m := &pb.AgentEventMsg{Agent: e.Agent, Session: e.Number, Kind: kind, Timestamp: e.Time}
		if kind > pb.AgentEventKind_THINKING_DELTA {
			m.Content = e.Content
		}
		return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_AgentEvent{AgentEvent: m}})
	})
}
