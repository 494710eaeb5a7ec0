package daemon

import (
	"crabmem/daemon/wire/pb"
)

// ownNumbers is the lowest number of an addition to RFC 0018. A client of the RFC
// decodes a stream event or an event kind from this number up as an empty one, and
// fails.
const ownNumbers = 1000

// event sends an event of a stream. A peer that has sent no Call receives only
// events of RFC 0018.
func (r *request) event(e *pb.StreamEvent) error {
	if !r.peer.Calls {
		if e = referenceStreamEvent(e); e == nil {
			return nil
		}
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Stream{Stream: e}})
}

// referenceStreamEvent returns an event as RFC 0018 defines it, or nil if the RFC has
// no such event. A notice becomes a chunk. The end of the stream contains the message
// of an error.
func referenceStreamEvent(e *pb.StreamEvent) *pb.StreamEvent {
	if n := e.GetError(); n.GetKind() == noticeKind {
		return &pb.StreamEvent{Event: &pb.StreamEvent_Chunk{Chunk: &pb.StreamChunk{Content: "\n[" + n.GetMessage() + "]\n"}}}
	}
	m := e.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("event")); f == nil || f.Number() >= ownNumbers {
		return nil
	}
	return e
}

// agentEvent sends an event to a subscriber. A peer that has sent no Call receives
// only kinds of RFC 0018, and delta events without text.
func (r *request) agentEvent(m *pb.AgentEventMsg) error {
	if !r.peer.Calls {
		switch {
		case m.GetKind() >= ownNumbers:
			return nil
		case m.GetKind() <= pb.AgentEventKind_THINKING_DELTA:
			// Other subscribers share m.
			m = &pb.AgentEventMsg{Agent: m.GetAgent(), Session: m.GetSession(), Kind: m.GetKind(), Timestamp: m.GetTimestamp(), StoredId: m.GetStoredId()}
		}
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_AgentEvent{AgentEvent: m}})
}
