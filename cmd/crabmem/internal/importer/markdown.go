package importer

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/vault"
	"crabmem/crmem/metadata"
	"crabmem/crmem/vfs"

	"go.yaml.in/yaml/v3"
)

// A directory of Markdown is a project of basic-memory, a vault of Obsidian, or
// any other tree of pages. A page may have front matter:
//
//	---
//	title: Coffee Brewing
//	permalink: notes/coffee-brewing
//	aliases: [pour over]
//	tags: [coffee, brewing]
//	---
//	# Coffee Brewing
//	- [method] Pour over gives more clarity #brewing (on Sundays)
//	- requires [[Proper Grinding]]
//
// A page becomes a note. The name of the note is the title, or else the file name. The
// text of the note is the unchanged text of the page, including links, observations,
// and relations. Permalink and aliases become aliases, and the file name, by which links
// of Obsidian name a page. The other keys of the front matter, including tags, become
// metadata at the beginning of the text. If the grammar of package metadata does not
// allow that, they follow the text.

// permalinkPages is the number of pages that Detect searches for a permalink. Every
// page of basic-memory has a permalink.
const permalinkPages = 64

// ReadMarkdown reads a directory of pages, or one page. kind is BasicMemory or
// Markdown. progress, unless it is nil, is called after each page of a directory.
func ReadMarkdown(kind string, fsys vfs.FS, name string, progress func(done, total int)) (*Memory, error) {
	name, fi, err := resolved(fsys, name)
	if err != nil {
		return nil, err
	}
	dir, file := name, ""
	if !fi.IsDir() {
		dir, file = filepath.Split(name)
	}
	root, base, err := openTree(fsys, dir)
	if err != nil {
		return nil, err
	}
	t := &treeReader{root: root, progress: progress}
	m := &Memory{Kind: kind}
	take := func(p *page) {
		n := Note{ID: path.Join(base, p.path), Created: p.when}
		n.page(p, &t.left)
		if kind == Markdown {
			n.addAlias(p.stem(), &t.left)
		}
		m.add(n, &t.left)
	}
	if file == "" {
		err = t.each(".", take)
	} else if p, rerr := t.read(file); rerr != nil || p == nil {
		err = rerr
	} else {
		take(p)
	}
	m.Left = t.left.Sorted()
	return m, errors.Join(err, root.Close())
}

// detectPages returns BasicMemory, Markdown, or "" for a directory without pages.
func detectPages(root vfs.Tree) (kind string, err error) {
	pages := 0
	t := treeReader{root: root}
	err = t.walk(".", 0, func(name string) error {
		p, err := t.read(name)
		if err != nil || p == nil {
			return err
		}
		pages++
		kind = Markdown
		front, _, _ := p.front()
		if strings.HasPrefix(front, "permalink:") || strings.Contains(front, "\npermalink:") {
			kind = BasicMemory
		}
		if kind == BasicMemory || pages >= permalinkPages {
			return fs.SkipAll
		}
		return nil
	})
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return kind, err
}

// hasPage reports whether a directory itself has a page: transcripts may have
// pages in their subdirectories.
func hasPage(root vfs.Tree) bool {
	entries, err := root.ReadDir(".")
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.Type().IsRegular() && strings.EqualFold(path.Ext(e.Name()), ".md")
	})
}

// isPage reports whether a file is a page of Markdown: it has the name of one, and the
// content is not JSON.
func isPage(name string, head []byte) bool {
	return strings.EqualFold(filepath.Ext(name), ".md") && len(firstKeys(head)) == 0
}

// page sets the fields of a note to those of a page.
func (n *Note) page(p *page, left *Tally) {
	front, body, ok := p.front()
	n.Text = trimEnd(strings.TrimLeft(body, "\n"))
	title, aliases, first := p.stem(), []string(nil), ""
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
			case "permalink", "aliases", "alias":
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
		rest := strings.Join(lines, "\n")
		if m, _, _ := metadata.Parse("---\n" + rest + "\n---\n"); len(m.Fields()) > 0 {
			first = "---\n" + rest + "\n---\n"
		} else {
			n.Text = joined(n.Text, rest)
		}
	}
	n.named(title)
	for _, a := range aliases {
		n.addAlias(a, left)
	}
	n.Text = first + n.Text
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
	list, err := vault.Keys(front)
	whole := frontKey{"", trimEnd(front), &yaml.Node{}}
	switch {
	case errors.Is(err, vault.ErrLines):
		keys := []frontKey{whole}
		for _, k := range list {
			if slices.Contains([]string{"title", "permalink", "aliases", "alias", "created", "created_at", "date"}, k.Name) {
				keys = append(keys, frontKey{k.Name, "", k.Value})
			}
		}
		return keys, nil
	case err != nil:
		return nil, err
	case len(list) == 0 && whole.text != "":
		return []frontKey{whole}, nil // comments alone
	}
	lines := strings.Split(front, "\n")
	keys := make([]frontKey, len(list))
	for i, k := range list {
		from := k.From
		if i == 0 {
			from = 0 // with the comments before it
		}
		keys[i] = frontKey{k.Name, trimEnd(strings.Join(lines[from:k.To], "\n")), k.Value}
	}
	return keys, nil
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
