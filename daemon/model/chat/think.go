package chat

import (
	"strings"

	"crabmem/daemon/lazyregexp"
)

// thoughts separates reasoning that a server sends at the beginning of the text,
// between tags such as <think> and </think>. Later tags are text.
type thoughts struct {
	held  string // the end of the text so far, which may be a part of a tag
	open  bool   // the text so far ends in reasoning
	found bool   // the text so far has reasoning
	done  bool   // the answer has begun
}

var (
	thoughtStart = lazyregexp.New(`(?i)^\s*<(?:think|thinking|thought|reasoning)>`)
	thoughtEnd   = lazyregexp.New(`(?i)</(?:think|thinking|thought|reasoning)>`)
	// maybeStart matches a text that may continue as a start tag.
	maybeStart = lazyregexp.New(`(?i)^\s*(?:<[a-z]{0,9})?$`)
	// maybeEnd matches the end of a text that may continue as an end tag.
	maybeEnd = lazyregexp.New(`(?i)<(?:/[a-z]{0,9})?$`)
)

// maxHeld limits the white space that is held until the answer begins, because each part
// searches all of it.
const maxHeld = 4 << 10

// separate returns the answer and the reasoning of a complete text.
func separate(content string) (text, reasoning string) {
	var t thoughts
	text, reasoning = t.split(content)
	restText, restReasoning := t.end()
	return text + restText, reasoning + restReasoning
}

// split returns the text and the reasoning that a part adds.
func (t *thoughts) split(part string) (text, reasoning string) {
	if t.done {
		return part, ""
	}
	t.held += part
	for {
		if t.open {
			at := thoughtEnd().FindStringIndex(t.held)
			if at == nil {
				kept := len(t.held) - len(maybeEnd().FindString(t.held))
				reasoning += t.held[:kept]
				t.held = t.held[kept:]
				return "", reasoning
			}
			reasoning += t.held[:at[0]]
			t.held, t.open = t.held[at[1]:], false
		}
		start := thoughtStart().FindString(t.held)
		switch {
		case start != "":
			t.held, t.open, t.found = t.held[len(start):], true, true
		case len(t.held) <= maxHeld && maybeStart().MatchString(t.held):
			return "", reasoning
		default:
			t.done = true
			return t.rest(), reasoning
		}
	}
}

// rest returns the held text: of the answer, or of reasoning if that is open.
func (t *thoughts) rest() string {
	held := t.held
	t.held = ""
	if t.found && !t.open {
		held = strings.TrimLeft(held, " \t\r\n")
	}
	return held
}

// end returns the text and the reasoning that are left at the end of a response.
// Reasoning that has no end has no answer after it.
func (t *thoughts) end() (text, reasoning string) {
	if t.open {
		return "", t.rest()
	}
	return t.rest(), ""
}
