package metadata

import (
	"fmt"
	"slices"
	"strings"
)

// MaxLinks is the largest number of links of an entry; further links are text.
const MaxLinks = 256

// A Link is a link of an entry to another one.
type Link struct {
	Relation string // one of Relations
	Target   string // a name or an alias
}

// A Place is a link and the number of its line, from 1. A link in front matter has
// the line of its key.
type Place struct {
	Link
	Line int
}

// links collects links, each once.
type links struct {
	list []Place
	seen map[Link]bool
}

// add adds a link, and reports whether the list has room for another one.
func (s *links) add(relation, target string, line int) bool {
	l := Link{relation, target}
	if s.seen == nil {
		s.seen = make(map[Link]bool)
	}
	if !s.seen[l] && len(s.list) < MaxLinks {
		s.seen[l] = true
		s.list = append(s.list, Place{l, line})
	}
	return len(s.list) < MaxLinks
}

// Links returns the links of a content in their order, each once.
func Links(content string) []Link { return linksOf(Places(content)) }

// Places returns the links of a content in their order, each at its first place.
func Places(content string) []Place {
	m, body, _ := Parse(content)
	var s links
	s.addFields(&m)
	line := 0
	for target, n := range inText(content[body:]) {
		if line == 0 {
			line = 1 + strings.Count(content[:body], "\n")
		}
		if !s.add(Related, target, line+n) {
			break
		}
	}
	return s.list
}

// Links returns the links of the relations, and those of the other values.
func (m *Metadata) Links() []Link {
	var s links
	s.addFields(m)
	return linksOf(s.list)
}

func linksOf(places []Place) (list []Link) {
	for _, p := range places {
		list = append(list, p.Link)
	}
	return list
}

func (s *links) addFields(m *Metadata) {
	for i, f := range m.fields {
		relation := f.Key
		if !slices.Contains(Relations, relation) {
			relation = Related
		}
		for _, v := range f.Values {
			for target := range targets(v) {
				s.add(relation, target, m.spans[i].line)
			}
		}
	}
}

// Targets returns the targets of a relation.
func (m *Metadata) Targets(relation string) []string {
	var list []string
	for _, v := range m.Values(relation) {
		for target := range targets(v) {
			list = append(list, target)
		}
	}
	return list
}

// LinkTo returns the value of a relation for an entry.
func LinkTo(name string) (string, error) {
	if name == "" || name != strings.TrimSpace(name) || strings.ContainsAny(name, "|\r\n") || strings.Contains(name, "[[") || strings.Contains(name, "]]") ||
		strings.HasSuffix(name, "]") {
		return "", fmt.Errorf("%w: no link to %.80q: a link contains no |, [[, ]], or line end, and no space at an end: give the entry an alias", ErrInvalid, name)
	}
	return "[[" + name + "]]", nil
}

// targets yields the targets of the links of a line.
func targets(line string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for {
			_, after, found := strings.Cut(line, "[[")
			if !found {
				return
			}
			text, rest, found := strings.Cut(after, "]]")
			if !found {
				return
			}
			if i := strings.LastIndex(text, "[["); i >= 0 {
				text = text[i+2:]
			}
			target, _, _ := strings.Cut(text, "|")
			if target = strings.TrimSpace(target); target != "" && !strings.ContainsAny(target, "\r\n") && !yield(target) {
				return
			}
			line = rest
		}
	}
}

// inText yields the targets of the links of a text, except for those in code, and the
// number of their lines, from 0.
func inText(text string) func(func(string, int) bool) {
	return func(yield func(string, int) bool) {
		if !strings.Contains(text, "[[") {
			return
		}
		fence, n := "", -1 // the fence that is open, the line
		for line := range strings.Lines(text) {
			n++
			line = strings.TrimRight(line, "\r\n")
			mark := fenceOf(line)
			switch {
			case fence != "":
				if strings.HasPrefix(mark, fence) && strings.TrimSpace(line) == mark {
					fence = ""
				}
				continue
			case mark != "":
				fence = mark
				continue
			case !strings.Contains(line, "[["):
				continue
			}
			for target := range targets(withoutCode(line)) {
				if !yield(target, n) {
					return
				}
			}
		}
	}
}

// fenceOf returns the backquotes or tildes of a line that begins or ends a fence, or
// "".
func fenceOf(line string) string {
	rest := strings.TrimLeft(line, " ")
	if len(line)-len(rest) > 3 || !strings.HasPrefix(rest, "```") && !strings.HasPrefix(rest, "~~~") {
		return ""
	}
	n := len(rest) - len(strings.TrimLeft(rest, rest[:1]))
	if rest[0] == '`' && strings.Contains(rest[n:], "`") {
		return "" // code in a line
	}
	return rest[:n]
}

// withoutCode returns a line without the code between backquotes.
func withoutCode(line string) string {
	if !strings.Contains(line, "`") {
		return line
	}
	last := make(map[int]int) // by the number of backquotes, the offset of their last run
	for i := 0; i < len(line); {
		n := run(line, i)
		if n > 0 {
			last[n] = i
		}
		i += max(n, 1)
	}
	var b strings.Builder
	for i := 0; i < len(line); {
		n := run(line, i)
		if n == 0 {
			b.WriteByte(line[i])
			i++
			continue
		}
		end := i + n
		if last[n] > i { // the code ends at the next run of this length
			for run(line, end) != n {
				end += max(run(line, end), 1)
			}
			end += n
			b.WriteByte('`')
		}
		i = end
	}
	return b.String()
}

// run returns the number of backquotes at an offset.
func run(line string, at int) int {
	return len(line[at:]) - len(strings.TrimLeft(line[at:], "`"))
}
