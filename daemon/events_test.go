package daemon

import (
	"context"
	"fmt"
	"testing"

	"crabmem/bench/gate"
	"crabmem/daemon/model/modeltest"
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
