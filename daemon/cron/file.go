package cron

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"crabmem/daemon/lazyregexp"

	"github.com/pelletier/go-toml/v2"
)

// parsed is a file as text: the text before the first entry, and each entry up to
// the next. Unchanged text is written back byte for byte.
type parsed struct {
	head     string
	entries  []entry
	warnings []Warning
}

type entry struct {
	text    string
	line    int // of its [[cron]]
	cron    Cron
	warning string // why it is not used, "" = it is
	id      uint64 // that it seems to have, when it is not used
}

// record is an entry as TOML has it.
type record struct {
	ID          int64  `toml:"id"`
	Schedule    string `toml:"schedule"`
	Skill       string `toml:"skill,omitempty"`
	Args        string `toml:"args,omitempty"`
	Session     int64  `toml:"session"`
	SessionFile string `toml:"session_file,omitempty"`
	QuietStart  string `toml:"quiet_start,omitempty"`
	QuietEnd    string `toml:"quiet_end,omitempty"`
	Once        bool   `toml:"once"`
	Timezone    string `toml:"timezone,omitempty"`
	Approve     string `toml:"approve,omitempty"`
	Failures    int64  `toml:"failures,omitempty"`
	Prompt      string `toml:"prompt,omitempty"`
	Agent       string `toml:"agent,omitempty"`
	Timeout     string `toml:"timeout,omitempty"`
	Sender      string `toml:"sender,omitempty"`
	Scope       string `toml:"scope,omitempty"`
	Origin      string `toml:"origin_scope,omitempty"`
	Deliver     string `toml:"deliver,omitempty"`
	Wake        bool   `toml:"wake,omitempty"`
}

var (
	header   = lazyregexp.New(`^[ \t]*\[\[[ \t]*(?:cron|"cron"|'cron')[ \t]*\]\][ \t]*(?:#.*)?\r?\n?$`)
	comment  = lazyregexp.New(`^[ \t]*#`)
	comments = lazyregexp.New(`(?m)^[ \t]*#.*$`)
	someID   = lazyregexp.New(`(?m)^[ \t]*id[ \t]*=[ \t]*(\d+)`)
)

func parse(path, text string) parsed {
	var p parsed
	warn := func(line int, format string, args ...any) {
		p.warnings = append(p.warnings, Warning{path, line, fmt.Sprintf(format, args...)})
	}
	p.split(text)
	var other map[string]any
	if len(p.head) > maxEntry {
		if strings.Trim(comments().ReplaceAllString(p.head, ""), " \t\r\n") != "" {
			warn(1, "ignored the text before the first [[cron]]")
		}
	} else if err := toml.Unmarshal([]byte(p.head), &other); err != nil {
		line, message := position(err)
		warn(line, "%s; ignored the text before the first [[cron]]", message)
	} else if len(other) > 0 {
		warn(1, "ignored the text before the first [[cron]]")
	}
	seen := make(map[uint64]int)
	used := 0
	for i := range p.entries {
		e := &p.entries[i]
		at, message := e.parse()
		if message == "" {
			if line := seen[e.cron.ID]; line > 0 {
				at, message = e.lineOf("id"), fmt.Sprintf("same id as the entry in line %d: %d", line, e.cron.ID)
			} else if used++; used > maxEntries {
				at, message = e.line, fmt.Sprintf("there are more than %d entries", maxEntries)
			}
		}
		if message != "" {
			if m := someID().FindStringSubmatch(e.text); m != nil {
				e.id, _ = strconv.ParseUint(m[1], 10, 63)
			}
			e.cron, e.warning = Cron{}, message
			warn(at, "%s; ignored the entry", message)
			continue
		}
		seen[e.cron.ID] = e.line
	}
	return p
}

// split cuts a text before each [[cron]] and the comment directly above it. It
// works on lines, so that an entry with invalid TOML does not affect others.
func (p *parsed) split(text string) {
	var line, from, at int
	above := -1 // where a comment began that no other line follows
	cut := func(next int) {
		if n := len(p.entries); n > 0 {
			p.entries[n-1].text = text[from:next]
		} else {
			p.head = text[:next]
		}
		from = next
	}
	for l := range strings.Lines(text) {
		line++
		switch {
		case header().MatchString(l):
			if above < 0 {
				above = at
			}
			cut(above)
			p.entries = append(p.entries, entry{line: line})
			above = -1
		case comment().MatchString(l):
			if above < 0 {
				above = at
			}
		default:
			above = -1
		}
		at += len(l)
	}
	cut(len(text))
}

// parse parses the text of an entry. On an error it returns the line and a
// message.
func (e *entry) parse() (int, string) {
	if len(e.text) > maxEntry {
		return e.line, fmt.Sprintf("%d bytes, more than the limit of %d", len(e.text), maxEntry)
	}
	var doc struct {
		Cron []record `toml:"cron"`
	}
	d := toml.NewDecoder(strings.NewReader(e.text))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		line, message := position(err)
		return e.first() + line - 1, message
	}
	if len(doc.Cron) != 1 {
		return e.line, "the entry is not one [[cron]] table"
	}
	r := doc.Cron[0]
	if r.ID < 1 {
		return e.lineOf("id"), "id must be a number from 1"
	}
	if r.Session < 0 {
		return e.lineOf("session"), "session must be a number from 0"
	}
	e.cron = Cron{
		ID: uint64(r.ID), Schedule: r.Schedule, Skill: r.Skill, Args: r.Args, Session: uint64(r.Session), SessionFile: r.SessionFile,
		QuietStart: r.QuietStart, QuietEnd: r.QuietEnd, Once: r.Once, Timezone: r.Timezone, Approve: r.Approve, Failures: int(min(max(r.Failures, 0), math.MaxInt32)),
		Prompt: r.Prompt, Agent: r.Agent, Timeout: r.Timeout, Sender: r.Sender, Scope: r.Scope, Origin: r.Origin, Deliver: r.Deliver, Wake: r.Wake,
	}
	for _, c := range checks {
		if err := c.check(&e.cron); err != nil {
			return e.lineOf(c.key), err.Error()
		}
	}
	return e.line, ""
}

// position is the line of a decoder's error, within its text.
func position(err error) (int, string) {
	if s, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		line, _ := s.Errors[0].Position()
		key := s.Errors[0].Key()
		return line, fmt.Sprintf("unknown key '%s'", strings.ToValidUTF8(key[len(key)-1], "\ufffd"))
	}
	if d, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := d.Position()
		return line, strings.TrimPrefix(d.Error(), "toml: ")
	}
	return 1, strings.TrimPrefix(err.Error(), "toml: ")
}

// first is the line that the text begins with.
func (e *entry) first() int { return e.line - strings.Count(e.above(), "\n") }

// above returns the blank lines and the comment before the [[cron]].
func (e *entry) above() string {
	at := 0
	for l := range strings.Lines(e.text) {
		if header().MatchString(l) {
			break
		}
		at += len(l)
	}
	return e.text[:at]
}

// below returns the blank lines and comments after the last key.
func (e *entry) below() string {
	var at, from int
	for l := range strings.Lines(e.text) {
		at += len(l)
		if !comment().MatchString(l) && strings.TrimSpace(l) != "" {
			from = at
		}
	}
	return e.text[from:]
}

// lineOf returns the line of a key, or the line of the entry if the key is
// missing.
func (e *entry) lineOf(key string) int {
	line := e.first()
	for l := range strings.Lines(e.text) {
		if rest, ok := strings.CutPrefix(strings.TrimLeft(l, " \t"), key); ok && strings.HasPrefix(strings.TrimLeft(rest, " \t"), "=") {
			return line
		}
		line++
	}
	return e.line
}

func (c *Cron) encode() string {
	b, err := toml.Marshal(struct {
		Cron []record `toml:"cron"`
	}{[]record{{
		ID: int64(c.ID), Schedule: c.Schedule, Skill: c.Skill, Args: c.Args, Session: int64(c.Session), SessionFile: c.SessionFile,
		QuietStart: c.QuietStart, QuietEnd: c.QuietEnd, Once: c.Once, Timezone: c.Timezone, Approve: c.Approve, Failures: int64(c.Failures),
		Prompt: c.Prompt, Agent: c.Agent, Timeout: c.Timeout, Sender: c.Sender, Scope: c.Scope, Origin: c.Origin, Deliver: c.Deliver, Wake: c.Wake,
	}}})
	if err != nil {
		panic("cron: a checked entry cannot be encoded: " + err.Error())
	}
	return string(b)
}

var failures = lazyregexp.New(`(?m)^[ \t]*failures[ \t]*=.*(\n|$)`)

// withFailures returns the text with the failures of c, which is otherwise the entry. It
// changes no other line, if possible.
func (e *entry) withFailures(c Cron) string {
	next := entry{text: failures().ReplaceAllString(e.text, "")}
	if c.Failures > 0 {
		below := next.below()
		keys := strings.TrimSuffix(next.text, below)
		if !strings.HasSuffix(keys, "\n") {
			keys += "\n"
		}
		next.text = keys + fmt.Sprintf("failures = %d\n", c.Failures) + below
	}
	want := c
	if _, wrong := next.parse(); wrong == "" {
		want.Session = next.cron.Session // it may be of an earlier daemon
	}
	if next.cron != want { // the line is part of a text
		return e.above() + c.encode() + e.below()
	}
	return next.text
}

func (p *parsed) text() string {
	var b strings.Builder
	b.WriteString(p.head)
	for _, e := range p.entries {
		b.WriteString(e.text)
	}
	return b.String()
}

// clone copies the fields that a change needs; new lines bring new warnings.
func (p *parsed) clone() parsed { return parsed{head: p.head, entries: slices.Clone(p.entries)} }

// gap returns the line ends that separate a text from an added entry by a blank
// line.
func gap(text string) string {
	switch {
	case text == "", strings.HasSuffix(text, "\n\n"), strings.HasSuffix(text, "\n\r\n"):
		return ""
	case strings.HasSuffix(text, "\n"):
		return "\n"
	}
	return "\n\n"
}

func (p *parsed) find(id uint64) *entry {
	for i := range p.entries {
		if e := &p.entries[i]; e.warning == "" && e.cron.ID == id {
			return e
		}
	}
	return nil
}

func (p *parsed) greatest() uint64 {
	var id uint64
	for _, e := range p.entries {
		id = max(id, e.cron.ID, e.id)
	}
	return id
}
