package daemon

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"crabmem/bench/gate"
	"crabmem/daemon/agent"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// TestManySubscribers opens as many subscribers as a server has places for
// requests: requests are still answered, and subscribers receive events.
func TestManySubscribers(t *testing.T) {
	const many = 256
	m := modeltest.New(t, modeltest.Say("hello"))
	s := serve(t, home(t), fmt.Sprintf("%s[limits]\nconnections = %d\nsubscribers = %d\n", scripted(m), 2*many, many))
	var all []*wire.Conn
	for range many {
		c, err := wire.Dial(context.Background(), wire.Addr{Network: "unix", Address: Socket(s.home)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Write(&pb.ClientMessage{Msg: &pb.ClientMessage_SubscribeEvents{SubscribeEvents: &pb.SubscribeEvents{}}}); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	gate.Until(t, "all have subscribed", func() bool { return s.events.count.Load() == many })
	if r := s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}}); r.GetPong() == nil {
		t.Fatalf("ping: %v", r)
	}
	if r := s.one(send(&pb.SendMsg{Content: "hi"})); r.GetResponse().GetContent() != "hello" {
		t.Fatalf("send: %v", r)
	}
	for _, c := range all {
		r := &pb.ServerMessage{}
		if err := c.Read(r); err != nil || r.GetAgentEvent() == nil {
			t.Fatalf("subscriber: %v, %v", r, err)
		}
	}
}

// TestProgressEvents checks that the client of a run and subscribers receive how much of
// the prompt the model server has read.
func TestProgressEvents(t *testing.T) {
	m := modeltest.New(t, modeltest.Reply{}.Raw(`data: {"choices":[],"prompt_progress":{"total":1000,"cache":0,"processed":434,"time_ms":181}}`+"\n\n"+
		`data: {"choices":[{"delta":{"content":"hello"},"finish_reason":"stop"}]}`+"\n\n"))
	s := serve(t, home(t), scripted(m))
	events := s.followEvents()
	const want = "reading the prompt, 43 %"
	var got []string
	for e, err := range op.StreamMessage.All(t.Context(), s.client(), op.Message{Content: "hi"}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == agent.Progress {
			got = append(got, e.Note)
		}
	}
	if !slices.Equal(got, []string{want}) {
		t.Errorf("the client received %q", got)
	}
	for e := range events {
		if e.Kind == agent.Done {
			t.Fatal("the subscriber received no progress")
		}
		if e.Kind == agent.Progress {
			if e.Note != want || e.Session == "" {
				t.Errorf("the subscriber received %+v", e)
			}
			break
		}
	}
}
