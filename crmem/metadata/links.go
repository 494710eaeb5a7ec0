package metadata

import (
	"fmt"
	"path"
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
func Links(content string) (list []Link) {
	for _, p := range Places(content) {
		list = append(list, p.Link)
	}
	return list
}

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

// linksIn yields the offsets of the texts between the brackets of the links of a line.
func linksIn(line string) func(func(span) bool) {
	return func(yield func(span) bool) {
		for at := 0; ; {
			i := strings.Index(line[at:], "[[")
			if i < 0 {
				return
			}
			from := at + i + 2
			n := strings.Index(line[from:], "]]")
			if n < 0 {
				return
			}
			at = from + n + 2
			if i := strings.LastIndex(line[from:from+n], "[["); i >= 0 {
				from, n = from+i+2, n-i-2
			}
			if Target(line[from:from+n]) != "" && !yield(span{from: from, to: from + n}) {
				return
			}
		}
	}
}

// Target returns the target of a link: the text between its brackets without the text
// that it shows, which follows | or, in a table, \|. It is empty if the text is no link.
func Target(link string) string {
	target, _, shows := strings.Cut(link, "|")
	if shows {
		target = strings.TrimSuffix(target, `\`)
	}
	if strings.ContainsAny(target, "\r\n") {
		return ""
	}
	return strings.TrimSpace(target)
}

// files are the endings of the files that Obsidian shows and that are no pages.
var files = strings.Fields(".base .canvas .avif .bmp .gif .jpeg .jpg .png .svg .webp .flac .m4a .mp3 .ogg .wav .webm .3gp .mkv .mov .mp4 .ogv .pdf")

// IsEntry reports whether a target may lead to an entry. Others lead to a place in the
// same text, as #Steps does, or to a picture or another file.
func IsEntry(target string) bool {
	name, _, _ := strings.Cut(target, "#")
	return name != "" && !slices.Contains(files, strings.ToLower(path.Ext(name)))
}

// targets yields the targets of the links of a line.
func targets(line string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for at := range linksIn(line) {
			if !yield(Target(line[at.from:at.to])) {
				return
			}
		}
	}
}

// ReplaceLinks returns a text, without front matter, in which replace has changed the
// text between the brackets of each link, except in code.
func ReplaceLinks(text string, replace func(link, line string) string) string {
	return replaceLinks(text, prose(text), replace)
}

// replaceLinks is [ReplaceLinks] for some of the lines.
func replaceLinks(text string, lines func(func(proseLine) bool), replace func(link, line string) string) string {
	var b strings.Builder
	done := 0
	for line := range lines {
		for l := range linksIn(line.text) {
			link := text[line.at+l.from : line.at+l.to]
			b.WriteString(text[done : line.at+l.from])
			b.WriteString(replace(link, line.text))
			done = line.at + l.to
		}
	}
	b.WriteString(text[done:])
	return b.String()
}

// Relink returns a content in which replace has changed the text between the brackets of
// each link, except in code. A key whose new values are not valid stays as it is.
func Relink(content string, replace func(link string) string) string {
	if !strings.Contains(content, "[[") {
		return content
	}
	each := func(link, _ string) string { return replace(link) }
	m, body, _ := Parse(content)
	text := ReplaceLinks(content[body:], each)
	front := content[:body]
	for _, f := range m.Fields() {
		values := slices.Clone(f.Values)
		for i, v := range values { // which have no code
			values[i] = replaceLinks(v, func(yield func(proseLine) bool) { yield(proseLine{text: v}) }, each)
		}
		if !slices.Equal(values, f.Values) {
			f.Values = values
			if changed, err := Set(front, f); err == nil {
				front = changed
			}
		}
	}
	return front + text
}

// inText yields the targets of the links of a text, except for those in code, and the
// number of their lines, from 0.
func inText(text string) func(func(string, int) bool) {
	return func(yield func(string, int) bool) {
		for line := range prose(text) {
			for target := range targets(line.text) {
				if !yield(target, line.number) {
					return
				}
			}
		}
	}
}

// A proseLine is a line without code and line end. Backquotes replace code.
type proseLine struct {
	at, number int // offset in the text, number from 0
	text       string
}

// prose yields the lines that may contain links.
func prose(text string) func(func(proseLine) bool) {
	return func(yield func(proseLine) bool) {
		if !strings.Contains(text, "[[") {
			return
		}
		fence := "" // that is open
		next, number := 0, -1
		for line := range strings.Lines(text) {
			at := next
			next += len(line)
			number++
			line = strings.TrimRight(line, "\r\n")
			mark := fenceOf(line)
			switch {
			case fence != "":
				if strings.HasPrefix(mark, fence) && strings.TrimSpace(line) == mark {
					fence = ""
				}
			case mark != "":
				fence = mark
			case strings.Contains(line, "[[") && !yield(proseLine{at, number, withoutCode(line)}):
				return
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
	if strings.HasPrefix(rest, "`") && strings.Contains(rest[n:], "`") {
		return "" // code in a line
	}
	return rest[:n]
}

// withoutCode returns a line of the same length, in which backquotes replace the code
// between backquotes.
func withoutCode(line string) string {
	if !strings.Contains(line, "`") {
		return line
	}
	last := make(map[int]int) // by the number of backquotes, the offset of their last run
	for i := 0; i < len(line); {
		n := run(line, i)
		last[n] = i
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
		}
		b.WriteString(strings.Repeat("`", end-i))
		i = end
	}
	return b.String()
}

// run returns the number of backquotes at an offset.
func run(line string, at int) int {
	return len(line[at:]) - len(strings.TrimLeft(line[at:], "`"))
}
