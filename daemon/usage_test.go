package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/cron"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/daemon/usage"
	"crabmem/fuzz/race"
	"crabmem/sessionlog"
)

// spender is a model that uses 60 tokens for each response, and delegates without end if
// delegates is set.
type spender struct {
	mu        sync.Mutex
	calls     int
	delegates bool
}

func (m *spender) Send(context.Context, model.Request) (*model.Response, error) {
	return &model.Response{Message: sessionlog.Message{Role: "assistant", Content: "short"}, Finish: "stop", Usage: &model.Usage{Prompt: 50, Completion: 10}}, nil
}

func (m *spender) Stream(_ context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		m.mu.Lock()
		m.calls++
		c := model.Chunk{Content: "done", Finish: "stop", Usage: &model.Usage{Prompt: 50, Completion: 10}}
		if m.delegates && q.Messages[len(q.Messages)-1].Role != "tool" || m.delegates && m.calls > 1 && len(q.Tools) > 0 && strings.HasPrefix(q.Messages[0].Content, "You are Crab") {
			c = model.Chunk{Finish: "tool_calls", Usage: c.Usage, Calls: []model.CallDelta{{ID: fmt.Sprint("c", m.calls), Name: "delegate",
				Arguments: `{"tasks":[{"agent":"helper","message":"again"},{"agent":"helper","message":"and again"}]}`}}}
		}
		m.mu.Unlock()
		yield(c, nil)
	}
}

// limited is a daemon in a bubble with a configuration and a spender, at noon.
type limited struct {
	*Daemon
	t    *testing.T
	fs   *faultfs.Mem
	m    *spender
	said *bytes.Buffer
}

func newLimited(t *testing.T, fs *faultfs.Mem, config string) *limited {
	t.Helper()
	l := &limited{t: t, fs: fs, m: &spender{}, said: &bytes.Buffer{}}
	l.configure(config)
	d, err := Open(Options{Home: "/home/crab", FS: fs, Getenv: func(string) string { return "" }, Log: slog.New(slog.NewTextHandler(l.said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	l.Daemon = d
	l.use()
	return l
}

func (l *limited) configure(config string) {
	l.t.Helper()
	helper := "\n[agents.helper]\nprompt = \"You help.\"\n"
	if strings.Contains(config, "[agents.helper]") {
		helper = ""
	}
	err := vfs.MkdirAll(l.fs, "/home/crab", 0o700)
	if err == nil {
		err = vfs.WriteFile(l.fs, "/home/crab/config.toml", 0o600, []byte("sessions.titles = \"off\"\n"+config+helper))
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// use adds the model to the current setup.
func (l *limited) use() {
	l.t.Helper()
	if err := errors.Join(l.setup().models.AddBackend("spender", 8192, l.m), l.setup().models.Switch("spender")); err != nil {
		l.t.Fatal(err)
	}
}

func (l *limited) send(m op.Message) (notices []string, err error) {
	if m.Agent == "" {
		m.Agent = "crab"
	}
	_, err = l.converse(l.t.Context(), &m, func(e agent.Event) error {
		if e.Kind == agent.Notice {
			notices = append(notices, e.Note)
		}
		return nil
	})
	return notices, err
}

func (l *limited) tokens(by string) map[string]int64 {
	l.t.Helper()
	out, err := op.ReadUsage.Do(l.t.Context(), op.Local{On: l.on(&request{ctx: l.t.Context()})}, op.UsageFilter{By: by})
	if err != nil {
		l.t.Fatal(err)
	}
	all := make(map[string]int64)
	for _, s := range out.Sums {
		all[s.Name] = s.Tokens
	}
	return all
}

func (l *limited) warnings() int { return strings.Count(l.said.String(), "a limit refuses runs") }

const lateToday = 12 * time.Hour

// TestTokensPerDay: a run that begins below the limit ends, and the next one is refused
// until midnight, with one notice. A refused run changes no session, and a restart does
// not reset the limit.
func TestTokensPerDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(lateToday)
		l := newLimited(t, faultfs.NewMem(), "limits.tokens_per_day = 100")
		for range 2 { // 120 tokens
			if notices, err := l.send(op.Message{Content: "hi"}); err != nil || len(notices) > 0 {
				t.Fatal(notices, err)
			}
		}
		before := l.files()
		for i := range 4 {
			notices, err := l.send(op.Message{Content: "more", New: i == 1})
			e := reported(err)
			if e.Code != 429 || e.Kind != "limit" || !strings.Contains(e.Message, `limit of 100 tokens a day of agent "crab" reached until 2000-01-02 00:00:00`) || !strings.Contains(e.Remedy, "tokens_per_day") ||
				!strings.Contains(string(e.Details), `"until":"2000-01-02T00:00:00Z"`) {
				t.Fatalf("refused with %+v, details %s", e, e.Details)
			}
			if len(notices) > 0 { // the error tells the client
				t.Errorf("notices %q", notices)
			}
		}
		if l.warnings() != 1 || strings.Contains(l.said.String(), "turn failed") {
			t.Errorf("log %s", l.said)
		}
		if after := l.files(); after != before || l.m.calls != 2 {
			t.Errorf("%d calls; the sessions were %s and are %s", l.m.calls, before, after)
		}
		if _, err := l.send(op.Message{Content: "hi", Agent: "helper"}); err != nil {
			t.Errorf("another agent: %v", err)
		}
		err := l.loaded.With(t.Context(), 1, func(context.Context, session.Setup, *agent.Agent, *agent.Session) error { return nil })
		if usage.Refused(err) == nil {
			t.Errorf("a compaction: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = newLimited(t, l.fs, "limits.tokens_per_day = 100")
		if _, err := l.send(op.Message{Content: "more"}); usage.Refused(err) == nil {
			t.Errorf("after a restart: %v", err)
		}
		if got := l.tokens("agent"); got["crab"] != 120 || got["helper"] != 60 {
			t.Errorf("usage %v", got)
		}
		l.configure("limits.tokens_per_day = 100\n[system.crab]\ntokens_per_day = 200") // the agent's own wins
		if err := l.Reload(); err != nil {
			t.Fatal(err)
		}
		l.use()
		if _, err := l.send(op.Message{Content: "more"}); err != nil {
			t.Errorf("with a higher limit: %v", err)
		}
		l.configure("limits.tokens_per_day = 100")
		if err := l.Reload(); err != nil {
			t.Fatal(err)
		}
		l.use()
		time.Sleep(12*time.Hour - time.Second)
		if _, err := l.send(op.Message{Content: "more"}); usage.Refused(err) == nil {
			t.Errorf("before midnight: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := l.send(op.Message{Content: "more"}); err != nil {
			t.Errorf("after midnight: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// files returns the sizes of the sessions.
func (l *limited) files() string {
	l.t.Helper()
	list, err := l.fs.ReadDir("/home/crab/sessions")
	if err != nil {
		l.t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range list {
		if fi, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".jsonl") {
			fmt.Fprintln(&b, e.Name(), fi.Size())
		}
	}
	return b.String()
}

// TestSpawnWithoutEnd: an agent that delegates without end exceeds the limit of the agent
// that it delegates to by at most a run. The log has one notice, and so has the
// conversation that delegated.
func TestSpawnWithoutEnd(t *testing.T) {
	for members, shown := range map[string]int{"": 1, `members = ["helper"]`: 0} { // helper may delegate, too
		synctest.Test(t, func(t *testing.T) {
			l := newLimited(t, faultfs.NewMem(), "system.tasks.max_concurrent = 1\n[agents.helper]\ntokens_per_day = 200\n"+members+"\n[system.crab]\nmembers = [\"helper\"]\nmax_iterations = 40")
			defer l.Close()
			l.m.delegates = true
			notices, err := l.send(op.Message{Content: "go"})
			if !errors.Is(err, agent.ErrExhausted) || len(notices) != shown || l.warnings() != 1 {
				t.Errorf("%v, notices %q, log %s", err, notices, l.said)
			}
			const run = 16 * 60 // of an agent with the default of steps
			if n := l.tokens("agent")["helper"]; n < 200 || n > 200+run {
				t.Errorf("helper has used %d tokens", n)
			}
			if got := l.tokens("origin"); len(got) != 1 || got["user"] == 0 {
				t.Errorf("the tokens are those of %v", got)
			}
		})
	}
}

// TestRunsPerMinute: the limit of a sender depends on its trust, and an agent may have one.
func TestRunsPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const config = identities + "[limits]\nuntrusted_runs_per_minute = 2\ntrusted_runs_per_minute = 3\n[system.crab]\nruns_per_minute = 10"
		l := newLimited(t, faultfs.NewMem(), config)
		defer l.Close()
		run := func(sender string) error {
			_, err := l.send(op.Message{Content: "hi", Sender: sender, New: true})
			return err
		}
		for sender, n := range map[string]int{"tg:7": 2, "api:a": 3} {
			for i := range n + 2 {
				if err := run(sender); (usage.Refused(err) == nil) != (i < n) {
					t.Errorf("run %d of %s: %v", i, sender, err)
				}
			}
		}
		for i := range 7 {
			if err := run("user"); (err == nil) != (i < 5) {
				t.Errorf("run %d of the owner: %v", i, err)
			}
		}
		time.Sleep(time.Minute)
		if err := run("tg:7"); err != nil {
			t.Errorf("a minute later: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, faultfs.NewMem(), "")
		defer l.Close()
		for i := range 8 {
			if _, err := l.send(op.Message{Content: "hi", Sender: "tg:7"}); (err == nil) != (i < 6) {
				t.Errorf("by default, run %d of a stranger: %v", i, err)
			}
		}
	})
}

// TestRepeatedAtLimit: a request that the session has answered is answered at the limit.
func TestRepeatedAtLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, faultfs.NewMem(), "limits.tokens_per_day = 50")
		defer l.Close()
		for range 2 {
			if _, err := l.send(op.Message{Content: "hi", Request: "r1"}); err != nil {
				t.Error(err)
			}
		}
		if _, err := l.send(op.Message{Content: "hi", Request: "r2"}); usage.Refused(err) == nil || l.m.calls != 1 {
			t.Errorf("%v after %d calls", err, l.m.calls)
		}
	})
}

// TestCronsWait: a cron that meets a limit does not fail. It runs once after midnight, also
// a one-time entry, after a restart, and without catch_up; a reload with a higher limit
// permits it at once.
func TestCronsWait(t *testing.T) {
	race.Skip(t)
	for _, once := range []bool{false, true} {
		for _, how := range []string{"wait", "restart", "reload", "no catch up"} {
			synctest.Test(t, func(t *testing.T) {
				const limit = "limits.tokens_per_day = 50\n"
				config := limit
				if how == "no catch up" {
					config += "cron.catch_up = 0\n"
				}
				time.Sleep(5 * time.Hour)
				l := newLimited(t, faultfs.NewMem(), config)
				defer func() { l.Close() }()
				if _, err := l.send(op.Message{Content: "hi"}); err != nil {
					t.Fatal(err)
				}
				schedule := "0 6-9 * * *"
				if once {
					schedule = "0 6 * * *"
				}
				mustCreate(t, l.Daemon, cron.Cron{Schedule: schedule, Skill: "feeds", SessionFile: cron.NewSession, Once: once, Timezone: "UTC"})
				l.firingFor(t, 6*time.Hour)
				list := l.crons.List()
				if len(list) != 1 || l.m.calls != 1 || strings.Count(l.files(), "\n") != 1 {
					t.Fatalf("%s, once %v: %d calls, the table has %v, sessions %s", how, once, l.m.calls, list, l.files())
				}
				c := op.Cron{ID: list[0].ID}
				if l.firing.state(&c); c.Failures != 0 || c.Stopped || l.warnings() != 1 || strings.Contains(l.said.String(), "cron entry failed") {
					t.Errorf("%s: %d failures, log %s", how, c.Failures, l.said)
				}
				switch how {
				case "restart":
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
					l = newLimited(t, l.fs, config)
					l.m.calls = 1
				case "reload":
					l.configure("limits.tokens_per_day = 500")
					if err := l.Reload(); err != nil {
						t.Fatal(err)
					}
					l.use()
					l.firingFor(t, time.Minute)
					if l.m.calls != 2 {
						t.Errorf("after a reload, %d calls", l.m.calls)
					}
					return
				}
				l.firingFor(t, 13*time.Hour-time.Minute)
				if l.m.calls != 1 {
					t.Errorf("%s: %d calls before midnight", how, l.m.calls)
				}
				l.firingFor(t, 3*time.Minute)
				if l.m.calls != 2 || once && len(l.crons.List()) != 0 {
					t.Errorf("%s, once %v: %d calls after midnight; the table has %v; log %s", how, once, l.m.calls, l.crons.List(), l.said)
				}
				if got := l.tokens("origin"); got["cron"] != 60 || got["user"] != 60 {
					t.Errorf("usage %v", got)
				}
			})
		}
	}
}

// TestUsageCounts counts responses, failed and canceled ones, titles, summaries, and
// flushes, with estimates where the provider reports no tokens.
func TestUsageCounts(t *testing.T) {
	m := modeltest.New(t, modeltest.Say("hello").Usage(100, 7), modeltest.Say("A title").Usage(30, 3))
	s := serve(t, home(t), strings.Replace(scripted(m), `"off"`, `"model"`, 1)+"[limits]\nuntrusted_runs_per_minute = 0\n")
	read := func() op.UsageSum {
		t.Helper()
		out, err := op.ReadUsage.Do(t.Context(), s.client(), op.UsageFilter{By: "origin"})
		if err != nil {
			t.Fatal(err)
		}
		return out.Total
	}
	send := func(ctx context.Context) error {
		_, err := op.SendMessage.Do(ctx, s.client(), op.Message{Agent: "crab", Content: "hi"})
		return err
	}
	if err := send(t.Context()); err != nil {
		t.Fatal(err)
	}
	for read().Prompt < 130 {
		time.Sleep(time.Millisecond)
	}
	total := read()
	if total.Prompt != 130 || total.Completion != 10 || total.Runs != 1 || total.Tokens != 140 {
		t.Errorf("with a title: %+v", total)
	}
	m.Queue(modeltest.Status(400, "no"))
	if err := send(t.Context()); err == nil {
		t.Error("it did not fail")
	}
	if next := read(); next.Tokens != total.Tokens || next.Runs != 2 {
		t.Errorf("after a refusal of the provider: %+v", next)
	}
	m.Queue(modeltest.Say(strings.Repeat("word ", 100)).Cut())
	if err := send(t.Context()); err == nil {
		t.Error("it did not fail")
	}
	cut := read()
	if n := cut.Completion - total.Completion; n != 125 || cut.Prompt <= total.Prompt+100 {
		t.Errorf("a response that broke off: %+v after %+v", cut, total)
	}
	m.Queue(modeltest.Say("summary").Usage(11, 5))
	if _, err := s.compact(1); err != nil {
		t.Fatal(err)
	}
	if next := read(); next.Prompt != cut.Prompt+11 || next.Completion != cut.Completion+5 || next.Runs != 3 {
		t.Errorf("after a summary: %+v after %+v", next, cut)
	}
	cut = read()
	m.Queue(modeltest.Say("some text").Stall(0))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(m.Requests()) < 6 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
		cancel()
	}()
	_ = send(ctx)
	for read().Prompt <= cut.Prompt {
		time.Sleep(time.Millisecond)
	}
	if _, err := os.Stat(UsageFile(s.home)); err != nil {
		t.Error(err)
	}
}

// TestUsageRead: the operation groups and bounds, and is the owner's.
func TestUsageRead(t *testing.T) {
	s := serve(t, home(t), identities)
	for _, p := range []usage.Payer{{Agent: "crab", Origin: "user"}, {Agent: "crab", Origin: "tg:7"}, {Agent: "b", Origin: "user"}} {
		s.Daemon.usage.Add(p, "m", 10, len(p.Origin))
	}
	for by, want := range map[string]string{"agent": "crab=28 b=14 ", "origin": "user=28 tg:7=14 ", "model": "m=42 ", "day": usage.DayOf(time.Now()) + "=42 ", "": usage.DayOf(time.Now()) + "=42 "} {
		out, err := op.ReadUsage.Do(t.Context(), s.client(), op.UsageFilter{By: by, Days: 1})
		got := ""
		for _, u := range out.Sums {
			got += fmt.Sprintf("%s=%d ", u.Name, u.Tokens)
		}
		if err != nil || got != want || out.Total.Tokens != 42 {
			t.Errorf("by %q: %s, %+v, %v", by, got, out.Total, err)
		}
	}
	for _, in := range []op.UsageFilter{{By: "week"}, {Days: -1}, {Days: 32}} {
		if _, err := op.ReadUsage.Do(t.Context(), s.client(), in); errtable.Find(err).Kind != "invalid" {
			t.Errorf("%+v: %v", in, err)
		}
	}
	for _, who := range []string{"api:u", "tg:7", "api:a", "api:reads"} {
		if out, err := op.ReadUsage.Do(t.Context(), s.as(who), op.UsageFilter{}); errtable.Find(err).Kind != "scope" || len(out.Sums) > 0 {
			t.Errorf("%s reads %+v, %v", who, out, err)
		}
	}
	if _, err := op.ReadUsage.Do(t.Context(), s.as("api:root"), op.UsageFilter{}); err != nil {
		t.Error(err)
	}
}
