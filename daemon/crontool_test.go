package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/cron"
	"crabmem/daemon/model"
	"crabmem/daemon/session"
	"crabmem/daemon/space"
	"crabmem/daemon/trust"
	"crabmem/sessionlog"
)

// scripts is a model that calls a tool if a message is NAME ARGUMENTS, and says the result
// of a call, else done. It records its requests.
type scripts struct {
	mu     sync.Mutex
	took   []model.Request
	takes  time.Duration
	answer string // to messages; "": done

	summary string // of each session, after a minute; "": an error
	// notes are the arguments of remember in the first response of each flush, after a
	// minute. The second response is the end; results are those of the calls before it.
	notes, results []string
	onEnd          func() // before the second response
}

func (s *scripts) Send(ctx context.Context, q model.Request) (*model.Response, error) {
	if len(q.Tools) > 0 {
		return s.flush(ctx, &q)
	}
	if s.summary == "" {
		return nil, fmt.Errorf("no summaries here")
	}
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &model.Response{Message: sessionlog.Message{Role: "assistant", Content: s.summary}, Finish: "stop"}, nil
}

func (s *scripts) flush(ctx context.Context, q *model.Request) (*model.Response, error) {
	m := sessionlog.Message{Role: "assistant", Content: "done"}
	if q.Messages[len(q.Messages)-1].Role == "tool" {
		if s.onEnd != nil {
			s.onEnd()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range q.Messages[len(q.Messages)-len(s.notes):] {
			s.results = append(s.results, r.Content)
		}
		return &model.Response{Message: m, Finish: "stop"}, nil
	}
	for i, note := range s.notes {
		m.ToolCalls = append(m.ToolCalls, sessionlog.ToolCall{ID: fmt.Sprint(i), Function: sessionlog.Function{Name: "remember", Arguments: note}})
	}
	select {
	case <-time.After(time.Minute):
		return &model.Response{Message: m, Finish: "tool_calls"}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *scripts) Stream(ctx context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		s.mu.Lock()
		s.took = append(s.took, q)
		takes, text := s.takes, s.answer
		s.mu.Unlock()
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			yield(model.Chunk{}, ctx.Err())
			return
		}
		last := q.Messages[len(q.Messages)-1]
		c := model.Chunk{Content: text, Finish: "stop"}
		if c.Content == "" {
			c.Content = "done"
		}
		if last.Role == "tool" {
			c.Content = last.Content
		} else if name, args, ok := strings.Cut(last.Content, " {"); ok {
			c = model.Chunk{Finish: "tool_calls", Calls: []model.CallDelta{{ID: "1", Name: name, Arguments: "{" + args}}}
		}
		yield(c, nil)
	}
}

// requests returns the last messages of the requests since the last call.
func (s *scripts) requests() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.took {
		list = append(list, q.Messages[len(q.Messages)-1].Content)
	}
	s.took = nil
	return list
}

// channel returns a daemon whose agent crab is a channel, with some more configuration.
func channel(t *testing.T, fs vfs.FS, more string) (*Daemon, *scripts) {
	t.Helper()
	err := vfs.MkdirAll(fs, "/home/crab", 0o700)
	if err == nil {
		err = vfs.WriteFile(fs, "/home/crab/config.toml", 0o600, []byte("[system.crab]\nrole = \"channel\"\n"+more))
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &scripts{}
	d, err := Open(Options{Home: "/home/crab", FS: fs, Getenv: func(string) string { return "" }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Offline: m})
	if err != nil {
		t.Fatal(err)
	}
	return d, m
}

// say sends a message to the newest session of an identity, and returns the answer.
func (d *Daemon) say(t *testing.T, sender, text string) string {
	t.Helper()
	l, err := d.loaded.Resolve(t.Context(), &session.Request{Agent: "crab", Sender: sender})
	if err != nil {
		t.Fatal(err)
	}
	run := session.Run{Session: l, Content: text, Sender: sender}
	if err := d.loaded.Run(t.Context(), &run); err != nil {
		return err.Error()
	}
	return run.Answer
}

const tgTrusted = "[origins.\"tg:\"]\ntrust = \"trusted\"\n"

// TestCronTool creates, lists, and deletes entries of a channel's own session.
func TestCronTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := channel(t, fs, "")
		defer d.Close()
		mustCreate(t, d, cron.Cron{Schedule: "0 9 * * *", Skill: "feeds", SessionFile: cron.NewSession})
		for text, want := range map[string]string{
			`cron {"action":"create","schedule":"@every 1m","prompt":"x","skill":"feeds"}`: "prompt excludes skill and args: set one of them",
			`cron {"action":"create","schedule":"@every 1s","prompt":"x"}`:                 "invalid cron schedule '@every 1s': @every needs a duration from 1m to 8784h, such as 90m",
			`cron {"action":"create","schedule":"@hourly","skill":"nosuch"}`:               "cron: skill nosuch: no such skill",
			`cron {"action":"create","schedule":"@hourly"}`:                                "no skill and no prompt: set one of them",
			`cron {"action":"run"}`:           "no such action: run",
			`cron {"action":"delete","id":1}`: "no entry of this conversation: 1",
			`cron {"action":"list"}`:          "0 entries",
		} {
			if got := d.say(t, "user", text); got != want {
				t.Errorf("%s: %s, want %s", text, got, want)
			}
		}
		if got := d.say(t, "user", `cron {"action":"create","schedule":"@every 90m","prompt":"/feeds\nagain","timezone":"UTC"}`); got != "added 2, next at 2000-01-01T01:30:00Z" {
			t.Error(got)
		}
		if got := d.say(t, "user", `cron {"action":"list"}`); got != "2: \"@every 90m\" /feeds again\n1 entry" {
			t.Error(got)
		}
		c := d.crons.List()[1]
		if c.Agent != "crab" || c.Sender != trust.Cron || c.SessionFile != "crab_user_1" || c.Approve != cron.AllowedOnly || !strings.Contains(c.Scope, `"tools"`) {
			t.Errorf("%+v", c)
		}
		m.requests()
		d.firingFor(t, 3*time.Hour+time.Minute)
		m.mu.Lock()
		tools := toolNames(m.took[0].Tools)
		m.mu.Unlock()
		if got := strings.Join(m.requests(), "|"); got != "/feeds\nagain|/feeds\nagain" {
			t.Errorf("it ran %q", got)
		}
		if !strings.Contains(tools, " recall remember ") || !strings.Contains(tools, " spawn_worker") || strings.Contains(tools, "bash") {
			t.Errorf("a run has the tools %s", tools)
		}
		if got := d.say(t, "user", `cron {"action":"delete","id":2}`); got != "removed 2" || len(d.crons.List()) != 1 {
			t.Error(got)
		}
		for range 20 {
			d.say(t, "user", `cron {"action":"create","schedule":"@hourly","prompt":"x"}`)
		}
		if got := d.say(t, "user", `cron {"action":"create","schedule":"@hourly","prompt":"x"}`); got != "20 entries already: delete some first" || len(d.crons.List()) != 21 {
			t.Errorf("%s: %d entries", got, len(d.crons.List()))
		}
	})
}

func toolNames(list []model.Tool) string {
	var names []string
	for _, t := range list {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestCronMaker runs an entry that a trusted sender made: it has the sender's permissions,
// the recorded ones, and those of the present rules, not those of cron.
func TestCronMaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, _ := channel(t, fs, tgTrusted)
		d.say(t, "user", "hi")
		l, err := d.loaded.Open(t.Context(), "crab_user_1", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct{ sender, text, want string }{
			{"tg:7", `cron {"action":"create","schedule":"@hourly","prompt":"remember {\"name\":\"n\",\"content\":\"c\"}"}`, "added 1, next at 2000-01-01T01:00:00Z"},
			{"tg:8", `cron {"action":"list"}`, "0 entries"},
			{"tg:8", `cron {"action":"delete","id":1}`, "no entry of this conversation: 1"},
		} {
			run := session.Run{Session: l, Content: step.text, Sender: step.sender}
			if err := d.loaded.Run(t.Context(), &run); err != nil || run.Answer != step.want {
				t.Errorf("%s: %s, %v", step.text, run.Answer, err)
			}
		}
		if c := d.crons.List()[0]; c.Sender != "cron-tg:7" || c.SessionFile != "crab_user_1" {
			t.Errorf("%+v", c)
		}
		for _, c := range []struct {
			rules, want string
			notes       int
		}{
			{tgTrusted, "remembered: n", 1},
			{strings.Replace(tgTrusted, "trusted", "admin", 1), "remembered: n", 1}, // the recorded scope counts
			{"", "tool not available: remember", 0},
		} {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			var m *scripts
			d, m = channel(t, fs, c.rules)
			d.firingFor(t, time.Hour)
			own := 0
			if err := d.writeSpace(space.OfSender("tg:7"), func(s *crmem.Store) error {
				own = s.Len()
				return s.Forget("n")
			}); err != nil && c.notes > 0 {
				t.Error(err)
			}
			if got := strings.Join(m.requests(), "|"); d.store.Len() > 0 || own != c.notes || !strings.Contains(got, c.want) {
				t.Errorf("%s: %d notes in the home, %d in the sender's space: %s", c.rules, d.store.Len(), own, got)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCronMakerWork runs an entry whose maker might not give work to agents, and later may: the
// entry still may not.
func TestCronMakerWork(t *testing.T) {
	for rules, want := range map[string]string{tgTrusted: "tool not available: spawn_worker", tgTrusted + "allow = [\"delegate:worker\"]\n": "w1 (worker) begins; its result goes to the conversation"} {
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.NewMem()
			d, _ := channel(t, fs, rules)
			d.say(t, "tg:7", `cron {"action":"create","schedule":"@hourly","prompt":"spawn_worker {\"task\":\"x\"}"}`)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d, _ = channel(t, fs, tgTrusted+"allow = [\"delegate:worker\"]\n")
			d.firingFor(t, time.Hour)
			if got := sessions(fs); !bytes.Contains(got, []byte(want)) {
				t.Errorf("%s: %s", rules, got)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
