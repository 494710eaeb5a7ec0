package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/sessionlog"
)

// Asker sends replies to questions beside the run that asks.
type Asker struct {
	t   *Conversation
	ctx context.Context
	wg  sync.WaitGroup
}

// NewAsker returns an Asker whose replies end with ctx.
func NewAsker(t *Conversation, ctx context.Context) *Asker { return &Asker{t: t, ctx: ctx} }

// replyTime is how long a reply may take to get to the daemon.
const replyTime = 10 * time.Second

// Reply answers the question of a session. One that is too late changes nothing:
// the run goes on as it would.
func (a *Asker) Reply(session uint64, text string) {
	a.wg.Go(func() {
		ctx, cancel := context.WithTimeout(a.ctx, replyTime)
		defer cancel()
		_ = a.t.Client.ReplyToAsk(ctx, session, text)
	})
}

// Wait waits until every reply is sent.
func (a *Asker) Wait() { a.wg.Wait() }

// EventLines are what there is to see of an event beside the text: calls of
// tools, their results, what was compacted.
func EventLines(e *client.Event) []string {
	switch e.Kind {
	case "tool_start":
		var lines []string
		for _, call := range e.Calls {
			if call.ID != "" { // not the early announcement
				lines = append(lines, "→ "+callLine(call))
			}
		}
		return lines
	case "tool_result":
		return []string{resultLine(e)}
	case "compact":
		line := "the conversation was compacted"
		if a := e.Archive; a != "" {
			line += "; the summary is in the archive " + display.Label(a)
		}
		return []string{line}
	case "notice":
		return []string{"note: " + display.Printable(display.OneLine(e.Text))}
	}
	return nil
}

// callLine names a call: a command by its first line, others with what they
// are given.
func callLine(call sessionlog.ToolCall) string {
	name := display.Printable(call.Function.Name)
	var args map[string]any
	if json.Unmarshal([]byte(call.Function.Arguments), &args) != nil || len(args) == 0 {
		return name
	}
	for _, key := range []string{"command", "name", "query", "path"} {
		if s, ok := args[key].(string); ok && (len(args) == 1 || key != "name") {
			return name + " " + display.Printable(display.OneLine(s))
		}
	}
	return name + " " + display.Printable(display.OneLine(call.Function.Arguments))
}

func resultLine(r *client.Event) string {
	output := strings.TrimSpace(r.Text)
	code := 0
	var ran struct {
		Code           *int `json:"exit_code"`
		Stdout, Stderr string
	}
	if json.Unmarshal([]byte(output), &ran) == nil && ran.Code != nil { // a command's
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
	return fmt.Sprintf("%s %s (%d ms)", mark, text, r.Took.Milliseconds())
}
