package skill

import (
	"errors"
	"io/fs"
	"path/filepath"

	"crabmem/crmem/vfs"
)

// Check reads every skill in a directory, or the one skill whose directory it
// is. It returns the skills with their bodies, and the problems: those that
// make Load omit a skill, and violations of the convention.
func Check(fsys vfs.FS, dir Dir) ([]Skill, []*Problem, error) {
	abs, err := filepath.Abs(dir.Path)
	if err != nil {
		return nil, nil, err
	}
	dir.Path = abs
	root, err := fsys.Root(dir.Path)
	if err != nil {
		return nil, nil, err
	}
	c := newScan()
	if _, err := root.Lstat(filename); err == nil {
		w := walk{scan: c, tree: root, root: dir, whole: true}
		w.skill(filename)
	} else if errors.Is(err, fs.ErrNotExist) {
		c.dir(fsys, dir, true)
	} else {
		return nil, nil, errors.Join(err, root.Close())
	}
	if err := root.Close(); err != nil {
		return nil, nil, err
	}
	var list []Skill
	for i := range c.skills {
		s := &c.skills[i].Skill
		list = append(list, *s)
		c.problems = append(append(c.problems, s.problems...), s.misplaced()...)
	}
	return list, c.problems, nil
}
