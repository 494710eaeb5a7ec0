package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/agent"
)

// eventsThen returns events that end with an error, or without one.
func eventsThen(err error, events ...agent.Event) func(context.Context) iter.Seq2[*agent.Event, error] {
	return func(context.Context) iter.Seq2[*agent.Event, error] {
		return func(yield func(*agent.Event, error) bool) {
			for i := range events {
				if !yield(&events[i], nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
			}
		}
	}
}

// stall returns events that end with the run's context.
func stall(events ...agent.Event) func(context.Context) iter.Seq2[*agent.Event, error] {
	return func(ctx context.Context) iter.Seq2[*agent.Event, error] {
		return func(yield func(*agent.Event, error) bool) {
			for i := range events {
				yield(&events[i], nil)
			}
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
	}
}

func text(s string) agent.Event { return agent.Event{Kind: agent.TextDelta, Content: s} }

// TestDetachedEvents reads the events of a run from several positions, and its state.
func TestDetachedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDetached(t.Context(), time.Now)
		start := agent.Event{Kind: agent.Start, Session: "s", Number: 7, Agent: "crab"}
		ended := 0
		r, began, err := d.Start(NewRun{Owner: "a", Agent: "other", Ended: func() { ended++ }, Events: eventsThen(nil, start, agent.Event{Kind: agent.User}, text("let me "), text("look"),
			agent.Event{Kind: agent.ToolStart, Calls: []agent.Call{{Name: "recall"}}}, agent.Event{Kind: agent.ToolResult}, agent.Event{Kind: agent.ToolsComplete}, text("no"), text(" walrus"))})
		if err != nil || !began {
			t.Fatal(began, err)
		}
		<-r.Appended()
		d.Wait()
		if s := r.State(); s.Active || s.Session != "s" || s.Number != 7 || s.Agent != "crab" || s.Content != "no walrus" || s.Stored || s.Tools != nil || s.Err != nil || s.Last != 9 {
			t.Errorf("state %+v", s)
		}
		var got []string
		events, first, over, _ := r.After(0)
		for _, e := range events {
			got = append(got, string(e.Kind)+e.Content)
		}
		if want := "start user text_deltalet me  text_deltalook tool_start tool_result text_delta\nno text_delta walrus done"; strings.Join(got, " ") != want || first != 1 || !over {
			t.Errorf("events %q from %d", got, first)
		}
		for position, n := range map[int]int{3: 6, 9: 0, 99: 0} {
			if events, first, _, _ := r.After(position); len(events) != n || first != position+1 {
				t.Errorf("after %d: %d events from %d", position, len(events), first)
			}
		}
		if ended != 1 || d.Run("a", r.ID()) != r || d.Run("b", r.ID()) != nil || d.Latest("a", "s") != r || d.Latest("b", "s") != nil {
			t.Errorf("ended %d times, or another owner finds the run", ended)
		}
	})
}

// TestDetachedQuestion follows a run that asks, is canceled, and keeps its error.
func TestDetachedQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := NewDetached(ctx, time.Now)
		ask := agent.Event{Kind: agent.AskUser, Questions: []agent.Question{{Question: "Which?"}}}
		tools := agent.Event{Kind: agent.ToolStart, Calls: []agent.Call{{Name: "ask_user"}}}
		begin := func() *DetachedRun {
			r, _, err := d.Start(NewRun{Ended: func() {}, Events: stall(text("well"), tools, ask)})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return r
		}
		r := begin()
		s := r.State()
		if !s.Active || !s.Stored || s.Question == nil || s.Question.Question != "Which?" || s.Asked == "" || fmt.Sprint(s.Tools) != "[ask_user]" {
			t.Errorf("state %+v", s)
		}
		_, _, _, changed := r.After(3)
		other := agent.Question{}
		if r.Replied(&other); r.State().Question == nil {
			t.Error("the reply to another question removes the question")
		}
		if r.Replied(s.Question); r.State().Question != nil {
			t.Error("the question remains after its reply")
		}
		r.Cancel()
		<-changed
		synctest.Wait()
		if s := r.State(); s.Active || !errors.Is(s.Err, context.Canceled) || s.Last != 5 {
			t.Errorf("canceled: %+v", s)
		}
		if events, _, _, _ := r.After(3); len(events) != 2 || events[0].Err == nil || events[1].Err != nil {
			t.Errorf("the last events: %+v", events)
		}
		second := begin()
		cancel()
		d.Wait()
		if second.State().Active {
			t.Error("a run continues after its table")
		}
	})
}

// TestDetachedRequests repeats requests: a run answers them, unless it failed.
func TestDetachedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDetached(t.Context(), time.Now)
		n := NewRun{Owner: "a", Key: "k", Request: "go", Ended: func() {}, Events: eventsThen(nil)}
		first, _, err := d.Start(n)
		if err != nil {
			t.Fatal(err)
		}
		d.Wait()
		if again, began, err := d.Start(n); again != first || began || err != nil {
			t.Errorf("again: another run, %v, %v", began, err)
		}
		if r, err := d.Find("a", "k", "go"); r != first || err != nil {
			t.Errorf("found %v, %v", r, err)
		}
		if _, err := d.Find("a", "k", "stop"); err == nil {
			t.Error("another request with the key is no error")
		}
		for _, other := range [][2]string{{"b", "k"}, {"a", "l"}, {"a", ""}} {
			if r, err := d.Find(other[0], other[1], "go"); r != nil || err != nil {
				t.Errorf("%q found %v, %v", other, r, err)
			}
		}
		n.Key, n.Events = "f", eventsThen(errors.New("no key"))
		failed, _, _ := d.Start(n)
		d.Wait()
		if again, began, _ := d.Start(n); again == failed || !began {
			t.Error("a failed run answers its request")
		}
		d.Wait()
		d.Forget(first)
		if r, _ := d.Find("a", "k", "go"); r != nil || d.Run("a", first.ID()) != nil {
			t.Error("a forgotten run is found")
		}
	})
}

// TestDetachedBounds keeps the newest events of a long run, ended runs for an hour, and no
// more runs than permitted.
func TestDetachedBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := NewDetached(ctx, time.Now)
		var long []agent.Event
		for i := range 10 {
			long = append(long, text(fmt.Sprint(i, strings.Repeat("x", 1<<20))))
		}
		r, _, _ := d.Start(NewRun{Owner: "a", Ended: func() {}, Events: eventsThen(nil, long...)})
		d.Wait()
		events, first, _, _ := r.After(2)
		size := 0
		for i := range events {
			size += events[i].Size()
		}
		if last := first + len(events) - 1; last != 11 || first != 8 || size > maxDetachedBytes {
			t.Errorf("events %d to %d of %d bytes", first, last, size)
		}
		if events, first, _, _ := r.After(11); len(events) != 0 || first != 12 {
			t.Errorf("%d events from %d", len(events), first)
		}
		time.Sleep(keepDetached + time.Second)
		var ended atomic.Int32
		begin := func() error {
			_, _, err := d.Start(NewRun{Owner: "a", Ended: func() { ended.Add(1) }, Events: stall()})
			return err
		}
		if err := begin(); err != nil || d.Run("a", r.ID()) != nil {
			t.Errorf("an old run is kept, or %v", err)
		}
		for range maxDetached - 1 {
			if err := begin(); err != nil {
				t.Fatal(err)
			}
		}
		if err := begin(); !errors.Is(err, ErrTooMany) {
			t.Errorf("one run more: %v", err)
		}
		cancel()
		d.Wait()
		if n := ended.Load(); n != maxDetached {
			t.Errorf("%d runs ended", n)
		}
		if err := begin(); err != nil {
			t.Errorf("after the end of all runs: %v", err)
		}
		d.Wait()
	})
}
