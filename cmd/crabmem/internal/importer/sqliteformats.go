package importer

import (
	"fmt"
	"strings"

	"crabmem/crmem/metadata"
	"crabmem/sessionlog/foreign"
)

// walrus is the database in which early versions of the reference stored memories: a
// key, a text, and JSON metadata. Notes do not contain the access counters and the
// embedding.
var walrus = &database{
	kind: Walrus, table: "memories", has: []string{"key", "value"},
	use: map[string][]string{"memories": {"key", "value", "metadata", "created_at", "updated_at"}},
	read: func(d *databaseReader) {
		for _, o := range d.rows["memories"] {
			key := d.cell(o, "key")
			id := fmt.Sprintf("%s@%s", key, d.cell(o, "created_at"))
			n := Note{ID: id, Created: d.when(o, "created_at")}
			n.setFields(d.cell(o, "value"), d.metadata(o))
			d.note(n, key)
		}
	},
}

// spacebot is a graph of typed memories. An association becomes a relation of the note
// of its source.
var spacebot = &database{
	kind: Spacebot, table: "memories", has: []string{"id", "content", "memory_type"},
	use: map[string][]string{
		"memories":     {"id", "content", "memory_type", "importance", "source", "channel_id", "created_at", "forgotten"},
		"associations": {"id", "source_id", "target_id", "relation_type", "created_at"},
	},
	read: func(d *databaseReader) {
		names, uses := make(map[string]string), make(map[string]int)
		for _, o := range d.rows["memories"] {
			name := firstWords(d.cell(o, "content"))
			names[d.cell(o, "id")] = name
			uses[name]++
		}
		// If the name is invalid, or other memories have it, the link has the ID.
		target := func(id string) string {
			if _, err := metadata.LinkTo(names[id]); err != nil || uses[names[id]] > 1 {
				return id
			}
			return names[id]
		}
		relations := make(map[string][]relation)
		for _, o := range d.rows["associations"] {
			from, to := d.cell(o, "source_id"), d.cell(o, "target_id")
			if names[from] == "" || names[to] == "" {
				d.left.add("association with a missing memory", d.cell(o, "id"))
				continue
			}
			relations[from] = append(relations[from], relation{d.cell(o, "relation_type"), names[to], target(to)})
		}
		for _, o := range d.rows["memories"] {
			id := d.cell(o, "id")
			if d.isSet(o, "forgotten") {
				d.left.add("forgotten memory", id)
				continue
			}
			n := Note{ID: id, Created: d.when(o, "created_at")}
			text, links := d.cell(o, "content"), relations[id]
			fields := d.fields(o, "memory_type=type", "importance", "source", "channel_id")
			n.setFields(text, append(fields, relationFields(links)...))
			if target(id) == id {
				n.addAlias(id, &d.left)
			}
			d.note(n, "")
		}
	},
}

// engram has observations, summaries of sessions, and prompts. An observation
// with a deletion time is deleted.
var engram = &database{
	kind: Engram, table: "observations", has: []string{"id", "session_id", "type", "title", "content"},
	use: map[string][]string{
		"observations": {"id", "sync_id", "type", "title", "content", "tool_name", "project", "scope", "topic_key", "created_at", "deleted_at", "pinned", "review_after", "expires_at"},
		"sessions":     {"id", "project", "summary", "started_at"},
		"user_prompts": {},
	},
	read: func(d *databaseReader) {
		for _, o := range d.rows["observations"] {
			id := d.rowID("observation", o, "created_at")
			if s := d.cell(o, "sync_id"); s != "" {
				id = s
			}
			if d.isSet(o, "deleted_at") {
				d.left.add("deleted observation", id)
				continue
			}
			var pinned []noteField
			if d.isSet(o, "pinned") {
				pinned = []noteField{{metadata.Field{Key: "pinned", Values: []string{"yes"}}, "pinned: yes"}}
			}
			n := Note{ID: id, Created: d.when(o, "created_at")}
			n.setFields(d.cell(o, "content"), append(d.fields(o, "type", "project", "scope", "topic_key", "tool_name", "review_after", "expires_at"), pinned...))
			n.addAlias(d.cell(o, "topic_key"), &d.left)
			d.note(n, d.cell(o, "title"))
		}
		for _, o := range d.rows["sessions"] {
			if s := d.cell(o, "summary"); s != "" {
				id := d.cell(o, "id")
				n := Note{ID: "session:" + id, Created: d.when(o, "started_at")}
				n.setFields(s, d.fields(o, "project"))
				d.note(n, "Session "+id)
			}
		}
		d.leaveOut("user_prompts", "user prompt")
	},
}

// claudeMem has observations, summaries of sessions, and prompts. Some columns
// contain JSON arrays.
var claudeMem = &database{
	kind: ClaudeMem, table: "observations", has: []string{"id", "type", "title", "narrative", "facts", "project"},
	use: map[string][]string{
		"observations": {"id", "type", "title", "subtitle", "narrative", "text", "facts", "concepts", "files_read", "files_modified", "project", "priority", "created_at", "created_at_epoch"},
		"session_summaries": {"id", "project", "request", "investigated", "learned", "completed", "next_steps", "notes", "files_read", "files_edited",
			"created_at", "created_at_epoch"},
		"user_prompts": {}, "sdk_sessions": {}, "memories": {}, "overviews": {},
	},
	read: func(d *databaseReader) {
		for _, o := range d.rows["observations"] {
			text := joined(d.cell(o, "subtitle"), joined(d.cell(o, "narrative"), d.cell(o, "text")))
			text = joined(text, d.bullets(o, "facts"))
			if text == "" {
				text = d.cell(o, "title")
			}
			n := Note{ID: d.rowID("observation", o, "created_at_epoch"), Created: d.when(o, "created_at_epoch", "created_at")}
			if text != "" {
				n.setFields(text, d.fields(o, "type", "project", "priority", "concepts=tags", "files_read", "files_modified"))
			}
			d.note(n, d.cell(o, "title"))
		}
		for _, o := range d.rows["session_summaries"] {
			var parts []string
			for _, c := range []string{"request", "investigated", "learned", "completed", "next_steps", "notes"} {
				if s := d.cell(o, c); s != "" {
					parts = append(parts, "**"+strings.ReplaceAll(c, "_", " ")+":** "+s)
				}
			}
			n := Note{ID: d.rowID("summary", o, "created_at_epoch"), Created: d.when(o, "created_at_epoch", "created_at")}
			if len(parts) > 0 {
				n.setFields(lines(parts...), d.fields(o, "project", "files_read", "files_edited"))
			}
			d.note(n, firstWords(d.cell(o, "request")))
		}
		d.leaveOut("user_prompts", "user prompt")
		d.leaveOut("sdk_sessions", "session state")
		d.leaveOut("memories", "row of the old table \"memories\"")
		d.leaveOut("overviews", "row of the old table \"overviews\"")
	},
}

// rowID returns an identifier of a row. Its time distinguishes databases that
// number their rows alike.
func (d *databaseReader) rowID(what string, o object, column string) string {
	return fmt.Sprintf("%s:%s@%s", what, d.cell(o, "id"), d.cell(o, column))
}

// isSet reports whether a column has a value other than 0.
func (d *databaseReader) isSet(o object, column string) bool {
	s := d.cell(o, column)
	return s != "" && s != "0"
}

// bullets returns a JSON array of texts as a list.
func (d *databaseReader) bullets(o object, column string) string {
	s := d.cell(o, column)
	list := as[[]string]([]byte(s))
	if foreign.JSONType([]byte(s)) != "array" || list == nil {
		return strings.TrimSuffix(s, "[]")
	}
	var b []string
	for _, item := range list {
		b = append(b, "- "+strings.ReplaceAll(strings.TrimSpace(item), "\n", "\n  "))
	}
	return strings.Join(b, "\n")
}

// leaveOut counts the rows of a table as omissions.
func (d *databaseReader) leaveOut(table, reason string) {
	for _, o := range d.rows[table] {
		d.left.add(reason, d.cell(o, "id"))
	}
	delete(d.rows, table)
}
