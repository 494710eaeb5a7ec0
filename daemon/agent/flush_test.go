package agent

import (
	"context"
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/tool"
)

// flushing returns a rig whose context of 500 tokens is full after one answer, and the
// contents that remember stored. The agent may not call recall.
func flushing(t *testing.T, h Hooks, answer string) (r *rig, stored *[]string) {
	t.Helper()
	r = newRig(t, 500, h)
	stored = new([]string)
	r.Tools.Add(tool.New(tool.Remember, "Stores.", func(_ context.Context, c tool.Call, args struct {
		Content string `json:"content"`
	}) (string, error) {
		*stored = append(*stored, c.Agent+": "+args.Content)
		return "stored", nil
	}))
	r.Tools.Remote = func(s tool.Scope) []tool.Tool {
		if !s.Lists("srv", "get", false) {
			return nil
		}
		return []tool.Tool{tool.New("srv/get", "Gets.", func(context.Context, tool.Call, struct{}) (string, error) { return "got", nil })}
	}
	scope := tool.For(tool.Grant{Tools: []string{"echo", tool.Remember, "srv/get"}})
	r.agent = r.Build(Agent{Name: "crab", Prompt: "You are a crab.", Scope: scope, CompactThreshold: DefaultThreshold})
	r.model.When("go").Reply(modeltest.Say(answer))
	return r, stored
}

// TestFlush asks the model for what it must store before a compaction: with the two memory
// tools of the run's scope and no tool of an MCP server, in at most three steps that the
// session does not contain.
func TestFlush(t *testing.T) {
	long := strings.Repeat("a long answer ", 200)
	remember := modeltest.Call(tool.Remember, `{"content":"tea is green"}`)
	for _, tc := range []struct {
		name    string
		hooks   Hooks
		answer  string
		flush   []modeltest.Reply
		stored  []string
		asked   int // requests of the flush
		notices []string
	}{
		{"no prompt", Hooks{}, long, nil, nil, 0, nil},
		{"not full", Hooks{FlushPrompt: "Store it."}, "short", nil, nil, 0, nil},
		{"nothing to store", Hooks{FlushPrompt: "Store it."}, long, []modeltest.Reply{modeltest.Say("done")}, nil, 1, nil},
		{"a note", Hooks{FlushPrompt: "Store it."}, long, []modeltest.Reply{remember, modeltest.Say("done")}, []string{"crab: tea is green"}, 2, nil},
		{"three steps", Hooks{FlushPrompt: "Store it."}, long, []modeltest.Reply{remember, remember, remember, remember}, []string{"crab: tea is green", "crab: tea is green", "crab: tea is green"}, 3, nil},
		{"another tool", Hooks{FlushPrompt: "Store it."}, long, []modeltest.Reply{modeltest.Call("echo", `{"text":"ec\u0068oed"}`), modeltest.Say("done")}, nil, 2, nil},
		{"an error", Hooks{FlushPrompt: "Store it."}, long, []modeltest.Reply{modeltest.Status(401, "no key")}, nil, 1, []string{"flush memory: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, stored := flushing(t, tc.hooks, tc.answer)
			r.model.When("Store it.").Reply(tc.flush...)
			r.model.When("Write the summary now.").Reply(modeltest.Say("the summary"))
			var notices []string
			compacted := false
			for e, err := range r.Run(t.Context(), r.agent, r.s, Input{Content: "go"}) {
				if err != nil {
					t.Fatal(err)
				}
				switch e.Kind {
				case Notice:
					notices = append(notices, e.Note)
				case Compacted:
					compacted = true
				case ToolStart, ToolResult:
					t.Errorf("the flush is not silent: %+v", e)
				}
			}
			if !slices.Equal(*stored, tc.stored) || compacted != (tc.answer == long) {
				t.Errorf("stored %q, compacted %v", *stored, compacted)
			}
			if !slices.EqualFunc(notices, tc.notices, strings.HasPrefix) {
				t.Errorf("notices %q", notices)
			}
			asked := 0
			for _, q := range r.model.Requests() {
				if !strings.Contains(string(q.Body), "Store it.") {
					if strings.Contains(string(q.Body), "Write the summary") == slices.Contains(q.Tools, "srv__get") {
						t.Errorf("tools of the run: %q", q.Tools)
					}
					continue
				}
				asked++
				if body := string(q.Body); !slices.Equal(q.Tools, []string{tool.Remember}) || strings.Contains(body, "echoed") || !strings.Contains(body, "You are a crab.") || !strings.Contains(body, "a long answer") {
					t.Errorf("the request is %s", body)
				}
			}
			if asked != tc.asked {
				t.Errorf("%d requests, want %d", asked, tc.asked)
			}
			if text := strings.Join(r.kept(), "\n"); strings.Contains(text, "Store it.") || strings.Contains(text, "tea is green") {
				t.Errorf("the session has %q", text)
			}
		})
	}
	r, stored := flushing(t, Hooks{FlushPrompt: "Store it."}, long)
	r.agent.Scope.Tools = tool.Only("echo")
	r.model.When("Write the summary now.").Reply(modeltest.Say("the summary"))
	if _, err := r.run(t.Context(), "go"); err != nil || len(*stored) > 0 || len(r.model.Requests()) != 2 {
		t.Errorf("a run without remember: %v, stored %q, %d requests", err, *stored, len(r.model.Requests()))
	}
}

// TestCompactPrompts takes the prompt for a summary from the agent, else from the last hooks
// that have one, else the default.
func TestCompactPrompts(t *testing.T) {
	for _, tc := range []struct{ agent, first, next, want string }{
		{"", "", "", DefaultCompactPrompt},
		{"", "first", "", "first"},
		{"", "first", "next", "next"},
		{"own", "first", "next", "own"},
	} {
		r := newRig(t, 100_000, Hooks{CompactPrompt: tc.first, FlushPrompt: tc.first}.Then(Hooks{CompactPrompt: tc.next, FlushPrompt: tc.next}))
		r.agent.CompactPrompt = tc.agent
		r.model.Queue(modeltest.Say("hello"), modeltest.Say("short"))
		if _, err := r.run(t.Context(), "hi"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Summarize(t.Context(), r.agent, r.s, CompactOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := r.model.Requests()[1].Messages[0].Content; got != strings.TrimSpace(tc.want) {
			t.Errorf("%+v: the prompt is %q", tc, got)
		}
		if tc.agent == "" && tc.want != DefaultCompactPrompt && r.Hooks.FlushPrompt != tc.want {
			t.Errorf("%+v: the prompt of a flush is %q", tc, r.Hooks.FlushPrompt)
		}
	}
	if !strings.Contains(DefaultFlushPrompt, "remember") || !strings.Contains(DefaultCompactPrompt, "summary") {
		t.Error("a default prompt is empty")
	}
}
