package client

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
)

// TestCalls makes every call: each takes the right response and no other.
func TestCalls(t *testing.T) {
	var hellos, wrong atomic.Int32
	serve(t, func(_ context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		pong := &pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}}
		null := result([]byte{0xf6}, false, false)
		switch isPing := m.GetPing() != nil; {
		case isHello(m):
			hellos.Add(1)
			_ = send(hello())
		case isPing == (wrong.Load() == 0):
			_ = send(pong)
		default:
			_ = send(null)
		}
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
		func() error { _, err := op.Summarize.Do(ctx, c, op.SessionNumber{Number: 1}); return err },
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
			return op.LoadTree.Each(ctx, c, op.TreeLoad{Dir: "d"}, func(op.LoadPart) error { return nil })
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
	if n := hellos.Load(); n != 1 {
		t.Errorf("%d hellos for many operations", n)
	}
	wrong.Store(1)
	for i, call := range calls {
		if err := call(); err == nil && i != 1 {
			t.Errorf("call %d took another answer", i)
		}
	}
}
