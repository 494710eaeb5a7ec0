package wire

import (
	"context"
	"testing"
	"time"

	"crabmem/daemon/wire/pb"
)

// echo answers a call with its request.
func echo(_ context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
	_ = send(&pb.ServerMessage{Msg: &pb.ServerMessage_Result{Result: &pb.Result{Body: m.GetCall().GetBody()}}})
}

func part(op, body string, more bool) *pb.ClientMessage {
	return &pb.ClientMessage{Msg: &pb.ClientMessage_Call{Call: &pb.Call{Op: op, Body: []byte(body), More: more}}}
}

// TestGather checks that a request in several messages is one request, and that the next
// request on the connection is another.
func TestGather(t *testing.T) {
	c := dial(t, serve(t, &Server{Handler: echo}))
	for range 2 {
		for _, text := range []string{"one ", "", "two "} {
			if err := c.Write(part("x", text, true)); err != nil {
				t.Fatal(err)
			}
		}
		if got := string(ask(t, c, part("x", "three", false)).GetResult().GetBody()); got != "one two three" {
			t.Errorf("%q", got)
		}
	}
}

// TestGatherRefuses checks that a request in several messages ends its connection if it is
// too large, mixed with another request, or stalled, and that one such
// request is read at a time.
func TestGatherRefuses(t *testing.T) {
	a := serve(t, &Server{Handler: echo, Limits: Limits{Request: 10, Progress: 50 * time.Millisecond}})
	for what, c := range map[string]struct {
		send []*pb.ClientMessage
		code uint32
		text string
	}{
		"large":   {[]*pb.ClientMessage{part("x", "01234", true), part("x", "56789a", false)}, 400, "the request has more than 10 bytes"},
		"mixed":   {[]*pb.ClientMessage{part("x", "a", true), part("y", "b", false)}, 400, "the next message does not continue the request"},
		"other":   {[]*pb.ClientMessage{part("x", "a", true), {Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}}}, 400, "the next message does not continue the request"},
		"stalled": {[]*pb.ClientMessage{part("x", "a", true)}, 408, "read frame: timed out"},
	} {
		conn := dial(t, a)
		for _, m := range c.send {
			if err := conn.Write(m); err != nil {
				t.Fatal(what, err)
			}
		}
		wantError(t, answer(t, conn), c.code, c.text)
		if err := conn.Read(new(pb.ServerMessage)); err == nil {
			t.Error(what, "the connection remains open")
		}
	}

	a = serve(t, &Server{Handler: echo})
	first, second := dial(t, a), dial(t, a)
	if err := first.Write(part("x", "a", true)); err != nil {
		t.Fatal(err)
	}
	for { // until the server reads it
		if err := second.Write(part("x", "b", true)); err != nil {
			t.Fatal(err)
		}
		r := ask(t, second, part("x", "c", false))
		if e := r.GetError(); e != nil {
			wantError(t, r, 503, "another large request is being read: retry the request")
			break
		}
	}
	if got := string(ask(t, first, part("x", "b", false)).GetResult().GetBody()); got != "ab" {
		t.Errorf("%q", got)
	}
}
