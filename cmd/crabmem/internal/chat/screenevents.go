package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// take shows a posted value of a run.
func (s *screen) take(ctx context.Context, v any) {
	switch v := v.(type) {
	case *agent.Event:
		s.event(v)
	case info:
		s.flush()
		for _, l := range strings.Split(string(v), "\n") {
			s.line(cli.PrintableLine(l))
		}
	case otherEvent:
		s.other(v.Event)
	case unfollowed:
		if v.session == s.others.session {
			s.others = others{} // the next message subscribes again
		}
	case ended:
		s.flush()
		s.busy = false
		s.refollow()
		if s.dialog != nil {
			s.endDialog()
		}
		switch {
		case errors.Is(v.err, errStopped) || errtable.Find(v.err).Kind == errtable.Cancelled:
			s.dimLine("canceled")
		case errors.Is(v.err, errLeave):
			s.dimLine("messages are queued; run /exit again when the queue is empty")
		case v.err != nil:
			f := s.c.Classify(v.err)
			s.line(s.c.Bold("error: ") + display.Printable(f.Message))
			if f.Remedy != "" {
				s.line("try: " + display.Printable(f.Remedy))
			}
		}
		if line := UsageLine(s.reply.Usage); line != "" {
			s.dimLine(fmt.Sprintf("%s, %s", line, time.Since(s.since).Round(100*time.Millisecond)))
		}
		s.next(ctx)
	}
}

func (s *screen) event(e *agent.Event) {
	text := s.reply.Add(e)
	switch e.Kind {
	case agent.ThinkingDelta:
		s.flushText()
		s.doing = "thinking"
		s.think(e.Content)
	case agent.TextDelta, agent.Reply:
		s.flushThinking()
		s.doing = "answering"
		s.scroll.WriteString(s.markdown.Write(text))
	case agent.Progress:
		s.doing = display.Printable(e.Note)
	case agent.ToolStart:
		s.doing = "running " + toolNames(e.Calls)
	case agent.ToolsComplete:
		s.doing = "waiting for the model"
	}
	for _, l := range EventLines(e) {
		s.flush()
		s.dimLine(l)
	}
	if len(e.Questions) > 0 {
		s.flush()
		s.dialog = &dialog{questions: e.Questions}
		s.stash = s.editor.Text()
		s.editor.Reset()
		s.doing = "waiting for your answer"
		s.question()
	}
}

func toolNames(calls []agent.Call) string {
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = display.Printable(c.Name)
	}
	return strings.Join(names, ", ")
}

// think adds text to the model's reasoning and shows the complete lines.
func (s *screen) think(text string) {
	s.thinking.WriteString(cli.Clean(text))
	all := s.thinking.String()
	i := strings.LastIndexByte(all, '\n')
	if i < 0 && len(all) >= 4<<10 {
		i = strings.LastIndexByte(all, ' ')
	}
	if i < 0 {
		return
	}
	s.thinking.Reset()
	s.thinking.WriteString(all[i+1:])
	s.dimText(all[:i])
}

func (s *screen) dimText(text string) {
	for l := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		for _, row := range cli.Fold(l, max(s.width-1, 8)) {
			s.line(s.c.Dim(row))
		}
	}
}

func (s *screen) flushThinking() {
	if s.thinking.Len() > 0 {
		text := s.thinking.String()
		s.thinking.Reset()
		s.dimText(text)
	}
}

func (s *screen) flushText() { s.scroll.WriteString(s.markdown.Flush()) }

// flush shows the rest of a response.
func (s *screen) flush() {
	s.flushThinking()
	s.flushText()
}
