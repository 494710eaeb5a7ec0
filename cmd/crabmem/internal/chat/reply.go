package chat

import (
	"fmt"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
)

// Reply is what came of a message, and what send --json answers.
type Reply struct {
	Agent   string       `json:"agent"`
	Session uint64       `json:"session"`   // its number in the daemon
	Stored  string       `json:"stored_id"` // what --session takes
	Content string       `json:"content"`
	Usage   *ReplyUsage  `json:"usage"` // null when nothing was counted
	Error   *cli.Failure `json:"error"` // null when all went well

	text      strings.Builder
	step      bool // tools were called since text came
	compacted bool // the daemon says so in the text too
}

// ReplyUsage is counted in tokens, of the whole run.
type ReplyUsage struct {
	Prompt       uint64 `json:"prompt"`
	Completion   uint64 `json:"completion"`
	ContextLimit uint64 `json:"context_limit"`
	Estimated    bool   `json:"estimated"`

	context uint64 // how full it is
}

// compactedNote is what the daemon writes into the answer for clients that do
// not know of compaction.
const compactedNote = "\n[context compacted]\n"

// Add takes an event in and returns the text that it adds to what is shown.
// The content is what was said last, after the tools.
func (r *Reply) Add(e *client.Event) string {
	switch e.Kind {
	case "start":
		r.Agent, r.Session, r.Stored = e.Agent, e.Session, e.StoredID
		if r.Agent == "" {
			r.Agent = config.Crab
		}
	case "text_delta":
		text := e.Text
		if r.compacted && text == compactedNote {
			r.compacted = false
			return ""
		}
		if r.step {
			r.text.Reset()
			r.step = false
		}
		r.text.WriteString(text)
		return text
	case "tools_complete":
		r.step = true
	case "compact":
		r.compacted = true
	case "usage":
		if r.Usage == nil {
			r.Usage = &ReplyUsage{}
		}
		u := e.Usage
		r.Usage.Prompt += u.Prompt
		r.Usage.Completion += u.Completion
		r.Usage.ContextLimit, r.Usage.context = u.ContextLimit, u.Prompt+u.Completion
		r.Usage.Estimated = r.Usage.Estimated || u.Estimated
	}
	return ""
}

// Done sets the content and the error, which is nil when all went well.
func (r *Reply) Done(err *cli.Failure) { r.Content, r.Error = r.text.String(), err }

// UsageLine says how much was used.
func UsageLine(u *ReplyUsage) string {
	if u == nil {
		return ""
	}
	about := ""
	if u.Estimated {
		about = "about "
	}
	s := fmt.Sprintf("%s%s in, %d out", about, display.Plural(u.Prompt, "token", "tokens"), u.Completion)
	if u.ContextLimit > 0 {
		s += fmt.Sprintf(", context %d%%", u.context*100/u.ContextLimit)
	}
	return s
}
