package importer

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"crabmem/daemon/display"
	"crabmem/sessionlog"
	"crabmem/sessionlog/foreign"
	"crabmem/sessionlog/record"
)

// maxItem is the most of a session's line.
const maxItem = 32 << 20

// Chat is a conversation of an export.
type Chat struct {
	ID    string // "" if the export has no ID; such a conversation is not imported
	Meta  sessionlog.Meta
	Items []sessionlog.Item
	Err   error // why the conversation cannot be imported
}

// chatReader reads the conversations of an export.
type chatReader struct {
	kind string
	one  func(*chatReader, *Chat, object)
	left Tally
	chat string    // that is being read
	last time.Time // of its messages
	buf  []byte
}

// ReadChats calls take with every conversation of an export, in order, and
// returns the omissions.
func ReadChats(kind string, r io.Reader, take func(*Chat) error) ([]Left, error) {
	c := chatReader{kind: kind, one: (*chatReader).chatgpt}
	if kind == Claude {
		c.one = (*chatReader).claude
	}
	err := elements(r, []string{"conversations"}, func(n int, raw json.RawMessage) error {
		c.chat = fmt.Sprintf("conversation %d", n)
		return take(c.read(raw))
	}, func(key string, _ json.RawMessage) {
		c.left.add(fmt.Sprintf("%q of the export", key), "")
	})
	return c.left.Sorted(), err
}

func (c *chatReader) read(raw json.RawMessage) *Chat {
	o, err := parseObject(raw)
	if err != nil {
		return &Chat{Err: fmt.Errorf("%s: %w", c.chat, err)}
	}
	if foreign.LoneSurrogate(string(raw)) >= 0 {
		c.left.add("lone surrogate, replaced by U+FFFD", c.chat)
	}
	h := &Chat{}
	h.Meta = sessionlog.Meta{Agent: c.kind, CreatedBy: "user"}
	c.last = time.Time{}
	c.one(c, h, o)
	h.Meta.Source = c.kind + ":" + h.ID
	h.Meta.SetEnd(c.last)
	switch {
	case h.ID == "" || len(h.ID) > maxLabel || strings.ContainsFunc(h.ID, unicode.IsControl):
		h.Err = fmt.Errorf("%s: no usable ID", c.chat)
	case len(h.Items) == 0:
		h.Err = fmt.Errorf("%s: no messages", h.ID)
	}
	return h
}

// head reads the metadata of a conversation.
func (c *chatReader) head(h *Chat, o object, title string, created time.Time) {
	if h.Meta.Title = cut(title, maxLabel); len(h.Meta.Title) > 0 && strings.HasSuffix(h.Meta.Title, "…") && !strings.HasSuffix(title, "…") {
		c.left.add(fmt.Sprintf("title truncated to %d characters", maxLabel), c.chat)
	}
	if created.IsZero() {
		created = time.Unix(0, 0)
	}
	h.Meta.CreatedAt = record.Timestamp(created)
}

// at notes a message's time.
func (c *chatReader) at(t time.Time) {
	if t.After(c.last) {
		c.last = t
	}
}

// say adds a message.
func (c *chatReader) say(h *Chat, m sessionlog.Message) {
	m.Content, m.ReasoningContent = strings.Trim(m.Content, "\n"), strings.Trim(m.ReasoningContent, "\n")
	if m.Content == "" && m.ReasoningContent == "" && len(m.ToolCalls) == 0 {
		c.left.add("message without text", c.chat)
		return
	}
	if c.buf = m.AppendLine(c.buf[:0]); len(c.buf) > maxItem {
		c.left.add(fmt.Sprintf("message larger than %d MiB", maxItem>>20), c.chat)
		c.buf = nil
		return
	}
	h.Items = append(h.Items, sessionlog.Item{Message: m})
}

// arguments returns the arguments of a call as JSON.
func arguments(text string) string {
	raw := json.RawMessage(text)
	if json.Valid(raw) && foreign.JSONType(raw) == "object" {
		return compact(raw)
	}
	b, _ := display.JSON(map[string]string{"input": text}) // strings always have an encoding
	return string(b)
}

// lines joins nonempty texts with an empty line.
func lines(texts ...string) string {
	texts = slices.DeleteFunc(texts, func(s string) bool { return strings.TrimSpace(s) == "" })
	return strings.Join(texts, "\n\n")
}
