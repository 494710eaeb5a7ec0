package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
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
	c.chat = cmp.Or(h.ID, c.chat)
	c.head(h, o, o.str("name"), o.when("created_at"))
	c.left.skipKeys("a conversation", c.chat, o, "uuid", "name", "summary", "created_at", "chat_messages")
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
	c.left.skipKeys("a message", c.chat, o, "uuid", "text", "content", "sender", "created_at", "updated_at", "attachments", "files", "files_v2", "parent_message_uuid")
	c.at(o.when("created_at"))
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
			c.left.skipKeys("a text", c.chat, b, "type", "text", "start_timestamp", "stop_timestamp", "flags")
		case "thinking":
			thoughts = append(thoughts, b.str("thinking"))
		case "tool_use":
			id := cmp.Or(b.str("id"), fmt.Sprintf("%s-%d", o.str("uuid"), len(m.ToolCalls)+1))
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
		name := cmp.Or(f.str("file_name"), f.str("name"))
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

// An export of Claude contains memories and projects in addition to conversations. The
// memories are one file or one file for each account, and the projects are one file
// or one file for each project:
//
//	memories.json, memories/ACCOUNT.json
//	{"conversations_memory":"…","project_memories":{"PROJECT":"…"},"account_uuid":"…",
//	 "memory_files":[{"path":"/areas/garden.md","content":"…","updated_at":"…"}]}
//
//	projects.json, projects/PROJECT.json
//	{"uuid":"…","name":"Garden","description":"…","prompt_template":"…","created_at":"…",
//	 "docs":[{"uuid":"…","filename":"plan.md","content":"…","created_at":"…"}]}
//
// Each memory, each document, and the text of each project becomes a note.

// The parts of an export of Claude.
const (
	partChats    = "conversations"
	partMemories = "memories"
	partProjects = "projects"
)

// claudePart returns which part of an export a JSON text is, or "". It looks at the
// first object of the text.
func claudePart(head []byte) string {
	keys := firstKeys(head)
	has := func(key string) bool { return slices.Contains(keys, key) }
	switch {
	case has("chat_messages"):
		return partChats
	case has("conversations_memory"), has("project_memories"), has("memory_files"):
		return partMemories
	case has("uuid") && has("name") && (has("prompt_template") || has("docs")):
		return partProjects
	}
	return ""
}

// claudeNotes reads memories and projects.
type claudeNotes struct {
	noteSet
	projects map[string]string // names by UUID
}

func newClaudeNotes() *claudeNotes {
	return &claudeNotes{newNoteSet(Claude), make(map[string]string)}
}

// read reads a file of a part. The caller reads projects before memories, which
// identify projects by UUID.
func (c *claudeNotes) read(part string, r io.Reader) error {
	return elements(r, []string{part}, func(n int, raw json.RawMessage) error {
		where := fmt.Sprintf("%s %d", part, n)
		switch o := c.left.record(raw, where); {
		case o == nil:
		case part == partProjects:
			c.project(where, o)
		default:
			c.memories(where, o)
		}
		return nil
	}, func(key string, _ json.RawMessage) {
		c.left.add(fmt.Sprintf("%q of the %s", key, part), "")
	})
}

// text returns the text of a key. It counts a value of another type as an omission.
func (c *claudeNotes) text(o object, key, where string) string {
	if v := o[key]; says(v) && foreign.JSONType(v) != "string" {
		c.left.add(fmt.Sprintf("%q is not text", key), where)
	}
	return o.str(key)
}

func (c *claudeNotes) memories(where string, o object) {
	account := o.str("account_uuid")
	c.left.skipKeys("the memories", where, o, "account_uuid", "conversations_memory", "project_memories", "memory_files")
	if s := c.text(o, "conversations_memory", where); s != "" {
		c.note(Note{ID: "memory:" + account, Text: s}, "Claude memory")
	}
	projects := o.sub("project_memories")
	if says(o["project_memories"]) && projects == nil {
		c.left.add(`"project_memories" is not an object`, where)
	}
	for _, id := range slices.Sorted(maps.Keys(projects)) {
		name := cmp.Or(c.projects[id], id)
		c.note(Note{ID: "project-memory:" + id, Text: as[string](projects[id])}, "Claude memory of "+name)
	}
	if says(o["memory_files"]) && foreign.JSONType(o["memory_files"]) != "array" {
		c.left.add(`"memory_files" is not a list`, where)
	}
	for _, raw := range o.list("memory_files") {
		f := as[object](raw)
		path := f.str("path")
		if path == "" {
			c.left.add("memory file without a path", where)
			continue
		}
		c.left.skipKeys("a memory file", path, f, "path", "content", "created_at", "updated_at")
		n := Note{ID: "memory-file:" + account + ":" + path, Text: c.text(f, "content", path), Created: f.when("created_at")}
		if n.Created.IsZero() {
			n.Created = f.when("updated_at")
		}
		c.note(n, strings.TrimSuffix(strings.Trim(path, "/"), ".md"))
	}
}

func (c *claudeNotes) project(where string, o object) {
	id := o.str("uuid")
	if id == "" {
		c.left.add("project without an ID", where)
		return
	}
	name := cmp.Or(strings.TrimSpace(o.str("name")), "Claude project "+id)
	c.projects[id] = name
	c.left.skipKeys("a project", name, o, "uuid", "name", "description", "prompt_template", "docs", "created_at", "updated_at", "creator", "is_private", "is_starter_project")
	text := c.text(o, "description", name)
	if s := c.text(o, "prompt_template", name); s != "" {
		text = joined(text, "Instructions:\n\n"+s)
	}
	docs := o.list("docs")
	if strings.TrimSpace(text) != "" || len(docs) == 0 {
		c.note(Note{ID: "project:" + id, Text: text, Created: o.when("created_at")}, name)
	}
	if says(o["docs"]) && foreign.JSONType(o["docs"]) != "array" {
		c.left.add(`"docs" is not a list`, name)
	}
	for i, raw := range docs {
		d := as[object](raw)
		file := cmp.Or(d.str("filename"), fmt.Sprintf("document %d", i+1))
		doc := cmp.Or(d.str("uuid"), id+"/"+file)
		c.left.skipKeys("a document", file, d, "uuid", "filename", "content", "created_at")
		c.note(Note{ID: "doc:" + doc, Text: c.text(d, "content", file), Created: d.when("created_at")}, name+": "+file)
	}
}
