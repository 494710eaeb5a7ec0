package foreign

import (
	"errors"
	"slices"
	"strings"

	"crabmem/sessionlog/record"
)

// codexSummary begins the summary in a replacement_history, a message of the user.
const codexSummary = "Another language model started to solve this problem and produced a summary of"

// compacted reads a compaction. Its replacement_history repeats messages of the file,
// but in a fork it has the only copy.
func (c *codexReader) compacted(o object) error {
	c.earlier = true // the items may be in the lines before
	items, err := o.blocks("replacement_history")
	summary := o.text("message")
	count := make(map[string]int)
	for _, item := range items {
		typ := item.text("type")
		key := codexKey(typ, item)
		if count[key]++; count[key] <= c.seen[key] {
			continue
		}
		if typ == "message" && item.text("role") == record.RoleUser {
			switch text := codexText(item, "content"); {
			case strings.HasPrefix(text, codexSummary), summary != "" && strings.HasSuffix("\n"+text, "\n"+summary):
				c.seen[key]++
				if summary == "" {
					summary = text
				}
				continue
			case c.isTruncated(text):
				continue
			}
		}
		err = errors.Join(err, c.response(item))
	}
	c.flush()
	c.summary(summary)
	return err
}

// isTruncated reports whether a text is the text of an earlier message, in which Codex
// replaced the middle by "…12 tokens truncated…".
func (c *codexReader) isTruncated(text string) bool {
	before, rest, found := strings.Cut(text, "…")
	what, after, ended := strings.Cut(rest, "…")
	if !found || !ended || !strings.HasSuffix(what, " truncated") {
		return false
	}
	return slices.ContainsFunc(c.users, func(s string) bool {
		return strings.HasPrefix(s, before) && strings.HasSuffix(s, after)
	})
}

// codexKey identifies an item in the copies of it; "" if all copies may be different.
func codexKey(typ string, o object) string {
	text := ""
	switch typ {
	case "message", "agent_message":
		text = o.text("role") + "\x00" + codexText(o, "content") + o.text("text")
	case "reasoning":
		text = codexText(o, "summary") + "\x00" + codexText(o, "content")
	default:
		text = codexCallID(o)
	}
	if strings.Trim(text, "\x00") == "" {
		return ""
	}
	return typ + "\x00" + text
}

// codexText returns the texts of blocks.
func codexText(o object, key string) (text string) {
	blocks, _ := o.blocks(key)
	for _, b := range blocks {
		text = join(text, b.text("text"))
	}
	return text
}
