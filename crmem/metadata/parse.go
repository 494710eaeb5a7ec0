package metadata

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Parse returns the metadata of a content and the offset of the text after it. If the
// content has no front matter of the grammar, ok is false and body is 0. Parse reads
// at most [MaxBytes] bytes.
func Parse(content string) (m Metadata, body int, ok bool) {
	m, body, bad := parse(content)
	if bad != nil {
		return Metadata{}, 0, false
	}
	return m, body, true
}

// errNone means that a content does not begin with front matter.
var errNone = &Problem{Message: "the first line is not ---"}

// parse is [Parse] with the first line that does not follow the grammar.
func parse(content string) (m Metadata, body int, bad *Problem) {
	switch {
	case strings.HasPrefix(content, "---\n"):
		m.eol = "\n"
	case strings.HasPrefix(content, "---\r\n"):
		m.eol = "\r\n"
	default:
		return m, 0, errNone
	}
	p := parser{m: &m}
	at := len("---") + len(m.eol)
	for n := 2; ; n++ {
		line, next, complete := cutLine(content[:min(len(content), MaxBytes)], at)
		if line == "---" && (complete || next == len(content)) {
			m.end = at
			return m, next, nil
		}
		reason := ""
		switch {
		case !complete && next < len(content):
			reason = fmt.Sprintf("the closing line --- is not within the first %d bytes", MaxBytes)
		case !complete:
			reason = "the closing line --- is missing"
		case !printable(line):
			reason = "the line contains a tab or another control character"
		default:
			reason = p.line(line, span{at, next, n})
		}
		if reason != "" {
			return m, 0, &Problem{Line: n, Message: reason}
		}
		at = next
	}
}

// Text returns a content without its front matter.
func Text(content string) string {
	_, body, _ := Parse(content)
	return content[body:]
}

// cutLine returns the line at an offset, without its end, and the offset of the next
// line. complete is false if the text ends before the line does.
func cutLine(text string, at int) (line string, next int, complete bool) {
	i := strings.IndexByte(text[at:], '\n')
	if i < 0 {
		return text[at:], len(text), false
	}
	return strings.TrimSuffix(text[at:at+i], "\r"), at + i + 1, true
}

// printable reports whether a line has only characters that front matter may contain.
// YAML takes some of the others as line ends.
func printable(line string) bool {
	for i, r := range line {
		switch {
		case r < ' ', 0x7f <= r && r < 0xa0, r == '\u2028', r == '\u2029', r == '\ufeff', r == '\ufffe', r == '\uffff':
			return false
		case r == utf8.RuneError && !strings.HasPrefix(line[i:], "\ufffd"):
			return false
		}
	}
	return true
}

// parser adds lines to m.
type parser struct {
	m      *Metadata
	open   bool // the last field has no value yet, so items may follow
	indent int  // of its items; -1: none yet
}

// The reasons of values that do not follow the grammar.
const (
	noScalar = "the value is not a word or a list of words: put it in double quotes"
	noKey    = "the line is neither the closing --- nor a key, a colon, a space, and a value"
)

// line adds a line. It returns the reason if the line does not follow the grammar.
func (p *parser) line(line string, at span) string {
	rest := strings.TrimLeft(line, " ")
	indent := len(line) - len(rest)
	switch {
	case rest == "" || rest[0] == '#':
		return ""
	case strings.HasPrefix(rest, "- "):
		return p.item(strings.TrimLeft(rest[2:], " "), indent, at)
	case indent > 0:
		return "only items of a list may be indented"
	}
	return p.field(rest, at)
}

func (p *parser) item(text string, indent int, at span) string {
	if !p.open {
		return "an item of a list needs a key without a value before it"
	}
	if p.indent >= 0 && p.indent != indent {
		return "the items of a list need the same indentation"
	}
	value, rest, ok := scalar(text, false)
	if !ok || !ends(rest) {
		return noScalar
	}
	p.indent = indent
	last := len(p.m.fields) - 1
	f := &p.m.fields[last]
	f.List, f.Values = true, append(f.Values, value)
	p.m.spans[last].to = at.to
	return ""
}

func (p *parser) field(line string, at span) string {
	key, rest, ok := strings.Cut(line, ":")
	if !ok || !validKey(key) || rest != "" && rest[0] != ' ' {
		return noKey
	}
	if len(p.m.fields) == MaxKeys {
		return fmt.Sprintf("there are more than %d keys", MaxKeys)
	}
	for i := range p.m.fields {
		if p.m.fields[i].Key == key {
			return "the key " + key + " occurs twice"
		}
	}
	f := Field{Key: key}
	text := strings.TrimLeft(rest, " ")
	p.open, p.indent = ends(rest), -1
	switch {
	case p.open:
	case text[0] == '[':
		f.List = true
		if f.Values, rest, ok = flow(text); !ok || !ends(rest) {
			return "the list in brackets is not valid: put its values in double quotes"
		}
	default:
		var value string
		if value, rest, ok = scalar(text, false); !ok || !ends(rest) {
			return noScalar
		}
		f.Values = []string{value}
	}
	p.m.fields = append(p.m.fields, f)
	p.m.spans = append(p.m.spans, at)
	return ""
}

// validKey reports whether a text is a key.
func validKey(key string) bool {
	if len(key) > maxKey || strings.HasSuffix(key, " ") {
		return false
	}
	for i, r := range key {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_':
		case i > 0 && (unicode.IsMark(r) || strings.ContainsRune(" -./", r)):
		default:
			return false
		}
	}
	return key != ""
}

// ends reports whether the rest of a line after a value is empty or a comment.
func ends(rest string) bool {
	text := strings.TrimLeft(rest, " ")
	return text == "" || text[0] == '#' && len(text) < len(rest)
}

// flow parses a list in brackets. rest is the text after it.
func flow(text string) (values []string, rest string, ok bool) {
	rest = strings.TrimLeft(text[1:], " ")
	for {
		if strings.HasPrefix(rest, "]") {
			return values, rest[1:], true
		}
		var value string
		if value, rest, ok = scalar(rest, true); !ok {
			return nil, "", false
		}
		values = append(values, value)
		rest = strings.TrimLeft(rest, " ")
		if more, ok := strings.CutPrefix(rest, ","); ok {
			rest = strings.TrimLeft(more, " ")
		} else if !strings.HasPrefix(rest, "]") {
			return nil, "", false
		}
	}
}

// scalar parses the scalar at the beginning of a text, in a list in brackets if
// inFlow is set. rest is the text after it.
func scalar(text string, inFlow bool) (value, rest string, ok bool) {
	switch {
	case text == "":
		return "", "", false
	case text[0] == '\'':
		return singleQuoted(text[1:])
	case text[0] == '"':
		return doubleQuoted(text[1:])
	}
	value = text
	if inFlow {
		if i := strings.IndexAny(text, ",[]{}"); i >= 0 {
			value = text[:i]
		}
	}
	if i := strings.Index(value, " #"); i >= 0 {
		value = value[:i]
	}
	rest = text[len(value):]
	value = strings.TrimRight(value, " ")
	return value, rest, isPlain(value, inFlow)
}

// isPlain reports whether a printable text without spaces at its ends is a plain
// scalar.
func isPlain(s string, inFlow bool) bool {
	if s == "" || strings.IndexByte("?:,[]{}#&*!|>'\"%@`", s[0]) >= 0 || s == "-" || strings.HasPrefix(s, "- ") ||
		strings.HasSuffix(s, ":") || strings.Contains(s, ": ") || strings.Contains(s, " #") {
		return false
	}
	return !inFlow || s[0] != '-' && !strings.ContainsAny(s, ",[]{}:?")
}

// singleQuoted parses the rest of a scalar after its first quote.
func singleQuoted(text string) (value, rest string, ok bool) {
	var b strings.Builder
	for {
		part, after, found := strings.Cut(text, "'")
		if !found {
			return "", "", false
		}
		b.WriteString(part)
		if text, found = strings.CutPrefix(after, "'"); !found {
			return b.String(), after, true
		}
		b.WriteByte('\'')
	}
}

// escapes maps the character after a backslash to the text of the escape.
var escapes = map[byte]string{'\\': "\\", '"': "\"", '/': "/", 'n': "\n", 'r': "\r", 't': "\t"}

// hexDigits is the number of digits after a backslash and a letter.
var hexDigits = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// doubleQuoted parses the rest of a scalar after its first quote.
func doubleQuoted(text string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), text[i+1:], true
		case '\\':
			i++
			if i == len(text) {
				return "", "", false
			}
			if plain, ok := escapes[text[i]]; ok {
				b.WriteString(plain)
				continue
			}
			n := hexDigits[text[i]]
			if i+n >= len(text) {
				return "", "", false
			}
			r, err := strconv.ParseUint(text[i+1:i+1+n], 16, 32) // an error if n is 0
			if err != nil || !utf8.ValidRune(rune(r)) {
				return "", "", false
			}
			b.WriteRune(rune(r))
			i += n
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}
