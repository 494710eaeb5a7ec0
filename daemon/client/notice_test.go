package client

import (
	"testing"

	"crabmem/daemon/wire/pb"
)

// TestNotice gets what is good to know of a run that goes well.
func TestNotice(t *testing.T) {
	stream := func(e *pb.StreamEvent) *pb.ServerMessage {
		return &pb.ServerMessage{Msg: &pb.ServerMessage_Stream{Stream: e}}
	}
	serve(t, script(
		stream(&pb.StreamEvent{Event: &pb.StreamEvent_Error{Error: &pb.ErrorMsg{Kind: "notice", Message: "not compacted"}}}),
		stream(&pb.StreamEvent{Event: &pb.StreamEvent_End{End: &pb.StreamEnd{}}}),
	))
	var notices []string
	for e, err := range newClient(t).Stream(t.Context(), Message{Content: "x"}) {
		if err != nil {
			t.Fatal(err)
		}
		notices = append(notices, e.Text)
	}
	if len(notices) != 1 || notices[0] != "not compacted" {
		t.Errorf("notices %q", notices)
	}
}
