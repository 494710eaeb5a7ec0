package client

import (
	"context"
	"sync"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// replies are the answers that each operation wants.
var replies = map[string]string{
	"send": "response", "stream": "stream", "ping": "pong", "sessions": "sessions", "kill": "pong", "get_config": "config", "set_config": "pong",
	"reload": "pong", "subscribe_events": "agent_event", "reply_to_ask": "pong", "get_stats": "stats", "create_cron": "cron_info",
	"delete_cron": "pong", "list_crons": "cron_list", "compact": "compact",
	"auth": "pong", "call": "result",
}

// TestCalls makes every call: each asks for what it should, and takes the right
// answer and no other.
func TestCalls(t *testing.T) {
	asked := make(map[string]int)
	wrong := false
	var mu sync.Mutex
	serve(t, func(_ context.Context, _ wire.Peer, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		r := m.ProtoReflect()
		asks := string(r.WhichOneof(r.Descriptor().Oneofs().ByName("msg")).Name())
		if isHello(m) {
			asks = "hello"
		}
		mu.Lock()
		asked[asks]++
		wrong := wrong
		mu.Unlock()
		if asks == "hello" {
			_ = send(hello())
			return
		}
		name := replies[asks]
		if wrong {
			name = map[bool]string{true: "sessions", false: "pong"}[name == "pong"]
		}
		a := new(pb.ServerMessage).ProtoReflect()
		f := a.Descriptor().Fields().ByName(protoreflect.Name(name))
		if f == nil {
			t.Errorf("no answer for %s", asks)
			return
		}
		a.Set(f, a.NewField(f))
		msg := a.Interface().(*pb.ServerMessage)
		if r := msg.GetResult(); r != nil {
			r.Body = []byte{0xf6} // null
		}
		_ = send(msg)
	})
	c := newClient(t)
	ctx := t.Context()
	calls := []func() error{
		func() error { return c.Ping(ctx) },
		func() error { _, err := c.Hello(ctx); return err },
		func() error { _, err := op.SendMessage.Do(ctx, c, op.Message{}); return err },
		func() error {
			for _, err := range op.StreamMessage.All(ctx, c, op.Message{Content: "x"}) {
				return err
			}
			return nil
		},
		func() error { _, err := op.CancelRun.Do(ctx, c, op.SessionNumber{Number: 1}); return err },
		func() error { _, err := op.ReplyToRun.Do(ctx, c, op.Reply{Number: 1, Content: "x"}); return err },
		func() error { _, err := op.ListLoaded.Do(ctx, c, op.None{}); return err },
		func() error { return c.Kill(ctx, 1) },
		func() error { _, err := c.Compact(ctx, 1); return err },
		func() error {
			for _, err := range op.FollowEvents.All(ctx, c, op.EventFilter{}) {
				return err
			}
			return nil
		},
		func() error { _, err := op.ReadConfig.Do(ctx, c, op.None{}); return err },
		func() error { _, err := op.SetConfig.Do(ctx, c, op.ConfigChange{Config: "{}"}); return err },
		func() error { _, err := op.ReloadConfig.Do(ctx, c, op.None{}); return err },
		func() error { _, err := op.ReadDaemonStats.Do(ctx, c, op.None{}); return err },
		func() error {
			_, err := op.Remember.Do(ctx, c, op.Note{Remember: crmem.Remember{Name: "n", Content: ""}})
			return err
		},
		func() error {
			_, err := op.Remember.Do(ctx, c, op.Note{Remember: crmem.Remember{Name: "n", Metadata: &metadata.Edit{}}})
			return err
		},
		func() error { _, err := op.Recall.Do(ctx, c, op.Question{}); return err },
		func() error { _, err := op.Forget.Do(ctx, c, op.Removal{Name: "n"}); return err },
		func() error { _, err := op.ReadEntry(ctx, c, op.EntryName{Name: "n"}); return err },
		func() error {
			for _, err := range op.Entries(ctx, c, op.EntryFilter{}) {
				return err
			}
			return nil
		},
		func() error { _, err := op.ApplyOps(ctx, c); return err },
		func() error {
			return op.DumpTree.Each(ctx, c, op.TreeDump{TreeDir: op.TreeDir{Dir: "d"}}, func(op.DumpPart) error { return nil })
		},
		func() error {
			return op.LoadTree.Each(ctx, c, op.TreeLoad{TreeDir: op.TreeDir{Dir: "d"}}, func(op.LoadPart) error { return nil })
		},
		func() error { _, err := op.Checkpoint.Do(ctx, c, op.None{}); return err },
		func() error { _, err := op.Undo.Do(ctx, c, op.ChangeNumber{Seq: 1}); return err },
		func() error { _, err := op.Purge.Do(ctx, c, op.Removal{Name: "n"}); return err },
		func() error { _, err := op.PruneHistory.Do(ctx, c, op.Age{Before: time.Unix(1, 0)}); return err },
		func() error { _, err := op.ListChanges.Do(ctx, c, op.ChangeFilter{ID: 1}); return err },
		func() error { _, err := op.NewestChanges(ctx, c, 1, 2); return err },
		func() error { _, err := op.Redact.Do(ctx, c, op.Version{ID: 1, Seq: 2}); return err },
		func() error { _, err := op.ReadOutcome.Do(ctx, c, op.OnceKey{Key: "k", Sum: []byte("s")}); return err },
		func() error { _, err := op.RemoveSpace.Do(ctx, c, op.SpaceName{Name: "n"}); return err },
		func() error { _, err := op.ReadStats.Do(ctx, c, op.StatsFilter{Index: true}); return err },
	}
	for i, call := range calls {
		if err := call(); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	mu.Lock()
	for _, name := range []string{"create_cron", "delete_cron", "list_crons", "sessions", "get_config", "set_config", "reload", "get_stats", "send", "stream", "subscribe_events", "reply_to_ask"} {
		asked[name] = 1 // of RFC 0018: the client sends call
	}
	fs := new(pb.ClientMessage).ProtoReflect().Descriptor().Oneofs().ByName("msg").Fields()
	for i := range fs.Len() {
		if name := string(fs.Get(i).Name()); asked[name] == 0 && name != "auth" && fs.Get(i).ContainingOneof() != nil {
			t.Errorf("no call asks for %s", name)
		}
	}
	if n := asked["hello"]; n != 1 {
		t.Errorf("%d hellos for many operations of ours", n)
	}
	wrong = true
	mu.Unlock()
	for i, call := range calls {
		if err := call(); err == nil && i != 1 {
			t.Errorf("call %d took another answer", i)
		}
	}
}
