package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/model/modeltest"
	"crabmem/sessionlog"
)

// request runs the agent on a request with an ID. It returns the answer, and the lines
// and flags of User events.
func (r *rig) request(ctx context.Context, content, id string) (answer, appended string, err error) {
	r.t.Helper()
	for e, eerr := range r.Run(ctx, r.agent, r.s, Input{Content: content, Request: id}) {
		switch e.Kind {
		case User:
			appended += fmt.Sprintf("%s at %d %v", e.Content, e.Line, e.Repeated)
		case Done:
			answer, err = e.Content, eerr
		}
	}
	return answer, appended, err
}

// TestRequestTwice sends a request with an ID again, after turns that ended in each way.
func TestRequestTwice(t *testing.T) {
	half := modeltest.Reply{}.Text("half an ").Cut()
	for _, c := range []struct {
		name    string
		replies []modeltest.Reply // of the first turn
		next    string            // a message between
		content string            // of the second request
		answer  string            // "": refused
		models  int               // requests to the model
		kept    []string
	}{
		{"answered", []modeltest.Reply{modeltest.Say("fine")}, "", "go", "fine", 1, []string{"user go", "assistant fine"}},
		{"answered before another message", []modeltest.Reply{modeltest.Say("fine")}, "stop", "go", "fine", 2,
			[]string{"user go", "assistant fine", "user stop", "assistant well"}},
		{"failed", []modeltest.Reply{modeltest.Status(401, "no key")}, "", "go", "well", 2, []string{"user go", "assistant well"}},
		{"failed after text", []modeltest.Reply{half}, "", "go", "well", 2, []string{"user go", "assistant well"}},
		{"failed before another message", []modeltest.Reply{modeltest.Status(401, "no key")}, "stop", "go", "", 2,
			[]string{"user go", "user stop", "assistant well"}},
		{"other content", []modeltest.Reply{modeltest.Say("fine")}, "", "run", "", 1, []string{"user go", "assistant fine"}},
	} {
		for _, restart := range []bool{false, true} {
			r := newRig(t, 100_000, Hooks{})
			r.model.Queue(append(c.replies, modeltest.Say("well"))...)
			answer, appended, err := r.request(t.Context(), "go", "a")
			if (err == nil) != (answer == "fine") || appended != "go at 2 false" {
				t.Fatalf("%s: first %q, appended %s: %v", c.name, answer, appended, err)
			}
			if c.next != "" {
				if _, err := r.run(t.Context(), c.next); err != nil {
					t.Fatal(err)
				}
			}
			if restart {
				r.reload()
			}
			answer, appended, err = r.request(t.Context(), c.content, "a")
			refused := errors.Is(err, ErrRequest)
			if answer != c.answer || refused != (c.answer == "") || err != nil && !refused {
				t.Errorf("%s: %q, %v; want %q", c.name, answer, err, c.answer)
			}
			want := fmt.Sprint("go at 2 ", answer == "fine")
			if refused {
				want = ""
			}
			if appended != want {
				t.Errorf("%s: appended %q, want %q", c.name, appended, want)
			}
			if n := len(r.model.Requests()); n != c.models {
				t.Errorf("%s: %d requests to the model, want %d", c.name, n, c.models)
			}
			r.want(c.name+": file", r.kept(), c.kept...)
		}
	}
}

// TestRequestCanceled refuses a request whose turn the user canceled with a part of an
// answer. If the client disconnected, the request continues the turn. Requests with
// different IDs and the same message are different turns.
func TestRequestCanceled(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	half := modeltest.Reply{}.Text("half").Stall(0)
	r.model.Queue(half, half, modeltest.Say("whole"), modeltest.Status(401, "no key"), modeltest.Say("fine"), modeltest.Say("fine too"))
	end := func(id string, cause error) {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		for e := range r.Run(ctx, r.agent, r.s, Input{Content: "go", Request: id}) {
			if e.Kind == TextDelta {
				cancel(cause)
			}
		}
	}
	end("a", errors.New("by the user"))
	if err := r.s.Log.AppendFailure("cancelled", "by the user"); err != nil { // as the daemon does
		t.Fatal(err)
	}
	if _, _, err := r.request(t.Context(), "go", "a"); !errors.Is(err, ErrRequest) {
		t.Errorf("after the cancellation: %v", err)
	}
	end("gone", nil)
	if answer, _, err := r.request(t.Context(), "go", "gone"); err != nil || answer != "whole" {
		t.Errorf("after a disconnection: %q, %v", answer, err)
	}
	for _, id := range []string{"b", "c"} {
		r.request(t.Context(), "go", id)
	}
	r.want("file", r.kept(), "user go", "assistant half", "user go", "assistant whole", "user go", "user go", "assistant fine")
	if answer, _, err := r.request(t.Context(), "go", ""); err != nil || answer != "fine too" {
		t.Errorf("without an ID: %q, %v", answer, err)
	}
	if answer, _, err := r.request(t.Context(), "go", "c"); err != nil || answer != "fine" {
		t.Errorf("c again: %q, %v", answer, err)
	}
}

// TestRequestAcrossCrashes cuts the power at each call of the file system during a
// request. The request again gets its answer, and the file contains its message once. A
// message that the run reported as appended is not lost.
func TestRequestAcrossCrashes(t *testing.T) {
	m := faultfs.NewMem()
	r := newRig(t, 100_000, Hooks{})
	r.inMemory(m)
	type state struct {
		m        *faultfs.Mem
		appended bool
	}
	var states []state
	appended := false
	m.Hook = func(faultfs.Call) error {
		states = append(states, state{m.Crash(), appended})
		return nil
	}
	r.model.Queue(modeltest.Call("echo", `{"text":"result"}`), modeltest.Say("fine"))
	for e := range r.Run(t.Context(), r.agent, r.s, Input{Content: "go", Request: "a"}) {
		appended = appended || e.Kind == User
	}
	m.Hook = nil
	states = append(states, state{m.Crash(), true})
	if len(states) < 5 {
		t.Fatalf("%d states", len(states))
	}
	id := r.s.Log.ID()
	for i, s := range states {
		if lines := afterCrash(t, s.m, id); s.appended && !slices.Contains(lines, "user go") {
			t.Errorf("state %d lost the message: %q", i, lines)
		}
		dir, err := sessionlog.OpenDir("/sessions", &sessionlog.Options{FS: s.m})
		if err != nil {
			t.Fatal(err)
		}
		if r.s.Log, err = dir.Open(id); err != nil {
			t.Fatal(err)
		}
		r.reload()
		before := len(r.model.Requests())
		r.model.Queue(modeltest.Say("fine"))
		answer, _, err := r.request(t.Context(), "go", "a")
		if err != nil || answer != "fine" {
			t.Errorf("state %d: %q, %v", i, answer, err)
		}
		if len(r.model.Requests()) == before { // take the reply that was not requested
			if _, err := r.run(t.Context(), "another"); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(strings.Join(r.kept(), "\n"), "user go"); n != 1 {
			t.Errorf("state %d: the file has the message %d times: %q", i, n, r.kept())
		}
		if err := dir.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d crash states", len(states))
}
