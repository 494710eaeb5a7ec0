package chat

import (
	"io"
	"slices"
	"strings"
	"testing"

	"crabmem/cmd/crabmem/internal/chat/tty"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

// wrapping returns the screen of an active run with 21 columns.
func wrapping() *screen {
	c := &Options{Streams: &cli.Streams{Stdout: io.Discard, Getenv: func(string) string { return "" }}}
	return &screen{chat: &chat{c: c}, width: 21, height: 24, busy: true, doing: "answering", markdown: tty.Markdown{Width: 20}}
}

// TestPreviewWraps streams answers and thoughts: their rows break between words.
func TestPreviewWraps(t *testing.T) {
	for text, want := range map[string][]string{
		"build, tag, push, then watch the canary":     {"build, tag, push,", "then watch the", "canary"},
		"see 日本語の文章です。次の文章":                           {"see 日本語の文章です", "。次の文章"},
		"at https://example.org/a/long/path it stops": {"at", "https://example.org/", "a/long/path it stops"},
		"```\nreturn fmt.Errorf(\"no %s\", name)":     {"return", "fmt.Errorf(\"no %s\",", "name)"},
	} {
		s := wrapping()
		for _, r := range text {
			s.scroll.WriteString(s.markdown.Write(string(r)))
		}
		rows, _, _ := s.rows()
		if got := rows[:len(rows)-2]; !slices.Equal(got, want) { // then the activity and the editor
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		s = wrapping()
		s.think(strings.TrimPrefix(text, "```\n"))
		rows, _, _ = s.rows()
		if got := rows[:len(rows)-2]; !slices.Equal(got, want) {
			t.Errorf("%q thought: %q, want %q", text, got, want)
		}
	}
	s := wrapping()
	for range 3000 {
		s.think("word ")
	}
	if s.thinking.Len() > 4<<10 {
		t.Errorf("%d bytes of thoughts wait for a line end", s.thinking.Len())
	}
	s.flushThinking()
	shown := s.scroll.String()
	if strings.Join(strings.Fields(shown), " ") != strings.TrimSpace(strings.Repeat("word ", 3000)) || strings.Contains(shown, "\n\n") {
		t.Errorf("a long line of thoughts: %q", shown)
	}
}

// TestShowsProgress checks that the activity shows how much of the prompt the model has
// read.
func TestShowsProgress(t *testing.T) {
	s := wrapping()
	s.width = 60
	s.event(&agent.Event{Kind: agent.Progress, Note: "reading the prompt, 43 %"})
	rows, _, _ := s.rows()
	if got := strings.Join(rows, "\n"); !strings.Contains(got, "reading the prompt, 43 %") {
		t.Errorf("rows %q", got)
	}
}

// TestShowsCancellation checks that a canceled run is not shown as one that failed.
func TestShowsCancellation(t *testing.T) {
	s := wrapping()
	s.width = 60
	s.other(&agent.Event{Kind: agent.User, Content: "hi"})
	s.other(&agent.Event{Kind: agent.Done, Error: &agent.Failure{Kind: errtable.Cancelled, Message: "canceled on request"}})
	if got := s.scroll.String(); !strings.Contains(got, "the other client's run was canceled") || strings.Contains(got, "failed") {
		t.Errorf("of another client: %q", got)
	}
	s = wrapping()
	s.reply, s.refollow = &Reply{}, func() {}
	s.take(t.Context(), ended{err: &op.Error{Kind: errtable.Cancelled, Message: "canceled on request"}})
	if got := s.scroll.String(); !strings.Contains(got, "canceled\n") || strings.Contains(got, "error") {
		t.Errorf("of this client: %q", got)
	}
}

// TestShowsFlush shows the notes that were stored before a summary, also in a run of another
// client.
func TestShowsFlush(t *testing.T) {
	e := &agent.Event{Kind: agent.Flushed, Content: "tea, \x1bmilk"}
	own, other := wrapping(), wrapping()
	own.width, other.width = 80, 80
	own.event(e)
	other.other(&agent.Event{Kind: agent.User, Content: "hi"})
	other.other(e)
	for _, s := range []*screen{own, other} {
		if got := s.scroll.String(); !strings.Contains(got, "stored in memory before the summary: tea, ") || strings.Contains(got, "\x1bm") {
			t.Errorf("%q", got)
		}
	}
}
