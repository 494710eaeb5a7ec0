package approval

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
)

// systemPath are the directories that contain the programs of the default list,
// and of prefixes without a path.
var systemPath = []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"}

// program is a program on this machine.
type program struct {
	path string // absolute, as found
	real string // with all links followed
	head string // first bytes
}

func (p *program) isELF() bool    { return p.head == "\x7fELF" }
func (p *program) isScript() bool { return strings.HasPrefix(p.head, "#!") }

// open returns the program at an absolute path.
func open(path string) (*program, error) {
	real, err := vfs.OS{}.Resolve(path)
	if err != nil {
		return nil, err
	}
	f, err := vfs.OS{}.Open(real)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Mode().Perm()&0o111 == 0 {
		return nil, &os.PathError{Op: "execute", Path: path, Err: fs.ErrPermission}
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, fmt.Errorf("read %s: %w", real, err)
	}
	return &program{path, real, string(head)}, nil
}

// find returns the first program of a name in the directories. An absolute name is
// a path.
func find(name string, dirs []string) (*program, error) {
	if filepath.IsAbs(name) {
		return open(name)
	}
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			continue
		}
		if p, err := open(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s is not a program of the system", name)
}

func (c *classifier) path() []string {
	if c.Path != nil {
		return c.Path
	}
	return systemPath
}

// inDir returns an error for a program inside the working directory.
func (c *classifier) inDir(p *program) error {
	if dir := resolved(c.Dir); contains(dir, p.real) || contains(dir, filepath.Dir(p.path)) {
		return fmt.Errorf("%s is in the working directory", p.path)
	}
	return nil
}

// reader returns the path of a program of the default list. name is the first word
// of the command, and words are those of the program or applet.
func (c *classifier) reader(name string, words []string) (string, error) {
	if err := c.checkDir(); err != nil {
		return "", err
	}
	if c.Profile == nil || !c.Profile() {
		return "", errors.New("this machine cannot confine programs")
	}
	p, err := find(name, c.path())
	if err != nil {
		return "", err
	}
	base := filepath.Base(p.real)
	if base != filepath.Base(name) && !slices.Contains(multicall, base) || !p.isELF() || !slices.Contains(c.path(), filepath.Dir(p.path)) {
		return "", fmt.Errorf("%s is another program: %s", name, p.real)
	}
	if err := c.inDir(p); err != nil {
		return "", err
	}
	if err := checkWords(words); err != nil {
		return "", err
	}
	for _, w := range words[1:] {
		if c.isOutside(w) {
			return "", fmt.Errorf("%s is outside the working directory", w)
		}
	}
	return p.real, nil
}

// systemNames are the directories in /usr that the profile contains.
var systemNames = []string{"bin", "lib", "lib32", "lib64", "libexec", "libx32", "sbin", "share"}

// isOutside reports whether a word names a file outside the working directory and
// the system's programs. The profile does not contain such a file, so the question
// lets a person permit it. A word that begins with / may also be a pattern, unless
// its first directory exists.
func (c *classifier) isOutside(word string) bool {
	if _, ok := c.local(word); ok {
		return false
	}
	if !filepath.IsAbs(word) {
		return true
	}
	first, rest, _ := strings.Cut(filepath.Clean(word)[1:], "/")
	if second, _, _ := strings.Cut(rest, "/"); first == "usr" && slices.Contains(systemNames, second) {
		return false
	}
	_, err := vfs.OS{}.Lstat("/" + first)
	return err == nil
}

// permitted returns the path of the program of a command that a prefix permits.
func (c *classifier) permitted(words []string) (path string, ok bool) {
	for _, prefix := range c.Allow {
		w := strings.Split(prefix, " ")
		if len(w) == 1 && (slices.Contains(Default, w[0]) || slices.Contains(multicall, filepath.Base(w[0]))) {
			continue
		}
		named := w[0] == words[0] || filepath.IsAbs(w[0]) && filepath.Base(w[0]) == words[0]
		if !named || len(words) < len(w) || !slices.Equal(w[1:], words[1:len(w)]) {
			continue
		}
		if p, err := find(w[0], c.path()); err == nil && c.inDir(p) == nil {
			return p.path, true
		}
	}
	return "", false
}

// offer returns the prefix to offer for a command. It has none for a program that may
// run others, a script, a program in the working directory, and one outside the
// directories of programs, which may have any name.
func (c *classifier) offer(words []string) (prefix string, err error) {
	dirs := slices.Concat(c.path(), filepath.SplitList(os.Getenv("PATH"))) // a person may permit programs of both
	p, err := find(words[0], dirs)
	if err == nil && !slices.Contains(dirs, filepath.Dir(p.path)) {
		err = fmt.Errorf("%s is not in a directory of programs", p.path)
	}
	if err != nil {
		return "", err
	}
	if err := c.inDir(p); err != nil {
		return "", err
	}
	if line, _ := parse(p.path); len(line) == 0 || line[0].Commands[0].Words[0] != p.path {
		return "", fmt.Errorf("%s has a character with a meaning in bash", p.path) // a prefix could mean another program
	}
	prefix = p.path
	name, real := filepath.Base(p.path), filepath.Base(p.real)
	if slices.Contains(multicall, name) && len(words) > 1 {
		words = words[1:] // of the applet
		name, real = words[0], words[0]
		prefix += " " + name
	}
	if p.isScript() || real != name && !slices.Contains(multicall, real) {
		return "", fmt.Errorf("%s may run other programs", words[0])
	}
	switch {
	case slices.Contains(offered, name):
	case name == "git" && len(words) > 1 && slices.Contains(gitCommands, words[1]):
		prefix += " " + words[1]
	default:
		return "", fmt.Errorf("%s may run other programs", words[0])
	}
	return prefix, fmt.Errorf("tools.bash.allow does not contain %s", prefix)
}
