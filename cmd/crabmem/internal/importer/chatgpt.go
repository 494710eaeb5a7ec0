package importer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"crabmem/sessionlog"
	"crabmem/sessionlog/foreign"
	"crabmem/sessionlog/record"
)

// A conversation of ChatGPT's export is a tree of messages. The user sees the
// branch that ends in current_node:
//
//	{"title":"Coffee","create_time":1772357400.12,"conversation_id":"…","current_node":"c","mapping":{
//	  "a":{"id":"a","message":null,"parent":null,"children":["b"]},
//	  "b":{"id":"b","parent":"a","children":["c"],"message":{"author":{"role":"user"},"create_time":1772357400.5,
//	       "content":{"content_type":"text","parts":["How hot?"]},"recipient":"all"}}, …}}
//
// The messages of other branches are counted.

type chatgptNode struct {
	parent  string
	message object
}

func (c *chatReader) chatgpt(h *Chat, o object) {
	h.ID = cmp.Or(o.str("conversation_id"), o.str("id"))
	c.chat = cmp.Or(h.ID, c.chat)
	c.head(h, o, o.str("title"), o.when("create_time"))
	c.left.skipKeys("a conversation", c.chat, o, "id", "conversation_id", "title", "create_time", "current_node", "mapping")
	if says(o["mapping"]) && foreign.JSONType(o["mapping"]) != "object" {
		c.left.add("messages are not a tree", c.chat)
	}
	tree := o.sub("mapping")
	nodes := make(map[string]chatgptNode, len(tree))
	for id, raw := range tree {
		n := as[object](raw)
		if n == nil {
			c.left.add("node is not an object", c.chat)
			continue
		}
		nodes[id] = chatgptNode{n.str("parent"), n.sub("message")}
	}
	path := c.branch(nodes, o.str("current_node"))
	on := make(map[string]bool, len(path))
	calls := make(map[string]sessionlog.ToolCall) // that a node makes, or answers
	for _, id := range path {
		on[id] = true
		if n := nodes[id]; n.message != nil {
			c.chatgptMessage(h, id, n, calls)
		}
	}
	for id, n := range nodes {
		if !on[id] && n.message != nil {
			c.left.add("a message outside the current branch", c.chat)
		}
	}
}

// branch is the way from the root to the current node.
func (c *chatReader) branch(nodes map[string]chatgptNode, current string) []string {
	if _, there := nodes[current]; !there && len(nodes) > 0 {
		c.left.add("no current node; took the branch of the newest message", c.chat)
		current = newestLeaf(nodes)
	}
	var path []string
	seen := make(map[string]bool)
	for id := current; id != ""; {
		n, there := nodes[id]
		if !there {
			if len(path) > 0 {
				c.left.add("node is missing", c.chat)
			}
			break
		}
		if seen[id] {
			c.left.add("branch has a cycle; took each node once", c.chat)
			break
		}
		seen[id] = true
		path = append(path, id)
		id = n.parent
	}
	slices.Reverse(path)
	return path
}

// newestLeaf is the newest node that no other follows, or the newest of all.
func newestLeaf(nodes map[string]chatgptNode) string {
	follows := make(map[string]bool)
	for _, n := range nodes {
		follows[n.parent] = true
	}
	best, bestLeaf := "", false
	var bestTime time.Time
	for id, n := range nodes {
		t, leaf := n.message.when("create_time"), !follows[id]
		newer := t.After(bestTime) || t.Equal(bestTime) && id > best
		if best == "" || leaf && !bestLeaf || leaf == bestLeaf && newer {
			best, bestLeaf, bestTime = id, leaf, t
		}
	}
	return best
}

func (c *chatReader) chatgptMessage(h *Chat, id string, n chatgptNode, calls map[string]sessionlog.ToolCall) {
	o := n.message
	c.left.skipKeys("a message", c.chat, o, "id", "author", "content", "create_time", "update_time", "metadata", "recipient", "status", "end_turn", "weight", "channel")
	author, meta := o.sub("author"), o.sub("metadata")
	c.left.skipKeys("the metadata of a message", c.chat, meta, "attachments")
	c.at(o.when("create_time"))
	m := sessionlog.Message{Role: author.str("role")}
	if m.Role == record.RoleUser && isHidden(o) {
		m.Role = record.RoleSystem
		c.left.add("hidden message of the program; kept as the system's", c.chat)
	}
	text, reasoning := c.chatgptContent(o.sub("content"))
	said := []string{text}
	for _, raw := range meta.list("attachments") {
		name := as[object](raw).str("name")
		said = append(said, "[file "+name+"]")
		c.left.add("a file without content in the export", name)
	}
	text = lines(said...)
	if m.Role == record.RoleAssistant {
		text = withoutMarks(text, func(kind string) {
			c.left.add(fmt.Sprintf("citation mark %q", cut(kind, 40)), c.chat)
		})
	}
	m.Content, m.ReasoningContent = text, reasoning
	to := o.str("recipient")
	switch m.Role {
	case record.RoleUser, record.RoleSystem:
	case record.RoleAssistant:
		if to != "" && to != "all" && text != "" {
			m.Content = ""
			calls[id] = sessionlog.ToolCall{ID: id, Function: sessionlog.Function{Name: to, Arguments: arguments(text)}}
			m.ToolCalls = []sessionlog.ToolCall{calls[id]}
		}
	case record.RoleTool:
		call := calls[n.parent]
		if name := author.str("name"); name != "" && name != call.Function.Name {
			m.Content = lines("["+name+"]", m.Content)
		}
		m.ToolCallID = call.ID
		calls[id] = call // a tool may answer in parts
	default:
		c.left.add(fmt.Sprintf("message with unknown role %q", cut(m.Role, 40)), c.chat)
		return
	}
	c.say(h, m)
}

// isHidden reports whether ChatGPT did not show a message: the profile and instructions
// of the user, which it writes into each conversation, and other texts for the model.
func isHidden(o object) bool {
	meta := o.sub("metadata")
	for _, key := range []string{"is_visually_hidden_from_conversation", "is_user_system_message", "is_contextual_answers_system_message"} {
		if string(meta[key]) == "true" {
			return true
		}
	}
	kind := o.sub("content").str("content_type")
	return kind == "user_editable_context" || kind == "model_editable_context" || kind == "system_error"
}

// chatgptContent returns the text of a message, and the model's reasoning.
func (c *chatReader) chatgptContent(o object) (text, reasoning string) {
	var texts []string
	switch typ := o.str("content_type"); typ {
	case "text", "multimodal_text", "":
		for _, part := range o.list("parts") {
			texts = append(texts, c.chatgptPart(part))
		}
		return lines(append(texts, o.str("text"))...), ""
	case "thoughts":
		for _, raw := range o.list("thoughts") {
			t := as[object](raw)
			texts = append(texts, t.str("summary"), t.str("content"))
		}
		return "", lines(texts...)
	case "reasoning_recap":
		return "", o.str("content")
	default:
		for _, k := range o.keys("content_type", "language", "response_format_name") {
			switch v := o[k]; foreign.JSONType(v) {
			case "string":
				texts = append(texts, as[string](v))
			case "array":
				for _, part := range as[[]json.RawMessage](v) {
					texts = append(texts, c.chatgptPart(part))
				}
			case "object":
				texts = append(texts, compact(v))
			}
		}
		if len(texts) == 0 {
			c.left.add(fmt.Sprintf("content %q without text", cut(typ, 40)), c.chat)
		}
		return lines(texts...), ""
	}
}

// chatgptPart returns a part of a message: text, or a description of a file.
func (c *chatReader) chatgptPart(raw json.RawMessage) string {
	if foreign.JSONType(raw) == "string" {
		return as[string](raw)
	}
	o := as[object](raw)
	if o == nil {
		return ""
	}
	typ := o.str("content_type")
	if s := o.str("text"); s != "" {
		return s
	}
	c.left.add(fmt.Sprintf("part %q without content in the export", cut(typ, 40)), c.chat)
	what := strings.TrimSuffix(strings.TrimSuffix(typ, "_asset_pointer"), "_pointer")
	if p := o.str("asset_pointer"); p != "" {
		what += " " + p
	}
	return lines("["+what+"]", o.sub("metadata").sub("dalle").str("prompt"))
}

// ChatGPT marks citations in the text of an answer, in two ways:
//
//	【11†source】 or 【4:0†report.pdf】
//	<U+E200>cite<U+E202>turn0search1<U+E202>turn0news2<U+E201>
//
// Private-use characters separate the parts of the second form. The kinds entity
// and url contain text that the user saw; all others refer to sources that are
// not in the export.
const (
	markOpen  = '\uE200'
	markClose = '\uE201'
	markSplit = "\uE202"

	maxMark = 16 << 10 // bytes of a mark; a longer one is text
)

// withoutMarks returns a text without citation marks. It keeps text in marks that the
// user saw, and calls removed with the kind of each mark.
func withoutMarks(s string, removed func(kind string)) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return isMark(r) || r == '【' }) {
		return s
	}
	var b []byte
	for s != "" {
		i := strings.IndexFunc(s, func(r rune) bool { return isMark(r) || r == '【' })
		if i < 0 {
			break
		}
		b = append(b, s[:i]...)
		s = s[i:]
		r, size := utf8.DecodeRuneInString(s)
		length, text, kind := size, "", ""
		switch {
		case r == '【':
			if length = bracketMark(s); length == 0 {
				b, s = append(b, s[:size]...), s[size:]
				continue
			}
			kind = "source"
		case r == markOpen:
			if end := strings.IndexRune(s[:min(len(s), maxMark)], markClose); end > 0 {
				length = end + utf8.RuneLen(markClose)
				text, kind = markText(s[size:end])
			}
		}
		if s = s[length:]; kind != "" {
			removed(kind)
		}
		if b = append(b, text...); text == "" && kind != "" && endsPhrase(s) {
			b = bytes.TrimRight(b, " ")
		}
	}
	return string(append(b, s...))
}

// isMark reports whether a character is one of the private-use characters in
// ChatGPT's marks.
func isMark(r rune) bool { return r >= markOpen && r <= '\uE20F' }

// bracketMark returns the length of a mark such as 【11†source】 that begins s, or
// 0 if s begins with other text in such brackets.
func bracketMark(s string) int {
	at, rest := len("【"), strings.TrimPrefix(s, "【")
	word := strings.TrimLeftFunc(rest, func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(":_.-", r))
	})
	n := len(rest) - len(word)
	if n == 0 || n > 80 || !strings.HasPrefix(word, "†") {
		return 0
	}
	end := strings.IndexAny(word[:min(len(word), 1024)], "】【\n")
	if end < 0 || !strings.HasPrefix(word[end:], "】") {
		return 0
	}
	return at + n + end + len("】")
}

// markText returns the kind of a mark, and the text in it that the user saw.
func markText(mark string) (text, kind string) {
	parts := strings.Split(mark, markSplit)
	switch kind = parts[0]; {
	case kind == "entity" && len(parts) > 1:
		var entity []string
		if json.Unmarshal([]byte(parts[1]), &entity) == nil && len(entity) > 1 {
			text = entity[1]
		}
	case kind == "url" && len(parts) > 1:
		if text = parts[1]; len(parts) > 2 && strings.HasPrefix(parts[2], "http") {
			text += fmt.Sprintf(" (%s)", parts[2])
		}
	}
	return strings.Map(func(r rune) rune {
		if isMark(r) {
			return -1
		}
		return r
	}, text), kind
}

// endsPhrase reports whether a text begins with the end of a phrase. Spaces before it
// are removed together with a mark.
func endsPhrase(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return s == "" || isMark(r) || strings.ContainsRune(" \n.,;:!?)", r)
}
