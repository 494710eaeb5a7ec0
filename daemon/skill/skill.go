// Package skill finds skills: directories with a SKILL.md, by the convention of
// agentskills.io (RFC 0036).
//
// The package does not cache skills: the tool, /name, and keywords read a skill
// from disk each time.
//
// A skill that names allowed tools bounds the run it was loaded into: [Skill.Bound]
// is the scope that is left of the caller's. It never widens one.
package skill

import (
	"cmp"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"crabmem/bm25/clip"
	"crabmem/daemon/tool"
)

// filename is the name of a skill's file.
const filename = "SKILL.md"

// maxFile bounds a SKILL.md, in bytes.
const maxFile = 1 << 20

// maxText limits the bytes of a skill's body for a model. It leaves room for
// the rest of a tool's result.
const maxText = tool.MaxOutput - 4<<10

// Limits of the convention, in characters.
const (
	maxName          = 64
	maxDescription   = 1024
	maxCompatibility = 500
)

// ErrNotFound is returned for a skill that does not exist, and ErrInvalid for
// an invalid name.
var (
	ErrNotFound = errors.New("no such skill")
	ErrInvalid  = errors.New("invalid skill name")
)

// Tier is the origin of a skill. Of two skills with one name, the one in the
// higher tier is used.
type Tier int

// The tiers, lowest first.
const (
	Bundled   Tier = iota // comes with the program
	Managed               // was installed
	Workspace             // is the user's own
)

func (t Tier) String() string {
	switch t {
	case Bundled:
		return "bundled"
	case Managed:
		return "managed"
	case Workspace:
		return "workspace"
	}
	return "tier " + strconv.Itoa(int(t))
}

// Skill is one SKILL.md.
type Skill struct {
	Name          string
	Description   string // on one line
	License       string
	Compatibility string
	Metadata      map[string]string
	// AllowedTools are the tools that may be called once the skill is loaded,
	// as the file has them. nil is no bound, an empty list is no tool.
	AllowedTools []string
	// Triggers are the words that bring the skill in when a message has them.
	Triggers []string
	// Tags are the tags of the skill. An agent's skill_tags permit skills by tag.
	Tags []string

	Tier Tier
	Dir  string // absolute
	File string
	Body string // the prompt; "" where skills are listed

	problems []*Problem // violations of the convention
	toolsAt  int        // line of allowed-tools
}

// Problem is a problem of a skill or of a directory of skills.
type Problem struct {
	File    string // or directory
	Line    int    // 0 if it concerns no line
	Text    string
	Remedy  string
	Warning bool // the skill works all the same

	err error // of the disk
}

func (p *Problem) Unwrap() error { return p.err }

func (p *Problem) Error() string {
	place := p.File
	if p.Line > 0 {
		place += ":" + strconv.Itoa(p.Line)
	}
	return fmt.Sprintf("%s: %s; %s", place, p.Text, p.Remedy)
}

// Tools returns the tools that may be called while the skill is loaded. A name
// that ends in * matches every name with that prefix. Case is ignored, except in
// SERVER/TOOL. An
// argument pattern, as in Bash(git:*), has no effect: the tool is permitted
// with all arguments.
func (s *Skill) Tools() tool.List {
	if s.AllowedTools == nil {
		return tool.Everything()
	}
	var names []string
	for _, t := range s.AllowedTools {
		name, _, _ := strings.Cut(t, "(")
		if !strings.Contains(name, "/") {
			name = strings.ToLower(name)
		}
		names = append(names, name)
	}
	return tool.Matching(names...)
}

// Unmatched returns a warning for each pattern of AllowedTools that matches none
// of the tools.
func (s *Skill) Unmatched(tools []string) (warnings []*Problem) {
	for _, t := range s.AllowedTools {
		name, _, _ := strings.Cut(t, "(")
		if len(tool.Unmatched([]string{strings.ToLower(name)}, tools)) > 0 {
			warnings = append(warnings, &Problem{
				File: s.File, Line: s.toolsAt, Text: short(name) + " in allowed-tools matches no tool",
				Remedy: "use the name of a tool, or ignore this warning if the skill is for other programs, too", Warning: true,
			})
		}
	}
	return warnings
}

// Bound returns the intersection of a scope and the skill's tools. It applies
// until the end of the run that loaded the skill. The agent's runner enforces
// it: later calls, and the models' lists of tools, use this scope.
func (s *Skill) Bound(scope tool.Scope) tool.Scope {
	return scope.Narrow(s.Tools())
}

// priority orders skills of one tier that one message brings in.
func (s *Skill) priority() int {
	n, err := strconv.Atoi(s.Metadata["priority"])
	if err != nil {
		return 0
	}
	return n
}

// Block returns the skill for a message. The tag that ends it is
// the only one of its kind in it.
func (s *Skill) Block() string {
	return `<skill name="` + s.Name + "\">\n" + unclosed(s.text(), "skill") + "\n</skill>"
}

// text returns the body, truncated to the limit for models.
func (s *Skill) text() string {
	if len(s.Body) <= maxText {
		return s.Body
	}
	cut := clip.Bytes(s.Body, maxText)
	if i := strings.LastIndexByte(cut, '\n'); i > maxText/2 {
		cut = cut[:i]
	}
	return fmt.Sprintf("%s\n... [%d bytes left out; the rest is in %s]", cut, len(s.Body)-len(cut), s.File)
}

// line is the skill in a list.
func (s *Skill) line() string {
	return s.Name + ": " + clip.Chars(s.Description, maxDescription)
}

// unclosed makes text of every tag in s that would end a block of that name.
func unclosed(s, tag string) string {
	var b strings.Builder
	from := 0
	for i := range len(s) {
		if s[i] != '<' {
			continue
		}
		rest, ok := strings.CutPrefix(strings.TrimLeftFunc(s[i+1:], blank), "/")
		if !ok {
			continue
		}
		rest = strings.TrimLeftFunc(rest, blank)
		if len(rest) >= len(tag) && strings.EqualFold(rest[:len(tag)], tag) {
			b.WriteString(s[from:i] + "&lt;")
			from = i + 1
		}
	}
	b.WriteString(s[from:])
	return b.String()
}

// blank reports whether a rune is invisible: a parser of tags may skip it.
func blank(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

// usable reports whether a name is valid for a skill. Names are used in tags,
// lists, commands, and messages, so they must not contain characters with a
// meaning there.
func usable(name string) bool {
	if name == "" || utf8.RuneCountInString(name) > maxName || strings.Contains(name, "..") || name != strings.TrimSpace(name) {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r) && !strings.ContainsRune(" -_.+", r)
	})
}

// askable reports whether a skill may have the name in a model's request. A
// name that passes may still be invalid; it is then a search word.
func askable(name string) bool {
	return len(name) <= 256 && utf8.ValidString(name) && !strings.Contains(name, "..") && !strings.ContainsAny(name, `/\`) &&
		!strings.ContainsFunc(name, unicode.IsControl)
}

// conforms reports whether a name is one by the convention: lower-case letters
// of ASCII, digits, single hyphens between them.
func conforms(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '-' || name[len(name)-1] == '-' || strings.Contains(name, "--") {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return !command(r) })
}

// command reports whether a rune may be in a /name.
func command(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' }

// byRank orders skills that one message brings in: by tier, then priority.
// Equals stay as they are.
func byRank(list []Skill) {
	sort.SliceStable(list, func(i, j int) bool {
		a, b := &list[i], &list[j]
		return cmp.Or(cmp.Compare(b.Tier, a.Tier), cmp.Compare(b.priority(), a.priority())) < 0
	})
}
