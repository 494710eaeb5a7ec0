package skill

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"crabmem/crmem/vfs"
	"crabmem/daemon/tool"
)

// Limits of a directory of skills. Excess is omitted with a warning.
const (
	maxDepth  = 10   // directories below the one that was named
	maxDirs   = 4096 // directories, in each that was named
	maxSkills = 1000 // in all
)

// maxWarned bounds the warnings that are remembered, so as to come once.
const maxWarned = 4096

// Dir is a directory of skills.
type Dir struct {
	Path string
	Tier Tier
}

// Set is the skills in some directories. Each method reads the disk, so it sees
// all changes. A Set is safe for concurrent use.
type Set struct {
	fsys vfs.FS
	warn func(error)

	mu     sync.Mutex
	dirs   []Dir
	warned map[string]bool
}

// Load returns the skills in dirs. Of skills with one name it takes the first:
// that in the higher tier, then in the order of dirs, then in the order of
// names. A missing directory has no skills.
//
// warn receives each omission and its reason once; it may be nil.
func Load(fsys vfs.FS, dirs []Dir, warn func(error)) *Set {
	s := &Set{fsys: fsys, warn: warn, warned: make(map[string]bool)}
	s.Use(dirs)
	return s
}

// Use replaces the directories of the set, and loads their skills.
func (s *Set) Use(dirs []Dir) {
	dirs = slices.Clone(dirs)
	for i, d := range dirs {
		if abs, err := filepath.Abs(d.Path); err == nil {
			dirs[i].Path = abs
		}
	}
	slices.SortStableFunc(dirs, func(a, b Dir) int { return int(b.Tier) - int(a.Tier) })
	s.mu.Lock()
	s.dirs = dirs
	s.mu.Unlock()
	s.Skills(tool.Unbounded())
}

// Tagged returns the names of the skills with one of the tags. It ignores the case of
// tags.
func (s *Set) Tagged(tags []string) (names []string) {
	if len(tags) == 0 {
		return nil
	}
	for _, sk := range s.Skills(tool.Unbounded()) {
		if slices.ContainsFunc(sk.Tags, func(t string) bool {
			return slices.ContainsFunc(tags, func(want string) bool { return strings.EqualFold(t, want) })
		}) {
			names = append(names, sk.Name)
		}
	}
	return names
}

// Skills returns the skills that a scope allows, without their bodies.
func (s *Set) Skills(scope tool.Scope) []Skill {
	var list []Skill
	for _, f := range s.scan().skills {
		if scope.Skills.Allows(f.Name) {
			list = append(list, f.Skill)
		}
	}
	return list
}

// Get returns a skill as it is on disk: by its name, or by the name of its
// directory if no skill has the name. A name with a path is invalid.
//
// It returns a *tool.Violation if the scope does not permit the skill,
// ErrInvalid for an invalid name, ErrNotFound if it does not exist, and a
// *Problem if it cannot be used.
func (s *Set) Get(scope tool.Scope, name string) (*Skill, error) {
	if err := scope.Skill(name); err != nil {
		return nil, err
	}
	if !askable(name) {
		return nil, fmt.Errorf("%w: %s", ErrInvalid, short(name))
	}
	f, err := s.scan().find(name)
	if err != nil {
		return nil, err
	}
	if err := scope.Skill(f.Name); err != nil { // name was the name of its directory
		return nil, err
	}
	return s.read(f)
}

// read returns a skill with its body.
func (s *Set) read(f *found) (*Skill, error) {
	root, err := s.fsys.Root(f.root.Path)
	if err != nil {
		return nil, err
	}
	b, err := readFront(root, f.rel, true)
	if err := errors.Join(err, root.Close()); err != nil {
		return nil, unreadable(f.File, err)
	}
	sk, err := Parse(f.File, b)
	if err != nil {
		return nil, err
	}
	if sk.Name != f.Name { // changed since; the scope was not checked for this name
		return nil, ErrNotFound
	}
	sk.Tier, sk.Dir = f.Tier, f.Dir
	return &sk, nil
}

// found is a SKILL.md, and where.
type found struct {
	Skill
	root Dir
	rel  string // its name in root
	err  error  // why it is no skill
}

// scan is one look at the disk.
type scan struct {
	skills   []found // no two of a name
	broken   []found
	problems []*Problem
	byName   map[string]int // index in skills
	files    map[string]bool
	full     bool // a limit was reached and reported
}

// find returns the skill of a name, or of a directory with the name.
func (c *scan) find(name string) (*found, error) {
	if i, ok := c.byName[name]; ok {
		return &c.skills[i], nil
	}
	of := func(list []found) int {
		return slices.IndexFunc(list, func(f found) bool { return filepath.Base(f.Dir) == name })
	}
	if i := of(c.skills); i >= 0 {
		return &c.skills[i], nil
	}
	if i := of(c.broken); i >= 0 {
		return nil, c.broken[i].err
	}
	return nil, ErrNotFound
}

func (s *Set) scan() *scan {
	c := newScan()
	s.mu.Lock()
	dirs := s.dirs // which Use replaces and never changes
	s.mu.Unlock()
	for _, d := range dirs {
		c.dir(s.fsys, d, false)
	}
	if s.warn != nil {
		for _, p := range c.problems {
			if s.first(p.Error()) {
				s.warn(p)
			}
		}
	}
	return c
}

func newScan() *scan { return &scan{byName: make(map[string]int), files: make(map[string]bool)} }

// first reports whether a warning is new.
func (s *Set) first(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.warned[text] || len(s.warned) >= maxWarned {
		return false
	}
	s.warned[text] = true
	return true
}

func (c *scan) problem(file, remedy, format string, args ...any) {
	c.problems = append(c.problems, &Problem{File: file, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// dir looks into a directory that was named.
func (c *scan) dir(fsys vfs.FS, d Dir, whole bool) {
	root, err := fsys.Root(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.problems = append(c.problems, unreadable(d.Path, err))
		return
	}
	w := walk{scan: c, tree: root, root: d, whole: whole}
	w.walk(".", 0)
	if err := root.Close(); err != nil {
		c.problems = append(c.problems, unreadable(d.Path, err))
	}
}

// walk is the way through one directory that was named.
type walk struct {
	*scan
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
		case e.Type()&fs.ModeSymlink != 0:
			w.problem(w.path(name), "move the target here, or add its directory to the configuration", "skipped a link")
		case !e.IsDir():
		case depth == maxDepth:
			w.problem(w.path(name), "move it up", "skipped: more than %d directories deep", maxDepth)
		default:
			w.walk(name, depth+1)
		}
	}
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
	b, err := readFront(w.tree, rel, w.whole)
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
