package tree

import (
	"errors"
	"io/fs"

	"golang.org/x/text/unicode/norm"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// Some file systems decompose names, so a page may be listed in another Unicode form
// than dump wrote. A person or a sync program may rename it so, too.

// respell gives files the paths of pages, if the file system lists a page in another
// normal form than it opens it.
func respell(root vfs.Tree, files []treeFile, paths []string) error {
	listed := make(map[string]bool, len(files))
	for i := range files {
		listed[files[i].path] = true
	}
	var forms map[string]int // positions of files by normal form
	for _, p := range paths {
		if listed[p] || len(files) == 0 {
			continue
		}
		if forms == nil {
			forms = make(map[string]int, len(files))
			for i := range files {
				forms[norm.NFC.String(files[i].path)] = i
			}
		}
		i, ok := forms[norm.NFC.String(p)]
		if !ok {
			continue
		}
		switch _, err := root.Lstat(p); {
		case err == nil:
			files[i].path = p
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// spellNames sets the names of the pages without a Name row whose stems may be in
// another form than the name: to the heading, to the name of the entry that was
// exchanged at the path, or to that of the store's entry.
func (t *loadedTree) spellNames(sn *crmem.Snapshot, known basePages) {
	used := make(map[string]bool, len(t.pages))
	for i := range t.pages {
		used[t.pages[i].Name] = true
	}
	var forms map[string]string // of the names of the store
	for i := range t.pages {
		p := &t.pages[i]
		stem := p.Name
		if p.named {
			continue
		}
		_, exists := sn.Get(stem)
		name := stem
		if p.heading != stem && crmem.SameName(p.heading, stem) {
			if _, ok := sn.Get(p.heading); ok || !exists {
				name = p.heading
			}
		} else if !exists && p.heading != stem {
			for _, page := range known.at(p.path) {
				if page.Name != "" && crmem.SameName(page.Name, stem) && !used[page.Name] {
					name = page.Name
				}
			}
			if name == stem {
				if forms == nil {
					forms = formsOf(sn)
				}
				if other, ok := forms[norm.NFC.String(stem)]; ok && !used[other] {
					name = other
				}
			}
		}
		p.Name = name
		used[name] = true
	}
}

// formsOf returns the names of a store by their normal form C, without those that
// share it.
func formsOf(sn *crmem.Snapshot) map[string]string {
	forms := make(map[string]string, sn.Len())
	twins := make(map[string]bool)
	for e := range sn.All() {
		form := norm.NFC.String(e.Name)
		if _, ok := forms[form]; ok {
			twins[form] = true
		}
		forms[form] = e.Name
	}
	for form := range twins {
		delete(forms, form)
	}
	return forms
}
