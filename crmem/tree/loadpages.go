package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// pageReader reads the pages of a tree, and compares them with those that the store
// exchanged.
type pageReader struct {
	root   vfs.Tree
	sn     *crmem.Snapshot // of the store
	known  basePages
	accept []string // paths of pages
}

func (r *pageReader) accepted(path string) bool { return slices.Contains(r.accept, path) }

func (t *loadedTree) readPages(r *pageReader, maxBytes int64, progress func(done, total int)) error {
	root, sn, known := r.root, r.sn, r.known
	files, err := listPages(root)
	if err != nil {
		return err
	}
	listed := make(map[string]bool, len(files))
	for i := range files {
		listed[files[i].path] = true
	}
	for i := range files {
		if err := r.checkPlaceholder(&files[i], listed); err != nil {
			return err
		}
	}
	if err := t.warnOutside(root); err != nil {
		return err
	}
	var paths []string
	for _, list := range known {
		for _, p := range list {
			paths = append(paths, p.Path)
		}
	}
	if err := respell(root, files, paths); err != nil {
		return err
	}
	for _, name := range r.accept {
		if !slices.ContainsFunc(files, func(f treeFile) bool { return f.path == name }) {
			return &Error{Path: name, Msg: "the tree has no such page to accept", Remedy: "name a page as notes/NAME.md"}
		}
	}
	for name, list := range t.state.unlimited() {
		for _, p := range list {
			known.add(&basePage{Path: name, Page: p.Page, Size: p.Size})
		}
	}
	var total int64
	for i := range files {
		if progress != nil {
			progress(i+1, len(files))
		}
		f := &files[i]
		read, err := t.wanted(f)
		if err != nil {
			return err
		}
		if !read {
			continue
		}
		if total += f.size; total > maxBytes {
			return &Error{Path: f.path, Msg: fmt.Sprintf("with this page the tree has more than %d bytes", maxBytes), Remedy: "load it in parts, or raise the store's limit"}
		}
		p, err := r.read(f)
		if original := originalOf(f.path); err != nil && original != "" && len(known.at(f.path)) == 0 && !r.accepted(f.path) {
			if err := t.skipCopy(r, f.path, original, listed[original]); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		t.pages = append(t.pages, *p)
	}
	if err := t.removeCopies(r); err != nil {
		return err
	}
	t.spellNames(sn, known)
	return t.checkNames()
}

// warnOutside warns of Markdown files next to notes/ and archives/, which load ignores.
func (t *loadedTree) warnOutside(root vfs.Tree) error {
	list, err := root.ReadDir(".")
	var names []string
	for _, d := range list {
		f := treeFile{path: d.Name(), mode: d.Type()}
		if f.mode.IsRegular() && f.isPage() && !f.hidden() && f.path != summaryFile && !strings.EqualFold(f.path, "README.md") {
			names = append(names, quoted(f.path))
		}
	}
	if len(names) > 0 {
		t.warnings = append(t.warnings, someOf(names)+": ignored: pages are in notes/ and archives/: move the files there")
	}
	return err
}

// checkNames returns an error if two pages have one name. It adds the warnings of the
// pages to those of the tree.
func (t *loadedTree) checkNames() error {
	names := make(map[string]string, len(t.pages)) // path by name
	for i := range t.pages {
		p := &t.pages[i]
		if other, ok := names[p.Name]; ok {
			return &Error{Path: p.path, Msg: fmt.Sprintf("the name %s is also the name of %s", quoted(p.Name), other), Remedy: "rename one page, or change its Name row"}
		}
		names[p.Name] = p.path
		if want := shownName(p.Name); p.heading != "" && p.heading != want {
			p.warnings = append(p.warnings, fmt.Sprintf("load ignores the heading %s of the entry %s: to rename the entry, run crabmem rename", quoted(p.heading), quoted(want)))
		}
		for _, w := range p.warnings {
			t.warnings = append(t.warnings, p.path+": "+w)
		}
	}
	return nil
}

// wanted reports whether a file is a page. It returns an error for a file that
// a person may take for a page but load does not: skipping it would remove an
// entry.
func (t *loadedTree) wanted(f *treeFile) (bool, error) {
	switch {
	case f.hidden():
	case f.mode.IsDir():
		return false, &Error{Path: f.path, Msg: "is a directory", Remedy: "pages must be directly in " + path.Dir(f.path) + "/: move the files there, or move the directory out of " + path.Dir(f.path) + "/"}
	case !f.isPage():
		t.warnings = append(t.warnings, f.path+": ignored: not a page: its name does not end in .md")
	case !f.mode.IsRegular():
		return false, &Error{Path: f.path, Msg: "is " + f.what(), Remedy: "replace it with a regular file, or remove it"}
	default:
		return true, nil
	}
	return false, nil
}

// read reads one page. The limits of new entries do not apply to an unedited page of
// a dump, because older stores may exceed them.
func (r *pageReader) read(f *treeFile) (*treePage, error) {
	limit := max(r.known.size(f.path), MaxPage)
	b, err := vfs.ReadFile(r.root, f.path, limit)
	if large, ok := errors.AsType[*vfs.TooLargeError](err); ok {
		return nil, &Error{Path: f.path, Msg: fmt.Sprintf("%d bytes, at most %d", large.Size, large.Max), Remedy: "split the page"}
	}
	if errors.Is(err, vfs.ErrNotRegular) {
		return nil, &Error{Path: f.path, Msg: "is not a regular file", Remedy: "replace it with a regular file, or remove it"}
	}
	if err != nil {
		return nil, err
	}
	hash := pageHash(b)
	p, err := parsePage(b)
	if r.accepted(f.path) {
		if at := blockBelow(string(b)); err == nil && !p.block && at > 0 {
			if p, err = parsePage(b[at:]); err == nil {
				p.Content = strings.TrimSpace(string(b[:at])) + "\n\n" + p.Content
			}
		}
	} else if !r.known.has(f.path, hash) {
		if err := r.checkChange(f, b, p); err != nil {
			return nil, err
		}
	}
	if err != nil {
		e := &Error{Path: f.path, Msg: err.Error()}
		if pe, ok := errors.AsType[*pageError](err); ok {
			e.Line, e.Remedy = lineAt(b, pe.offset), pe.remedy
		}
		return nil, e
	}
	p.Kind = f.kind
	if !p.named {
		p.Name = f.stem()
		if !utf8.ValidString(p.Name) {
			return nil, &Error{Path: f.path, Msg: "the file name is not UTF-8", Remedy: "rename it"}
		}
	}
	if !r.known.has(f.path, hash) {
		if err := (crmem.Add{Name: p.Name, Content: p.Content, Aliases: p.Aliases, Kind: p.Kind}).Validate(); err != nil {
			return nil, &Error{Path: f.path, Msg: err.Error(), Remedy: "shorten or correct it"}
		}
	}
	return &treePage{*p, f.path, hash, int64(len(b))}, nil
}

// readTree reads and checks the tree in dir, regardless of the program that
// wrote it. Every page must be a regular file of a bounded size, a valid entry,
// and have a unique name. All pages together may have at most maxBytes.
// readTree writes no file and follows no link out of dir.
func readTree(bases bases, dir string, sn *crmem.Snapshot, maxBytes int64, o *LoadOptions) (*loadedTree, error) {
	root, err := bases.fsys.Root(dir)
	if err != nil {
		return nil, rootError(bases.fsys, dir, err)
	}
	defer root.Close()
	t := &loadedTree{dir: dir, bases: bases}
	if t.state, err = readState(root); err != nil {
		return nil, err
	}
	if t.state.form != "" {
		return nil, otherFormat(t.state.form)
	}
	if !t.state.dumped() {
		if err := checkEvicted(root, manifestFile); err != nil {
			return nil, err
		}
	}
	if file := t.state.unfinished(); file != "" {
		return nil, &Error{Path: file, Msg: "the last dump of this tree was interrupted", Remedy: "run crabmem dump to complete it"}
	}
	if err := unsettled(root, conflictDir, 2); err != nil {
		return nil, err
	}
	base, warning, err := t.bases.read(t.state.id, sn)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		t.warnings = append(t.warnings, warning)
	}
	r := &pageReader{root: root, sn: sn, known: base.byPath(), accept: o.Accept}
	if err := t.readPages(r, maxBytes, o.Progress); err != nil {
		return nil, err
	}
	if len(t.pages) == 0 && !t.state.mayBeEmpty() {
		return nil, &Error{Path: dir, Msg: "no pages in notes/ or archives/", Remedy: "use a directory that crabmem dump wrote; to empty a store, run crabmem forget for each entry"}
	}
	return t, nil
}

// unsettled returns an error if conflicts/ contains a file.
func unsettled(root vfs.Tree, dir string, depth int) error {
	fi, err := root.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !fi.IsDir() || depth == 0 {
		return &Error{Path: dir, Msg: "unresolved conflict", Remedy: "edit the page of the same name to resolve the conflict, remove this file, and load again"}
	}
	list, err := root.ReadDir(dir)
	for _, d := range list {
		if err == nil && !strings.HasPrefix(d.Name(), ".") {
			err = unsettled(root, dir+"/"+d.Name(), depth-1)
		}
	}
	return err
}

// rootError explains why a directory cannot be opened as a tree.
func rootError(fsys vfs.FS, dir string, err error) error {
	const remedy = "use a directory that crabmem dump wrote, or that contains notes/ or archives/"
	if errors.Is(err, fs.ErrNotExist) {
		return &Error{Path: dir, Msg: "no such directory", Remedy: remedy}
	}
	if fi, lerr := fsys.Lstat(dir); lerr == nil && !fi.IsDir() && fi.Mode()&fs.ModeSymlink == 0 {
		return &Error{Path: dir, Msg: "is " + fileType(fi.Mode()) + ", not a directory", Remedy: remedy}
	}
	return err
}
