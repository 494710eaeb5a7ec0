package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"crabmem/daemon/model/modeltest"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// TestCancelAnywhere cancels a run at each of its events, and stops the
// iteration there. A new reader finds one result for every call, and the
// session continues.
func TestCancelAnywhere(t *testing.T) {
	why := errors.New("enough")
	events := 0
	for _, hangUp := range []bool{false, true} {
		for at := 0; at <= events; at++ {
			what := fmt.Sprintf("hang-up %v at event %d", hangUp, at)
			r := newRig(t, 100_000, Hooks{})
			r.agent.CompactThreshold = 1000
			r.model.Queue(
				modeltest.Reply{}.Think("let me ").Text("I ", "look").Call("echo", `{"text":"a"}`).Call("broken", `{}`).Usage(100, 20),
				modeltest.Call("echo", `{"text":"b","wait":5000000}`).Usage(990, 20),
				modeltest.Say("what was said"),
				modeltest.Say("the ", "answer").Usage(50, 5))
			ctx, cancel := context.WithCancelCause(t.Context())
			n, done := 0, false
			for e, err := range r.Run(ctx, r.agent, r.s, Input{Content: "go"}) {
				if n == at {
					if cancel(why); hangUp {
						break
					}
				}
				n++
				if done = e.Kind == Done; done && n <= at && err != nil {
					t.Errorf("%s: %v", what, err)
				} else if done && n > at+1 && !errors.Is(err, why) && err != nil {
					t.Errorf("%s: ended with %v", what, err)
				}
			}
			cancel(nil)
			if !hangUp {
				events = max(events, n)
				if !done {
					t.Errorf("%s: no last event", what)
				}
			}
			r.kept()
			id := r.s.Log.ID()
			if err := r.s.Log.Close(); err != nil {
				t.Fatal(err)
			}
			log, err := r.dir.Open(id)
			if err != nil {
				t.Fatal(err)
			}
			c, err := log.Context()
			if err != nil {
				t.Fatal(err)
			}
			paired(t, what, c.Messages)
			for _, m := range c.Messages {
				if m.Role == record.RoleTool && strings.Contains(m.Content, "no result") {
					t.Errorf("%s: a call has no result: %v", what, m)
				}
			}
			r.s = &Session{ID: 7, Log: log, CreatedBy: "user", Scope: r.s.Scope, Messages: c.Messages}
			r.model.Queue(modeltest.Say("fine"))
			for range 5 { // first the rest of the script
				if _, err := r.run(t.Context(), "still there?"); err != nil {
					t.Errorf("%s: it does not continue: %v", what, err)
				}
				if c, _ := log.Context(); strings.HasSuffix(c.Messages[len(c.Messages)-1].Content, "fine") {
					break
				}
			}
			c, err = log.Context()
			if err != nil {
				t.Fatal(err)
			}
			paired(t, what+", later", c.Messages)
			log.Close()
		}
	}
	if events < 12 {
		t.Errorf("a run has %d events", events)
	}
}

// paired checks that each call has one result, in order, directly after it.
func paired(t *testing.T, what string, ms []sessionlog.Message) {
	t.Helper()
	for i := 0; i < len(ms); i++ {
		if ms[i].Role == record.RoleTool {
			t.Errorf("%s: message %d is a result of no call", what, i)
		}
		for _, c := range ms[i].ToolCalls {
			if i++; i == len(ms) || ms[i].ToolCallID != c.ID {
				t.Fatalf("%s: message %d is not the result of %s: %v", what, i, c.ID, ms)
			}
		}
	}
}
