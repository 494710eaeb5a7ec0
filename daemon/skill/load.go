package skill

import (
	"errors"
	"fmt"
	"io/fs"
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
	// Links permits links in the directory that lead out of it. Links in the
	// directories that these lead to are omitted.
	Links bool
}

// Installed returns the directory of the skills that were installed into a home.
func Installed(home string) Dir {
	return Dir{Path: filepath.Join(home, ".crabmem", "managed", "skills"), Tier: Managed}
}

// Set is the skills in some directories. Each method reads the disk, so it sees
// all changes. A Set is safe for concurrent use.
type Set struct {
	// Check, if set, is called after a skill was read, and its error is the result.
	Check func() error

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
		if abs, err := filepath.Abs(d.Path); err == nil && d != BundledDir {
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
			f.Body = ""
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
	if f.root == BundledDir {
		return &f.Skill, nil
	}
	root, err := s.fsys.Root(f.root.Path)
	if err != nil {
		return nil, err
	}
	b, err := readFront(root, f.rel, true)
	if err := errors.Join(err, root.Close()); err != nil {
		return nil, unreadable(f.File, err)
	}
	if s.Check != nil {
		if err := s.Check(); err != nil {
			return nil, err
		}
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
		if d == BundledDir {
			c.bundled()
		} else {
			c.dir(s.fsys, d, false)
		}
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
	w := walk{scan: c, fsys: fsys, tree: root, root: d, whole: whole}
	w.walk(".", 0)
	if err := root.Close(); err != nil {
		c.problems = append(c.problems, unreadable(d.Path, err))
	}
}
