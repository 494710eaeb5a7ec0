package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/remote"
	"crabmem/sessionlog"
)

// say sends a message in a new session, and returns what the client received, with | between
// rounds of tools.
func say(ctx context.Context, c *remote.Client, text string) (answer string, err error) {
	for e, err := range op.StreamMessage.All(ctx, c, op.Message{Agent: "crab", Content: text, New: true}) {
		switch {
		case err != nil:
			return answer, err
		case e.Kind == agent.TextDelta:
			answer += e.Content
		case e.Kind == agent.ToolsComplete:
			answer += "|"
		}
	}
	return answer, nil
}

// messages returns the messages of users with a text, and the complete answers to them.
func (r *rig) messages(c *remote.Client, text string) (asked, answered int) {
	r.t.Helper()
	list, err := op.ListSessions.Do(r.t.Context(), c, op.SessionFilter{Limit: 200})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range list.Items {
		h, err := op.ReadLines.Do(r.t.Context(), c, op.SessionPage{SessionID: op.SessionID{Session: s.ID}, Limit: 50})
		if err != nil {
			r.t.Fatal(err)
		}
		mine := false
		for _, l := range h.Items {
			var m sessionlog.Message
			if json.Unmarshal(l.Record, &m) != nil {
				continue
			}
			if m.Role == "user" {
				mine = m.Content == text
			}
			if mine && m.Role == "user" {
				asked++
			}
			if mine && m.Role == "assistant" && m.Content == "no walrus" {
				answered++
			}
		}
	}
	return asked, answered
}

// TestRemoteRunCuts cuts the connection of a client at many points of a run: the session has the
// message once, and the client receives each event once. CRABMEM_GATEWAY_CUTS sets the number of
// points in each direction.
func TestRemoteRunCuts(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Limits.Rate, c.Limits.Burst, c.Server.AllowHosts = 1e6, 1e6, []string{"127.0.0.1"} })
	proxy := newCutter(t, strings.TrimPrefix(r.url, "http://"))
	direct := r.remote(r.url, "ann")
	r.model.Func(func(q modeltest.Request) modeltest.Reply {
		if q.Messages[len(q.Messages)-1].Role == "tool" {
			return modeltest.Say("no ", "walrus")
		}
		return modeltest.Reply{}.Text("let me look").Call("recall", `{"query":"walrus"}`)
	})
	n, unknown := 0, 0
	attempt := func(cut int32, at cutPoint) (text, answer string, err error) {
		n++
		c := r.remote("http://"+proxy.Addr().String(), "ann")
		defer c.Close()
		proxy.up.Store(at.up)
		proxy.down.Store(at.down)
		proxy.cut.Store(cut)
		text = fmt.Sprint("is there a walrus? ", n)
		answer, err = say(t.Context(), c, text)
		return text, answer, err
	}
	if _, answer, err := attempt(0, cutPoint{-1, -1}); err != nil || answer != "let me look|no walrus" {
		t.Fatalf("answer %q: %v", answer, err)
	}
	for _, at := range points(proxy.sent.Load(), proxy.received.Load()) {
		for _, cut := range []int32{1, 2, 1000} {
			text, answer, err := attempt(cut, at)
			proxy.cut.Store(0)
			r.eventually("the run ends", func() bool {
				l, err := op.ListSessions.Do(t.Context(), direct, op.SessionFilter{Limit: 200})
				active := err != nil
				for _, s := range l.Items {
					active = active || s.Active
				}
				return !active
			})
			asked, answered := r.messages(direct, text)
			kind := ""
			if err != nil {
				kind = errtable.Find(err).Kind
			}
			switch {
			case asked > 1 || answered > 1:
				t.Errorf("cut %d times at %+v: %d messages, %d answers", cut, at, asked, answered)
			case err == nil && (answer != "let me look|no walrus" || asked != 1 || answered != 1):
				t.Errorf("cut %d times at %+v: received %q; %d messages, %d answers", cut, at, answer, asked, answered)
			case err != nil && cut == 1:
				t.Errorf("cut once at %+v: %v", at, err)
			case err != nil && kind != "outcome_unknown" && kind != "no_gateway":
				t.Errorf("cut %d times at %+v: %v (%s), want an unknown outcome", cut, at, err, kind)
			}
			if kind == "outcome_unknown" {
				unknown++
			}
		}
	}
	t.Logf("%d runs with cut connections, %d with an unknown outcome", n, unknown)
}

// TestRemoteRunLeft cancels the run of a client that leaves it.
func TestRemoteRunLeft(t *testing.T) {
	r := newRig(t)
	for what, leave := range map[string]func(cancel func()) (enough bool){
		"its context ends": func(cancel func()) bool { cancel(); return false },
		"it has enough":    func(func()) bool { return true },
	} {
		r.model.Queue(modeltest.Reply{}.Text("half").Stall(0))
		listening, end := context.WithCancel(t.Context())
		_, events := r.open(listening, "root", "GET", "/v1/events", nil)
		r.eventually("the subscription", func() bool {
			st, err := op.ReadDaemonStats.Do(t.Context(), r.g.pinger, op.None{})
			return err == nil && st.Subscribers == 1
		})
		ctx, cancel := context.WithCancel(t.Context())
		for e, err := range op.StreamMessage.All(ctx, r.remote(r.url, "ann"), op.Message{Agent: "crab", Content: "hang", New: true}) {
			if err == nil && e.Kind == agent.TextDelta && leave(cancel) {
				break
			}
		}
		cancel()
		e, ok := events()
		for ok && e.name != "done" {
			e, ok = events()
		}
		if !strings.Contains(e.data, `"cancelled":true`) {
			t.Errorf("%s: the last event is %+v", what, e)
		}
		end()
		r.eventually("the end of the subscription", func() bool {
			st, err := op.ReadDaemonStats.Do(t.Context(), r.g.pinger, op.None{})
			return err == nil && st.Subscribers == 0
		})
	}
}
