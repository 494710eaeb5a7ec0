package importer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"crabmem/crmem/metadata"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
)

// page is a file of a tree.
type page struct {
	path string // from the tree's top, with slashes
	text string
	when time.Time // it was changed
}

// treeReader reads the pages of a directory.
type treeReader struct {
	root     vfs.Tree
	progress func(done, total int) // of pages; may be nil
	exact    bool                  // of a vault: pages keep line ends and byte order marks
	left     Tally
	names    int
	size     int64
}

// openTree opens a directory, which may be a link, and returns its name.
func openTree(fsys vfs.FS, dir string) (vfs.RootDir, string, error) {
	dir, err := fsys.Resolve(dir)
	if err != nil {
		return nil, "", err
	}
	root, err := fsys.Root(dir)
	return root, filepath.Base(dir), err
}

// list lists the files and subdirectories of a directory. It ignores hidden and
// special files and links.
func (t *treeReader) list(dir string) (files, dirs []string, err error) {
	entries, err := t.root.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	if t.names += len(entries); t.names > maxNames {
		return nil, nil, fmt.Errorf("%s: more than %d files and directories; import a subdirectory", dir, maxNames)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case t.exact && vaultFile(name):
		case t.exact && e.IsDir() && asideDir().MatchString(name):
			t.left.add("moved aside by crabmem export", name)
		case strings.HasPrefix(e.Name(), "."):
			t.left.add("hidden", name)
		case !utf8.ValidString(e.Name()):
			t.left.add("name is not UTF-8", fmt.Sprintf("%q", name))
		case len(name) > maxID:
			t.left.add("path is too long", name)
		case e.IsDir():
			dirs = append(dirs, name)
		case e.Type()&fs.ModeSymlink != 0:
			t.left.add("symbolic link, not followed", name)
		case !e.Type().IsRegular():
			t.left.add("not a regular file", name)
		default:
			files = append(files, name)
		}
	}
	return files, dirs, nil
}

// each lists all pages under a directory, and then calls take with every page.
func (t *treeReader) each(dir string, take func(*page)) error {
	var names []string
	err := t.walk(dir, 0, func(name string) error {
		names = append(names, name)
		return nil
	})
	if err != nil {
		return err
	}
	for i, name := range names {
		p, err := t.read(name)
		if err != nil {
			return err
		}
		if p != nil {
			take(p)
		}
		if t.progress != nil {
			t.progress(i+1, len(names))
		}
	}
	return nil
}

// walk calls visit with the name of every page under a directory.
func (t *treeReader) walk(dir string, depth int, visit func(name string) error) error {
	files, dirs, err := t.list(dir)
	if errors.Is(err, fs.ErrPermission) && depth > 0 {
		t.left.add("not readable", dir)
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range files {
		if !strings.EqualFold(path.Ext(name), ".md") {
			t.left.add("not Markdown", name)
			continue
		}
		if err := visit(name); err != nil {
			return err
		}
	}
	for _, name := range dirs {
		if depth+1 >= maxDepth {
			t.left.add(fmt.Sprintf("deeper than %d directories", maxDepth), name)
			continue
		}
		if err := t.walk(name, depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}

// read reads a page; nil when it is left out.
func (t *treeReader) read(name string) (*page, error) {
	most := int64(maxPage)
	if t.exact {
		most = tree.MaxPage
	}
	fi, err := t.root.Lstat(name)
	if err == nil && fi.Size() > most {
		err = &vfs.TooLargeError{}
	}
	var b []byte
	if err == nil {
		b, err = vfs.ReadFile(t.root, name, most)
	}
	_, large := errors.AsType[*vfs.TooLargeError](err)
	switch {
	case large:
		t.left.add(fmt.Sprintf("larger than %d MiB", most>>20), name)
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		t.left.add("not readable", name)
		return nil, nil
	case errors.Is(err, vfs.ErrNotRegular), errors.Is(err, fs.ErrNotExist):
		t.left.add("not a regular file, or removed during the import", name)
		return nil, nil
	case err != nil:
		return nil, err
	case !utf8.Valid(b):
		t.left.add("not UTF-8", name)
		return nil, nil
	}
	if t.size += int64(len(b)); t.size > maxSource {
		return nil, sizeError("the tree", maxSource)
	}
	if t.exact {
		return &page{name, string(b), fi.ModTime()}, nil
	}
	text := strings.TrimPrefix(strings.ReplaceAll(string(b), "\r\n", "\n"), "\ufeff")
	return &page{name, text, fi.ModTime()}, nil
}

// front splits a page into its front matter and the text after it. ok is false
// if it has no front matter.
func (p *page) front() (front, body string, ok bool) {
	_, front, _, body, ok = metadata.Split(p.text)
	if !ok || len(front) > maxFront {
		return "", p.text, false
	}
	return front, strings.TrimPrefix(body, "\n"), true
}

// stem is a page's name without directory and extension.
func (p *page) stem() string { return strings.TrimSuffix(path.Base(p.path), path.Ext(p.path)) }

// named sets the name of a note; the part that a name cannot contain becomes
// part of the text.
func (n *Note) named(name string) {
	base, whole := baseName(name)
	if n.Name = base; !whole {
		n.Text = joined("name: "+name, n.Text)
	}
}

// room bounds the text of a note, with the line that is put under it.
func (n *Note) room(left *Tally) bool {
	if len(n.Text) <= maxPage-4096 {
		return true
	}
	left.add("larger than a note", n.ID)
	return false
}

// has reports whether a directory has an entry of a name that is not a link.
func has(root vfs.Tree, name string, dir bool) bool {
	fi, err := root.Lstat(name)
	return err == nil && (dir && fi.IsDir() || !dir && fi.Mode().IsRegular()) && exact(root, name)
}

// exact reports whether a directory has a name in exactly this case: some file
// systems find MEMORY.md by memory.md.
func exact(root vfs.Tree, name string) bool {
	entries, err := root.ReadDir(path.Dir(name))
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == path.Base(name) })
}
