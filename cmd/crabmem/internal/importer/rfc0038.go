package importer

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
)

// The memory of RFC 0038 has one page per entry, a page with an overview, and
// next to it or in the parent directory a description of the agent.
//
//	Crab.md
//	memory/MEMORY.md
//	memory/entries/entry-name.md
//
// A page has a head of two keys, read by the line as the reference reads it:
//
//	---
//	name: Entry Name
//	description: Short searchable description
//	---
//
//	Long-form content here.
//
// memory.md, user.md, and facts.toml belong to an older format.

// overview is the name of the note for MEMORY.md.
const overview = "MEMORY"

// ReadRFC0038 reads the memory in a directory, or in its memory/. progress, unless it
// is nil, is called after each page of entries/.
func ReadRFC0038(fsys vfs.FS, dir string, progress func(done, total int)) (*Memory, error) {
	root, base, err := openTree(fsys, dir)
	if err != nil {
		return nil, err
	}
	if path, err := fsys.Resolve(dir); err == nil && base == "memory" {
		base = filepath.Base(filepath.Dir(path)) + "/" + base // as when the directory above it is read
	}
	m, err := readRFC0038(&treeReader{root: root, progress: progress}, base)
	return m, errors.Join(err, root.Close())
}

func readRFC0038(t *treeReader, base string) (*Memory, error) {
	m := &Memory{Kind: RFC0038}
	files, dirs, err := t.list(".")
	if err == nil && !slices.Contains(dirs, "entries") && slices.Contains(dirs, "memory") {
		if slices.Contains(files, "Crab.md") {
			m.addManualStep("Crab.md")
		}
		files, dirs, err = t.list("memory")
	}
	if err != nil {
		return nil, err
	}
	for _, name := range dirs {
		if path.Base(name) != "entries" {
			t.left.add("directory is not part of the memory", name)
			continue
		}
		if err := t.each(name, func(p *page) { m.entry(base, p, &t.left) }); err != nil {
			return nil, err
		}
	}
	for _, name := range files {
		if err := m.addSideFile(t, base, name); err != nil {
			return nil, err
		}
	}
	m.Left = t.left.Sorted()
	return m, nil
}

// addManualStep adds the step that copies a Crab.md.
func (m *Memory) addManualStep(name string) {
	m.Manual = append(m.Manual, name+" describes the agent and is not a memory: copy it to Crab.md in the home (see crabmem init)")
}

// entry adds a page of entries/.
func (m *Memory) entry(base string, p *page, left *Tally) {
	n := Note{ID: path.Join(base, p.path), Created: p.when}
	front, body, ok := p.front()
	name, description, rest := "", "", []string(nil)
	for line := range strings.SplitSeq(front, "\n") {
		key, value, found := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); {
		case found && key == "name" && name == "":
			name = value
		case found && key == "description" && description == "":
			description = value
		case strings.TrimSpace(line) != "":
			rest = append(rest, line)
		}
	}
	if !ok || name == "" {
		left.add("no name in the front matter; took the file name", p.path)
		name = p.stem()
	}
	n.Text = strings.TrimSpace(body)
	if description != n.Text {
		n.Text = joined(description, n.Text)
	}
	n.Text = joined(n.Text, strings.Join(rest, "\n"))
	n.named(name)
	m.add(n, left)
}

func (m *Memory) add(n Note, left *Tally) {
	if n.room(left) {
		m.Notes = append(m.Notes, n)
	}
}

// addSideFile adds a file from the directory that contains entries/.
func (m *Memory) addSideFile(t *treeReader, base, name string) error {
	file := path.Base(name)
	if file == "Crab.md" {
		m.addManualStep(name)
		return nil
	}
	if !slices.Contains([]string{"MEMORY.md", "memory.md", "user.md", "facts.toml"}, file) {
		t.left.add("file is not part of the memory", name)
		return nil
	}
	p, err := t.read(name)
	if err != nil || p == nil {
		return err
	}
	n := Note{ID: path.Join(base, name), Text: strings.TrimSpace(p.text), Created: p.when}
	if n.Text == "" {
		t.left.add("empty", name)
		return nil
	}
	switch file {
	case "MEMORY.md":
		n.Name = overview
	case "user.md":
		n.Name = "user-profile"
	case "facts.toml":
		n.Name = "known-facts"
	case "memory.md": // every paragraph, as the reference did
		for i, text := range paragraphs(n.Text) {
			m.add(Note{ID: fmt.Sprintf("%s#%d", n.ID, i+1), Name: fmt.Sprintf("migrated-memory-%d", i+1), Text: text, Created: p.when}, &t.left)
		}
		return nil
	}
	m.add(n, &t.left)
	return nil
}

func paragraphs(text string) []string {
	var list []string
	var now []string
	for line := range strings.SplitSeq(text+"\n", "\n") {
		if strings.TrimSpace(line) != "" {
			now = append(now, line)
			continue
		}
		if len(now) > 0 {
			list = append(list, strings.Join(now, "\n"))
		}
		now = nil
	}
	return list
}

// looksRFC0038 reports whether a directory is of this kind.
func looksRFC0038(root vfs.Tree) bool {
	for _, top := range []string{".", "memory"} {
		if entries := path.Join(top, "entries"); has(root, entries, true) {
			list, err := root.ReadDir(entries)
			for _, e := range list[:min(len(list), 16)] {
				t := treeReader{root: root}
				if err != nil || filepath.Ext(e.Name()) != ".md" || !e.Type().IsRegular() {
					continue
				}
				if p, err := t.read(path.Join(entries, e.Name())); err == nil && p != nil {
					front, _, _ := p.front()
					return strings.HasPrefix(front, "name:") || strings.Contains(front, "\nname:")
				}
			}
		}
		for _, file := range []string{"MEMORY.md", "memory.md", "user.md", "facts.toml"} {
			if has(root, path.Join(top, file), false) && has(root, path.Join(top, "entries"), true) {
				return true
			}
		}
		if has(root, path.Join(top, "facts.toml"), false) || has(root, path.Join(top, "MEMORY.md"), false) && top != "." {
			return true
		}
	}
	return false
}
