package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an agent with a scripted model, in a session that is kept.
type rig struct {
	*Runner
	t     *testing.T
	model *modeltest.Server
	agent *Agent
	dir   *sessionlog.Dir
	s     *Session
}

func newRig(t *testing.T, limit int, h Hooks) *rig {
	t.Helper()
	m := modeltest.New(t)
	retries := 0
	models, err := model.NewRegistry(model.Network{}, []model.Provider{{
		Name: "test", Kind: "openai-compatible", BaseURL: m.URL, APIKey: "sk-test", Models: []string{"script"}, MaxRetries: &retries,
		ContextLimits: map[string]int{"script": limit},
	}}, "script")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(models.Close)
	dir, err := sessionlog.OpenDir(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	log, err := dir.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Runner: NewRunner(models, h), t: t, model: m, dir: dir,
		s: &Session{ID: 7, Log: log, CreatedBy: "user", Scope: tool.Unbounded()}}
	r.Tools.Add(
		tool.New("echo", "Says it again.", func(ctx context.Context, c tool.Call, args struct {
			Text string        `json:"text"`
			Wait time.Duration `json:"wait,omitempty"`
		}) (string, error) {
			select {
			case <-time.After(args.Wait):
				return args.Text, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}),
		tool.New("broken", "Fails.", func(context.Context, tool.Call, struct{}) (string, error) { return "", errors.New("it is broken") }),
		tool.New("panics", "Panics.", func(context.Context, tool.Call, struct{}) (string, error) { panic("no") }),
	)
	r.agent = r.Build(Agent{Name: "crab", Prompt: "You are a crab.", Scope: tool.Unbounded(), CompactThreshold: DefaultThreshold})
	return r
}

// run runs the agent and returns the events, one line each.
func (r *rig) run(ctx context.Context, content string) (events []string, err error) {
	r.t.Helper()
	for e, eerr := range r.Run(ctx, r.agent, r.s, Input{Content: content}) {
		if e.Kind != Usage && e.Kind != User {
			events = append(events, line(e))
		}
		if eerr != nil && e.Kind != Done {
			r.t.Errorf("an error with %v", e)
		}
		err = eerr
	}
	return events, err
}

func line(e Event) string {
	names := func() string {
		var list []string
		for _, c := range e.Calls {
			list = append(list, c.Name+c.Arguments)
		}
		return strings.Join(list, " ")
	}
	switch e.Kind {
	case TextDelta:
		return "text " + e.Content
	case ThinkingDelta:
		return "thinking " + e.Content
	case ToolStart:
		return fmt.Sprintf("start early=%v %s", e.Early, names())
	case ToolResult:
		return fmt.Sprintf("result %s failed=%v", e.Result.Output, e.Result.Failed)
	case ToolsComplete:
		return "complete"
	case Compacted:
		return "compacted " + e.Summary + " as " + e.Archive
	case Refused:
		return "refused " + e.Refused.Kind + " " + e.Refused.Name
	case Notice:
		return "notice " + e.Note
	case Done:
		return fmt.Sprintf("done %d %q", e.Stop, e.Content)
	}
	return fmt.Sprint("kind ", e.Kind)
}

// kept returns the session as its file has it, a line a message.
func (r *rig) kept() []string {
	r.t.Helper()
	c, err := r.s.Log.Context()
	if err != nil {
		r.t.Fatal(err)
	}
	if !slices.EqualFunc(c.Messages, r.s.Messages, func(a, b sessionlog.Message) bool {
		return a.Role == b.Role && a.Content == b.Content && a.ToolCallID == b.ToolCallID && slices.Equal(a.ToolCalls, b.ToolCalls)
	}) {
		r.t.Errorf("the file has %v, the session %v", c.Messages, r.s.Messages)
	}
	var lines []string
	for _, m := range c.Messages {
		l := m.Role + " " + m.Content
		for _, call := range m.ToolCalls {
			l += " +" + call.Function.Name
		}
		lines = append(lines, l)
	}
	if c.Streamed != r.s.Streamed {
		r.t.Errorf("the file has the streamed text %q, the session %q", c.Streamed, r.s.Streamed)
	}
	if c.Streamed != "" {
		lines = append(lines, "streamed "+c.Streamed)
	}
	return lines
}

func (r *rig) want(what string, got []string, want ...string) {
	r.t.Helper()
	if !slices.Equal(got, want) {
		r.t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTools(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	r.model.Queue(modeltest.Call("echo", `{"text":"slow","wait":50000000}`).Call("broken", "{}").Call("nothing", "{}"), modeltest.Say("all ", "done"))
	events, err := r.run(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	r.want("events", events, `start early=true echo`,
		`start early=false echo{"text":"slow","wait":50000000} broken{} nothing{}`,
		"result slow failed=false", "result it is broken failed=true", "result tool not available: nothing failed=true", "complete",
		"text all ", "text done", `done 1 "all done"`)
	r.want("file", r.kept(), "user go", "assistant  +echo +broken +nothing", "tool slow", "tool it is broken", "tool tool not available: nothing", "assistant all done")
	last := r.model.Requests()[1]
	if n := len(last.Messages); n != 6 || last.Messages[0].Role != "system" || last.Messages[5].Role != "tool" {
		t.Errorf("the second request has %d messages: %v", n, last.Messages)
	}
	r.model.Queue(modeltest.Call("panics", "{}"), modeltest.Say("sorry"))
	if events, err := r.run(t.Context(), "again"); err != nil || !strings.Contains(strings.Join(events, "\n"), "tool panics failed: no") {
		t.Errorf("a tool that panics: %v, %v", events, err)
	}
}

func TestExhausted(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	r.agent.MaxIterations = 3
	for range 3 {
		r.model.Queue(modeltest.Call("echo", `{"text":"on"}`))
	}
	events, err := r.run(t.Context(), "go")
	if !errors.Is(err, ErrExhausted) || !strings.HasPrefix(events[len(events)-1], fmt.Sprintf("done %d", Exhausted)) {
		t.Errorf("ended with %v, %v", events[len(events)-1], err)
	}
	if n := len(r.kept()); n != 7 {
		t.Errorf("%d messages are kept, want 7", n)
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply modeltest.Reply
		err   string
		kept  []string
	}{
		{"status", modeltest.Status(401, "no such key"), "no such key", []string{"user go"}},
		{"cut", modeltest.Reply{}.Text("half an ").Cut(), "", []string{"user go", "streamed half an "}},
		{"empty", modeltest.Reply{}.Finish("stop"), "empty response", []string{"user go"}},
		{"too long", modeltest.Reply{}.Text("and so").Finish("length"), "the response is incomplete: it reached the model's output token limit", []string{"user go", "streamed and so"}},
		{"filtered", modeltest.Reply{}.Text("I").Finish("content_filter"), "filter", []string{"user go", "streamed I"}},
		{"broken off", modeltest.Reply{}.Text("half").Finish("error"), "the provider stopped the response: error", []string{"user go", "streamed half"}},
		{"no machines", modeltest.Reply{}.Text("half").Finish("insufficient_system_resource"), "insufficient_system_resource", []string{"user go", "streamed half"}},
		{"a call of Gemini that is none", modeltest.Reply{}.Finish("function_call_filter: MALFORMED_FUNCTION_CALL"), "MALFORMED_FUNCTION_CALL", []string{"user go"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 100_000, Hooks{})
			r.model.Queue(c.reply)
			events, err := r.run(t.Context(), "go")
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want one with %q", err, c.err)
			}
			if !strings.HasPrefix(events[len(events)-1], fmt.Sprintf("done %d", Failed)) {
				t.Errorf("last event %s", events[len(events)-1])
			}
			r.want("file", r.kept(), c.kept...)
			// The session continues.
			r.model.Queue(modeltest.Say("fine"))
			if _, err := r.run(t.Context(), "still there?"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStandIn checks that a run reports a fallback model, once.
func TestStandIn(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	other := modeltest.New(t, modeltest.Call("echo", `{"text":"a"}`), modeltest.Say("the answer"))
	none := 0
	models, err := model.NewRegistry(model.Network{}, []model.Provider{
		{Name: "one", BaseURL: r.model.URL, Models: []string{"script"}, MaxRetries: &none, Fallback: []string{"spare"}},
		{Name: "two", BaseURL: other.URL, Models: []string{"spare"}, MaxRetries: &none},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(models.Close)
	r.Models = models
	r.model.Queue(modeltest.Status(503, "busy"), modeltest.Status(503, "busy"))
	events, err := r.run(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	r.want("events", events, "notice model 'spare' answers instead of 'script', which failed", "start early=true echo",
		`start early=false echo{"text":"a"}`, "result a failed=false", "complete", "text the answer", `done 1 "the answer"`)
}

func TestCancel(t *testing.T) {
	t.Run("in the answer", func(t *testing.T) {
		r := newRig(t, 100_000, Hooks{})
		r.model.Queue(modeltest.Reply{}.Text("one ").Text("two ").Stall(0))
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		why := errors.New("enough")
		var last Event
		for e, err := range r.Run(ctx, r.agent, r.s, Input{Content: "go"}) {
			if e.Content == "two " {
				cancel(why)
			}
			if last = e; e.Kind == Done && (!errors.Is(err, why) || e.Stop != Cancelled) {
				t.Errorf("done with %v, %v", e.Stop, err)
			}
		}
		if last.Kind != Done {
			t.Error("no last event")
		}
		r.want("file", r.kept(), "user go", "assistant one two ")
	})
	t.Run("in a tool", func(t *testing.T) {
		r := newRig(t, 100_000, Hooks{})
		r.model.Queue(modeltest.Call("echo", `{"text":"quick"}`).Call("echo", `{"text":"slow","wait":3600000000000}`).Call("echo", `{"text":"b"}`))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for e := range r.Run(ctx, r.agent, r.s, Input{Content: "go"}) {
			if e.Kind == ToolResult && e.Result.Output == "quick" {
				cancel()
			}
		}
		kept := r.kept()
		r.want("file", kept[:3], "user go", "assistant  +echo +echo +echo", "tool quick")
		if len(kept) != 5 {
			t.Errorf("%d messages are kept, want 5: every call has a result", len(kept))
		}
	})
	t.Run("caller stops receiving", func(t *testing.T) {
		r := newRig(t, 100_000, Hooks{})
		r.model.Queue(modeltest.Reply{}.Text("one ").Text("two ").Stall(0))
		for e := range r.Run(t.Context(), r.agent, r.s, Input{Content: "go"}) {
			if e.Content == "one " {
				break
			}
		}
		if kept := r.kept(); len(kept) != 2 || !strings.HasPrefix(kept[1], "assistant one ") {
			t.Errorf("kept %q", kept)
		}
	})
	t.Run("a tool that does not listen", func(t *testing.T) {
		if testing.Short() {
			t.Skip("takes five seconds")
		}
		r := newRig(t, 100_000, Hooks{})
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r.Tools.Add(tool.New("deaf", "Waits.", func(context.Context, tool.Call, struct{}) (string, error) {
			cancel()
			<-release
			return "late", nil
		}))
		r.model.Queue(modeltest.Call("deaf", "{}"))
		for range r.Run(ctx, r.agent, r.s, Input{Content: "go"}) {
		}
		r.want("file", r.kept(), "user go", "assistant  +deaf", "tool "+cancelledResult)
		close(release)
	})
}

func TestCompaction(t *testing.T) {
	var archived []Summary
	setUp := func(t *testing.T, limit int) *rig {
		r := newRig(t, limit, Hooks{})
		archived = nil
		r.Archive = func(a *Agent, s *Session, sum Summary) (string, error) {
			archived = append(archived, sum)
			return fmt.Sprintf("%s-%d", s.Log.ID(), sum.Number), nil
		}
		return r
	}
	t.Run("in the middle", func(t *testing.T) {
		r := setUp(t, 100_000)
		r.agent.CompactThreshold = 1000
		r.model.Queue(modeltest.Call("echo", `{"text":"a result"}`).Usage(900, 200), modeltest.Say("what was said"), modeltest.Say("the answer").Usage(50, 5))
		events, err := r.run(t.Context(), "go")
		if err != nil {
			t.Fatal(err)
		}
		r.want("events", events, "start early=true echo", `start early=false echo{"text":"a result"}`, "result a result failed=false", "complete",
			"compacted what was said as crab_user_1-1", "text the answer", `done 1 "the answer"`)
		r.want("file", r.kept(), "user what was said", "assistant the answer")
		if len(archived) != 1 || archived[0] != (Summary{Number: 1, Text: "what was said"}) {
			t.Errorf("archived %v", archived)
		}
		// The model received the complete conversation, with its instructions.
		q := r.model.Requests()[1]
		if text := fmt.Sprint(q.Messages); !strings.Contains(text, "a result") || !strings.Contains(text, "You are a crab.") || len(q.Tools) != 0 {
			t.Errorf("the summary was made of %s", text)
		}
	})
	t.Run("after the answer", func(t *testing.T) {
		r := setUp(t, 1000)
		r.model.Queue(modeltest.Say("the answer").Usage(790, 20), modeltest.Say("what was said"))
		events, err := r.run(t.Context(), "go")
		if err != nil {
			t.Fatal(err)
		}
		r.want("events", events, "text the answer", "compacted what was said as crab_user_1-1", `done 1 "the answer"`)
		if n := len(r.model.Requests()); n != 2 {
			t.Errorf("%d requests: the model answered its own summary", n)
		}
	})
	t.Run("off", func(t *testing.T) {
		r := setUp(t, 1000)
		r.agent.CompactThreshold = 0
		r.model.Queue(modeltest.Say("the answer").Usage(5000, 20))
		if events, err := r.run(t.Context(), "go"); err != nil || len(events) != 2 {
			t.Errorf("%v, %v", events, err)
		}
	})
	t.Run("model does not count tokens", func(t *testing.T) {
		r := setUp(t, 100_000)
		r.agent.CompactThreshold = 1000
		r.model.Queue(modeltest.Say(strings.Repeat("word ", 1000)), modeltest.Say("short"))
		events, err := r.run(t.Context(), "go")
		if err != nil || !slices.Contains(events, "compacted short as crab_user_1-1") {
			t.Errorf("%v, %v", events, err)
		}
	})
	t.Run("it fails once", func(t *testing.T) {
		r := setUp(t, 100_000)
		r.agent.CompactThreshold = 100
		r.model.Queue(modeltest.Call("echo", `{"text":"on"}`).Usage(900, 200), modeltest.Status(400, "no"), modeltest.Call("echo", `{"text":"on"}`).Usage(900, 200), modeltest.Say("the answer").Usage(900, 1))
		events, err := r.run(t.Context(), "go")
		if err != nil || len(archived) != 0 {
			t.Errorf("%v, archived %v", err, archived)
		}
		if n := strings.Count(strings.Join(events, "\n"), "notice "); n != 1 {
			t.Errorf("%d notices in %v", n, events)
		}
		if len(r.kept()) != 6 {
			t.Errorf("kept %v", r.kept())
		}
	})
	t.Run("overflow", func(t *testing.T) {
		r := setUp(t, 100_000)
		full := modeltest.Status(400, "This model's maximum context length is 8192 tokens")
		r.model.Queue(full, modeltest.Say("what was said"), modeltest.Say("the answer"))
		events, err := r.run(t.Context(), "go")
		if err != nil || events[len(events)-1] != `done 1 "the answer"` {
			t.Errorf("%v, %v", events, err)
		}
		r.model.Queue(full, modeltest.Say("again"), full)
		if _, err := r.run(t.Context(), "go"); !errors.Is(err, model.ErrOverflow) {
			t.Errorf("a context that overflows twice: %v", err)
		}
	})
	t.Run("overflow when it is off", func(t *testing.T) {
		r := setUp(t, 100_000)
		r.agent.CompactThreshold = 0
		r.model.Queue(modeltest.Status(400, "This model's maximum context length is 8192 tokens"), modeltest.Say("what was said"), modeltest.Say("the answer"))
		if _, err := r.run(t.Context(), "go"); !errors.Is(err, model.ErrOverflow) || len(archived) != 0 {
			t.Errorf("%v, archived %v", err, archived)
		}
		r.want("file", r.kept(), "user go")
	})
	t.Run("the summary overflows too", func(t *testing.T) {
		r := setUp(t, 100_000)
		full := modeltest.Status(400, "This model's maximum context length is 8192 tokens")
		text := strings.Repeat("語", 30_000)
		r.model.Queue(full, full, full, modeltest.Say("what was said"), modeltest.Say("the answer"))
		events, err := r.run(t.Context(), text)
		if err != nil || events[len(events)-1] != `done 1 "the answer"` {
			t.Fatalf("%v, %v", events, err)
		}
		size := len(r.model.Requests()[0].Body)
		for i, q := range r.model.Requests()[1:4] {
			if i > 0 && len(q.Body) > size*2/3 {
				t.Errorf("request %d has %d bytes, after %d", i+1, len(q.Body), size)
			}
			size = len(q.Body)
		}
		// There is an end to it.
		for range 20 {
			r.model.Queue(full)
		}
		if _, err := r.run(t.Context(), text); !errors.Is(err, model.ErrOverflow) || len(r.model.Requests()) > 20 {
			t.Errorf("%d requests, %v", len(r.model.Requests()), err)
		}
	})
	t.Run("half a summary is none", func(t *testing.T) {
		for _, finish := range []string{"length", "content_filter", "error"} {
			r := setUp(t, 100_000)
			r.model.Queue(modeltest.Say("hello"), modeltest.Say("half a ").Finish(finish))
			if _, err := r.run(t.Context(), "hi"); err != nil {
				t.Fatal(err)
			}
			if text, _, err := r.Compact(t.Context(), r.agent, r.s, CompactOptions{}); err == nil || text != "" {
				t.Errorf("%s: %q, %v", finish, text, err)
			}
			r.want("file", r.kept(), "user hi", "assistant hello")
		}
	})
	t.Run("the store is full", func(t *testing.T) {
		r := setUp(t, 1000)
		fails := true
		keep := r.Archive
		r.Archive = func(a *Agent, s *Session, sum Summary) (string, error) {
			if fails {
				return "", errors.New("disk full")
			}
			return keep(a, s, sum)
		}
		r.model.Queue(modeltest.Say("the answer").Usage(900, 20), modeltest.Say("what was said"), modeltest.Say("more"))
		events, err := r.run(t.Context(), "go")
		if err != nil || !strings.Contains(strings.Join(events, "\n"), "notice the session has the summary, but the store does not: disk full") {
			t.Errorf("%v, %v", events, err)
		}
		fails = false
		if _, err := r.run(t.Context(), "go on"); err != nil || len(archived) != 1 || archived[0].Text != "what was said" {
			t.Errorf("archived %v, %v", archived, err)
		}
	})
	t.Run("on request", func(t *testing.T) {
		r := setUp(t, 100_000)
		r.model.Queue(modeltest.Say("hello"), modeltest.Say("a summary"), modeltest.Say("a summary"))
		if _, err := r.run(t.Context(), "hi"); err != nil {
			t.Fatal(err)
		}
		before := r.kept()
		if text, err := r.Summarize(t.Context(), r.agent, r.s, CompactOptions{}); err != nil || text != "a summary" {
			t.Errorf("%q, %v", text, err)
		}
		r.want("file", r.kept(), before...)
		if text, name, err := r.Compact(t.Context(), r.agent, r.s, CompactOptions{Focus: "the weather", Tokens: 77}); err != nil || text != "a summary" || name != "crab_user_1-1" {
			t.Errorf("%q, %q, %v", text, name, err)
		}
		r.want("file", r.kept(), "user a summary")
		if p := r.model.Requests()[2].Messages[0].Content; !strings.Contains(p, "the weather") || !strings.Contains(p, "77 tokens") {
			t.Errorf("the wishes are not in %q", p)
		}
		if body := string(r.model.Requests()[2].Body); strings.Contains(body, "max_") {
			t.Errorf("the summary would end in the middle: %s", body)
		}
	})
}

// TestShortened holds a request for a summary to the room that there is, with
// every call and every result in it.
func TestShortened(t *testing.T) {
	var ms []sessionlog.Message
	for i := range 200 {
		id := fmt.Sprint("c", i)
		ms = append(ms,
			sessionlog.Message{Role: "user", Content: strings.Repeat("question ", 500)},
			sessionlog.Message{Role: "assistant", ToolCalls: []sessionlog.ToolCall{{ID: id, Type: "function", Function: sessionlog.Function{Name: "bash", Arguments: `{"command":"` + strings.Repeat("x", 5000) + `"}`}}}},
			sessionlog.Message{Role: "tool", ToolCallID: id, Content: strings.Repeat("ä", 30000)},
		)
	}
	short := shortened(ms, 200_000)
	if n := Size(short); n > 200_000 {
		t.Errorf("%d bytes", n)
	}
	if len(short) != len(ms) {
		t.Errorf("%d of %d messages", len(short), len(ms))
	}
	for i, m := range short {
		if strings.ContainsRune(m.Content, '\uFFFD') || m.ToolCallID != ms[i].ToolCallID || len(m.ToolCalls) != len(ms[i].ToolCalls) {
			t.Fatalf("message %d: %+v", i, m)
		}
	}
	if Size(ms) < 1e7 {
		t.Error("Run changed its input")
	}
}

// TestMerge holds an answer to ids that are its calls' own.
func TestMerge(t *testing.T) {
	var m merger
	for _, c := range []model.Chunk{
		{Calls: []model.CallDelta{{Index: 5, Name: "b", Arguments: "{"}}},
		{Calls: []model.CallDelta{{Index: 2, ID: "x", Name: "a", Arguments: "{}"}, {Index: 5, Arguments: "}"}}},
		{Calls: []model.CallDelta{{Index: 7, ID: "x", Name: "c"}, {Index: 8, ID: "call_1", Name: "d"}}},
	} {
		if err := m.add(&c); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	seen := make(map[string]bool)
	for _, c := range m.message().ToolCalls {
		got = append(got, c.Function.Name+c.Function.Arguments)
		if c.ID == "" || seen[c.ID] {
			t.Errorf("id %q", c.ID)
		}
		seen[c.ID] = true
	}
	if strings.Join(got, " ") != "a{} b{} c d" {
		t.Errorf("%v", got)
	}
	for i := range maxCalls * 2 {
		if err := m.add(&model.Chunk{Calls: []model.CallDelta{{Index: 100 + i, Name: "n"}}}); err != nil {
			return
		}
	}
	t.Error("calls are not bounded")
}

// TestMergeKeepsIDs has calls without an id before and after calls with the ids
// that would be given to them.
func TestMergeKeepsIDs(t *testing.T) {
	for _, given := range [][]string{{"", "call_0"}, {"call_1", ""}, {"", "call_1", "", "call_0"}, {"x", "x", "call_1"}} {
		var m merger
		for i, id := range given {
			if err := m.add(&model.Chunk{Calls: []model.CallDelta{{Index: i, ID: id, Name: "n"}}}); err != nil {
				t.Fatal(err)
			}
		}
		seen := make(map[string]bool)
		for i, c := range m.message().ToolCalls {
			if first := slices.Index(given, given[i]) == i; given[i] != "" && first && c.ID != given[i] {
				t.Errorf("%q: call %d has the id %q", given, i, c.ID)
			}
			if c.ID == "" || seen[c.ID] {
				t.Errorf("%q: call %d has the id %q", given, i, c.ID)
			}
			seen[c.ID] = true
		}
	}
}

// TestPrompt compares a complete request with testdata/prompt.txt.
func TestPrompt(t *testing.T) {
	t.Setenv("SHELL", "/bin/zsh")
	r := newRig(t, 100_000, Hooks{BeforeRun: func(context.Context, *Turn) []sessionlog.Message {
		return []sessionlog.Message{{Role: "user", Content: "<instructions>\nBe brief.\n</instructions>"}, {Role: "user", Content: "<environment>\nworking_directory: /w\n</environment>"}}
	}})
	r.agent = r.Build(Agent{Name: "crab", Prompt: "You are a crab.\n", Memory: true, Resources: "<resources>\nskills\n</resources>",
		Scope: tool.For(tool.Grant{Skills: []string{"feeds"}})})
	r.model.Queue(modeltest.Say("one"), modeltest.Say("two"))
	for _, text := range []string{"first", "second"} {
		if _, err := r.run(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	for _, m := range r.model.Requests()[1].Messages {
		fmt.Fprintf(&b, "--- %s\n%s\n", m.Role, m.Content)
	}
	want, err := os.ReadFile("testdata/prompt.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(strings.ReplaceAll(b.String(), runtime.GOOS, "linux"), "linux/"+runtime.GOARCH, "linux/amd64"); got != string(want) {
		t.Errorf("the request is\n%s\nwant\n%s", got, want)
	}
	r.want("file", r.kept(), "user first", "assistant one", "user second", "assistant two")
}

func TestScope(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	r.agent.Scope = tool.Scope{Tools: tool.Only("echo")}
	r.model.Queue(modeltest.Call("broken", "{}"), modeltest.Say("well"))
	events, err := r.run(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	r.want("events", events, "start early=true broken", "start early=false broken{}", "refused tool broken", "result tool not available: broken failed=true", "complete", "text well", `done 1 "well"`)
	if tools := r.model.Requests()[0].Tools; len(tools) != 1 {
		t.Errorf("the model received %v", tools)
	}
	r.s.Scope = tool.Scope{}
	r.model.Queue(modeltest.Call("echo", "{}"), modeltest.Say("well"))
	if events, _ := r.run(t.Context(), "go"); !slices.Contains(events, "refused tool echo") {
		t.Errorf("the session's scope does not hold: %v", events)
	}
}
