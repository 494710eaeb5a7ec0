package metadata

import (
	"fmt"
	"slices"
	"strings"
)

// A Problem is a part of a content that looks like metadata, but has no effect.
type Problem struct {
	Line    int    // from 1
	Key     string // empty: the content has no metadata
	Message string
}

// Check returns the problems of the metadata of a content, ascending by line: either
// the first line of front matter that does not follow the grammar, or values of known
// keys that have no effect. A text that begins with a line of "---", but does not look
// like front matter, has no problem.
func Check(content string) (list []Problem) {
	m, _, bad := parse(content)
	if bad != nil {
		if p := almost(content, bad); p != nil {
			list = append(list, *p)
		}
		return list
	}
	for i, f := range m.fields {
		if message := f.ineffective(); message != "" {
			list = append(list, Problem{m.spans[i].line, f.Key, message})
		}
	}
	return list
}

// almost returns the problem of a content without metadata that looks as if it had
// some, or nil. bad is the problem of the grammar.
func almost(content string, bad *Problem) *Problem {
	text := strings.TrimLeft(strings.TrimPrefix(content, "\ufeff"), " \t\r\n")
	if !strings.HasPrefix(text, "---") {
		return nil
	}
	if len(text) < len(content) {
		bad = &Problem{Line: 1, Message: "white space or a byte order mark is before the first ---"}
	}
	first, rest, _ := strings.Cut(text[:min(len(text), 4*MaxBytes)], "\n")
	if first = strings.TrimSuffix(first, "\r"); first != "---" {
		if strings.TrimRight(first, " \t") != "---" {
			return nil
		}
		if len(text) == len(content) {
			bad = &Problem{Line: 1, Message: "white space is after the first ---"}
		}
	}
	// Front matter has a key in its first line. It has an end, or a known key.
	known, n := false, 0
	for line := range strings.Lines(rest) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "---" && n > 0 {
			return bad
		}
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		ok = ok && validKey(key) && (value == "" || value[0] == ' ')
		if n++; n == 1 && !ok {
			return nil
		}
		known = known || ok && (key == Adopted || slices.Contains(order, key))
	}
	if known {
		return bad
	}
	return nil
}

// ineffective returns the reason why the value of a known key has no effect, or "". A
// key without a value is like a missing key.
func (f *Field) ineffective() string {
	single := f.Key == Type || f.Key == Importance || f.Key == Expires
	relation := slices.Contains(Relations, f.Key)
	if single && len(f.Values) > 1 {
		return f.Key + ": want one value"
	}
	for _, v := range f.Values {
		if strings.TrimSpace(v) == "" || !single && !relation {
			continue
		}
		if relation {
			if !hasTarget(v) {
				return fmt.Sprintf("%s %.80q: want a link, such as [[name]]", f.Key, v)
			}
			continue
		}
		if _, err := fieldValue(f.Key, v); err != nil {
			return strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": ")
		}
	}
	return ""
}

func hasTarget(v string) bool {
	for range targets(v) {
		return true
	}
	return false
}
