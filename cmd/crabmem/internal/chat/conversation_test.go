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
	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
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
	part := func(v any, more bool) *pb.ServerMessage {
		body, err := op.Encode(v)
		if err != nil {
			t.Error(err)
		}
		return &pb.ServerMessage{Msg: &pb.ServerMessage_Result{Result: &pb.Result{Body: body, More: more}}}
	}
	missing := &pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Code: 404, Kind: "not_found", Message: "no such session"}}}
	s := &wire.Server{Handler: func(_ context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if m.GetCall().GetOp() == "daemon.hello" {
			_ = send(part(client.Daemon{Protocol: pb.Version}, false))
			return
		}
		var q op.Message
		if err := op.Decode(m.GetCall().GetBody(), &q); err != nil {
			t.Error(err)
		}
		got = append(got, q.Content+" in "+q.Session)
		if q.Session != "" {
			_ = send(missing)
			return
		}
		_ = send(part(agent.Event{Kind: agent.Start, Number: 1, Session: "crab_user_1"}, true))
		if q.Content == "refused" {
			_ = send(&pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Code: 500, Message: "disk full"}}})
			return
		}
		_ = send(part(op.None{}, false))
	}}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c := &Conversation{Client: &client.Client{Addr: wire.Addr{Network: "unix", Address: address}}, Explain: func(err error) error { return err }, Fresh: true}
	say := func(text string) error { return c.Say(t.Context(), text, func(*agent.Event) {}) }
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
