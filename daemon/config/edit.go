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
)

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
	d, err := parseTOML(old)
	if err != nil {
		return nil, err
	}
	d.change("", d.tree, next)
	slices.SortStableFunc(d.changes, func(a, b splice) int {
		return cmp.Or(a.start-b.start, a.end-b.end, int(a.kind-b.kind))
	})
	text := slices.Clone(old[:len(old)-len(d.text)])
	at := 0
	for _, s := range d.changes {
		text = append(append(text, d.text[at:s.start]...), s.text...)
		at = s.end
	}
	text = append(text, d.text[at:]...)
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s would have %d bytes, more than the limit of %d", File, len(text), maxFile)
	}
	if back, err := parseTOML(text); err != nil || !reflect.DeepEqual(back.tree, next) {
		return nil, errors.Join(errors.New("TOML cannot represent the value"), err)
	}
	return text, nil
}

// change adds the splices that change the table at path from old to next.
func (d *document) change(path string, old, next tree) {
	added := tree{}
	for _, key := range slices.Sorted(maps.Keys(old)) {
		at := path + "\x00" + key
		v, kept := next[key]
		if kept && reflect.DeepEqual(old[key], v) {
			continue
		}
		if i := slices.IndexFunc(d.parts, func(p part) bool { return !p.header && !p.array && p.path == at }); i >= 0 && kept {
			d.changes = append(d.changes, splice{start: d.parts[i].value[0], end: d.parts[i].value[1], text: inline(v)})
			continue
		}
		o, wasTable := old[key].(tree)
		n, isTable := v.(tree)
		if wasTable && isTable {
			d.change(at, o, n)
			continue
		}
		for _, p := range d.parts {
			if within(p.path, at) {
				d.changes = append(d.changes, splice{start: p.start, end: p.end})
			}
		}
		if kept {
			added[key] = v
		}
	}
	for key, v := range next {
		if _, had := old[key]; !had {
			added[key] = v
		}
	}
	implied := !slices.ContainsFunc(d.parts, func(p part) bool { return p.header && p.path == path })
	if len(added) > 0 || len(next) == 0 && path != "" && implied {
		d.insert(path, added)
	}
}

// insert adds keys to a table: pairs after its other pairs, and tables after the
// tables with the same parent.
func (d *document) insert(path string, added tree) {
	at, table, sibling := -1, "", len(d.text)
	for i, p := range d.parts {
		switch {
		case p.array:
		case p.header && p.path == path, !p.header && p.path[:strings.LastIndexByte(p.path, 0)] == path:
			at, table = p.end, p.table
		}
		if path != "" && within(p.path, path) {
			for sibling = p.end; i+1 < len(d.parts) && !d.parts[i+1].header; i++ {
				sibling = d.parts[i+1].end
			}
		}
	}
	if len(added) == 0 {
		d.add(sibling, linesOfTable, tableText(path, added))
	}
	for _, key := range pairsFirst(added) {
		full := path + "\x00" + key
		t, isTable := added[key].(tree)
		switch {
		case isTable:
			d.add(sibling, linesOfTable, tableText(full, t))
		case at >= 0:
			d.add(d.afterExample(at, key), linesOfPair, pair(full[len(table):], added[key]))
		case path == "":
			d.add(0, linesOfPair, pair(full, added[key]))
		default:
			d.add(sibling, linesOfTable, tableText(path, added))
			return
		}
	}
}

// pairsFirst returns the keys of t, those of tables last.
func pairsFirst(t tree) []string {
	keys := slices.Sorted(maps.Keys(t))
	slices.SortStableFunc(keys, func(a, b string) int {
		_, isTable := t[a].(tree)
		if _, other := t[b].(tree); isTable == other {
			return 0
		} else if isTable {
			return 1
		}
		return -1
	})
	return keys
}

// add inserts text at the beginning of a line, or at the end of the document.
func (d *document) add(at int, k kind, text string) {
	if at > 0 && d.text[at-1] != '\n' {
		text = "\n" + text
	}
	if d.crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
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

// tableText returns the text of a table with an empty line before it.
func tableText(path string, t tree) string {
	var b strings.Builder
	b.WriteString("\n[" + dotted(path) + "]\n")
	for _, key := range pairsFirst(t) {
		if sub, ok := t[key].(tree); ok {
			b.WriteString(tableText(path+"\x00"+key, sub))
		} else {
			b.WriteString(pair("\x00"+key, t[key]))
		}
	}
	return b.String()
}

func pair(path string, v any) string {
	return dotted(path) + " = " + inline(v) + "\n"
}

// dotted returns a path as a dotted key.
func dotted(path string) string {
	names := strings.Split(path[1:], "\x00")
	for i, name := range names {
		names[i], _, _ = strings.Cut(encoded(tree{name: true}), " = true")
	}
	return strings.Join(names, ".")
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
