package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// usages runs the agent and returns the usage events.
func (r *rig) usages(content string) (list []TokenUsage) {
	r.t.Helper()
	for e, err := range r.Run(r.t.Context(), r.agent, r.s, Input{Content: content}) {
		if err != nil {
			r.t.Fatal(err)
		}
		if e.Kind == Usage {
			list = append(list, *e.Usage)
		}
	}
	return list
}

// TestSummaryRoomIsHalved holds the request after an overflow to half of the
// bytes of the request before: less would drop text that fits.
func TestSummaryRoomIsHalved(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	r.agent.CompactPrompt = "Sum up."
	r.s.Log = nil
	r.s.Messages = []sessionlog.Message{{Role: record.RoleUser, Content: strings.Repeat("x", 20_000)}}
	full := modeltest.Status(400, "This model's maximum context length is 8192 tokens")
	r.model.Queue(full, full, modeltest.Say("<think>long</think>\n\nshort"))
	if text, err := r.Summarize(t.Context(), r.agent, r.s, CompactOptions{}); err != nil || text != "short" {
		t.Fatalf("Summarize returned %q, %v", text, err)
	}
	var sizes []int
	for _, q := range r.model.Requests() {
		texts := strings.Split(q.LastUser(), "\n\n") // the messages of the user are joined
		sizes = append(sizes, len(texts[len(texts)-2]))
	}
	if want := []int{20_000, 8<<10 + len(cutNote), 2<<10 + len(cutNote)}; !slices.Equal(sizes, want) {
		t.Errorf("the requests contain %d bytes of the message, want %d", sizes, want)
	}
}

func TestBlankSummaryChangesNothing(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	r.model.Queue(modeltest.Say("hello"), modeltest.Say(" \n"), modeltest.Say(" \n"))
	if _, err := r.run(t.Context(), "hi"); err != nil {
		t.Fatal(err)
	}
	if text, err := r.Summarize(t.Context(), r.agent, r.s, CompactOptions{}); !errors.Is(err, errEmpty) || text != "" {
		t.Errorf("Summarize returned %q, %v", text, err)
	}
	if text, name, err := r.Compact(t.Context(), r.agent, r.s, CompactOptions{}); !errors.Is(err, errEmpty) || text != "" || name != "" {
		t.Errorf("Compact returned %q, %q, %v", text, name, err)
	}
	r.want("file", r.kept(), "user hi", "assistant hello")
}

func TestSummaryPromptIsTrimmed(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	r.agent.CompactPrompt = "\n  Sum up.\n\n"
	r.model.Queue(modeltest.Say("hello"), modeltest.Say("short"))
	if _, err := r.run(t.Context(), "hi"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Summarize(t.Context(), r.agent, r.s, CompactOptions{Focus: "names"}); err != nil {
		t.Fatal(err)
	}
	if got, want := r.model.Requests()[1].Messages[0].Content, "Sum up.\n\nKeep above all: names"; got != want {
		t.Errorf("the prompt is %q, want %q", got, want)
	}
}

// TestSummaryKeepsMoreOfTheLastQuarter cuts eight messages in one pass, in
// which the last two may be four times as long.
func TestSummaryKeepsMoreOfTheLastQuarter(t *testing.T) {
	ms := make([]sessionlog.Message, 8)
	for i := range ms {
		ms[i] = sessionlog.Message{Role: record.RoleUser, Content: strings.Repeat("x", 20_000)}
	}
	var sizes []int
	for _, m := range shortened(ms, 100_000) {
		sizes = append(sizes, len(m.Content)-len(cutNote))
	}
	if want := []int{4096, 4096, 4096, 4096, 4096, 4096, 16384, 16384}; !slices.Equal(sizes, want) {
		t.Errorf("messages are cut to %d bytes, want %d", sizes, want)
	}
}

// TestSummaryKeepsCalls has two calls in a message of which one has arguments
// that do not fit.
func TestSummaryKeepsCalls(t *testing.T) {
	call := func(id, arguments string) sessionlog.ToolCall {
		return sessionlog.ToolCall{ID: id, Type: "function", Function: sessionlog.Function{Name: "bash", Arguments: arguments}}
	}
	ms := []sessionlog.Message{
		{Role: record.RoleAssistant, ToolCalls: []sessionlog.ToolCall{call("a", `{"x":1}`), call("b", `{"x":"`+strings.Repeat("x", 5000)+`"}`)}},
		{Role: record.RoleUser, Content: "on"},
	}
	short := shortened(ms, 1000)
	if got, want := short[0].ToolCalls, []sessionlog.ToolCall{call("a", `{"x":1}`), call("b", "{}")}; !slices.Equal(got, want) {
		t.Errorf("the calls are %v, want %v", got, want)
	}
}

// TestEstimatedUsage has a provider that counts no tokens: four bytes of the
// answer, the system prompt, the messages, and the schemas count as one.
func TestEstimatedUsage(t *testing.T) {
	answer := strings.Repeat("word", 100)
	estimated := func(prompt, injected, content string) TokenUsage {
		h := Hooks{BeforeRun: func(context.Context, *Turn) []sessionlog.Message {
			return []sessionlog.Message{{Role: record.RoleUser, Content: injected}}
		}}
		r := newRig(t, 100_000, h)
		r.agent = r.Build(Agent{Name: "crab", Prompt: prompt, Scope: r.agent.Scope})
		r.model.Queue(modeltest.Say(answer))
		list := r.usages(content)
		if len(list) != 1 {
			t.Fatalf("%d usage events", len(list))
		}
		return list[0]
	}
	base := estimated("You are a crab.", "note", "go")
	if base.Completion != 100 || !base.Estimated || base.Limit != 100_000 || base.Prompt <= 0 {
		t.Errorf("the usage is %+v, want 100 estimated tokens of completion", base)
	}
	more := strings.Repeat("more", 50)
	for what, u := range map[string]TokenUsage{
		"the system prompt":     estimated("You are a crab."+more, "note", "go"),
		"an injected message":   estimated("You are a crab.", "note"+more, "go"),
		"the message of a user": estimated("You are a crab.", "note", "go"+more),
	} {
		if u.Prompt != base.Prompt+50 || u.Completion != 100 {
			t.Errorf("with 50 more tokens in %s the usage is %+v, before it was %+v", what, u, base)
		}
	}
}

// TestRunCompactsTwice fills the context again after the first compaction of a
// run.
func TestRunCompactsTwice(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	r.agent.CompactThreshold = 1000
	r.model.Queue(modeltest.Call("echo", `{"text":"a"}`).Usage(900, 200), modeltest.Say("first"),
		modeltest.Call("echo", `{"text":"b"}`).Usage(900, 200), modeltest.Say("second"), modeltest.Say("done").Usage(50, 5))
	events, err := r.run(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	events = slices.DeleteFunc(events, func(e string) bool { return !strings.HasPrefix(e, "compacted ") })
	r.want("compactions", events, "compacted first as ", "compacted second as ")
	r.want("file", r.kept(), "user second", "assistant done")
}

// backend answers each request with a text and a count of tokens.
type backend struct {
	text             string
	prompt, complete int
}

func (b *backend) Send(context.Context, model.Request) (*model.Response, error) {
	return &model.Response{Message: sessionlog.Message{Role: record.RoleAssistant, Content: b.text}, Finish: "stop"}, nil
}

func (b *backend) Stream(context.Context, model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		yield(model.Chunk{Content: b.text, Finish: "stop", Usage: &model.Usage{Prompt: b.prompt, Completion: b.complete}}, nil)
	}
}

// TestThresholdHoldsWithoutContextLimit runs a model whose context limit is unset.
func TestThresholdHoldsWithoutContextLimit(t *testing.T) {
	for used, want := range map[int]int{900: 0, 1100: 1} {
		r := newRig(t, 100_000, Hooks{})
		if err := r.Models.AddBackend("unlimited", -1, &backend{"hello", used, 1}); err != nil {
			t.Fatal(err)
		}
		r.agent.Model, r.agent.CompactThreshold = "unlimited", 1000
		events, err := r.run(t.Context(), "go")
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(fmt.Sprint(events), "compacted hello"); n != want {
			t.Errorf("%d compactions at %d tokens, want %d: %q", n, used, want, events)
		}
	}
}

// TestRunFailsWithoutItsMessage has a log that accepts no line as long as the
// user's message.
func TestRunFailsWithoutItsMessage(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	dir, err := sessionlog.OpenDir(t.TempDir(), &sessionlog.Options{MaxLine: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	if r.s.Log, err = dir.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}); err != nil {
		t.Fatal(err)
	}
	r.model.Queue(modeltest.Say("hello"))
	var last Event
	for e, eerr := range r.Run(t.Context(), r.agent, r.s, Input{Content: strings.Repeat("x", 8<<10)}) {
		last, err = e, eerr
	}
	if last.Kind != Done || last.Stop != Failed || !errors.Is(err, sessionlog.ErrInvalid) {
		t.Errorf("the run ended with %+v, %v", last, err)
	}
	if n := len(r.model.Requests()); n != 0 || len(r.s.Messages) != 0 {
		t.Errorf("%d requests, and the session has %v", n, r.s.Messages)
	}
}

// TestCallTypes has a call without a type, and one of a type that the model
// chose.
func TestCallTypes(t *testing.T) {
	var m merger
	if err := m.add(&model.Chunk{Calls: []model.CallDelta{{Index: 0, ID: "a", Name: "n"}, {Index: 1, ID: "b", Name: "n", Type: "custom"}}}); err != nil {
		t.Fatal(err)
	}
	calls := m.message().ToolCalls
	if calls[0].Type != "function" || calls[1].Type != "custom" {
		t.Errorf("the types are %q and %q, want function and custom", calls[0].Type, calls[1].Type)
	}
}

// TestCompactModel: the model of summaries writes them, and a run learns which fallback
// did. The limit of a request is that of this model.
func TestCompactModel(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	none := 0
	for _, p := range []model.Provider{
		{Name: "a", BaseURL: r.model.URL, Models: []string{"brief"}, MaxRetries: &none, ContextLimits: map[string]int{"brief": 1000}, Fallback: []string{"spare"}},
		{Name: "b", BaseURL: r.model.URL, Models: []string{"spare"}},
	} {
		if err := r.Models.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	r.agent.CompactModel, r.agent.Model, r.s.Log = "brief", "script", nil
	r.s.Messages = []sessionlog.Message{{Role: record.RoleUser, Content: strings.Repeat("x", 20_000)}}
	r.model.Queue(modeltest.Say("short"), modeltest.Status(503, "busy"), modeltest.Say("shorter"))
	var notices []string
	for _, want := range []string{"short", "shorter"} {
		text, err := r.Summarize(t.Context(), r.agent, r.s, CompactOptions{OnNotice: func(text string) { notices = append(notices, text) }})
		if err != nil || text != want {
			t.Errorf("Summarize returned %q, %v, want %q", text, err, want)
		}
	}
	var called []string
	for _, q := range r.model.Requests() {
		if called = append(called, q.Model); len(q.LastUser()) > 4000 {
			t.Errorf("the request contains %d bytes", len(q.LastUser()))
		}
	}
	if !slices.Equal(called, []string{"brief", "brief", "spare"}) || !slices.Equal(notices, []string{"model 'spare' answers instead of 'brief', which failed"}) {
		t.Errorf("called %q, notices %q", called, notices)
	}
}
