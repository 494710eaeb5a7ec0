package importer

import (
	"errors"
	"path"
	"slices"
	"strings"

	"crabmem/crmem/vfs"

	"go.yaml.in/yaml/v3"
)

// A project of basic-memory is a tree of Markdown, each page an entity:
//
//	---
//	title: Coffee Brewing
//	type: note
//	permalink: notes/coffee-brewing
//	tags: [coffee, brewing]
//	---
//	# Coffee Brewing
//	- [method] Pour over gives more clarity #brewing (on Sundays)
//	- requires [[Proper Grinding]]
//
// A page becomes a note with its title as name and its text unchanged, including
// observations and relations. Permalink and tags become aliases. The other keys
// of the front matter follow the text.

// ReadBasicMemory reads the tree of a project of basic-memory.
func ReadBasicMemory(fsys vfs.FS, dir string) (*Memory, error) {
	root, base, err := openTree(fsys, dir)
	if err != nil {
		return nil, err
	}
	t := &treeReader{root: root}
	m := &Memory{Kind: BasicMemory}
	err = t.walk(".", 0, func(p *page) error {
		n := Note{ID: path.Join(base, p.path), Created: p.when}
		n.basic(p, &t.left)
		m.add(n, &t.left)
		return nil
	})
	m.Left = t.left.sorted()
	return m, errors.Join(err, root.Close())
}

// basic fills in a note of a page.
func (n *Note) basic(p *page, left *tallies) {
	front, body, ok := p.front()
	n.Text = trimEnd(strings.TrimLeft(body, "\n"))
	title, aliases := p.stem(), []string(nil)
	if ok {
		keys, err := frontKeys(front)
		if err != nil {
			left.add("front matter is not YAML; kept in the text", p.path)
			n.Text = trimEnd(p.text)
		}
		var lines []string
		for _, k := range keys {
			taken := false
			switch k.name {
			case "title":
				if taken = k.value.Kind == yaml.ScalarNode && strings.TrimSpace(k.value.Value) != ""; taken {
					title = k.value.Value
				}
			case "permalink", "tags", "aliases":
				var words []string
				if words, taken = k.words(); taken {
					aliases = append(aliases, words...)
				}
			case "created", "created_at", "date":
				if t := timeOf(k.value.Value); k.value.Kind == yaml.ScalarNode && !t.IsZero() {
					n.Created = t
				}
			}
			if !taken && k.text != "" {
				lines = append(lines, k.text)
			}
		}
		n.Text = joined(n.Text, strings.Join(lines, "\n"))
	}
	n.named(title)
	for _, a := range aliases {
		n.addAlias(a, left)
	}
}

// frontKey is a key of front matter, and its lines.
type frontKey struct {
	name  string
	text  string
	value *yaml.Node
}

// frontKeys splits front matter. If it does not have one key per line, the
// complete text becomes one key without a name.
func frontKeys(front string) ([]frontKey, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(front), &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		if strings.TrimSpace(front) == "" {
			return nil, nil
		}
		return []frontKey{{"", trimEnd(front), &yaml.Node{}}}, nil // comments alone
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, errors.New("no keys and values")
	}
	whole := frontKey{"", trimEnd(front), &yaml.Node{}}
	lines := strings.Split(front, "\n")
	var keys []frontKey
	start := 0
	for i := 0; i+1 < len(top.Content); i += 2 {
		end := len(lines)
		if i+2 < len(top.Content) {
			end = top.Content[i+2].Line - 1
		}
		if end <= start || end > len(lines) {
			return withWhole(top, whole), nil
		}
		keys = append(keys, frontKey{top.Content[i].Value, trimEnd(strings.Join(lines[start:end], "\n")), top.Content[i+1]})
		start = end
	}
	return keys, nil
}

// withWhole returns the keys of a mapping whose lines cannot be separated.
func withWhole(top *yaml.Node, whole frontKey) []frontKey {
	keys := []frontKey{whole}
	for i := 0; i+1 < len(top.Content); i += 2 {
		if name := top.Content[i].Value; slices.Contains([]string{"title", "permalink", "tags", "aliases", "created", "created_at", "date"}, name) {
			keys = append(keys, frontKey{name, "", top.Content[i+1]})
		}
	}
	return keys
}

// words are a value that is a word, words with commas, or a list of words.
func (k *frontKey) words() ([]string, bool) {
	switch {
	case k.value.Kind == yaml.ScalarNode && k.name == "permalink":
		return []string{k.value.Value}, true
	case k.value.Kind == yaml.ScalarNode:
		return strings.Split(k.value.Value, ","), true
	case k.value.Kind != yaml.SequenceNode:
		return nil, false
	}
	var words []string
	for _, v := range k.value.Content {
		if v.Kind != yaml.ScalarNode {
			return nil, false
		}
		words = append(words, v.Value)
	}
	return words, true
}
