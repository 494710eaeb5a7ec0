package agent

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/model"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// summarizer is a model that overflows and writes summaries.
type summarizer struct {
	requests []model.Request
	contexts []context.Context
}

func (b *summarizer) Send(_ context.Context, q model.Request) (*model.Response, error) {
	b.requests = append(b.requests, q)
	return &model.Response{Message: sessionlog.Message{Role: record.RoleAssistant, Content: "summary"}, Finish: "stop"}, nil
}

func (b *summarizer) Stream(ctx context.Context, _ model.Request) iter.Seq2[model.Chunk, error] {
	b.contexts = append(b.contexts, ctx)
	return func(yield func(model.Chunk, error) bool) { yield(model.Chunk{}, model.ErrOverflow) }
}

// TestSummaryRoom checks that a request for a summary may fill 80 % of the
// window, at four bytes per token.
func TestSummaryRoom(t *testing.T) {
	const window, room = 2000, 6400
	for more, cut := range map[int]bool{0: false, 1: true} {
		b := new(summarizer)
		a := &Agent{CompactPrompt: "Sum up."}
		overhead := len("Sum up.") + len("Write the summary now.")
		s := &Session{Messages: []sessionlog.Message{{Role: record.RoleUser, Content: strings.Repeat("x", room-overhead+more)}}}
		if _, err := runnerOf(t, window, b).Summarize(t.Context(), a, s, CompactOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := b.requests[0].Messages[1].Content != s.Messages[0].Content; got != cut {
			t.Errorf("%d bytes over the room: the message is cut: %v", more, got)
		}
	}
}

// TestCompactWithoutHelp checks that a run compacts no more if its context
// exceeds the limit after a compaction.
func TestCompactWithoutHelp(t *testing.T) {
	for threshold, want := range map[int]bool{1: true, 99: true, 100: true, 101: false, 102: false, 0: false} {
		tn := &turn{
			Runner: runnerOf(t, 1000, new(summarizer)), yield: func(Event, error) bool { return true },
			Turn:   Turn{Agent: &Agent{CompactThreshold: threshold}, Session: &Session{Messages: []sessionlog.Message{{Content: "hello"}}}},
			system: strings.Repeat("x", 404-len("summary")),
		}
		if tn.compact(t.Context()); tn.noCompact != want || tn.full != 101 || tn.counted != 1 || tn.newest != 0 {
			t.Errorf("limit %d: no compaction %v, want %v; full %d, counted %d, newest %d", threshold, tn.noCompact, want, tn.full, tn.counted, tn.newest)
		}
	}
}

// TestOverflowCompacts checks that an overflow compacts once unless compaction
// is off, and that the contexts of the requests end with the run.
func TestOverflowCompacts(t *testing.T) {
	for threshold, want := range map[int]int{-1: 0, 0: 0, 1: 1, 900: 1} {
		b := new(summarizer)
		var err error
		for e := range runnerOf(t, 1000, b).Run(t.Context(), &Agent{CompactThreshold: threshold, MaxIterations: 3}, new(Session), Input{Content: "hello"}) {
			err = e.Err
		}
		if len(b.requests) != want || !errors.Is(err, model.ErrOverflow) {
			t.Errorf("threshold %d: %d summaries, want %d; %v", threshold, len(b.requests), want, err)
		}
		for _, ctx := range b.contexts {
			if ctx.Err() == nil {
				t.Errorf("threshold %d: the context of a request did not end", threshold)
			}
		}
	}
}

// TestCompactNotWritten checks that a summary that is not in the log changes
// nothing in memory.
func TestCompactNotWritten(t *testing.T) {
	fs := faultfs.NewMem()
	dir, err := sessionlog.OpenDir("/sessions", &sessionlog.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s := &Session{Messages: []sessionlog.Message{{Role: record.RoleUser, Content: "hello"}}}
	if s.Log, err = dir.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}); err != nil {
		t.Fatal(err)
	}
	r := runnerOf(t, 1000, new(summarizer))
	sick := errors.New("sick disk")
	fs.Hook = func(c faultfs.Call) error {
		if c.Op == "write" {
			return sick
		}
		return nil
	}
	text, name, err := r.Compact(t.Context(), &Agent{}, s, CompactOptions{})
	fs.Hook = nil
	if text != "" || name != "" || !errors.Is(err, sick) || !strings.HasPrefix(err.Error(), "write session: ") {
		t.Errorf("Compact returns %q, %q, %v", text, name, err)
	}
	if s.Compactions != 0 || len(s.Unarchived) != 0 || s.Messages[0].Content != "hello" {
		t.Errorf("the session changed: %+v", s)
	}
}

// TestCallsEndContext checks that the context of a call ends with the calls of
// its response.
func TestCallsEndContext(t *testing.T) {
	r := runnerOf(t, 1000, &replies{chunks: [][]model.Chunk{{{Calls: callsOf(1, "keep")}}, {{Content: "done"}}}})
	var kept context.Context
	r.Tools.Add(tool.New("keep", "", func(ctx context.Context, _ tool.Call, _ struct{}) (string, error) {
		kept = ctx
		return "ok", ctx.Err()
	}))
	complete := false
	for e := range r.Run(t.Context(), &Agent{Scope: tool.Unbounded(), MaxIterations: 2}, &Session{Scope: tool.Unbounded()}, Input{Content: "go"}) {
		if e.Kind == ToolsComplete {
			complete = true
			if kept.Err() == nil {
				t.Error("the context of a call did not end")
			}
		}
	}
	if !complete {
		t.Error("no call was complete")
	}
}

// TestResultNotWritten has a log that accepts no line as long as a result.
func TestResultNotWritten(t *testing.T) {
	dir, err := sessionlog.OpenDir("/sessions", &sessionlog.Options{FS: faultfs.NewMem(), MaxLine: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s := &Session{Scope: tool.Unbounded()}
	if s.Log, err = dir.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}); err != nil {
		t.Fatal(err)
	}
	r := runnerOf(t, 1000, &replies{chunks: [][]model.Chunk{{{Calls: callsOf(1, "long")}}}})
	r.Tools.Add(tool.New("long", "", func(context.Context, tool.Call, struct{}) (string, error) { return strings.Repeat("x", 1000), nil }))
	var last Event
	for e := range r.Run(t.Context(), &Agent{Scope: tool.Unbounded(), MaxIterations: 2}, s, Input{Content: "go"}) {
		last = e
	}
	if last.Stop != Failed || !errors.Is(last.Err, sessionlog.ErrInvalid) || len(s.Messages) != 2 {
		t.Errorf("the run ended with %d, %v; messages %v", last.Stop, last.Err, s.Messages)
	}
}
