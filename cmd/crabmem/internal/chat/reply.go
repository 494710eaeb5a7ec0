package chat

import (
	"fmt"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
)

// Info is a line of chat --json that is not a reply.
type Info struct {
	Info string `json:"info"`
}

// Reply is the result of a message, and the output of send --json.
type Reply struct {
	Agent    string       `json:"agent"`
	Session  uint64       `json:"session"`   // the daemon's number of the session
	Stored   string       `json:"stored_id"` // the value for --session
	Content  string       `json:"content"`
	Injected string       `json:"injected,omitempty"` // text from memory that preceded the message
	Usage    *ReplyUsage  `json:"usage"`              // null if the run reported no usage
	Error    *cli.Failure `json:"error"`              // null after success

	text strings.Builder
	step bool // a tool call followed the text
}

// ReplyUsage is the number of tokens of a run.
type ReplyUsage struct {
	agent.TokenUsage

	context int // tokens in the context
}

// Add adds an event to the reply and returns the text to show. Content is the
// text after the last tool call.
func (r *Reply) Add(e *agent.Event) string {
	switch e.Kind {
	case agent.Start:
		r.Agent, r.Session, r.Stored = e.Agent, e.Number, e.Session
		if r.Agent == "" {
			r.Agent = config.Crab
		}
	case agent.Injected:
		r.Injected = e.Content
	case agent.TextDelta:
		if r.step {
			r.text.Reset()
			r.step = false
		}
		r.text.WriteString(e.Content)
		return e.Content
	case agent.Reply: // the answer, unless a text follows
		r.text.Reset()
		r.text.WriteString(e.Content)
		r.step = true
		return e.Content + "\n\n"
	case agent.ToolsComplete:
		r.step = true
	case agent.Usage:
		if r.Usage == nil {
			r.Usage = &ReplyUsage{}
		}
		r.Usage.Add(e.Usage)
		r.Usage.context = e.Usage.Prompt + e.Usage.Completion
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
	if u.Limit > 0 {
		s += fmt.Sprintf(", context %d%%", u.context*100/u.Limit)
	}
	return s
}
