package skill

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"unicode/utf8"

	"crabmem/crmem/vfs"
	"crabmem/daemon/tool"

	"go.yaml.in/yaml/v3"
)

// New writes a template of a skill into a directory of skills, which it creates
// if it is missing, and returns the file. If the skill exists, New changes
// nothing and returns fs.ErrExist. It returns ErrInvalid for a name that
// violates the convention.
func New(fsys vfs.FS, dir, name, description string) (file string, err error) {
	if !conforms(name) {
		return "", fmt.Errorf("%w: %s: want lowercase letters, digits, and single hyphens between them, at most %d characters", ErrInvalid, strconv.Quote(short(name)), maxName)
	}
	head, err := yaml.Marshal(struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	}{name, description})
	text := fmt.Sprintf("---\n%s---\n\n# %s\n\nWhat to do, step by step.\n", head, name)
	if err == nil {
		_, err = Parse(filename, []byte(text))
	}
	if err != nil {
		return "", err
	}
	if n := utf8.RuneCountInString(description); n > maxDescription {
		return "", &Problem{Text: fmt.Sprintf("it has %d characters, more than the limit of %d", n, maxDescription)}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if err := vfs.MkdirAll(fsys, dir, 0o700); err != nil {
		return "", err
	}
	root, err := fsys.Root(dir)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, name, filename)
	return file, errors.Join(create(root, name, file, text), root.Close())
}

func create(root vfs.Tree, name, file, text string) error {
	rel := path.Join(name, filename)
	if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// One without a skill may be left of a crash.
	if fi, err := root.Lstat(name); err != nil {
		return err
	} else if !fi.IsDir() {
		return &fs.PathError{Op: "create", Path: filepath.Dir(file), Err: fs.ErrExist}
	}
	if _, err := root.Lstat(rel); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return &fs.PathError{Op: "create", Path: file, Err: err}
	}
	err := vfs.WriteFile(root, rel, 0o600, []byte(text))
	return errors.Join(err, root.SyncDir("."))
}

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
		w := walk{scan: c, fsys: fsys, tree: root, root: dir, whole: true}
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
		c.problems = append(c.problems, s.Unmatched(tool.BuiltIn())...)
	}
	return list, c.problems, nil
}
