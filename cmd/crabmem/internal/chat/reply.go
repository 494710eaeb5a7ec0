package chat

import (
	"fmt"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
)

// Info is a line of chat --json that is not a reply.
type Info struct {
	Info string `json:"info"`
}

// Reply is the result of a message, and the output of send --json.
type Reply struct {
	Agent   string       `json:"agent"`
	Session uint64       `json:"session"`   // the daemon's number of the session
	Stored  string       `json:"stored_id"` // the value for --session
	Content string       `json:"content"`
	Usage   *ReplyUsage  `json:"usage"` // null if the run reported no usage
	Error   *cli.Failure `json:"error"` // null after success

	text      strings.Builder
	step      bool // a tool call followed the text
	compacted bool // the text also reports the compaction
}

// ReplyUsage is the number of tokens of a run.
type ReplyUsage struct {
	Prompt       uint64 `json:"prompt"`
	Completion   uint64 `json:"completion"`
	ContextLimit uint64 `json:"context_limit"`
	Estimated    bool   `json:"estimated"`

	context uint64 // tokens in the context
}

// compactedNote is the text that the daemon sends for a compaction, for clients
// without this event.
const compactedNote = "\n[context compacted]\n"

// Add adds an event to the reply and returns the text to show. Content is the
// text after the last tool call.
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

// Done sets the content and the error, which is nil after success.
func (r *Reply) Done(err *cli.Failure) { r.Content, r.Error = r.text.String(), err }

// UsageLine formats the usage on one line, or returns "" without usage.
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
