package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// collects is the tool remember, which writes nothing in a flush.
func collects() tool.Tool {
	return tool.New(tool.Remember, "Stores.", func(ctx context.Context, c tool.Call, args struct {
		Content string `json:"content"`
	}) (string, error) {
		f := FlushOf(ctx)
		if f == nil || c.Scope.Tools.Allows("echo") {
			return "", errors.New("not of a flush")
		}
		return "stored", f.Add(record.Note{Name: cut(args.Content, 20), Content: args.Content})
	})
}

// flushing returns a rig whose context of 500 tokens is full after one answer, and the
// contents that flushes stored. The agent may not call recall.
func flushing(t *testing.T, h Hooks, answer string) (r *rig, stored *[]string) {
	t.Helper()
	r = newRig(t, 500, h)
	stored = new([]string)
	r.Tools.Add(collects())
	r.BeginFlush = func(s *Session, size int64) (int, int64, error) {
		if size != s.Log.Size() || size == 0 {
			t.Errorf("a flush of %d bytes", size)
		}
		return 2, 3, nil
	}
	r.EndFlush = func(s *Session, upto int64, notes []record.Note) (names []string, err error) {
		if upto != 3 || s.Scope.Tools.Allows("echo") {
			t.Errorf("a flush up to line %d", upto)
		}
		for _, n := range notes {
			*stored = append(*stored, n.Content)
			names = append(names, n.Name)
		}
		return names, nil
	}
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
		{"a note", Hooks{FlushPrompt: "Store it."}, long, []modeltest.Reply{remember, modeltest.Say("done")}, []string{"tea is green"}, 2, nil},
		{"three steps", Hooks{FlushPrompt: "Store it."}, long, []modeltest.Reply{remember, remember, remember, remember}, []string{"tea is green"}, 3, nil},
		{"another tool", Hooks{FlushPrompt: "Store it."}, long, []modeltest.Reply{modeltest.Call("echo", `{"text":"ec\u0068oed"}`), modeltest.Say("done")}, nil, 2, nil},
		{"later error", Hooks{FlushPrompt: "Store it."}, long, []modeltest.Reply{remember, modeltest.Status(401, "no key")}, nil, 2, []string{"flush memory: "}},
		{"too long", Hooks{FlushPrompt: "Store it."}, long, []modeltest.Reply{modeltest.Call(tool.Remember, `{"content":"`+strings.Repeat("x", record.MaxNote+1)+`"}`), modeltest.Say("done")}, nil, 2, nil},
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
				case Flushed:
					if compacted || e.Content != strings.Join(tc.stored, ", ") {
						t.Errorf("event %+v", e)
					}
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

// TestFlushLimits collects at most eight notes of 2 KiB.
func TestFlushLimits(t *testing.T) {
	f := &Flush{}
	long := strings.Repeat("x", record.MaxNote)
	for i := range record.MaxNotes {
		if f.Add(record.Note{Name: "long", Content: long + "x"}) == nil {
			t.Error("a note that is too long was added")
		}
		for range 2 {
			if err := f.Add(record.Note{Name: fmt.Sprint(i), Content: long}); err != nil {
				t.Error(err)
			}
		}
	}
	if f.Add(record.Note{Name: "more"}) == nil || len(f.notes) != record.MaxNotes {
		t.Errorf("%d notes", len(f.notes))
	}
}

// tierFlush gives a tierRig the tool remember, and flushes that store, after a minute, a note of
// each number that a message names. It returns the notes.
func tierFlush(r *tierRig) (stored *[]string, uncovered *int) {
	stored, uncovered = new([]string), new(int)
	*uncovered = 1000
	r.Tools.Add(collects())
	r.agent.FlushPrompt = "Store it."
	r.BeginFlush = func(*Session, int64) (int, int64, error) { return *uncovered, 9, nil }
	r.EndFlush = func(_ *Session, _ int64, notes []record.Note) (names []string, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, n := range notes {
			*stored, names = append(*stored, n.Name), append(names, n.Name)
		}
		return names, nil
	}
	return stored, uncovered
}

// TestFlushInBackground flushes at 80 %, before the summary, while turns run. No turn waits.
// Above 85 % the daemon does not flush. A session that does work does not flush.
func TestFlushInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTierRig(t, 10_000)
		stored, uncovered := tierFlush(r)
		r.summarize = func(q *model.Request) (time.Duration, string, error) { return time.Minute, "the summary", nil }
		r.calls = func(q *model.Request) []sessionlog.ToolCall {
			if len(q.Tools) == 0 || q.Messages[len(q.Messages)-1].Role == record.RoleTool {
				return nil
			}
			return []sessionlog.ToolCall{{ID: "1", Function: sessionlog.Function{Name: tool.Remember, Arguments: `{"content":"tea"}`}}}
		}
		r.add("user", "old", 30_000)
		r.add("assistant", "fine", 3_000)
		r.say("a") // begins the flush
		r.say("b")
		time.Sleep(90 * time.Second)
		r.say("c")
		synctest.Wait()
		r.want("events", r.events)
		r.mu.Lock()
		r.want("notes before the end of the flush", *stored)
		r.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r.want("notes", *stored, "tea")
		r.say("d")
		r.want("events", r.events, "flushed tea", "compacted archive-1")
		flush, later, summary := r.summaries[0], r.summaries[1], r.summaries[2]
		r.want("tools", []string{flush.Tools[0].Name}, tool.Remember)
		r.want("flush", names(flush.Messages[1:]), "old", "fine", "a", "ok", "Store it")
		r.want("later", names(later.Messages[5:]), "Store it", "the summary", "stored")
		if len(r.summaries) != 3 || len(summary.Tools) > 0 {
			t.Errorf("%d requests", len(r.summaries))
		}
		// The next flush begins after the one before, with the summary.
		*uncovered = 3
		r.add("user", "more", 32_600)
		r.say("e")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		r.want("second flush", names(r.summaries[3].Messages[1:]), "[1] the summary", "more", "[no response]", "e", "ok", "Store it")
		r.say("f")
		// Covered messages are not flushed, and neither are those of the urgent tier.
		*uncovered = 0
		n := len(r.summaries)
		r.add("user", "again", 32_600)
		r.say("g")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := len(r.summaries) - n; got != 1 {
			t.Errorf("%d requests of a covered session", got)
		}
		r.say("h")
		*uncovered = 1000
		r.add("user", "urgent", 34_800)
		r.say("i")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := len(r.summaries) - n; got != 2 || !strings.Contains(r.summaries[n+1].Messages[0].Content, "at most 250 tokens") {
			t.Errorf("%d requests after the urgent tier", got)
		}
		parent := sessionlog.Meta{Agent: "crab", CreatedBy: "user"}
		log, err := r.dir.Create(parent.WorkMeta("crab_user_1", "b1", "crab"))
		if err != nil {
			t.Fatal(err)
		}
		r.s = &Session{Log: log, CreatedBy: log.Meta().CreatedBy, Scope: tool.Unbounded()}
		n = len(r.summaries)
		r.add("user", "work", 32_600)
		r.say("j")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := len(r.summaries) - n; got != 1 {
			t.Errorf("%d requests of a session that does work", got)
		}
	})
}

// TestBreaker has a model that does not summarize. After three failures in a row, of flushes or
// of summaries, no request is sent for 30 minutes, also for other sessions. An emergency still
// compacts.
func TestBreaker(t *testing.T) {
	for _, flush := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newTierRig(t, 10_000)
			down := errors.New("down")
			r.summarize = func(q *model.Request) (time.Duration, string, error) {
				if len(q.Tools) > 0 == flush && down != nil {
					return 0, "", down
				}
				return 0, "text", nil
			}
			if flush {
				tierFlush(r)
			}
			each := 1 // requests of a session
			if flush {
				each = 2
			}
			session := func(size int) int {
				log, err := r.dir.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
				if err != nil {
					t.Fatal(err)
				}
				n := len(r.summaries)
				r.s = &Session{Log: log, CreatedBy: "user", Scope: tool.Unbounded()}
				r.add("user", "old", 20_000)
				r.add("assistant", "fine", size)
				r.say("a")
				synctest.Wait()
				return len(r.summaries) - n
			}
			for i, want := range []int{each, each, each, each, each, each, 0, 0} {
				if down = errors.New("down"); i == 2 {
					down = nil // the row ends
				}
				if got := session(12_500); got != want {
					t.Errorf("flush %v, session %d: %d requests, want %d", flush, i+1, got, want)
				}
			}
			session(19_000)
			r.say("b")
			if r.s.Compactions != 1 {
				t.Error("no emergency during the pause")
			}
			time.Sleep(pause)
			down = nil
			if got := session(12_500); got != each {
				t.Errorf("flush %v: %d requests after the pause", flush, got)
			}
		})
	}
}
