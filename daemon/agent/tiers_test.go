package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/model"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// tierRig is an agent with a role, in a synctest bubble, whose model has a window of 10,000
// tokens, takes a second to respond, and a minute to summarize.
type tierRig struct {
	*Runner
	t     *testing.T
	agent *Agent
	s     *Session
	dir   *sessionlog.Dir

	mu        sync.Mutex
	requests  []model.Request // of the conversation
	summaries []model.Request // for a summary
	archived  []Summary
	events    []string
	stream    func(q *model.Request) (model.Chunk, error) // nil: says ok
	summarize func(q *model.Request) (time.Duration, string, error)
	calls     func(q *model.Request) []sessionlog.ToolCall // of a flush; nil: none
}

func (r *tierRig) Send(ctx context.Context, q model.Request) (*model.Response, error) {
	r.mu.Lock()
	r.summaries = append(r.summaries, q)
	wait, text, err := time.Minute, fmt.Sprintf("summary %d", len(r.summaries)), error(nil)
	if r.summarize != nil {
		wait, text, err = r.summarize(&q)
	}
	m := sessionlog.Message{Role: record.RoleAssistant, Content: text}
	if r.calls != nil {
		m.ToolCalls = r.calls(&q)
	}
	r.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &model.Response{Message: m, Finish: "stop"}, err
}

func (r *tierRig) Stream(ctx context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		time.Sleep(time.Second)
		r.mu.Lock()
		r.requests = append(r.requests, q)
		r.mu.Unlock()
		c, err := model.Chunk{Content: "ok", Finish: "stop"}, error(nil)
		if r.stream != nil {
			c, err = r.stream(&q)
		}
		yield(c, err)
	}
}

func newTierRig(t *testing.T, window int) *tierRig {
	r := &tierRig{t: t}
	models, err := model.NewRegistry(model.Network{}, nil, "")
	if err == nil {
		err = errors.Join(models.AddBackend("talker", window, r), models.Switch("talker"))
	}
	if err == nil {
		r.dir, err = sessionlog.OpenDir("/s", &sessionlog.Options{FS: faultfs.NewMem()})
	}
	if err != nil {
		t.Fatal(err)
	}
	log, err := r.dir.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	if err != nil {
		t.Fatal(err)
	}
	r.Runner = NewRunner(models, Hooks{})
	r.Background = NewBackground()
	r.Archive = func(_ *Agent, _ *Session, sum Summary) (string, error) {
		r.archived = append(r.archived, sum)
		return fmt.Sprint("archive-", sum.Number), nil
	}
	r.agent = r.Build(Agent{Name: "crab", Scope: tool.Unbounded(), CompactThreshold: DefaultThreshold, CompactTokens: 500, Offers: func(string) bool { return true }})
	r.s = &Session{Log: log, CreatedBy: "user", Scope: tool.Unbounded()}
	t.Cleanup(r.Background.Stop)
	return r
}

// add adds a message of n bytes to the session.
func (r *tierRig) add(role, name string, n int) {
	r.t.Helper()
	m := sessionlog.Message{Role: role, Content: name + strings.Repeat(".", n-len(name))}
	if err := r.s.Log.Append(m); err != nil {
		r.t.Fatal(err)
	}
	r.s.Messages = append(r.s.Messages, m)
}

// say runs the agent. It fails if the run takes longer than its model calls.
func (r *tierRig) say(content string) error {
	r.t.Helper()
	r.events = nil
	began, n := time.Now(), len(r.requests)
	var failed error
	for e, err := range r.Run(r.t.Context(), r.agent, r.s, Input{Content: content}) {
		switch e.Kind {
		case Compacted:
			r.events = append(r.events, "compacted "+e.Archive)
		case Flushed:
			r.events = append(r.events, "flushed "+e.Content)
		case Notice:
			r.events = append(r.events, "notice "+e.Note)
		case Done:
			failed = err
		}
	}
	if took := time.Since(began); took != time.Duration(len(r.requests)-n)*time.Second {
		r.t.Errorf("the run of %q took %v for %d model calls", content, took, len(r.requests)-n)
	}
	if c, err := r.s.Log.Context(); err != nil || !slices.EqualFunc(c.Messages, r.s.Messages, func(a, b sessionlog.Message) bool { return a.Role == b.Role && a.Content == b.Content }) {
		r.t.Errorf("the file has %q, %v\nthe session %q", names(c.Messages), err, names(r.s.Messages))
	}
	return failed
}

// names returns the beginnings of messages.
func names(ms []sessionlog.Message) (list []string) {
	for _, m := range ms {
		name, _, _ := strings.Cut(m.Content, ".")
		if text, ok := NewestSummary(m.Content); ok {
			name = fmt.Sprintf("[%d] %s", len(parseStack(m.Content)), cut(text, 60))
		}
		list = append(list, name)
	}
	return list
}

func (r *tierRig) want(what string, got []string, want ...string) {
	r.t.Helper()
	if !slices.Equal(got, want) {
		r.t.Errorf("%s:\n%q\nwant\n%q", what, got, want)
	}
}

// TestBackgroundSummary fills a context to 80 %. No run waits for the summary, and the
// messages since the freeze and the last two exchanges stay.
func TestBackgroundSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTierRig(t, 10_000)
		r.add("user", "old", 29_000)
		r.add("assistant", "fine", 2_000)
		r.say("a")
		r.want("events", r.events)
		if len(r.summaries) != 0 {
			t.Fatal("a summary below 80 %")
		}
		r.add("user", "more", 1_000)
		r.add("assistant", "yes", 500)
		r.say("b") // begins the summary
		r.say("c")
		r.want("session", names(r.s.Messages), "old", "fine", "a", "ok", "more", "yes", "b", "ok", "c", "ok")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r.say("d")
		r.want("events", r.events, "compacted archive-1")
		r.want("session", names(r.s.Messages), "[1] summary 1", "more", "yes", "b", "ok", "c", "ok", "d", "ok")
		r.want("request", names(r.requests[len(r.requests)-1].Messages[1:]), "[1] summary 1", "more", "yes", "b", "ok", "c", "ok", "d")
		if n := len(r.summaries); n != 1 {
			t.Errorf("%d summaries", n)
		}
		// The next summary has the earlier one as context only, and follows it in the marker.
		r.add("user", "again", 31_000)
		r.say("e")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r.say("f")
		r.want("session", names(r.s.Messages), "[2] summary 2", "e", "ok", "f", "ok")
		if q := r.summaries[1].Messages; !strings.HasPrefix(q[2].Content, "The summaries of the messages before these.") || !strings.Contains(q[2].Content, "summary 1") {
			t.Errorf("the second summary is of %q", q[2].Content)
		}
		if len(r.archived) != 2 || r.archived[1].Number != 2 || r.archived[1].Late {
			t.Errorf("archived %v", r.archived)
		}
	})
}

// TestEmergencyInBackground fills a context to 95 % while a summary is in the background.
// The newest steps stay, and the summary becomes only an archive.
func TestEmergencyInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTierRig(t, 10_000)
		r.add("user", "first words", 23_500)
		r.add("assistant", "fine", 9_000)
		r.say("a")
		r.add("user", "new", 5_900)
		if err := r.say("b"); err != nil {
			t.Error(err)
		}
		r.want("events", r.events, "compacted archive-1")
		r.want("session", names(r.s.Messages), "[1] There is no summary of the messages before these: the contex... [truncated]", "fine", "a", "ok", "new", "b", "ok")
		if text := r.s.Messages[0].Content; !strings.Contains(text, "They are in lines 2 to 8 of the session.") || !strings.Contains(text, "\n- first words....") {
			t.Errorf("text of the emergency: %s", text)
		}
		synctest.Wait()
		if n := len(r.summaries); n != 1 {
			t.Errorf("%d calls of the model for summaries", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r.say("c")
		r.want("events", r.events)
		if len(r.archived) != 2 || r.archived[1].Number != 1 || !r.archived[1].Late || !strings.HasSuffix(r.archived[1].Text, "summary 1") {
			t.Errorf("archived %v", r.archived)
		}
	})
}

// TestEmergencyInRun fills a context to 95 % in one step. The run compacts before its next
// request, and begins no summary.
func TestEmergencyInRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTierRig(t, 10_000)
		r.stream = func(*model.Request) (model.Chunk, error) {
			if len(r.requests) == 1 {
				return model.Chunk{Calls: callsOf(1, "blob"), Finish: "tool_calls"}, nil
			}
			return model.Chunk{Content: "ok", Finish: "stop"}, nil
		}
		r.Tools.Add(tool.New("blob", "", func(context.Context, tool.Call, struct{}) (string, error) {
			return "blob" + strings.Repeat(".", 9_000), nil
		}))
		r.agent.MaxIterations = 3
		r.add("user", "old", 20_000)
		r.add("assistant", "fine", 10_000)
		if err := r.say("a"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		r.want("session", names(r.s.Messages), "[1] There is no summary of the messages before these: the contex... [truncated]", "a", "", "blob", "ok")
		if len(r.summaries) != 0 {
			t.Errorf("%d calls of the model for summaries", len(r.summaries))
		}
	})
}

// TestTierFailures has summaries that fail: each tier calls the model once, the urgent one
// for half of the tokens, and a failure changes nothing. A summary ends after 5 minutes.
func TestTierFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTierRig(t, 10_000)
		r.summarize = func(*model.Request) (time.Duration, string, error) { return time.Hour, "late", nil }
		r.add("user", "old", 32_500)
		r.say("a")
		time.Sleep(backgroundTimeout - 2*time.Second)
		r.say("b")
		r.want("events", r.events)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		r.say("c")
		r.want("events", r.events, "notice summarize session: context deadline exceeded")
		r.say("d")
		synctest.Wait()
		if n := len(r.summaries); n != 1 {
			t.Fatalf("%d summaries above 80 %%", n)
		}
		r.mu.Lock()
		r.summarize = func(*model.Request) (time.Duration, string, error) { return 0, "", errors.New("down") }
		r.mu.Unlock()
		r.add("user", "more", 2_000)
		r.say("e")
		synctest.Wait()
		r.say("f")
		r.want("events", r.events, "notice summarize session: down")
		r.say("g")
		synctest.Wait()
		if n := len(r.summaries); n != 2 {
			t.Errorf("%d summaries above 85 %%", n)
		}
		for i, tokens := range []string{"at most 500 tokens", "at most 250 tokens"} {
			if got := r.summaries[i].Messages[0].Content; !strings.Contains(got, tokens) {
				t.Errorf("summary %d: %s", i+1, got)
			}
		}
		if r.s.Compactions != 0 {
			t.Error("a failure compacted the session")
		}
	})
}

// TestTierOverflow has a model whose window is smaller than it says. The daemon compacts
// without a model and repeats the request once.
func TestTierOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTierRig(t, 100_000)
		r.stream = func(q *model.Request) (model.Chunk, error) {
			if Estimate(q.Messages) > 6_000 {
				return model.Chunk{}, model.ErrOverflow
			}
			return model.Chunk{Content: "ok", Finish: "stop"}, nil
		}
		r.add("user", "old", 21_000)
		r.add("assistant", "fine", 9_000)
		if err := r.say("a"); err != nil {
			t.Error(err)
		}
		r.want("session", names(r.s.Messages), "[1] There is no summary of the messages before these: the contex... [truncated]", "fine", "a", "ok")
		if len(r.summaries) != 0 || len(r.requests) != 2 {
			t.Errorf("%d summaries, %d requests", len(r.summaries), len(r.requests))
		}
	})
}

// TestLongStep has a step that is longer than the window. The request has a part of it, and
// the session all of it.
func TestLongStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTierRig(t, 10_000)
		if err := r.say("long" + strings.Repeat(".", 50_000)); err != nil {
			t.Error(err)
		}
		q := r.requests[0].Messages
		if n := Estimate(q); n > 10_000 || n < 3_000 {
			t.Errorf("a request of %d tokens", n)
		}
		s, err := r.dir.Read(r.s.Log.ID())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for l, err := range s.Lines(0) {
			if n := len(l.Message.Content); err != nil || l.Number == 2 && n != 50_004 {
				t.Errorf("the file has %d bytes of the message, %v", n, err)
			}
		}
	})
}

// TestBackgroundLimits begins summaries of three sessions, of which two run at a time, and
// none after Stop.
func TestBackgroundLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTierRig(t, 10_000)
		sessions := []*Session{{Messages: make([]sessionlog.Message, 1)}, {Messages: make([]sessionlog.Message, 1)}, {Messages: make([]sessionlog.Message, 1)}}
		begin := func(s *Session) bool {
			p := r.Background.claim(s, false)
			if p != nil {
				r.Background.run(t.Context(), p, r.Runner, r.agent, s, nil)
			}
			return p != nil
		}
		for i, want := range []bool{true, true, false} {
			if got := begin(sessions[i]); got != want {
				t.Errorf("summary %d: %v", i+1, got)
			}
		}
		if begin(sessions[0]) {
			t.Error("a second summary of a session")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !begin(sessions[2]) {
			t.Error("no summary after two have ended")
		}
		r.Background.Stop()
		if p := r.Background.take(sessions[2]); p == nil || p.err == nil {
			t.Errorf("a stopped summary: %+v", p)
		}
		if begin(sessions[1]) {
			t.Error("a summary after Stop")
		}
	})
}

// TestStack stacks eight summaries. A marker has the newest six and names the others.
func TestStack(t *testing.T) {
	s := &Session{}
	marker := "plain"
	for n := 2; n <= 8; n++ {
		marker = stacked(s, marker, n, fmt.Sprintf("text %d\n## Summary x-9\n\nof a model", n), 1<<20)
		text, ok := NewestSummary(marker)
		if want := fmt.Sprintf("text %d\n### Summary x-9\n\nof a model", n); !ok || text != want {
			t.Errorf("newest summary %q, %v", text, ok)
		}
	}
	var list []string
	for _, one := range parseStack(marker) {
		list = append(list, one.name)
	}
	if want := []string{"session-3", "session-4", "session-5", "session-6", "session-7", "session-8"}; !slices.Equal(list, want) {
		t.Errorf("summaries %q", list)
	}
	if !strings.HasPrefix(marker, stackBegins+" Older ones are the archives session-1 to session-2.\n") {
		t.Errorf("marker %q", marker)
	}
	short := stacked(s, marker, 9, strings.Repeat("x", 500), 1000)
	if list := parseStack(short); len(list) == 0 || len(list) > 6 || len(short) > 1000 {
		t.Errorf("%d summaries in %d bytes", len(list), len(short))
	}
	if _, ok := NewestSummary("plain\n\n## Summary session-1\n\ntext"); ok {
		t.Error("a plain summary was divided")
	}
}
