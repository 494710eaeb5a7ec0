package importer

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"crabmem/sessionlog/foreign"
)

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
		o, err := parseObject(raw)
		if err != nil {
			c.left.add("invalid record: "+err.Error(), where)
			return nil
		}
		if foreign.LoneSurrogate(string(raw)) >= 0 {
			c.left.add("lone surrogate, replaced by U+FFFD", where)
		}
		if part == partProjects {
			c.project(where, o)
		} else {
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

// skipKeys counts the omitted keys.
func (c *claudeNotes) skipKeys(what, where string, o object, but ...string) {
	for _, k := range o.keys(but...) {
		c.left.add(fmt.Sprintf("%q of %s", k, what), where)
	}
}

func (c *claudeNotes) memories(where string, o object) {
	account := o.str("account_uuid")
	c.skipKeys("the memories", where, o, "account_uuid", "conversations_memory", "project_memories", "memory_files")
	if s := c.text(o, "conversations_memory", where); s != "" {
		c.note(Note{ID: "memory:" + account, Text: s}, "Claude memory")
	}
	projects := o.sub("project_memories")
	if says(o["project_memories"]) && projects == nil {
		c.left.add(`"project_memories" is not an object`, where)
	}
	for _, id := range slices.Sorted(maps.Keys(projects)) {
		name := c.projects[id]
		if name == "" {
			name = id
		}
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
		c.skipKeys("a memory file", path, f, "path", "content", "created_at", "updated_at")
		n := Note{ID: "memory-file:" + account + ":" + path, Text: c.text(f, "content", path), Created: f.when("created_at")}
		if n.Created.IsZero() {
			n.Created = f.when("updated_at")
		}
		c.note(n, strings.TrimSuffix(strings.Trim(path, "/"), ".md"))
	}
}

func (c *claudeNotes) project(where string, o object) {
	id, name := o.str("uuid"), strings.TrimSpace(o.str("name"))
	if id == "" {
		c.left.add("project without an ID", where)
		return
	}
	if name == "" {
		name = "Claude project " + id
	}
	c.projects[id] = name
	c.skipKeys("a project", name, o, "uuid", "name", "description", "prompt_template", "docs", "created_at", "updated_at", "creator", "is_private", "is_starter_project")
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
		file := d.str("filename")
		if file == "" {
			file = fmt.Sprintf("document %d", i+1)
		}
		doc := d.str("uuid")
		if doc == "" {
			doc = id + "/" + file
		}
		c.skipKeys("a document", file, d, "uuid", "filename", "content", "created_at")
		c.note(Note{ID: "doc:" + doc, Text: c.text(d, "content", file), Created: d.when("created_at")}, name+": "+file)
	}
}
