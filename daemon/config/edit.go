package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A document is a TOML text with the places of its keys.
type document struct {
	text    []byte
	newline string
	parts   []part
	changes []splice
}

// A part is a line of a document that is a table header or a pair. A pair may
// span several lines.
type part struct {
	path       []string // of the table, or of the pair
	table      int      // number of names in path that the pair's table header has
	array      bool     // in an array of tables
	header     bool
	start, end int // lines, with the last line end
	value      [2]int
}

// A splice replaces text[start:end].
type splice struct {
	start, end int
	kind       kind
	text       string
}

// kind is the kind of text that a splice inserts. At the same place, pairs come
// before sections, because a section ends the previous one.
type kind int

const (
	linesOfPair kind = iota
	linesOfTable
)

// editTOML returns old, edited so that it decodes to next. It changes only the
// lines of changed keys. It returns an error if old is not TOML, or if TOML cannot
// represent next.
func editTOML(old []byte, next tree) ([]byte, error) {
	stored, err := rawTOML(old)
	if err != nil {
		return nil, err
	}
	body := bytes.TrimPrefix(old, []byte("\ufeff"))
	d := parseDocument(body)
	d.change(nil, stored, next)
	slices.SortStableFunc(d.changes, func(a, b splice) int {
		return cmp.Or(a.start-b.start, a.end-b.end, int(a.kind-b.kind))
	})
	text := slices.Clone(old[:len(old)-len(body)])
	at := 0
	for _, s := range d.changes {
		text = append(append(text, body[at:s.start]...), s.text...)
		at = s.end
	}
	text = append(text, body[at:]...)
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s would have %d bytes, more than the limit of %d", File, len(text), maxFile)
	}
	if back, err := rawTOML(text); err != nil || !reflect.DeepEqual(back, next) {
		return nil, errors.Join(errors.New("TOML cannot represent the value"), err)
	}
	return text, nil
}

func parseDocument(text []byte) *document {
	d := &document{text: text, newline: "\n"}
	if bytes.Contains(text, []byte("\r\n")) {
		d.newline = "\r\n"
	}
	var table part
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		n := p.Expression()
		var path []string
		var last, first unstable.Range
		for it := n.Key(); it.Next(); {
			if path == nil {
				first = it.Node().Raw
			}
			path, last = append(path, string(it.Node().Data)), it.Node().Raw
		}
		q := part{path: path, header: n.Kind != unstable.KeyValue}
		end := int(last.Offset + last.Length)
		if q.header {
			q.array = n.Kind == unstable.ArrayTable || table.array && hasPrefix(path, table.path)
			q.table = len(path)
			table = q
		} else {
			q.path, q.table, q.array = slices.Concat(table.path, path), len(table.path), table.array
			end = int(n.Raw.Offset + n.Raw.Length)
			from := int(last.Offset + last.Length)
			from += bytes.IndexByte(text[from:], '=') + 1
			from += len(text[from:]) - len(bytes.TrimLeft(text[from:], " \t"))
			q.value = [2]int{from, end}
		}
		q.start = bytes.LastIndexByte(text[:first.Offset], '\n') + 1
		q.end = lineEnd(text, end)
		d.parts = append(d.parts, q)
	}
	return d
}

// lineEnd returns the offset after the line that contains the byte at.
func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// change adds the splices that change the table at path from old to next.
func (d *document) change(path []string, old, next tree) {
	added := tree{}
	for _, key := range slices.Sorted(maps.Keys(old)) {
		at := append(slices.Clip(path), key)
		v, kept := next[key]
		if kept && reflect.DeepEqual(old[key], v) {
			continue
		}
		if i := slices.IndexFunc(d.parts, func(p part) bool { return !p.header && !p.array && slices.Equal(p.path, at) }); i >= 0 && kept {
			d.changes = append(d.changes, splice{start: d.parts[i].value[0], end: d.parts[i].value[1], text: inline(v)})
			continue
		}
		o, wasTable := old[key].(tree)
		n, isTable := v.(tree)
		if wasTable && isTable {
			d.change(at, o, n)
			continue
		}
		d.remove(at)
		if kept {
			added[key] = v
		}
	}
	for key, v := range next {
		if _, had := old[key]; !had {
			added[key] = v
		}
	}
	implied := func() bool {
		return !slices.ContainsFunc(d.parts, func(p part) bool { return p.header && slices.Equal(p.path, path) })
	}
	if len(added) > 0 || len(next) == 0 && len(path) > 0 && implied() {
		d.insert(path, added)
	}
}

// remove removes the lines of a path and of all paths below it.
func (d *document) remove(path []string) {
	for _, p := range d.parts {
		if hasPrefix(p.path, path) {
			d.changes = append(d.changes, splice{start: p.start, end: p.end})
		}
	}
}

// insert adds keys to a table: pairs after its other pairs, and tables after the
// tables with the same parent.
func (d *document) insert(path []string, added tree) {
	at, table, sibling := -1, -1, len(d.text)
	for i, p := range d.parts {
		switch {
		case p.array:
		case !p.header && hasPrefix(p.path, path) && len(p.path) == len(path)+1:
			at, table = p.end, p.table
		case p.header && slices.Equal(p.path, path):
			at, table = p.end, len(path)
		}
		if len(path) > 0 && hasPrefix(p.path, path) {
			for sibling = p.end; i+1 < len(d.parts) && !d.parts[i+1].header; i++ {
				sibling = d.parts[i+1].end
			}
		}
	}
	if len(added) == 0 {
		d.add(sibling, linesOfTable, d.section(path, added))
	}
	for _, key := range pairsFirst(added) {
		full := append(slices.Clip(path), key)
		t, isTable := added[key].(tree)
		switch {
		case isTable:
			d.add(sibling, linesOfTable, d.section(full, t))
		case at >= 0:
			d.add(d.afterExample(at, key), linesOfPair, d.pair(full[table:], added[key]))
		case len(path) == 0:
			d.add(0, linesOfPair, d.pair(full, added[key]))
		default:
			d.add(sibling, linesOfTable, d.section(path, added))
			return
		}
	}
}

// pairsFirst returns the keys of t, those of tables last.
func pairsFirst(t tree) []string {
	isTable := func(key string) int {
		if _, ok := t[key].(tree); ok {
			return 1
		}
		return 0
	}
	return slices.SortedFunc(maps.Keys(t), func(a, b string) int {
		return cmp.Or(isTable(a)-isTable(b), strings.Compare(a, b))
	})
}

// add inserts text at the beginning of a line, or at the end of the document.
func (d *document) add(at int, k kind, text string) {
	if at > 0 && d.text[at-1] != '\n' {
		text = d.newline + text
	}
	d.changes = append(d.changes, splice{start: at, end: at, kind: k, text: text})
}

// afterExample returns the offset after the commented example of a key, if an
// example follows the offset at in the same table. Otherwise it returns at.
func (d *document) afterExample(at int, key string) int {
	for i := at; i < len(d.text); {
		end := lineEnd(d.text, i)
		line := bytes.TrimSpace(d.text[i:end])
		example, commented := bytes.CutPrefix(line, []byte("#"))
		if !commented || bytes.HasPrefix(example, []byte("[")) {
			break
		}
		if name, _, ok := bytes.Cut(example, []byte("=")); ok && string(bytes.TrimSpace(name)) == key {
			return end
		}
		i = end
	}
	return at
}

// section returns the text of a table with an empty line before it.
func (d *document) section(path []string, t tree) string {
	var b strings.Builder
	b.WriteString(d.newline + "[" + names(path) + "]" + d.newline)
	for _, key := range pairsFirst(t) {
		if sub, ok := t[key].(tree); ok {
			b.WriteString(d.section(append(slices.Clip(path), key), sub))
		} else {
			b.WriteString(d.pair([]string{key}, t[key]))
		}
	}
	return b.String()
}

func (d *document) pair(path []string, v any) string {
	return names(path) + " = " + inline(v) + d.newline
}

// names returns a dotted key.
func names(path []string) string {
	quoted := make([]string, len(path))
	for i, name := range path {
		quoted[i], _, _ = strings.Cut(encoded(tree{name: true}), " = true")
	}
	return strings.Join(quoted, ".")
}

// inline returns a value on one line.
func inline(v any) string {
	_, text, _ := strings.Cut(encoded(tree{"v": v}), "v = ")
	return strings.TrimSuffix(text, "\n")
}

// encoded returns t as TOML, or "" if TOML cannot represent it. editTOML then
// detects that the pair is missing.
func encoded(t tree) string {
	var b strings.Builder
	e := toml.NewEncoder(&b)
	e.SetTablesInline(true)
	if e.Encode(t) != nil {
		return ""
	}
	return b.String()
}
