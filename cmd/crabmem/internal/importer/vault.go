package importer

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/vault"
	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/daemon/lazyregexp"
)

// vaultFile reports whether a file is part of a vault, but not a page: the settings of
// Obsidian, and the manifest and records of exports.
func vaultFile(name string) bool {
	return name == ".obsidian" || name == ".crabmem" || name == ".crabmem.json"
}

// asideDir matches a directory of pages that export --force moved.
var asideDir = lazyregexp.New(`^aside-[0-9]+$`)

// ReadVault reads a vault of Obsidian. A page that crabmem wrote becomes the same entry.
// Another page becomes a note with all bytes of the page, and the name of the file. If
// another page has that name, the note is named by the path. progress is as in
// [ReadMarkdown].
func ReadVault(fsys vfs.FS, name string, progress func(done, total int)) (*Memory, error) {
	root, _, err := openTree(fsys, name)
	if err != nil {
		return nil, err
	}
	t := &treeReader{root: root, progress: progress, exact: true}
	v := &vaultReader{m: &Memory{Kind: Obsidian}, left: &t.left, names: map[string]string{}}
	if has(root, ".crabmem.json", false) {
		_, err = tree.FormatOf(root)
	}
	if err == nil {
		err = t.each(".", v.page)
	}
	v.finish()
	v.m.Left = t.left.Sorted()
	return v.m, errors.Join(err, root.Close())
}

type vaultReader struct {
	m     *Memory
	left  *Tally
	found []vaultPage
	names map[string]string // contents by name
}

type vaultPage struct {
	path string
	Line
}

func (v *vaultReader) page(p *page) {
	got, err := vault.Read(p.text, p.stem())
	if err != nil {
		v.left.add(err.Error(), p.path)
		return
	}
	l := Line{Entry: got.Entry, Timed: got.Timed, Exported: got.Exported && got.Timed}
	if !got.Exported {
		if strings.TrimSpace(p.text) == "" {
			v.left.add("page without text", p.path)
			return
		}
		l.Entry.CreatedAt = crmem.UnixTime(max(p.when.Unix(), 0))
	}
	v.found = append(v.found, vaultPage{p.path, l})
}

// finish adds the entries: first those that crabmem wrote, by ID.
func (v *vaultReader) finish() {
	slices.SortStableFunc(v.found, func(a, b vaultPage) int {
		if a.Exported != b.Exported {
			if a.Exported {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Entry.ID, b.Entry.ID)
	})
	for _, p := range v.found {
		content, taken := v.names[p.Entry.Name]
		if taken && !p.Exported && content != p.Entry.Content {
			p.Entry.Name = strings.TrimSuffix(p.path, ".md")
			content, taken = v.names[p.Entry.Name]
		}
		switch err := p.validate(); {
		case taken && content == p.Entry.Content:
			v.left.add("same as another page", p.path)
		case taken:
			v.left.add("another page has the name", p.path)
		case err != nil:
			v.left.add("refused: "+err.Error(), p.path)
		default:
			v.names[p.Entry.Name] = p.Entry.Content
			v.m.Paths = append(v.m.Paths, p.path)
			p.Number = len(v.m.Paths)
			v.m.Exact = append(v.m.Exact, p.Line)
		}
	}
}
