// Package importer reads what other programs keep of memories and of
// conversations, and plans how it becomes notes and sessions.
//
// Every reader takes what is there as it is written: what it cannot take is
// counted and named in a [Left]. Nothing is written to what is read, no link in
// it is followed, and sizes, depths and counts are bounded.
package importer

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"crabmem/cmd/crabmem/internal/cli"
)

// The kinds of sources.
const (
	RFC0038     = "rfc0038"      // entries/*.md and MEMORY.md, the memory of the reference before it had a store
	BasicMemory = "basic-memory" // a tree of Markdown with YAML front matter
	Mem0        = "mem0"         // a JSON export of mem0
	ChatGPT     = "chatgpt"      // conversations.json of ChatGPT's export
	Claude      = "claude"       // conversations.json of Claude's export
	MemoryJSON  = "memory-json"  // the file of the reference memory server
	Crabmem     = "crabmem"      // what crabmem export writes
)

// Bounds of what is read.
const (
	maxSource   = 1 << 30 // bytes of it all
	maxPage     = 8 << 20 // of a file of a tree
	maxFront    = 64 << 10
	maxNames    = 200_000 // files and directories
	maxDepth    = 32      // directories
	maxRecords  = 1_000_000
	maxBase     = 700 // bytes of a name, before what tells two apart
	maxID       = 900 // bytes of what a source calls its own
	maxLabel    = 200 // aliases, bytes
	maxAliases  = 256
	maxReasons  = 64
	maxExamples = 8
	maxExample  = 80 // characters
)

// Note is a note as a source has it.
type Note struct {
	ID      string // what the source calls it: a path, a UUID
	Name    string // "" where the source has no names: the text's first words are it
	Text    string
	Aliases []string
	Created time.Time // zero where the source does not say
}

// Left is something that is not taken, or not as it is.
type Left struct {
	Reason string   `json:"reason"`
	Count  int      `json:"count"`
	Where  []string `json:"where"` // the first of them
}

// Memory is what a source has.
type Memory struct {
	Kind  string
	Notes []Note
	Left  []Left
	Told  []string // what is left to do by hand
}

// tallies count what is left out, by reason.
type tallies []Left

func (t *tallies) add(reason, where string) {
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
	l.Count++
	if where = cut(where, maxExample); where != "" && len(l.Where) < maxExamples && !slices.Contains(l.Where, where) {
		l.Where = append(l.Where, where)
	}
}

func (t *tallies) sorted() []Left {
	slices.SortStableFunc(*t, func(a, b Left) int { return strings.Compare(a.Reason, b.Reason) })
	if *t == nil {
		return []Left{}
	}
	return *t
}

// cut makes a text one line of at most n characters.
func cut(s string, n int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// baseName makes a name of what a source has as one: a line that is not too
// long. whole is false when it is not all of it.
func baseName(s string) (name string, whole bool) {
	name = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	whole = name == s
	if len(name) > maxBase {
		name, whole = strings.TrimSpace(cli.CutBytes(name, maxBase-3))+"…", false
	}
	return name, whole
}

// firstWords are a name for a text that has none.
func firstWords(text string) string {
	words := strings.FieldsFunc(cli.CutBytes(text, 4096), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	if len(words) > 8 {
		words = words[:8]
	}
	name := strings.Join(words, " ")
	if utf8.RuneCountInString(name) > 64 {
		name = strings.TrimSuffix(cut(name, 63), "…")
	}
	return strings.TrimRight(name, " .,;:")
}

// addAlias adds another name, if it can be one and is none yet.
func (n *Note) addAlias(s string, left *tallies) {
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

// timeOf reads a time as programs write it; zero when it is none that an entry
// can have.
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

// sizeError is of what is larger than it may be.
func sizeError(what string, limit int64) error {
	return fmt.Errorf("%s: more than %d MiB", what, limit>>20)
}
