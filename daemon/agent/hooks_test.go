package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/model"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

// TestThen checks the order in which combined hooks are called, with each of
// them missing.
func TestThen(t *testing.T) {
	var calls []string
	all := func(name string) Hooks {
		return Hooks{
			BuildAgent:    func(a *Agent) { calls = append(calls, name+" build "+a.Name); a.Name += name },
			RegisterTools: func(s *tool.Set) { calls = append(calls, name+" register"); s.Add(tool.Tool{}) },
			Preprocess:    func(t *Turn) string { return t.Content + name },
			BeforeRun: func(_ context.Context, t *Turn) []sessionlog.Message {
				return []sessionlog.Message{{Content: name + " " + t.Content}}
			},
			Event: func(t *Turn, e Event) { calls = append(calls, fmt.Sprint(name, " event ", t.Content, e.Kind)) },
		}
	}
	for _, c := range []struct {
		name        string
		first, next Hooks
		want        []string
	}{
		{"none", Hooks{}, Hooks{}, []string{"false false, x"}},
		{"first", all("a"), Hooks{}, []string{"a build n", "a register", "a event xausage", "true true, xa"}},
		{"next", Hooks{}, all("b"), []string{"b build n", "b register", "b event xbusage", "true true, xb"}},
		{"both", all("a"), all("b"), []string{"a build n", "b build na", "a register", "b register", "a event xabusage", "b event xabusage", "true true, xab"}},
	} {
		calls = nil
		h := c.first.Then(c.next)
		if h.BuildAgent != nil {
			h.BuildAgent(&Agent{Name: "n"})
		}
		if h.RegisterTools != nil {
			h.RegisterTools(&tool.Set{})
		}
		turn := &Turn{Content: "x"}
		turn.Content = h.preprocess(turn)
		h.event(turn, Event{Kind: Usage})
		var before []string
		for _, m := range h.beforeRun(context.Background(), turn) {
			before = append(before, fmt.Sprint(m.Content, " ", m.Injected))
		}
		calls = append(calls, fmt.Sprintf("%v %v, %s", h.BuildAgent != nil, h.RegisterTools != nil, turn.Content))
		if !slices.Equal(calls, c.want) {
			t.Errorf("%s: %q, want %q", c.name, calls, c.want)
		}
		var injected []string
		for _, name := range []string{"a", "b"} {
			if strings.Contains(turn.Content, name) {
				injected = append(injected, name+" "+turn.Content+" true")
			}
		}
		if !slices.Equal(before, injected) {
			t.Errorf("%s: messages %q, want %q", c.name, before, injected)
		}
	}
}

// TestBuild checks the defaults, the order of hooks, and the copy of Build.
func TestBuild(t *testing.T) {
	for given, want := range map[int]int{-1: DefaultIterations, 0: DefaultIterations, 1: 1, 17: 17} {
		seen := 0
		r := NewRunner(nil, Hooks{
			BuildAgent:    func(a *Agent) { seen = a.MaxIterations; a.Prompt += " It is late." },
			RegisterTools: func(s *tool.Set) { s.Add(tool.Tool{Tool: model.Tool{Name: "n"}}) },
		})
		a := Agent{Prompt: " You are a crab. ", MaxIterations: given}
		b := r.Build(a)
		if b.MaxIterations != want || seen != want || a.MaxIterations != given {
			t.Errorf("%d iterations for %d, the hook sees %d, want %d", b.MaxIterations, given, seen, want)
		}
		if got, _, _ := strings.Cut(b.System(), "\n\n<environment>\n"); got != "You are a crab.  It is late." {
			t.Errorf("the prompt begins with %q", got)
		}
		if got := r.Tools.Names(); !slices.Equal(got, []string{"n"}) {
			t.Errorf("the tools are %q", got)
		}
	}
	if r := NewRunner(nil, Hooks{}); r.Tools == nil || len(r.Tools.Names()) != 0 {
		t.Errorf("tools without hooks: %v", r.Tools)
	}
	t.Setenv("SHELL", "")
	if got := environment(); !strings.Contains(got, "\nshell: /bin/sh\n") {
		t.Errorf("the environment without SHELL is %q", got)
	}
}

// replies is a model that sends chunks.
type replies struct {
	chunks [][]model.Chunk // of each response
	err    error           // after the last
}

func (b *replies) Send(context.Context, model.Request) (*model.Response, error) { return nil, b.err }

func (b *replies) Stream(context.Context, model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		if len(b.chunks) == 0 {
			yield(model.Chunk{}, b.err)
			return
		}
		chunks := b.chunks[0]
		b.chunks = b.chunks[1:]
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// runnerOf returns a runner of a model.
func runnerOf(t *testing.T, limit int, b model.Backend) *Runner {
	t.Helper()
	models, err := model.NewRegistry(model.Network{}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := models.AddBackend("script", limit, b); err != nil {
		t.Fatal(err)
	}
	return NewRunner(models, Hooks{})
}

func callsOf(n int, name string) (list []model.CallDelta) {
	for i := range n {
		list = append(list, model.CallDelta{Index: i, ID: fmt.Sprint("c", i), Name: name, Arguments: "{}"})
	}
	return list
}

// TestParallelCalls checks how many calls run at a time, and that all have
// results.
func TestParallelCalls(t *testing.T) {
	for n, want := range map[int]int{1: 1, 7: 7, 8: 8, 9: 8, 20: 8} {
		synctest.Test(t, func(t *testing.T) {
			r := runnerOf(t, 1000, &replies{chunks: [][]model.Chunk{{{Calls: callsOf(n, "slow")}}, {{Content: "done"}}}})
			var now, most atomic.Int32
			r.Tools.Add(tool.New("slow", "", func(context.Context, tool.Call, struct{}) (string, error) {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Second)
				now.Add(-1)
				return "ok", nil
			}).Reader())
			s := &Session{Scope: tool.Unbounded()}
			began := time.Now()
			for e := range r.Run(t.Context(), &Agent{Scope: tool.Unbounded(), MaxIterations: 2}, s, Input{Content: "go"}) {
				if e.Kind == Done && e.Stop != Answered {
					t.Errorf("%d calls: %v", n, e.Err)
				}
			}
			if took := time.Since(began); took != time.Duration((n+7)/8)*time.Second {
				t.Errorf("%d calls took %v", n, took)
			}
			if len(s.Messages) != n+3 || int(most.Load()) > want {
				t.Errorf("%d calls: %d messages, %d calls at a time, want %d", n, len(s.Messages), most.Load(), want)
			}
		})
	}
}

// TestOrderOfCalls has responses with calls that read, which run concurrently, and
// calls that change something, which run alone and in the order of the response.
func TestOrderOfCalls(t *testing.T) {
	for calls, want := range map[string]string{
		"read read":                    "0:+read 0:+read 1:-read 1:-read",
		"write write":                  "0:+write 1:-write 1:+write 2:-write",
		"write read":                   "0:+write 1:-write 1:+read 2:-read",
		"read write":                   "0:+read 1:-read 1:+write 2:-write",
		"read read write read read":    "0:+read 0:+read 1:-read 1:-read 1:+write 2:-write 2:+read 2:+read 3:-read 3:-read",
		"write read read write":        "0:+write 1:-write 1:+read 1:+read 2:-read 2:-read 2:+write 3:-write",
		"read write write read absent": "0:+read 1:-read 1:+write 2:-write 2:+write 3:-write 3:+read 4:-read",
	} {
		synctest.Test(t, func(t *testing.T) {
			var deltas []model.CallDelta
			for i, name := range strings.Fields(calls) {
				deltas = append(deltas, model.CallDelta{Index: i, ID: fmt.Sprint("c", i), Name: name, Arguments: "{}"})
			}
			r := runnerOf(t, 1000, &replies{chunks: [][]model.Chunk{{{Calls: deltas}}, {{Content: "done"}}}})
			began := time.Now()
			var mu sync.Mutex
			var log []string
			note := func(what string) {
				mu.Lock()
				defer mu.Unlock()
				log = append(log, fmt.Sprint(int(time.Since(began)/time.Second), ":", what))
			}
			timed := func(name string) tool.Tool {
				return tool.New(name, "", func(context.Context, tool.Call, struct{}) (string, error) {
					note("+" + name)
					time.Sleep(time.Second)
					note("-" + name)
					return "ok", nil
				})
			}
			r.Tools.Add(timed("write"), timed("read").Reader())
			var results []string
			for e := range r.Run(t.Context(), &Agent{Scope: tool.Unbounded(), MaxIterations: 2}, &Session{Scope: tool.Unbounded()}, Input{Content: "go"}) {
				if e.Kind == ToolResult {
					results = append(results, e.Tool)
				}
			}
			if got := strings.Join(log, " "); got != want {
				t.Errorf("%s:\n got %s\nwant %s", calls, got, want)
			}
			if got := strings.Join(results, " "); got != calls {
				t.Errorf("%s: results in the order %s", calls, got)
			}
		})
	}
}

// TestGrace cancels a run whose tools do not end, end in time, and end late.
func TestGrace(t *testing.T) {
	for ends, want := range map[time.Duration]string{4999 * time.Millisecond: "ended", 5001 * time.Millisecond: cancelledResult} {
		synctest.Test(t, func(t *testing.T) {
			r := runnerOf(t, 1000, &replies{chunks: [][]model.Chunk{{{Calls: callsOf(2, "deaf")}}}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r.Tools.Add(tool.New("deaf", "", func(ctx context.Context, _ tool.Call, _ struct{}) (string, error) {
				<-ctx.Done()
				time.Sleep(ends)
				return "ended", nil
			}).Reader())
			time.AfterFunc(time.Minute, cancel)
			var results []string
			for e := range r.Run(ctx, &Agent{Scope: tool.Unbounded(), MaxIterations: 2}, &Session{Scope: tool.Unbounded()}, Input{Content: "go"}) {
				if e.Kind == ToolResult {
					results = append(results, fmt.Sprint(e.Result.Output, " ", e.Result.Failed, " ", time.Duration(e.Millis)*time.Millisecond))
				}
			}
			line := want + " false 1m4.999s"
			if want == cancelledResult {
				line = want + " true 5s"
			}
			if !slices.Equal(results, []string{line, line}) {
				t.Errorf("tools that end after %v: %q, want %q", ends, results, line)
			}
			time.Sleep(time.Minute)
		})
	}
}

// TestTooManyCalls has a response with more calls than a response may have.
func TestTooManyCalls(t *testing.T) {
	for n, want := range map[int]string{maxCalls: "", maxCalls + 1: "the model made more than 128 tool calls in one response"} {
		r := runnerOf(t, 1000, &replies{chunks: [][]model.Chunk{{{Content: "text"}, {Calls: callsOf(n, "absent")}, {Content: " more"}}, {{Content: "done"}}}})
		s := &Session{Scope: tool.Unbounded()}
		var got error
		for e := range r.Run(t.Context(), &Agent{Scope: tool.Unbounded(), MaxIterations: 2}, s, Input{Content: "go"}) {
			got = e.Err
		}
		if (got == nil) != (want == "") || got != nil && got.Error() != want {
			t.Errorf("%d calls: %v, want %q", n, got, want)
		}
		if want != "" && (len(s.Messages) != 1 || s.Streamed != "text") {
			t.Errorf("%d calls: the session has %v", n, s.Messages)
		}
	}
}

// TestLimits checks the limits of the context and the counted tokens at their
// boundaries.
func TestLimits(t *testing.T) {
	for _, c := range []struct{ window, threshold, want int }{
		{1000, 0, 0}, {1000, -1, 0}, {1000, 1, 1}, {1000, 799, 799}, {1000, 800, 800}, {1000, 801, 800}, {1001, 900, 800}, {-1, 801, 801}, {1, 801, 0}, {2, 801, 1}, {6, 801, 4},
		{math.MaxInt/4 + 1, 0, 0}, // 0 never compacts, even if the product overflows
	} {
		tn := &turn{Runner: runnerOf(t, c.window, nil), Turn: Turn{Agent: &Agent{CompactThreshold: c.threshold}}}
		if got := tn.limit(); got != c.want {
			t.Errorf("window %d, threshold %d: limit %d, want %d", c.window, c.threshold, got, c.want)
		}
	}
	for _, c := range []struct {
		usage *model.Usage
		want  TokenUsage
	}{
		{nil, TokenUsage{Prompt: 2, Completion: 2, Limit: 1000, Estimated: true}},
		{&model.Usage{Completion: 7}, TokenUsage{Prompt: 2, Completion: 2, Limit: 1000, Estimated: true}},
		{&model.Usage{Prompt: 1, Completion: 7}, TokenUsage{Prompt: 1, Completion: 7, Limit: 1000}},
		{&model.Usage{Prompt: 1}, TokenUsage{Prompt: 1, Limit: 1000}},
	} {
		var got TokenUsage
		tn := &turn{
			Runner: runnerOf(t, 1000, nil), yield: func(e Event, _ error) bool { got = *e.Usage; return true },
			Turn: Turn{Agent: &Agent{}, Session: &Session{Messages: []sessionlog.Message{{Content: "12345678"}, {Content: "12345678"}}}},
		}
		if tn.count(c.usage); got != c.want || tn.full != c.want.Prompt+c.want.Completion || tn.counted != 2 {
			t.Errorf("usage %v: %+v, full %d, %d messages counted, want %+v", c.usage, got, tn.full, tn.counted, c.want)
		}
	}
}

// TestSummarizeNothing checks the errors of a session without messages and of a
// model that fails.
func TestSummarizeNothing(t *testing.T) {
	sick := errors.New("sick model")
	r := runnerOf(t, 1000, &replies{err: sick})
	s := new(Session)
	if text, err := r.Summarize(t.Context(), &Agent{}, s, CompactOptions{}); text != "" || !errors.Is(err, ErrNothing) {
		t.Errorf("Summarize returns %q, %v", text, err)
	}
	s.Messages = []sessionlog.Message{{Content: "hello"}}
	if text, err := r.Summarize(t.Context(), &Agent{}, s, CompactOptions{}); text != "" || !errors.Is(err, sick) {
		t.Errorf("Summarize returns %q, %v", text, err)
	}
	if text, name, err := r.Compact(t.Context(), &Agent{}, s, CompactOptions{}); text != "" || name != "" || !errors.Is(err, sick) || s.Compactions != 0 {
		t.Errorf("Compact returns %q, %q, %v", text, name, err)
	}
}
