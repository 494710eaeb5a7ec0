package vault

import (
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"crabmem/crmem/metadata"
)

// Key is a key of front matter with the numbers of its lines, from 0.
type Key struct {
	Name     string
	Value    *yaml.Node
	From, To int
}

// ErrLines is returned by [Keys] if keys have no lines of their own.
var ErrLines = errors.New("a line has several keys")

// Keys parses the lines between the marks of front matter, which may be any YAML. With
// [ErrLines] it returns keys without line numbers.
func Keys(front string) ([]Key, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(front), &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, nil // comments alone
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, errors.New("no keys and values")
	}
	// YAML counts these characters as line ends.
	separate := !strings.ContainsAny(strings.ReplaceAll(front, "\r\n", "\n"), "\r\u0085\u2028\u2029")
	end := len(strings.Split(front, "\n"))
	var keys []Key
	for i := 0; i+1 < len(top.Content); i += 2 {
		k := Key{top.Content[i].Value, top.Content[i+1], top.Content[i].Line - 1, end}
		if n := len(keys); n > 0 {
			keys[n-1].To = k.From
			separate = separate && keys[n-1].From < k.From
		}
		separate = separate && k.From < end && top.Style&yaml.FlowStyle == 0
		keys = append(keys, k)
	}
	if !separate {
		return keys, ErrLines
	}
	return keys, nil
}

// text returns the value of a key that has one.
func (k *Key) text() (string, bool) {
	if k == nil || k.Value.Kind != yaml.ScalarNode {
		return "", false
	}
	return k.Value.Value, true
}

// list returns the values of a key that has scalars alone. A missing value is no value.
func (k *Key) list() ([]string, bool) {
	switch {
	case k == nil:
		return nil, false
	case k.Value.Kind == yaml.ScalarNode && k.Value.Tag == "!!null":
		return nil, true
	case k.Value.Kind == yaml.ScalarNode:
		return []string{k.Value.Value}, true
	case k.Value.Kind != yaml.SequenceNode:
		return nil, false
	}
	var values []string
	for _, v := range k.Value.Content {
		if v.Kind != yaml.ScalarNode {
			return nil, false
		}
		values = append(values, v.Value)
	}
	return values, true
}

// ownLines returns front matter without the lines of keys. Comments and empty lines
// after a key stay.
func ownLines(front string, keys []Key, remove func(name string) bool) string {
	lines := strings.SplitAfter(front, "\n")
	var b strings.Builder
	at := 0
	for _, k := range keys {
		if !remove(k.Name) {
			continue
		}
		to := min(k.To, len(lines))
		for to > k.From+1 {
			if line := strings.TrimSpace(lines[to-1]); line != "" && line[0] != '#' {
				break
			}
			to--
		}
		b.WriteString(strings.Join(lines[at:k.From], ""))
		at = to
	}
	return b.String() + strings.Join(lines[at:], "")
}

// editedFront returns the front matter of an entry after changes of its copy in a note.
// front is the front matter that the export saw, and keys are those of the note. It
// returns false if front matter of package metadata cannot contain the changes.
func editedFront(front string, keys []Key, links *linkMap) (string, bool) {
	m, _, ok := metadata.Parse(front)
	if !ok {
		return "", false
	}
	exported := shown(m.Fields(), links.known())
	var fields []metadata.Field
	for i := range keys {
		values, ok := keys[i].list()
		if !ok {
			return "", false
		}
		fields = append(fields, metadata.Field{Key: keys[i].Name, Values: values, List: keys[i].Value.Kind == yaml.SequenceNode})
	}
	if equalFields(exported, fields) {
		return front, true
	}
	same := func(f metadata.Field) func(metadata.Field) bool {
		return func(g metadata.Field) bool { return equalFields([]metadata.Field{f}, []metadata.Field{g}) }
	}
	for _, f := range exported {
		if !slices.ContainsFunc(fields, func(g metadata.Field) bool { return g.Key == f.Key }) {
			front = metadata.Remove(front, f.Key)
		}
	}
	for _, f := range fields {
		if slices.ContainsFunc(exported, same(f)) {
			continue
		}
		old := m.Values(f.Key)
		for i := range f.Values {
			f.Values[i] = links.read(f.Values[i])
			if j := slices.IndexFunc(old, func(tag string) bool { return shownTag(tag) == f.Values[i] }); f.Key == metadata.Tags && j >= 0 {
				f.Values[i] = old[j]
			}
		}
		set, err := metadata.Set(front, f)
		if err != nil {
			return "", false
		}
		front = set
	}
	return front, true
}
