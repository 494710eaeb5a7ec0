package config

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A table is a table of TOML or a mapping of YAML, with the lines of its keys.
type table struct {
	line int
	keys map[string]value
}

// A value is a string, int64, float64, bool, []value, *table, or anything
// else, which no valid key is.
type value struct {
	line int
	v    any
}

// names returns the keys in the order of their lines.
func (t *table) names() []string {
	names := make([]string, 0, len(t.keys))
	for k := range t.keys {
		names = append(names, k)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := t.keys[a].line - t.keys[b].line; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return names
}

func parseTOML(text []byte) (*table, error) {
	raw, err := rawTOML(text)
	if err != nil {
		return nil, err
	}
	l := lines{at: make(map[string]int)}
	l.read(text)
	return l.table("", raw, 1), nil
}

func rawTOML(text []byte) (map[string]any, error) {
	raw := make(map[string]any)
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if err := bounded(text); err != nil {
		return nil, err
	}
	if err := toml.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	return raw, nil
}

const (
	maxDepth = 32     // names and brackets that lead to a value
	maxKeys  = 10_000 // of one file
)

// bounded returns an error for text that the decoder would need too much time
// for, because its time grows with the pairs of keys, and for long paths, which
// stay in memory.
func bounded(text []byte) error {
	var p unstable.Parser
	p.Reset(text)
	at, keys := 0, 0
	for p.NextExpression() {
		n := p.Expression()
		d, k := measure(n)
		if n.Kind == unstable.KeyValue {
			d += at
		} else {
			at = d
		}
		keys += k
		why := ""
		switch {
		case d > maxDepth:
			why = "it is nested too deeply"
		case keys > maxKeys:
			why = fmt.Sprintf("there are more than %d keys", maxKeys)
		default:
			continue
		}
		it := n.Key()
		it.Next()
		return &lineError{p.Shape(it.Node().Raw).Start.Line, why}
	}
	return nil
}

// measure returns the depth of a node, and its number of key names.
func measure(n *unstable.Node) (depth, keys int) {
	switch n.Kind {
	case unstable.Table, unstable.ArrayTable, unstable.KeyValue:
		for it := n.Key(); it.Next(); {
			depth++
			keys++
		}
		if n.Kind == unstable.KeyValue {
			d, k := measure(n.Value())
			depth, keys = depth+d, keys+k
		}
	case unstable.InlineTable, unstable.Array:
		for it := n.Children(); it.Next(); {
			d, k := measure(it.Node())
			depth, keys = max(depth, 1+d), keys+k
		}
	}
	return depth, keys
}

// lines knows the line of every key of a text that has been found to be TOML.
type lines struct {
	starts []int          // offsets of the lines
	at     map[string]int // by the names on the way to the key, each with a NUL before it
}

func (l *lines) read(text []byte) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	l.starts = []int{0}
	for i, c := range text {
		if c == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	var p unstable.Parser
	p.Reset(text)
	at := ""
	for p.NextExpression() {
		switch n := p.Expression(); n.Kind {
		case unstable.Table, unstable.ArrayTable:
			at = l.key("", n)
		case unstable.KeyValue:
			l.keyValue(at, n)
		}
	}
}

func (l *lines) line(n *unstable.Node) int {
	i, ok := slices.BinarySearch(l.starts, int(n.Raw.Offset))
	if ok {
		return i + 1
	}
	return i
}

func (l *lines) set(path string, line int) {
	if _, ok := l.at[path]; !ok {
		l.at[path] = line
	}
}

// key notes the line of a dotted key and returns its path. No valid key is an
// array of tables: all tables of one have the line of the first.
func (l *lines) key(path string, n *unstable.Node) string {
	for it := n.Key(); it.Next(); {
		path += "\x00" + string(it.Node().Data)
		l.set(path, l.line(it.Node()))
	}
	return path
}

func (l *lines) keyValue(path string, n *unstable.Node) {
	path = l.key(path, n)
	l.value(path, n.Value())
}

func (l *lines) value(path string, n *unstable.Node) {
	switch n.Kind {
	case unstable.InlineTable:
		for it := n.Children(); it.Next(); {
			l.keyValue(path, it.Node())
		}
	case unstable.Array:
		i := 0
		for it := n.Children(); it.Next(); i++ {
			e := path + "\x00" + strconv.Itoa(i)
			if it.Node().Raw.Length > 0 {
				l.set(e, l.line(it.Node()))
			}
			l.value(e, it.Node())
		}
	}
}

// join combines the decoder's value with the parser's lines. A value without a
// line has the line of the value that contains it.
func (l *lines) join(path string, v any, line int) value {
	if n, ok := l.at[path]; ok {
		line = n
	}
	switch v := v.(type) {
	case map[string]any:
		return value{line, l.table(path, v, line)}
	case []any:
		list := make([]value, len(v))
		for i, e := range v {
			list[i] = l.join(path+"\x00"+strconv.Itoa(i), e, line)
		}
		return value{line, list}
	}
	return value{line, v}
}

func (l *lines) table(path string, raw map[string]any, line int) *table {
	t := &table{line: line, keys: make(map[string]value, len(raw))}
	for k, v := range raw {
		t.keys[k] = l.join(path+"\x00"+k, v, line)
	}
	return t
}
