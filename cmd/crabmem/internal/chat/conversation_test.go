package chat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// TestSayAfterRefusedMessage sends messages to a daemon that refuses the first one and
// removes its session: the next message creates another session. Later, a missing
// session is an error.
func TestSayAfterRefusedMessage(t *testing.T) {
	home, err := os.MkdirTemp("", "crab")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	address := filepath.Join(home, "daemon.sock")
	l, err := wire.ListenUnix(vfs.OS{}, address)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	stream := func(e *pb.StreamEvent) *pb.ServerMessage {
		return &pb.ServerMessage{Msg: &pb.ServerMessage_Stream{Stream: e}}
	}
	missing := &pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Code: 404, Kind: "not_found", Message: "no such session"}}}
	s := &wire.Server{Handler: func(_ context.Context, _ wire.Peer, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		q := m.GetStream()
		if q == nil {
			_ = send(&pb.ServerMessage{Msg: &pb.ServerMessage_Result{Result: &pb.Result{}}})
			return
		}
		got = append(got, q.GetContent()+" in "+q.GetResumeFile())
		if q.GetResumeFile() != "" {
			_ = send(missing)
			return
		}
		end := &pb.StreamEnd{}
		if q.GetContent() == "refused" {
			end.Error = "disk full"
		}
		_ = send(stream(&pb.StreamEvent{Event: &pb.StreamEvent_Start{Start: &pb.StreamStart{Session: 1, StoredId: "crab_user_1"}}}))
		_ = send(stream(&pb.StreamEvent{Event: &pb.StreamEvent_End{End: end}}))
	}}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c := &Conversation{Client: &client.Client{Addr: wire.Addr{Network: "unix", Address: address}}, Explain: func(err error) error { return err }, Fresh: true}
	say := func(text string) error { return c.Say(t.Context(), text, func(*client.Event) {}) }
	if err := say("refused"); err == nil {
		t.Error("the first message was not refused")
	}
	if err := say("again"); err != nil {
		t.Errorf("the second message: %v", err)
	}
	if err := say("late"); err == nil {
		t.Error("a session that disappeared was replaced")
	}
	if want := []string{"refused in ", "again in crab_user_1", "again in ", "late in crab_user_1"}; !slices.Equal(got, want) {
		t.Errorf("requests %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), gate.Hang)
	defer cancel()
	if err := errors.Join(c.Close(), s.Shutdown(ctx), <-served); err != nil {
		t.Error(err)
	}
}
