package client

import (
	"strings"
	"time"

	"crabmem/daemon/errtable"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog"
)

// The types of this package as messages of the protocol, and messages as these
// types. No other file converts them, except for those of the store.

// each returns f of every element.
func each[A, B any](list []A, f func(A) B) []B {
	var out []B
	for _, a := range list {
		out = append(out, f(a))
	}
	return out
}

// set returns the pointer of an optional field, which is nil for a zero value.
func set[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

func (m *Message) send() *pb.SendMsg {
	return &pb.SendMsg{Agent: m.Agent, Content: m.Content, Session: set(m.Session), Sender: set(m.Sender), Cwd: set(m.Dir), NewChat: m.NewChat,
		ResumeFile: set(m.StoredID), Model: set(m.Model), Commands: m.Commands, RequestId: m.Request, AfterRequest: m.After, Fresh: m.Fresh}
}

func (m *Message) stream() *pb.StreamMsg {
	return &pb.StreamMsg{Agent: m.Agent, Content: m.Content, Session: set(m.Session), Sender: set(m.Sender), Cwd: set(m.Dir), NewChat: m.NewChat,
		ResumeFile: set(m.StoredID), Model: set(m.Model), Tag: m.Tag, Commands: m.Commands, RequestId: m.Request, AfterRequest: m.After, Fresh: m.Fresh}
}

func responseOf(m *pb.SendResponse) Response {
	return Response{Agent: m.GetAgent(), Content: m.GetContent(), Session: m.GetSession(), StoredID: m.GetStoredId(), Usage: usageOf(m.GetUsage()), Repeated: m.GetRepeated()}
}

func usageOf(m *pb.Usage) Usage {
	return Usage{Prompt: m.GetPrompt(), Completion: m.GetCompletion(), Total: m.GetTotal(), ContextLimit: m.GetContextLimit(), Estimated: m.GetEstimated()}
}

func callOf(m *pb.ToolCallInfo) sessionlog.ToolCall {
	return sessionlog.ToolCall{ID: m.GetId(), Function: sessionlog.Function{Name: m.GetName(), Arguments: m.GetArguments()}}
}

func questionOf(m *pb.AskQuestion) Question {
	return Question{Question: m.GetQuestion(), Header: m.GetHeader(), MultiSelect: m.GetMultiSelect(),
		Options: each(m.GetOptions(), func(o *pb.AskOption) Option { return Option{o.GetLabel(), o.GetDescription()} })}
}

// streamEventOf returns an event of a stream without the session, which only
// its start names.
func streamEventOf(m *pb.StreamEvent) *Event {
	switch m := m.GetEvent().(type) {
	case *pb.StreamEvent_Start:
		return &Event{Kind: "start", Agent: m.Start.GetAgent(), Session: m.Start.GetSession(), StoredID: m.Start.GetStoredId(), Model: m.Start.GetModel()}
	case *pb.StreamEvent_Appended:
		return &Event{Kind: "appended", Line: int64(m.Appended.GetLine()), Repeated: m.Appended.GetRepeated()}
	case *pb.StreamEvent_Chunk:
		return &Event{Kind: "text_delta", Text: m.Chunk.GetContent()}
	case *pb.StreamEvent_Thinking:
		return &Event{Kind: "thinking_delta", Text: m.Thinking.GetContent()}
	case *pb.StreamEvent_ToolStart:
		return &Event{Kind: "tool_start", Calls: each(m.ToolStart.GetCalls(), callOf)}
	case *pb.StreamEvent_ToolResult:
		r := m.ToolResult
		return &Event{Kind: "tool_result", CallID: r.GetCallId(), Text: r.GetOutput(), Failed: r.GetIsError(), Took: time.Duration(r.GetDurationMs()) * time.Millisecond}
	case *pb.StreamEvent_ToolsComplete:
		return &Event{Kind: "tools_complete"}
	case *pb.StreamEvent_AskUser:
		return &Event{Kind: "ask_user", Questions: each(m.AskUser.GetQuestions(), questionOf)}
	case *pb.StreamEvent_Usage:
		u := usageOf(m.Usage)
		return &Event{Kind: "usage", Usage: &u}
	case *pb.StreamEvent_Compacted:
		return &Event{Kind: "compact", Summary: m.Compacted.GetSummary(), Archive: m.Compacted.GetArchive()}
	case *pb.StreamEvent_Error:
		return &Event{Kind: "notice", Text: m.Error.GetMessage()}
	}
	return nil // of a newer daemon
}

func agentEventOf(m *pb.AgentEventMsg) *Event {
	e := &Event{
		Kind: strings.ToLower(m.GetKind().String()), Agent: m.GetAgent(), Session: m.GetSession(), StoredID: m.GetStoredId(), Time: m.GetTimestamp(),
		Text: m.GetContent(), Calls: each(m.GetCalls(), callOf), CallID: m.GetCallId(), Summary: m.GetCompacted().GetSummary(),
		Archive: m.GetCompacted().GetArchive(), Lost: m.GetLost(), Tag: m.GetTag(),
	}
	if m.GetUsage() != nil {
		u := usageOf(m.GetUsage())
		e.Usage = &u
	}
	if m.GetError() != nil {
		e.Err = newError(errtable.Other, m.GetError())
	}
	return e
}
