package mcpclient

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	tomllib "github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// toml is TOML, where a server is a table.
type toml struct{}

func (toml) decode(text []byte) (map[string]any, error) {
	v := make(map[string]any)
	if err := tomllib.Unmarshal(text, &v); err != nil {
		line := 1
		if e, ok := errors.AsType[*tomllib.DecodeError](err); ok {
			line, _ = e.Position()
		}
		return nil, &SyntaxError{Line: line, Err: err}
	}
	return v, nil
}

// tomlTable is a table of a file, by positions.
type tomlTable struct {
	path       []string
	start, end int // of its lines, without comments and empty lines at the end
	fields     []tomlField
}

// tomlField is a key of a table, with the positions of its lines.
type tomlField struct {
	name       string
	start, end int
}

// tables returns the tables of a valid file in their order. The first one contains
// the keys before all headers.
func tables(text []byte) []tomlTable {
	var p unstable.Parser
	p.Reset(text)
	list := []tomlTable{{}}
	ends := func(at int) { // the last table and its last field end before a line
		t := &list[len(list)-1]
		t.end = trimEnd(text, t.start, at)
		if n := len(t.fields); n > 0 {
			t.fields[n-1].end = trimEnd(text, t.fields[n-1].start, at)
		}
	}
	for p.NextExpression() {
		e := p.Expression()
		var path []string
		at := -1
		for keys := e.Key(); keys.Next(); {
			if at < 0 {
				at = int(keys.Node().Raw.Offset)
			}
			path = append(path, string(keys.Node().Data))
		}
		at = bytes.LastIndexByte(text[:max(at, 0)], '\n') + 1
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			ends(at)
			list = append(list, tomlTable{path: path, start: at})
		case unstable.KeyValue:
			ends(at)
			t := &list[len(list)-1]
			t.fields = append(t.fields, tomlField{name: strings.Join(path, "\x00"), start: at})
		}
	}
	ends(len(text))
	return list
}

// trimEnd returns the position after the last line before end that is neither empty
// nor a comment.
func trimEnd(text []byte, start, end int) int {
	for end > start {
		line := bytes.LastIndexByte(text[:end-1], '\n') + 1
		if s := bytes.TrimSpace(text[max(line, start):end]); len(s) > 0 && s[0] != '#' {
			return end
		}
		end = max(line, start)
	}
	return end
}

func (toml) set(text []byte, path []string, name string, fields []field) ([]byte, error) {
	file, err := toml{}.decode(text)
	if err != nil {
		return nil, err
	}
	nl := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		nl = "\r\n"
	}
	entry := cut(file, path[0], name)
	if entry == nil {
		b := bytes.Clone(text)
		if n := len(b); n > 0 {
			if b[n-1] != '\n' {
				b = append(b, nl...)
			}
			b = append(b, nl...)
		}
		b = fmt.Appendf(b, "[%s.%s]%s", tomlKey(path[0]), tomlKey(name), nl)
		for _, f := range fields {
			b = append(b, tomlLine(f)+nl...)
		}
		return b, nil
	}
	for _, f := range changed(entry, fields) {
		if text, err = setTOMLField(text, f, nl, path[0], name); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// setTOMLField sets a key of an existing table.
func setTOMLField(text []byte, f field, nl string, path ...string) ([]byte, error) {
	for _, t := range tables(text) {
		if !slices.Equal(t.path, path) {
			continue
		}
		from := bytes.IndexByte(text[t.start:], '\n') + t.start + 1
		to := from
		if from == t.start { // the header is the last line, without an end
			return append(bytes.Clone(text), "\n"+tomlLine(f)...), nil
		}
		for _, old := range t.fields {
			if old.name == f.name {
				from, to = old.start, old.end
			}
		}
		return splice(text, from, to, tomlLine(f)+nl), nil
	}
	return nil, ErrByHand
}

func splice(text []byte, from, to int, insert string) []byte {
	return append(append(bytes.Clone(text[:from]), insert...), text[to:]...)
}

func tomlLine(f field) string {
	return f.name + " = " + render(f.value, "", "", "", true)
}

// tomlKey returns a key, with quotes where TOML requires them.
func tomlKey(s string) string {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return quote(s)
		}
	}
	return s
}

func (toml) remove(text []byte, path []string, name string) ([]byte, error) {
	file, err := toml{}.decode(text)
	if err != nil {
		return nil, err
	}
	if cut(file, path[0], name) == nil {
		return text, nil
	}
	list := tables(text)
	for i := len(list) - 1; i >= 0; i-- {
		t := list[i]
		if len(t.path) < 2 || t.path[0] != path[0] || t.path[1] != name {
			continue
		}
		// An empty line before the table goes with it.
		from := t.start
		if prev := bytes.LastIndexByte(text[:max(from-1, 0)], '\n') + 1; from > 0 && len(bytes.TrimSpace(text[prev:from])) == 0 {
			from = prev
		}
		text = splice(text, from, t.end, "")
	}
	return text, nil
}
