package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// jsonText is a file with the positions that an edit needs.
type jsonText struct {
	text []byte
	// plain is text as JSON, with spaces in place of comments and of trailing
	// commas: all positions are the same.
	plain    []byte
	trailing []int // positions of trailing commas
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// parseJSON returns the positions of a file. An empty file is an empty object.
func parseJSON(text []byte) (*jsonText, error) {
	t := &jsonText{text: text}
	if err := t.strip(); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(t.plain)) == 0 {
		return t, nil
	}
	var v map[string]json.RawMessage
	if err := json.Unmarshal(t.plain, &v); err != nil {
		at := len(text)
		if e, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = int(e.Offset) - 1
		} else if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			at, err = 0, errors.New("the file is not a JSON object")
		}
		return nil, syntaxError(text, at, err)
	}
	return t, nil
}

func syntaxError(text []byte, at int, err error) error {
	return &SyntaxError{Line: 1 + bytes.Count(text[:max(min(at, len(text)), 0)], []byte{'\n'}), Err: err}
}

// strip sets plain and trailing.
func (t *jsonText) strip() error {
	b := bytes.Clone(t.text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			b[i] = ' '
		}
	}
	if bytes.HasPrefix(b, byteOrderMark) {
		blank(0, len(byteOrderMark))
	}
	last := -1 // position of the last byte that is neither space nor comment
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			for i++; i < len(b) && b[i] != '"' && b[i] != '\n'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case c == '/' && i+1 < len(b) && b[i+1] == '/':
			end := bytes.IndexByte(b[i:], '\n')
			if end < 0 {
				end = len(b) - i
			}
			blank(i, i+end)
			i += end - 1
			continue
		case c == '/' && i+1 < len(b) && b[i+1] == '*':
			end := bytes.Index(b[i+2:], []byte("*/"))
			if end < 0 {
				return syntaxError(t.text, i, errors.New("unterminated comment"))
			}
			blank(i, i+2+end+2) // also line ends: no edit is inside of a comment
			i += 2 + end + 1
			continue
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			continue
		case (c == '}' || c == ']') && last >= 0 && b[last] == ',':
			t.trailing = append(t.trailing, last)
			b[last] = ' '
		}
		last = min(i, len(b)-1)
	}
	t.plain = b
	return nil
}

// jsonMember is a member of an object, by positions.
type jsonMember struct {
	name               string
	start, value, end  int // of the name, the value, and the end of the value
	comma              int // after it; -1 if no comma follows
	trailing, isObject bool
	isOwnLine          bool
}

// space returns the position of the first byte of plain from i that is no space.
func (t *jsonText) space(i int) int {
	for i < len(t.plain) && strings.IndexByte(" \t\r\n", t.plain[i]) >= 0 {
		i++
	}
	return i
}

// skip returns the position after the value at i.
func (t *jsonText) skip(i int) int {
	depth := 0
	for ; i < len(t.plain); i++ {
		switch t.plain[i] {
		case '"':
			for i++; t.plain[i] != '"'; i++ {
				if t.plain[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}

// members returns the members of the object at open, and the position of its end.
func (t *jsonText) members(open int) (list []jsonMember, end int) {
	for i := open + 1; ; {
		if i = t.space(i); t.plain[i] == '}' {
			return list, i
		}
		m := jsonMember{start: i, comma: -1}
		i = t.skip(i)
		_ = json.Unmarshal(t.plain[m.start:i], &m.name) // plain is valid
		m.value = t.space(bytes.IndexByte(t.plain[i:], ':') + i + 1)
		m.end = t.skip(m.value)
		m.isObject = t.plain[m.value] == '{'
		i = t.space(m.end)
		if t.plain[i] == ',' {
			m.comma = i
			i++
		} else if n := slices.IndexFunc(t.trailing, func(c int) bool { return c >= m.end && c < i }); n >= 0 {
			m.comma, m.trailing = t.trailing[n], true
		}
		line := t.line(m.start)
		m.isOwnLine = t.space(line) == m.start && len(bytes.TrimSpace(t.text[line:m.start])) == 0 && line > open
		list = append(list, m)
	}
}

// line returns the position of the first byte of the line of i.
func (t *jsonText) line(i int) int { return bytes.LastIndexByte(t.plain[:i], '\n') + 1 }

// indent returns the white space at the beginning of the line of i.
func (t *jsonText) indent(i int) string {
	line := t.text[t.line(i):i]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

func (t *jsonText) lineEnd() string {
	if bytes.Contains(t.text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// unit returns the indentation of one level in this file.
func (t *jsonText) unit() string {
	if open := bytes.IndexByte(t.plain, '{'); open >= 0 {
		if list, _ := t.members(open); len(list) > 0 && list[0].isOwnLine {
			if s := t.indent(list[0].start); s != "" {
				return s
			}
		}
	}
	return "  "
}

// find returns the member with a name. It returns an error if two members have it.
func (t *jsonText) find(list []jsonMember, name string) (m *jsonMember, err error) {
	for i := range list {
		if list[i].name != name {
			continue
		}
		if m != nil {
			return nil, syntaxError(t.text, list[i].start, fmt.Errorf("%q occurs twice", name))
		}
		m = &list[i]
	}
	return m, nil
}

// jsonEdit replaces the bytes from one position to another.
type jsonEdit struct {
	from, to int
	text     string
}

func (t *jsonText) apply(edits ...jsonEdit) []byte {
	slices.SortStableFunc(edits, func(a, b jsonEdit) int { return a.from - b.from })
	var b []byte
	at := 0
	for _, e := range edits {
		b = append(append(b, t.text[at:e.from]...), e.text...)
		at = e.to
	}
	return append(b, t.text[at:]...)
}

// put sets the member name of the object at open. v is a string, a list of strings,
// or fields.
func (t *jsonText) put(open int, name string, v any) ([]byte, error) {
	list, end := t.members(open)
	m, err := t.find(list, name)
	if err != nil {
		return nil, err
	}
	nl, unit := t.lineEnd(), t.unit()
	if m != nil {
		return t.apply(jsonEdit{m.value, m.end, render(v, t.indent(m.start), unit, nl, !m.isOwnLine)}), nil
	}
	member := func(indent string, compact bool) string {
		return quote(name) + ": " + render(v, indent, unit, nl, compact)
	}
	if len(list) == 0 {
		outer := t.indent(open)
		text := nl + outer + unit + member(outer+unit, false)
		if len(bytes.TrimSpace(t.text[open+1:end])) > 0 {
			return t.apply(jsonEdit{open + 1, open + 1, text}), nil // before a comment
		}
		return t.apply(jsonEdit{open + 1, end, text + nl + outer}), nil
	}
	last := list[len(list)-1]
	at, edits, comma := last.end, []jsonEdit(nil), ","
	if last.trailing {
		at = last.comma + 1
	} else {
		edits, comma = append(edits, jsonEdit{at, at, ","}), ""
	}
	if !last.isOwnLine {
		return t.apply(append(edits, jsonEdit{at, at, " " + member("", true) + comma})...), nil
	}
	// A comment on the line of the last member stays there.
	if n := bytes.IndexByte(t.plain[at:end], '\n'); n >= 0 {
		at += n
		if t.text[at-1] == '\r' {
			at--
		}
	}
	indent := t.indent(last.start)
	return t.apply(append(edits, jsonEdit{at, at, nl + indent + member(indent, false) + comma})...), nil
}

// drop removes the member name from the object at open.
func (t *jsonText) drop(open int, name string) ([]byte, error) {
	list, end := t.members(open)
	m, err := t.find(list, name)
	if m == nil {
		return t.text, err
	}
	from, to := m.start, m.end
	if m.comma >= 0 {
		to = m.comma + 1
	}
	if m.isOwnLine {
		from = t.line(from) - 1
		if from > 0 && t.text[from-1] == '\r' {
			from--
		}
	} else {
		for from > 0 && (t.text[from-1] == ' ' || t.text[from-1] == '\t') {
			from--
		}
	}
	i := slices.IndexFunc(list, func(l jsonMember) bool { return l.start == m.start })
	if len(list) == 1 && len(bytes.TrimSpace(t.text[open+1:from]))+len(bytes.TrimSpace(t.text[to:end])) == 0 {
		return t.apply(jsonEdit{open + 1, end, ""}), nil
	}
	edits := []jsonEdit{{from, to, ""}}
	if i == len(list)-1 && i > 0 && m.comma < 0 {
		c := list[i-1].comma
		edits = append(edits, jsonEdit{c, c + 1, ""})
	}
	return t.apply(edits...), nil
}

// render returns a value as JSON, for a line with an indentation.
func render(v any, indent, unit, nl string, compact bool) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case []string:
		items := make([]string, len(v))
		for i, s := range v {
			items[i] = quote(s)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	var b strings.Builder
	fields := v.([]field)
	b.WriteString("{")
	for i, f := range fields {
		if i > 0 {
			b.WriteString(",")
		}
		if compact && i > 0 {
			b.WriteString(" ")
		} else if !compact {
			b.WriteString(nl + indent + unit)
		}
		b.WriteString(quote(f.name) + ": " + render(f.value, indent+unit, unit, nl, compact))
	}
	if !compact {
		b.WriteString(nl + indent)
	}
	return b.String() + "}"
}

func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string has an encoding
	return strings.TrimSuffix(b.String(), "\n")
}
