package sessionlog_test

import (
	"errors"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
)

// TestRequest looks for requests after each line of a session, and after a restart.
func TestRequest(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user", Request: "a"})
	noErr(t, err)
	ask := func(content, id string) sessionlog.Message {
		return sessionlog.Message{Role: "user", Content: content, Request: id}
	}
	const odd = "b\"\\\n\u2028é"
	for i, c := range []struct {
		add  func() error
		a, b *sessionlog.RequestTurn
	}{
		{func() error { return l.Append(ask(`"request":"a"`, "ab")) }, nil, nil},
		{func() error { return l.Append(ask("go", "a")) }, &sessionlog.RequestTurn{Newest: true}, nil},
		{func() error {
			return l.Append(sessionlog.Message{Role: "assistant", Content: "let me look", ToolCalls: []sessionlog.ToolCall{{ID: "c", Function: sessionlog.Function{Name: "f", Arguments: `{"request":"b"}`}}}})
		}, &sessionlog.RequestTurn{Answer: "let me look", Newest: true}, nil},
		{func() error {
			return l.Append(sessionlog.Message{Role: "tool", ToolCallID: "c", Content: "found"})
		}, &sessionlog.RequestTurn{Answer: "let me look", Newest: true}, nil},
		{func() error { return l.AppendFailure("model", "no key") }, &sessionlog.RequestTurn{Answer: "let me look", Failed: "model", Newest: true}, nil},
		{func() error { return l.AppendStreamed("half") }, &sessionlog.RequestTurn{Answer: "let me look", Failed: "model", Newest: true}, nil},
		{func() error { return l.Append(answer("done")) }, &sessionlog.RequestTurn{Answer: "done", Answered: true, Newest: true}, nil},
		{func() error { return l.Compact("all is well") }, &sessionlog.RequestTurn{Answer: "done", Answered: true, Newest: true}, nil},
		{func() error { return l.Append(ask("stop", odd)) }, &sessionlog.RequestTurn{Answer: "done", Answered: true}, &sessionlog.RequestTurn{Newest: true}},
		{func() error { return l.Append(answer("stopp")) }, &sessionlog.RequestTurn{Answer: "done", Answered: true}, &sessionlog.RequestTurn{Answer: "stopp", Answered: true, Newest: true}},
		{func() error { return l.AppendFailure("cancelled", "by the user") }, &sessionlog.RequestTurn{Answer: "done", Answered: true},
			&sessionlog.RequestTurn{Answer: "stopp", Failed: "cancelled", Newest: true}},
	} {
		noErr(t, c.add())
		for _, restart := range []bool{false, true} {
			if restart {
				noErr(t, l.Close())
				l = reopen(t, d, l.ID())
			}
			for id, want := range map[string]*sessionlog.RequestTurn{"a": c.a, odd: c.b, "": nil, "b": nil, "ab\",\"": nil} {
				got, ok, err := l.Request(id)
				noErr(t, err)
				if want != nil {
					full := *want
					full.Content, full.Line = "go", 3
					if id == odd {
						full.Content, full.Line = "stop", 11 // a marker and its meta record precede it
					}
					want = &full
				}
				if ok != (want != nil) || ok && got != *want {
					t.Errorf("step %d, request %q: %+v %v, want %+v", i, id, got, ok, want)
				}
			}
		}
	}
	c, err := l.Context()
	noErr(t, err)
	if len(c.Messages) != 3 || c.Messages[1].Content != "stop" || c.Messages[1].Request != "" {
		t.Errorf("context %+v", c.Messages)
	}
	if !strings.Contains(text(t, m, "/s/crab_user_1.jsonl"), `{"role":"user","content":"go","request":"a"}`+"\n") {
		t.Errorf("file:\n%s", text(t, m, "/s/crab_user_1.jsonl"))
	}
	for _, id := range []string{strings.Repeat("x", 256), "\xff"} {
		if err := l.Append(ask("go", id)); !errors.Is(err, sessionlog.ErrInvalid) {
			t.Errorf("request ID %.5q: %v", id, err)
		}
		if _, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user", Request: id}); !errors.Is(err, sessionlog.ErrInvalid) {
			t.Errorf("request ID %.5q of a session: %v", id, err)
		}
	}
}

// TestCreatedFor looks for sessions by the requests that created them. It finds a
// session that is renamed during the search.
func TestCreatedFor(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	var logs []*sessionlog.Log
	for _, meta := range []sessionlog.Meta{
		{Agent: "crab", CreatedBy: "user", Request: "a"}, {Agent: "crab", CreatedBy: "user"}, {Agent: "crab", CreatedBy: "user", Request: "b", Title: "second"},
		{Agent: "crab", CreatedBy: "tg:1", Request: "a"}, {Agent: "crab", CreatedBy: "tg_1", Request: "c"}, {Agent: "crab", CreatedBy: "user", Title: `"request":"d"`},
	} {
		l, err := d.Create(meta)
		noErr(t, err)
		logs = append(logs, l)
	}
	m.WriteFile("/s/crab_user_18446744073709551615.jsonl", []byte("no meta line"), 0o600)
	check := func(agent, by, id, want string) {
		t.Helper()
		got, err := d.CreatedFor(agent, by, id)
		if got != want || (want == "") != errors.Is(err, sessionlog.ErrNotFound) {
			t.Errorf("request %q of %s and %s: %q, %v; want %q", id, agent, by, got, err, want)
		}
	}
	check("crab", "user", "a", "crab_user_1")
	check("crab", "user", "b", "crab_user_3")
	check("crab", "user", "", "")
	check("crab", "user", "c", "")
	check("crab", "user", "d", "")
	check("crab", "tg:1", "a", logs[3].ID())
	check("crab", "tg:1", "c", "") // of an identity with the same slug
	check("other", "user", "a", "")
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "open" && strings.HasSuffix(c.Name, "crab_user_1.jsonl") {
			m.Hook = nil
			return logs[0].SetTitle("renamed")
		}
		return nil
	}
	check("crab", "user", "a", "crab_user_1")
	if m.Hook != nil {
		t.Error("no file was opened")
	}
	noErr(t, logs[0].Close())
	check("crab", "user", "a", "crab_user_1")
}
