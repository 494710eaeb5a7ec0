package config

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

const (
	maxDepth = 32     // names and brackets that lead to a value
	maxKeys  = 10_000 // of one file
)

// A tree is a table as decoded: string, int64, float64, bool, []any, tree, and
// TOML's dates.
type tree = map[string]any

// A source is a decoded file. A path is the names that lead to a value, each after a
// NUL; the name of an item of a list is its number.
type source struct {
	tree  tree
	lines map[string]int // by path
}

// line returns the line of a value. A value without a line has the line of the table or
// list that contains it.
func (s *source) line(path string) int {
	for ; path != ""; path = path[:strings.LastIndexByte(path, 0)] {
		if n, ok := s.lines[path]; ok {
			return n
		}
	}
	return 1
}

// sorted returns the names in the table at path, in the order of their lines.
func (s *source) sorted(path string, t tree) []string {
	names := make([]string, 0, len(t))
	for name := range t {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(s.line(path+"\x00"+a)-s.line(path+"\x00"+b), strings.Compare(a, b))
	})
	return names
}

// A document is a TOML text with the places of its keys.
type document struct {
	source
	text    []byte // without the byte order mark
	crlf    bool
	parts   []part
	changes []splice
}

// A part is a line of a document that is a table header or a pair. A pair may
// span several lines.
type part struct {
	path       string // of the table, or of the pair
	table      string // path of the pair's table header
	array      bool   // in an array of tables
	header     bool
	start, end int // lines, with the last line end
	value      [2]int
}

func parseTOML(text []byte) (*document, error) {
	d := &document{text: bytes.TrimPrefix(text, []byte("\ufeff")), crlf: bytes.Contains(text, []byte("\r\n"))}
	d.source = source{make(tree), make(map[string]int)}
	if err := d.scan(); err != nil {
		return nil, err
	}
	if err := toml.Unmarshal(d.text, &d.tree); err != nil {
		return nil, err
	}
	return d, nil
}

// scan finds the places of all keys, up to a syntax error. It returns an error for text
// that the decoder would need too much time for, because its time grows with the pairs
// of keys, and for long paths, which stay in memory.
func (d *document) scan() error {
	var p unstable.Parser
	p.Reset(d.text)
	w := walk{source: d.source, text: d.text, line: 1}
	var table part
	depth := 0 // names of the table
	for p.NextExpression() {
		n := p.Expression()
		keys := n.Key()
		keys.Next()
		first := int(keys.Node().Raw.Offset)
		line := w.lineOf(first)
		q := part{header: n.Kind != unstable.KeyValue, start: bytes.LastIndexByte(d.text[:first], '\n') + 1}
		if q.header {
			depth = w.key(n, "", 0)
			q.path, q.table = w.path, w.path
			q.array = n.Kind == unstable.ArrayTable || table.array && within(q.path, table.path)
			q.end, table = w.end, q
		} else {
			names := w.key(n, table.path, depth)
			q.path, q.table, q.array = w.path, table.path, table.array
			from := w.end + bytes.IndexByte(d.text[w.end:], '=') + 1
			from += len(d.text[from:]) - len(bytes.TrimLeft(d.text[from:], " \t"))
			q.end = int(n.Raw.Offset + n.Raw.Length)
			q.value = [2]int{from, q.end}
			w.value(n.Value(), w.path, names)
		}
		if w.why != "" {
			return &lineError{line, w.why}
		}
		q.end = lineEnd(d.text, q.end)
		d.parts = append(d.parts, q)
	}
	return nil
}

// within reports whether a path is prefix or below it.
func within(path, prefix string) bool { return strings.HasPrefix(path+"\x00", prefix+"\x00") }

// lineEnd returns the offset after the line that contains the byte at.
func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// A walk visits the values of a text in their order.
type walk struct {
	source
	text     []byte
	at, line int
	keys     int
	path     string // of the last key
	end      int    // of the last key
	why      string // the text is refused
}

func (w *walk) lineOf(offset int) int {
	if offset > w.at {
		w.line += bytes.Count(w.text[w.at:offset], []byte("\n"))
		w.at = offset
	}
	return w.line
}

func (w *walk) note(path string, raw unstable.Range) {
	line := w.lineOf(int(raw.Offset))
	if _, ok := w.lines[path]; !ok {
		w.lines[path] = line
	}
}

// key visits a dotted key in the table at path, which has depth names. It returns the
// depth of the key. All tables of an array of tables have the line of the first, because
// no valid key is one.
func (w *walk) key(n *unstable.Node, path string, depth int) int {
	for it := n.Key(); it.Next(); {
		if depth++; depth > maxDepth {
			w.why = "it is nested too deeply"
			break
		}
		if w.keys++; w.keys > maxKeys {
			w.why = fmt.Sprintf("there are more than %d keys", maxKeys)
			break
		}
		path += "\x00" + string(it.Node().Data)
		w.note(path, it.Node().Raw)
		w.end = int(it.Node().Raw.Offset + it.Node().Raw.Length)
	}
	w.path = path
	return depth
}

func (w *walk) value(n *unstable.Node, path string, depth int) {
	if depth > maxDepth {
		w.why = "it is nested too deeply"
	}
	if w.why != "" || n.Kind != unstable.InlineTable && n.Kind != unstable.Array {
		return
	}
	i := 0
	for it := n.Children(); it.Next() && w.why == ""; i++ {
		if e := it.Node(); n.Kind == unstable.InlineTable {
			names := w.key(e, path, depth+1)
			w.value(e.Value(), w.path, names)
		} else {
			item := path + "\x00" + strconv.Itoa(i)
			if e.Raw.Length > 0 {
				w.note(item, e.Raw)
			}
			w.value(e, item, depth+1)
		}
	}
}
