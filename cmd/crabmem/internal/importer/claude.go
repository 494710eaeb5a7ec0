package importer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"crabmem/sessionlog"
	"crabmem/sessionlog/foreign"
	"crabmem/sessionlog/record"
)

// A conversation of Claude's export:
//
//	{"uuid":"…","name":"Coffee","summary":"","created_at":"2026-03-01T09:30:00.123456Z","chat_messages":[
//	  {"uuid":"…","sender":"human","text":"…","content":[{"type":"text","text":"…"}],
//	   "created_at":"…","attachments":[{"file_name":"a.txt","extracted_content":"…"}],"files":[{"file_name":"b.png"}]}]}
//
// Messages are imported in the order of the file, including abandoned branches.

func (c *chatReader) claude(h *Chat, o object) {
	h.ID = o.str("uuid")
	if h.ID != "" {
		c.chat = h.ID
	}
	c.head(h, o, o.str("name"), o.when("created_at"))
	c.skipKeys("a conversation", o, "uuid", "name", "summary", "created_at", "chat_messages")
	if s := o.str("summary"); strings.TrimSpace(s) != "" {
		c.say(h, sessionlog.Message{Role: record.RoleSystem, Content: s})
	}
	if says(o["chat_messages"]) && foreign.JSONType(o["chat_messages"]) != "array" {
		c.left.add("messages are not a list", c.chat)
	}
	for _, raw := range o.list("chat_messages") {
		if m := as[object](raw); m != nil {
			c.claudeMessage(h, m)
		} else {
			c.left.add("message is not an object", c.chat)
		}
	}
}

func (c *chatReader) claudeMessage(h *Chat, o object) {
	c.skipKeys("a message", o, "uuid", "text", "content", "sender", "created_at", "updated_at", "attachments", "files", "files_v2", "parent_message_uuid")
	m := sessionlog.Message{Role: record.RoleAssistant}
	switch s := o.str("sender"); s {
	case "human", "user":
		m.Role = record.RoleUser
	case "assistant":
	case "system":
		m.Role = record.RoleSystem
	default:
		c.left.add(fmt.Sprintf("message with unknown sender %q", cut(s, 40)), c.chat)
		return
	}
	var results []sessionlog.Message
	var texts, thoughts []string
	for _, raw := range o.list("content") {
		b := as[object](raw)
		switch typ := b.str("type"); typ {
		case "text":
			texts = append(texts, b.str("text"))
			c.skipKeys("a text", b, "type", "text", "start_timestamp", "stop_timestamp", "flags")
		case "thinking":
			thoughts = append(thoughts, b.str("thinking"))
		case "tool_use":
			id := b.str("id")
			if id == "" {
				id = fmt.Sprintf("%s-%d", o.str("uuid"), len(m.ToolCalls)+1)
			}
			input := "{}"
			if says(b["input"]) {
				input = arguments(plain(b["input"]))
			}
			m.ToolCalls = append(m.ToolCalls, sessionlog.ToolCall{ID: id, Function: sessionlog.Function{Name: b.str("name"), Arguments: input}})
		case "tool_result":
			id := b.str("tool_use_id")
			if id == "" && len(m.ToolCalls) > 0 {
				id = m.ToolCalls[len(m.ToolCalls)-1].ID
			}
			results = append(results, sessionlog.Message{Role: record.RoleTool, ToolCallID: id, Content: c.resultText(b["content"])})
		default:
			if s := b.str("text"); s != "" {
				texts = append(texts, s)
				break
			}
			c.left.add(fmt.Sprintf("unknown block %q", cut(typ, 40)), c.chat)
		}
	}
	text := lines(texts...)
	m.ReasoningContent = lines(thoughts...)
	switch whole := o.str("text"); {
	case text == "":
		text = whole
	case whole != "" && !strings.Contains(letters(text), letters(whole)) && !strings.Contains(letters(whole), letters(text)):
		text = lines(text, whole)
	}
	for _, key := range []string{"attachments", "files", "files_v2"} {
		text = lines(text, c.files(o.list(key)))
	}
	m.Content = text
	if len(m.ToolCalls) > 0 || len(results) == 0 || m.Content != "" || m.ReasoningContent != "" {
		c.say(h, m)
	}
	for _, r := range results {
		c.say(h, r)
	}
}

// letters is a text without white space.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

// files returns descriptions of a message's files, with their text if the
// export contains it.
func (c *chatReader) files(list []json.RawMessage) string {
	var all []string
	for _, raw := range list {
		f := as[object](raw)
		name := f.str("file_name")
		if name == "" {
			name = f.str("name")
		}
		all = append(all, "[file "+name+"]", f.str("extracted_content"))
		if f.str("extracted_content") == "" {
			c.left.add("a file without content in the export", name)
		}
	}
	return lines(all...)
}

// resultText is the text of a tool's result: text, or blocks.
func (c *chatReader) resultText(v json.RawMessage) string {
	if foreign.JSONType(v) != "array" {
		return plain(v)
	}
	var all []string
	for _, raw := range as[[]json.RawMessage](v) {
		b := as[object](raw)
		if s := b.str("text"); s != "" && b.str("type") == "text" {
			all = append(all, s)
		} else {
			all = append(all, compact(raw))
		}
	}
	return lines(all...)
}
