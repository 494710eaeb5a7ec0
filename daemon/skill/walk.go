package skill

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
)

// walk is the way through one directory that was named.
type walk struct {
	*scan
	fsys  vfs.FS
	tree  vfs.Tree
	root  Dir
	whole bool // read bodies too
	dirs  int  // looked into
}

// path returns the path of a name in the tree.
func (w *walk) path(rel string) string { return filepath.Join(w.root.Path, filepath.FromSlash(rel)) }

func (w *walk) walk(dir string, depth int) {
	if w.dirs++; w.dirs > maxDirs {
		w.limit("more than %d directories: ignored the rest", maxDirs)
		return
	}
	entries, err := w.tree.ReadDir(dir)
	if err != nil {
		w.problems = append(w.problems, unreadable(w.path(dir), err))
		return
	}
	i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == filename })
	switch {
	case i >= 0 && depth > 0:
		w.skill(path.Join(dir, filename))
		return
	case i >= 0:
		w.problem(w.path(filename), "move it into a directory with the name of the skill", "a skill needs its own directory")
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case w.full:
			return
		case strings.HasPrefix(e.Name(), "."):
		case e.Type()&fs.ModeSymlink == 0 && !e.IsDir():
		case depth == maxDepth:
			w.problem(w.path(name), "move it up", "skipped: more than %d directories deep", maxDepth)
		case !e.IsDir():
			w.link(name, depth+1)
		default:
			w.walk(name, depth+1)
		}
	}
}

// link looks into the directory that a link leads to. It ignores links to files.
func (w *walk) link(rel string, depth int) {
	file := w.path(rel)
	if !w.root.Links {
		w.problem(file, "move the target here, or add its directory to the configuration", "skipped a link")
		return
	}
	target, err := w.fsys.Resolve(file)
	if err != nil {
		w.problems = append(w.problems, unreadable(file, err))
		return
	}
	if fi, err := w.fsys.Lstat(target); err == nil && !fi.IsDir() {
		return
	}
	top, err := w.fsys.Resolve(w.root.Path)
	if err != nil || within(top, target) || within(target, top) {
		w.problem(file, "remove the link", "skipped a link to %s, which contains it or is in the same directory", target)
		return
	}
	root, err := w.fsys.Root(target)
	if err != nil {
		w.problems = append(w.problems, unreadable(file, err))
		return
	}
	linked := walk{scan: w.scan, fsys: w.fsys, tree: root, root: Dir{Path: file, Tier: w.root.Tier}, whole: w.whole, dirs: w.dirs}
	linked.walk(".", depth)
	w.dirs = linked.dirs
	if err := root.Close(); err != nil {
		w.problems = append(w.problems, unreadable(file, err))
	}
}

// within reports whether the path name is dir or in it.
func within(name, dir string) bool {
	rel, err := filepath.Rel(dir, name)
	return err == nil && filepath.IsLocal(rel)
}

func (w *walk) limit(format string, args ...any) {
	if !w.full {
		w.full = true
		w.problem(w.root.Path, "remove some, or configure its subdirectories instead", format, args...)
	}
}

func (w *walk) skill(rel string) {
	f := found{root: w.root, rel: rel}
	file := w.path(rel)
	if w.files[file] { // directories that link to each other
		return
	}
	w.files[file] = true
	b, err := w.front(&f)
	if err != nil {
		err = unreadable(file, err)
	} else if w.whole {
		f.Skill, err = Parse(file, b)
	} else {
		f.Skill, _, err = parseFront(file, b)
	}
	f.Tier, f.Dir, f.File = w.root.Tier, filepath.Dir(file), file
	if err != nil {
		f.err = err
		if len(w.broken) < maxSkills {
			p, _ := errors.AsType[*Problem](err) // the type of all errors above
			w.broken = append(w.broken, f)
			w.problems = append(w.problems, p)
		}
		return
	}
	if i, ok := w.byName[f.Name]; ok {
		w.problem(file, "give one of them another name", "omitted: %[2]s already defines a skill %[1]q", f.Name, w.skills[i].File)
		return
	}
	if len(w.skills) == maxSkills {
		w.limit("more than %d skills: ignored the rest", maxSkills)
		return
	}
	w.byName[f.Name] = len(w.skills)
	w.skills = append(w.skills, f)
}

// front reads the file of a skill. If it is a link that the directory permits,
// front sets the place of f to that of the target.
func (w *walk) front(f *found) ([]byte, error) {
	if fi, err := w.tree.Lstat(f.rel); !w.root.Links || err != nil || fi.Mode()&fs.ModeSymlink == 0 {
		return readFront(w.tree, f.rel, w.whole)
	}
	target, err := w.fsys.Resolve(w.path(f.rel))
	if err != nil {
		return nil, err
	}
	f.root.Path, f.rel = filepath.Dir(target), filepath.Base(target)
	root, err := w.fsys.Root(f.root.Path)
	if err != nil {
		return nil, err
	}
	b, err := readFront(root, f.rel, w.whole)
	return b, errors.Join(err, root.Close())
}

// readFront reads the file of a skill: completely, or as much as contains any
// front matter.
func readFront(t vfs.Tree, name string, whole bool) ([]byte, error) {
	if whole {
		return vfs.ReadFile(t, name, maxFile)
	}
	f, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Size() > maxFile {
		return nil, &vfs.TooLargeError{Name: name, Size: fi.Size(), Max: maxFile}
	}
	b := make([]byte, min(fi.Size(), maxFront+1))
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}

// unreadable returns a Problem for a skill, or a directory of skills, that
// cannot be read.
func unreadable(name string, err error) *Problem {
	p := &Problem{File: name, err: err}
	if e, ok := errors.AsType[*vfs.TooLargeError](err); ok {
		return tooLarge(name, e.Size)
	}
	if errors.Is(err, vfs.ErrNotRegular) {
		p.Text, p.Remedy = "not a regular file, or a link", "put a copy of the file there"
		return p
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	p.Text, p.Remedy = "cannot read: "+err.Error(), "check the type, owner, and mode of the path"
	return p
}
