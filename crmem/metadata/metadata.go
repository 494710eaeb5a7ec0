// Package metadata reads and writes the metadata of an entry: YAML front matter at
// the beginning of the content.
//
//	---
//	type: decision
//	tags: [release, infra]
//	importance: 0.8
//	supersedes: "[[deploy-v1]]"
//	---
//	We deploy from main. See [[canary]].
//
// # Grammar
//
// Front matter is a subset of YAML that all YAML parsers read in the same way. If the
// beginning of a content does not follow this grammar, the content has no metadata;
// that is not an error.
//
//	front matter = "---" EOL *line "---" ( EOL / end of content )
//	line         = ( blank / comment / field / item ) EOL
//	field        = key ":" [ 1*SP ( scalar / flow ) ] [ 1*SP comment ]
//	item         = *SP "-" 1*SP scalar [ 1*SP comment ]
//	flow         = "[" *SP [ scalar *SP *( "," *SP scalar *SP ) [ "," *SP ] ] "]"
//	scalar       = plain / "'" *( character / "''" ) "'" / DQUOTE *( character / escape ) DQUOTE
//	escape       = "\" ( "\" / DQUOTE / "/" / "n" / "r" / "t" / "x" 2HEX / "u" 4HEX / "U" 8HEX )
//	comment      = *SP "#" *character
//	EOL          = LF / CRLF
//
// The content begins with the front matter, without a byte order mark. Items follow
// a field without a value, with the same indentation. A key consists of letters,
// digits, spaces, and "_-./". It begins with a letter, a digit, or "_", does not end
// with a space, and occurs once.
//
// A plain scalar is as in YAML, on one line. It does not contain ": " or " #", and does
// not end with ":". It does not begin with "- ", a backquote, or one of
// ?:,[]{}#&*!|>'"%@, and is not "-". In a flow list, it does not contain any of ,[]{}:?
// and does not begin with "-".
//
// Characters are printable UTF-8, without tabs. Anchors, aliases, YAML tags, mappings,
// and texts of several lines are not supported. The front matter has at most [MaxBytes]
// bytes and [MaxKeys] keys.
//
// # Links
//
// [[name]] is a link to the entry of that name or alias. [[name|text]] is the same
// link with a text to display. In a relation, such as supersedes, the link has the meaning
// of the relation; elsewhere in the content it has the meaning of related. A link is
// on one line. Code, between backquotes on one line or in a fence, contains no links.
package metadata

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of front matter.
const (
	MaxBytes = 4 << 10 // with both lines of "---"
	MaxKeys  = 64
	maxKey   = 128 // bytes of a key
)

// Keys with a meaning for crabmem. It keeps other keys, and filters can select by
// them.
const (
	Type         = "type"       // fact, preference, decision, identity, event, observation, goal, todo, or another word
	Tags         = "tags"       // a word or a list of words
	Importance   = "importance" // from 0 to 1
	Expires      = "expires"    // the last day on which the entry is valid
	Source       = "source"     // where the entry comes from
	Conversation = "conversation"
	Position     = "position" // in the conversation
	Role         = "role"     // of the author in the conversation
	Date         = "date"     // the day of which the entry is, such as 2026-03-14
	Pinned       = "pinned"   // true: crabmem context always shows the entry
	Project      = "project"  // name of the project that the entry is about

	// Relations: links to other entries.
	Related     = "related"
	Supersedes  = "supersedes"
	Contradicts = "contradicts"
	CausedBy    = "caused_by"
	PartOf      = "part_of"

	// Adopted has the value 1 in an entry whose expires and supersedes affect
	// rankings. Other notes may have these keys with another meaning.
	Adopted = "crabmem"
)

// Relations are the keys whose values are links, in canonical order.
var Relations = []string{Related, Supersedes, Contradicts, CausedBy, PartOf}

// order is the canonical order of the known keys. Other keys are before the last.
var order = slices.Concat([]string{Type, Tags, Importance, Pinned, Expires, Source, Conversation, Position, Role}, Relations)

// roles are the roles of messages. Another role is an author's name.
var roles = []string{"user", "assistant", "system", "developer", "tool"}

// Identity is the type of entries about who the user or the agent is. They do not lose
// importance with time.
const Identity = "identity"

// types are the types with a meaning, and the default importance of an entry of each
// type.
var types = []struct {
	name       string
	importance float64
}{
	{"fact", 0.5}, {"preference", 0.7}, {"decision", 0.7}, {Identity, 0.9},
	{"event", 0.4}, {"observation", 0.3}, {"goal", 0.7}, {"todo", 0.6},
}

// defaultImportance is the default importance of all other entries.
const defaultImportance = 0.5

// TypeNames returns the names of the types with a meaning.
func TypeNames() []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.name
	}
	return names
}

// A Field is a key and its values.
type Field struct {
	Key    string   `json:"key"`
	Values []string `json:"values,omitempty"`
	List   bool     `json:"list,omitempty"` // a list; otherwise there is at most one value
}

// Metadata is the front matter of a content. The zero value has no fields.
type Metadata struct {
	fields []Field
	spans  []span // the lines of each field
	end    int    // offset of the closing line
	eol    string // of the first line
}

// A span is a part of a content, in bytes, and the number of its first line, from 1.
type span struct{ from, to, line int }

// Fields returns the fields in their order. The caller must not change them.
func (m *Metadata) Fields() []Field { return m.fields }

// Values returns the values of a key. It is nil for a missing key.
func (m *Metadata) Values(key string) []string {
	for i := range m.fields {
		if m.fields[i].Key == key {
			return m.fields[i].Values
		}
	}
	return nil
}

// Line returns the number of the line of a key, from 1, or 0 for a missing key.
func (m *Metadata) Line(key string) int {
	for i := range m.fields {
		if m.fields[i].Key == key {
			return m.spans[i].line
		}
	}
	return 0
}

// Text returns the only value of a key, or "".
func (m *Metadata) Text(key string) string {
	if v := m.Values(key); len(v) == 1 {
		return strings.TrimSpace(v[0])
	}
	return ""
}

// Type returns the type, or "".
func (m *Metadata) Type() string { return m.Text(Type) }

// Is reports whether the type is one of some words.
func (m *Metadata) Is(types ...string) bool {
	return slices.ContainsFunc(types, func(t string) bool { return strings.EqualFold(t, m.Type()) })
}

// Done reports whether a task is not open: the key done is true, or the key status has a
// word such as done.
func (m *Metadata) Done() bool {
	return isTrue(m.Text("done")) || slices.Contains([]string{"done", "closed", "completed", "cancelled", "canceled"}, strings.ToLower(m.Text("status")))
}

// Pinned reports whether the entry is pinned.
func (m *Metadata) Pinned() bool { return isTrue(m.Text(Pinned)) }

// isTrue reports whether YAML 1.1 reads a scalar as true, or the value is 1.
func isTrue(s string) bool {
	return slices.Contains([]string{"true", "yes", "on", "y", "1"}, strings.ToLower(s))
}

// Tags returns the tags without a leading "#". A single value may contain several
// tags, with commas between them.
func (m *Metadata) Tags() []string {
	values := m.Values(Tags)
	if len(values) == 1 {
		values = strings.Split(values[0], ",")
	}
	var tags []string
	for _, v := range values {
		if v = strings.TrimPrefix(strings.TrimSpace(v), "#"); v != "" {
			tags = append(tags, v)
		}
	}
	return tags
}

// Importance returns the importance, from 0 to 1. If the value is missing or invalid, it
// returns the default of the type.
func (m *Metadata) Importance() float64 {
	if v, ok := importance(m.Text(Importance)); ok {
		return v
	}
	for _, t := range types {
		if strings.EqualFold(t.name, m.Type()) {
			return t.importance
		}
	}
	return defaultImportance
}

func importance(s string) (float64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && v >= 0 && v <= 1
}

// Expired reports whether the day of the key expires, in UTC, is over at a time. Without
// a valid day, it returns false.
func (m *Metadata) Expired(now time.Time) bool {
	day, ok := expiry(m.Text(Expires))
	return ok && !now.Before(day.AddDate(0, 0, 1))
}

// expiry parses a day.
func expiry(s string) (time.Time, bool) {
	day, err := time.Parse(time.DateOnly, s)
	return day, err == nil
}

// Adopted reports whether expires and supersedes affect rankings.
func (m *Metadata) Adopted() bool { return m.Text(Adopted) == "1" }

// Parts returns the parts of a content that a search index contains: the tags and
// the values of the relations, which are like names; the text after the front
// matter; and the other values, except for the one of [Adopted]. Of a message, it omits
// the place in the conversation, and a role that is no name.
func Parts(content string) (names []string, text string, values []string) {
	m, body, _ := Parse(content)
	message := m.Text(Conversation) != "" && m.Text(Position) != ""
	for _, f := range m.fields {
		switch {
		case message && (f.Key == Conversation || f.Key == Position || f.Key == Role && slices.Contains(roles, m.Text(Role))):
		case f.Key == Tags || slices.Contains(Relations, f.Key):
			names = append(names, f.Values...)
		case f.Key != Adopted:
			values = append(values, f.Values...)
		}
	}
	return names, content[body:], values
}
