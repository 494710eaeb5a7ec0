// Package importer reads memories and conversations of other programs, and
// plans their import as notes and sessions.
//
// A reader imports content unchanged. It counts and names omissions in a
// [Left]. It never writes to a source, follows no link in it, and limits sizes,
// depths, and counts.
package importer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"crabmem/bm25/clip"
	"crabmem/daemon/display"
	"crabmem/sessionlog/foreign"
)

// The kinds of sources.
const (
	RFC0038     = "rfc0038"      // entries/*.md and MEMORY.md, the memory of the reference before it had a store
	BasicMemory = "basic-memory" // a tree of Markdown with permalinks in its front matter
	Markdown    = "markdown"     // another tree of Markdown, such as a vault of Obsidian, or a page
	Obsidian    = "obsidian"     // a vault that crabmem export wrote
	Mem0        = "mem0"         // a JSON export of mem0
	ChatGPT     = "chatgpt"      // conversations.json of ChatGPT's export
	Claude      = "claude"       // conversations.json of Claude's export
	MemoryJSON  = "memory-json"  // the file of the reference memory server
	Crabmem     = "crabmem"      // the output of crabmem export
	SQLite      = "sqlite"       // a SQLite database, before its tables are read
	Walrus      = "walrus"       // a table of keys and values in SQLite
	Spacebot    = "spacebot"     // typed memories in SQLite
	Engram      = "engram"       // observations in SQLite
	ClaudeMem   = "claude-mem"   // observations and summaries in SQLite
	Transcripts = "transcripts"  // session logs of Claude Code, Codex, and Gemini CLI
)

// Limits of a source.
const (
	maxSource   = 1 << 30 // bytes of it all
	maxPage     = 8 << 20 // of a file of a tree
	maxFront    = 64 << 10
	maxNames    = 200_000 // files and directories
	maxDepth    = 32      // directories
	maxRecords  = 1_000_000
	maxBase     = 700 // bytes of a name, before a suffix that makes it unique
	maxID       = 900 // bytes of an identifier of the source
	maxLabel    = 200 // aliases, bytes
	maxAliases  = 256
	maxReasons  = 64
	maxExamples = 8
	maxExample  = 80 // characters
)

// Note is a note of a source.
type Note struct {
	ID      string // identifier of the source: a path, a UUID
	Name    string // "" if the source has no names: the text's title replaces it
	Text    string
	Aliases []string
	Created time.Time // zero if unknown
}

// Left is an omitted or changed item.
type Left struct {
	Reason string   `json:"reason"`
	Count  int      `json:"count"`
	Where  []string `json:"where"` // the first of them
}

// Memory is the content of a source.
type Memory struct {
	Kind   string
	Notes  []Note
	Exact  []Line   // entries of kind Obsidian, in place of notes
	Paths  []string // of the entries in Exact
	Left   []Left
	Manual []string // manual steps that remain
}

// Tally counts omissions by reason.
type Tally []Left

func (t *Tally) add(reason, where string) { t.AddCount(reason, where, 1) }

// AddCount counts n omissions at a place.
func (t *Tally) AddCount(reason, where string, n int) {
	if n <= 0 {
		return
	}
	reason = cut(reason, maxExample)
	i := slices.IndexFunc(*t, func(l Left) bool { return l.Reason == reason })
	if i < 0 && len(*t) >= maxReasons {
		reason = "other reasons"
		i = slices.IndexFunc(*t, func(l Left) bool { return l.Reason == reason })
	}
	if i < 0 {
		i = len(*t)
		*t = append(*t, Left{Reason: reason, Where: []string{}})
	}
	l := &(*t)[i]
	l.Count += n
	if where = cut(where, maxExample); where != "" && len(l.Where) < maxExamples && !slices.Contains(l.Where, where) {
		l.Where = append(l.Where, where)
	}
}

// skipKeys counts the keys of an object that are not imported, except those in but.
func (t *Tally) skipKeys(what, where string, o object, but ...string) {
	for _, k := range o.keys(but...) {
		t.add(fmt.Sprintf("%q of %s", k, what), where)
	}
}

// record parses a record of a source. It counts an invalid one as an omission, and
// returns nil.
func (t *Tally) record(raw json.RawMessage, where string) object {
	o, err := parseObject(raw)
	if err != nil {
		t.add("invalid record: "+err.Error(), where)
		return nil
	}
	if foreign.LoneSurrogate(string(raw)) >= 0 {
		t.add("lone surrogate, replaced by U+FFFD", where)
	}
	return o
}

// Sorted returns the omissions by reason.
func (t *Tally) Sorted() []Left {
	slices.SortStableFunc(*t, func(a, b Left) int { return strings.Compare(a.Reason, b.Reason) })
	if *t == nil {
		return []Left{}
	}
	return *t
}

// noteSet collects notes with distinct identifiers.
type noteSet struct {
	m    *Memory
	left Tally
	ids  map[string]bool
}

func newNoteSet(kind string) noteSet {
	return noteSet{m: &Memory{Kind: kind}, ids: make(map[string]bool)}
}

// note adds a note with a name, which may be "". It omits a note without text, and a
// note with the identifier of an earlier one.
func (s *noteSet) note(n Note, name string) {
	n.Text = trimEnd(n.Text)
	if len(n.ID) > maxID || strings.ContainsFunc(n.ID, unicode.IsControl) {
		n.ID = "sha256:" + sumOf(n.ID, "", nil)
	}
	switch {
	case strings.TrimSpace(n.Text) == "":
		s.left.add("memory without text", n.ID)
		return
	case s.ids[n.ID]:
		s.left.add("duplicate ID; took the first", n.ID)
		return
	}
	s.ids[n.ID] = true
	if strings.TrimSpace(name) != "" {
		n.named(name)
	}
	s.m.add(n, &s.left)
}

// memory returns the notes and the omissions.
func (s *noteSet) memory() *Memory {
	s.m.Left = s.left.Sorted()
	return s.m
}

// cut returns a text on one line of at most n characters.
func cut(s string, n int) string {
	return clip.Chars(display.OneLine(strings.ToValidUTF8(s, "\uFFFD")), n)
}

// baseName returns a name on one line within the limit of length. whole is
// false if it was shortened.
func baseName(s string) (name string, whole bool) {
	name = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	whole = name == s
	if len(name) > maxBase {
		name, whole = strings.TrimSpace(clip.Bytes(name, maxBase-3))+"…", false
	}
	return name, whole
}

// addAlias adds another name, if it is a valid new alias.
func (n *Note) addAlias(s string, left *Tally) {
	s = strings.TrimSpace(s)
	switch {
	case s == "" || s == n.Name || slices.Contains(n.Aliases, s):
	case len(s) > maxLabel || strings.ContainsFunc(s, unicode.IsControl):
		left.add("too long for an alias, or contains a control character; kept in the text", n.ID)
		n.Text = joined(n.Text, "alias: "+s)
	case len(n.Aliases) >= maxAliases:
		left.add("too many aliases; kept in the text", n.ID)
		n.Text = joined(n.Text, "alias: "+s)
	default:
		n.Aliases = append(n.Aliases, s)
	}
}

// joined joins two texts by an empty line, where there are two.
func joined(a, b string) string {
	a, b = strings.TrimRightFunc(a, unicode.IsSpace), strings.TrimRightFunc(b, unicode.IsSpace)
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// timeOf parses a time in the usual formats. It returns zero if no entry can
// have that time.
func timeOf(s string) time.Time {
	s = strings.TrimSpace(s)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
		"2006-01-02 15:04:05.999999999", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil && t.Unix() >= 0 {
			return t
		}
	}
	return time.Time{}
}

// sizeError is the error for input over a limit.
func sizeError(what string, limit int64) error {
	return fmt.Errorf("%s: more than %d MiB", what, limit>>20)
}
