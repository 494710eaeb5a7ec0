package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
)

// Asker sends replies to the questions of a run while the run is active.
type Asker struct {
	t   *Conversation
	ctx context.Context
	wg  sync.WaitGroup
}

// NewAsker returns an Asker. The end of ctx cancels its replies.
func NewAsker(t *Conversation, ctx context.Context) *Asker { return &Asker{t: t, ctx: ctx} }

// replyTime limits the sending of a reply.
const replyTime = 10 * time.Second

// Reply sends the reply to a session's question. A late reply has no effect.
func (a *Asker) Reply(session uint64, text string) {
	a.wg.Go(func() {
		ctx, cancel := context.WithTimeout(a.ctx, replyTime)
		defer cancel()
		_, _ = op.ReplyToRun.Do(ctx, a.t.Client, op.Reply{Number: session, Content: text})
	})
}

// Wait waits until all replies are sent.
func (a *Asker) Wait() { a.wg.Wait() }

// EventLines returns the lines that show an event other than text: tool calls,
// their results, compactions, and work.
func EventLines(e *agent.Event) []string {
	switch e.Kind {
	case agent.ToolStart:
		var lines []string
		for _, call := range e.Calls {
			if call.ID != "" { // an early event has no IDs
				lines = append(lines, "→ "+callLine(call))
			}
		}
		return lines
	case agent.ToolResult:
		return []string{resultLine(e)}
	case agent.Compacted:
		line := "the conversation was compacted"
		if a := e.Archive; a != "" {
			line += "; the summary is in the archive " + display.Label(a)
		}
		return []string{line}
	case agent.Flushed:
		return []string{"stored in memory before the summary: " + display.Printable(display.OneLine(e.Content))}
	case agent.Injected:
		lines := strings.Split(e.Content, "\n")
		for i := range lines {
			lines[i] = display.Printable(lines[i])
		}
		return lines
	case agent.WorkStarted, agent.WorkStatus, agent.WorkWaiting, agent.WorkEnded:
		return []string{workMarks[e.Kind] + " " + display.Printable(display.OneLine(e.Note))}
	case agent.Delivered, agent.Wake:
		return []string{}
	case agent.Notice:
		return []string{"note: " + display.Printable(display.OneLine(e.Note))}
	}
	return nil
}

var workMarks = map[agent.Kind]string{agent.WorkStarted: "+", agent.WorkStatus: ".", agent.WorkWaiting: "=", agent.WorkEnded: "="}

// ShowWait displays on a terminal what a run waits for, until its next event.
func ShowWait(c *cli.Streams, p *cli.Progress, e *agent.Event) {
	if p.Clear(); e.Kind == agent.Progress {
		p.Says(cli.Fit(display.Printable(e.Note), c.Width()))
	}
}

// callLine describes a call on one line: by its command, name, query, or path,
// else by all its arguments.
func callLine(call agent.Call) string {
	name := display.Printable(call.Name)
	var args map[string]any
	if json.Unmarshal([]byte(call.Arguments), &args) != nil || len(args) == 0 {
		return name
	}
	for _, key := range []string{"command", "name", "query", "path"} {
		if s, ok := args[key].(string); ok && (len(args) == 1 || key != "name") {
			return name + " " + display.Printable(display.OneLine(s))
		}
	}
	return name + " " + display.Printable(display.OneLine(call.Arguments))
}

func resultLine(r *agent.Event) string {
	output := strings.TrimSpace(r.Output)
	code := 0
	var ran struct {
		Code           *int `json:"exit_code"`
		Stdout, Stderr string
	}
	if json.Unmarshal([]byte(output), &ran) == nil && ran.Code != nil { // the output of a command
		code = *ran.Code
		output = strings.TrimSpace(ran.Stdout + "\n" + ran.Stderr)
	}
	text := cli.FirstLine(output)
	if text == "" {
		text = "nothing"
	}
	if n := strings.Count(output, "\n"); n > 0 {
		text += " … " + display.Plural(n, "more line", "more lines")
	}
	if code != 0 {
		text = fmt.Sprintf("exit %d: %s", code, text)
	}
	mark := "←"
	if r.Failed {
		mark = "✗"
	}
	return fmt.Sprintf("%s %s (%d ms)", mark, text, r.Millis)
}
