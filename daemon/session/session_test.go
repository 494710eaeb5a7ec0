package session

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

// TestReplyDuringCancel sends replies while runs are canceled. A reply that is
// acknowledged arrives.
func TestReplyDuringCancel(t *testing.T) {
	m := New(Options{Setup: func() Setup {
		c := new(config.Config)
		c.Ask.Timeout = gate.Hang
		return Setup{Config: c}
	}})
	ask := m.askTool()
	args, err := json.Marshal(askArgs{Questions: []agent.Question{{Question: "which?", Header: "which"}}})
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for i := range 500 {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), interactiveKey{}, true))
		got := make(chan error, 1)
		go func() {
			text, err := ask.Run(ctx, tool.Call{Session: 7, Arguments: args})
			if err == nil && text != "this" {
				err = errors.New(text)
			}
			got <- err
		}()
		for began := time.Now(); !m.Asking(7); runtime.Gosched() {
			if time.Since(began) > gate.Hang {
				t.Fatal("ask_user does not ask")
			}
		}
		short, stop := context.WithTimeout(t.Context(), time.Millisecond)
		var wg sync.WaitGroup
		wg.Go(cancel)
		if i%2 == 0 {
			wg.Wait()
		}
		err := m.Reply(short, 7, "this")
		stop()
		wg.Wait()
		if missed := <-got; err == nil && missed != nil {
			t.Fatalf("the reply was acknowledged, but ask_user returned %v", missed)
		}
		if err == nil {
			taken++
		}
	}
	if taken == 0 {
		t.Error("no reply was acknowledged: the test does not test")
	}
}

// TestShortMessagesCount checks that the limit of loaded bytes counts more than
// the texts of messages.
func TestShortMessagesCount(t *testing.T) {
	const n = 10_000
	m := New(Options{})
	s := &agent.Session{Messages: make([]sessionlog.Message, n)}
	for i := range s.Messages {
		s.Messages[i].Content = "ok"
	}
	var l Session
	if m.hold(&l, s); m.LoadedBytes() < 100*n {
		t.Errorf("%d messages count %d bytes", n, m.LoadedBytes())
	}
	if m.hold(&l, nil); m.LoadedBytes() != 0 {
		t.Errorf("an unloaded session counts %d bytes", m.LoadedBytes())
	}
}

// TestNameLocks checks that a name has one holder, and that unused names take
// no memory.
func TestNameLocks(t *testing.T) {
	var n nameLocks
	unlock, err := n.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("canceled")
	cancel(cause)
	if _, err := n.lock(ended, "a"); !errors.Is(err, cause) {
		t.Errorf("lock of a held name: %v", err)
	}
	other, err := n.lock(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	got := make(chan func())
	go func() {
		unlock, err := n.lock(t.Context(), "a")
		if err != nil {
			t.Error(err)
			unlock = func() {}
		}
		got <- unlock
	}()
	unlock()
	(<-got)()
	if len(n.held) != 0 {
		t.Errorf("%d names remain", len(n.held))
	}
}
