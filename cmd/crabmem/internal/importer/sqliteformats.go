package importer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

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
			name := metadata.Title(d.cell(o, "content"))
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
			d.note(n, metadata.Title(d.cell(o, "request")))
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

// noteField is a value of a database that becomes metadata.
type noteField struct {
	metadata.Field        // without a key if it can only be a line
	line           string // in place of the field, after the text
}

// fieldLines returns the fields as lines.
func fieldLines(fields []noteField) string {
	var lines []string
	for _, f := range fields {
		if f.line != "" {
			lines = append(lines, f.line)
		}
	}
	return strings.Join(lines, "\n")
}

// setFields sets the text of a note, and its metadata. What metadata cannot contain
// follows the text, a line each.
func (n *Note) setFields(text string, fields []noteField) {
	content := trimEnd(text)
	var rest []noteField
	for _, f := range fields {
		m, _, _ := metadata.Parse(content)
		set, err := "", metadata.ErrInvalid
		if f.Key != metadata.Adopted && len(m.Values(f.Key)) == 0 && content != "" {
			set, err = metadata.Set(content, f.Field)
		}
		if err != nil {
			rest = append(rest, f)
			continue
		}
		content = set
	}
	n.Text = joined(content, fieldLines(rest))
}

// fields returns the columns with a value. A column may have the form COLUMN=KEY.
func (d *databaseReader) fields(o object, columns ...string) (list []noteField) {
	for _, c := range columns {
		c, key, renamed := strings.Cut(c, "=")
		if !renamed {
			key = c
		}
		s := d.list(o, c)
		if s == "" {
			continue
		}
		s = oneLine(s)
		f := noteField{metadata.Field{Key: key, Values: []string{s}}, c + ": " + s}
		if v := d.cell(o, c); foreign.JSONType([]byte(v)) == "array" && json.Valid([]byte(v)) {
			f.setList(json.RawMessage(v))
		}
		list = append(list, f)
	}
	return list
}

// setList sets the values to those of a JSON array. If they are not all scalars, the
// field can only be a line.
func (f *noteField) setList(raw json.RawMessage) {
	f.List, f.Values = true, nil
	for _, v := range as[[]json.RawMessage](raw) {
		if t := foreign.JSONType(v); t == "object" || t == "array" {
			f.Key = ""
			return
		}
		f.add(plain(v))
	}
	if len(f.Values) == 0 {
		f.Key = ""
	}
}

// add adds a value of a list, once.
func (f *noteField) add(s string) {
	if s = strings.TrimSpace(oneLine(s)); s != "" && !slices.Contains(f.Values, s) {
		f.Values = append(f.Values, s)
	}
}

// oneLine returns a text with spaces in place of control characters, if it has one.
func oneLine(s string) string {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return strings.Join(strings.Fields(s), " ")
	}
	return s
}

// walrusKeys are the keys of the column metadata that crabmem names in another way.
var walrusKeys = map[string]string{
	"memory_type": metadata.Type, "tag": metadata.Tags, "links": metadata.Related, "link": metadata.Related,
	"related_to": metadata.Related, "relations": metadata.Related,
}

// metadata returns the keys of the column metadata.
func (d *databaseReader) metadata(o object) (list []noteField) {
	m, err := parseObject([]byte(d.cell(o, "metadata")))
	if err != nil {
		return d.fields(o, "metadata=")
	}
	for _, k := range m.keys() {
		f := noteField{metadata.Field{Key: k}, "metadata." + k + ": " + inLine(m[k])}
		if key := walrusKeys[k]; key != "" && !says(m[key]) {
			f.Key = key
		}
		switch text := plain(m[k]); foreign.JSONType(m[k]) {
		case "array":
			f.setList(m[k])
		case "object":
			f.Key = ""
		default:
			if f.List = f.Key == metadata.Tags && strings.Contains(text, ","); !f.List {
				f.add(text)
				break
			}
			for tag := range strings.SplitSeq(text, ",") {
				f.add(tag)
			}
		}
		if slices.Contains(metadata.Relations, f.Key) {
			f.link()
		}
		list = append(list, f)
	}
	return list
}

// link makes links of the values of a relation.
func (f *noteField) link() {
	for i, v := range f.Values {
		if strings.Contains(v, "[[") {
			continue
		}
		link, err := metadata.LinkTo(v)
		if err != nil {
			f.Key = ""
			return
		}
		f.Values[i] = link
	}
}

// relation is an association of a memory of Spacebot.
type relation struct{ kind, name, target string }

func (r relation) line() string { return "- " + r.kind + " → " + r.name }

// relationKeys are the kinds of associations that crabmem names in another way. Other
// kinds stay, and their links have the meaning of related.
var relationKeys = map[string]string{
	"related_to": metadata.Related, "updates": metadata.Supersedes, "supersedes": metadata.Supersedes, "caused_by": metadata.CausedBy,
	"result_of": metadata.CausedBy, "contradicts": metadata.Contradicts, "part_of": metadata.PartOf,
}

// relationFields returns a field for each kind of associations.
func relationFields(relations []relation) (list []noteField) {
	relations = slices.Clone(relations)
	slices.SortFunc(relations, func(a, b relation) int { return strings.Compare(a.line(), b.line()) })
	for _, r := range relations {
		key := strings.ToLower(r.kind)
		if known := relationKeys[key]; known != "" {
			key = known
		}
		i := slices.IndexFunc(list, func(f noteField) bool { return f.Key == key })
		if i < 0 {
			i = len(list)
			list = append(list, noteField{Field: metadata.Field{Key: key}})
		}
		f := &list[i]
		if link, err := metadata.LinkTo(r.target); err == nil {
			f.add(link)
		} else {
			f.Key = ""
		}
		f.List = len(f.Values) > 1
		f.line = strings.TrimPrefix(f.line+"\n"+r.line(), "\n")
	}
	return list
}
