// Package approval decides which texts of the tool bash run without a question.
//
// A text that runs by itself is never given to a shell. [Classify] reads it with a
// small grammar and returns argument vectors, with the path of each program:
//
//   - Programs of the default list only read. They run in the read-only profile of
//     daemon/sandbox. cd, echo, false, pwd, and true need no program.
//   - Programs of a prefix that a person allowed, such as "git push", run as they are.
//
// The grammar has plain and quoted words; |, &&, ||, and ;; and the redirections
// 2>&1, >/dev/null, 2>/dev/null, and </dev/null. Any other text needs a user's
// approval, and bash runs the approved text.
package approval

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
)

// Rules are what permits a text to run by itself.
type Rules struct {
	Dir   string   // absolute working directory
	Home  string   // data directory of the daemon
	Users []string // home directories of the user
	Allow []string // names of the default list, and prefixes that a person allowed

	// Profile reports whether programs can run in the read-only profile. Without it,
	// only the commands without a program run by themselves.
	Profile func() bool

	// Path are the directories that contain programs. If nil, they are the system's.
	Path []string
}

// Decision is the result of Classify.
type Decision struct {
	Line   Line   // to run without a question; nil if the text needs approval
	Reason string // why the text needs approval

	// Missing are the prefixes that would permit the text, each with the path of
	// its program. They are nil if no prefix can permit the text.
	Missing []string
}

// Classify decides whether a text runs by itself. It reads the file system to find
// programs, and changes nothing.
func Classify(text string, r Rules) Decision {
	line, err := parse(text)
	if err != nil {
		return Decision{Reason: err.Error()}
	}
	c := classifier{Rules: r, succeeded: []string{"."}}
	var missing []string
	var reason error
	for _, p := range line {
		c.enter(p.After)
		for i := range p.Commands {
			prefix, err := c.command(&p.Commands[i], len(p.Commands) == 1)
			switch {
			case prefix != "":
				if reason == nil {
					reason = err
				}
				if !slices.Contains(missing, prefix) {
					missing = append(missing, prefix)
				}
			case err != nil:
				return Decision{Reason: err.Error()}
			}
		}
		c.leave(p.After)
		if len(c.succeeded)+len(c.failed) > maxDirs {
			return Decision{Reason: "cd has too many outcomes"}
		}
	}
	if reason != nil {
		return Decision{Reason: reason.Error(), Missing: missing}
	}
	return Decision{Line: line}
}

// Check returns an error for a prefix that no command can match.
func Check(prefix string) error {
	line, _ := parse(prefix) // nil if it fails
	if len(line) != 1 || len(line[0].Commands) != 1 || strings.Join(line[0].Commands[0].Words, " ") != prefix {
		return fmt.Errorf("%q: want a program and its first words, separated by single spaces", prefix)
	}
	if name := line[0].Commands[0].Words[0]; strings.Contains(name, "/") && !filepath.IsAbs(name) {
		return fmt.Errorf("%q: want the name or the absolute path of a program", prefix)
	}
	return nil
}

// classifier classifies the commands of a text in their order. A cd may succeed or fail,
// so it keeps each directory that a command can run in, relative to Dir.
type classifier struct {
	Rules
	dirs []string // where the present pipeline runs
	next []string // after it, if its exit code is 0

	succeeded, failed []string // after the pipelines before, by the last exit code
}

// maxDirs limits the directories of a classifier.
const maxDirs = 16

// enter sets the directories of a pipeline by the operator before it.
func (c *classifier) enter(after string) {
	switch after {
	case "&&":
		c.dirs = c.succeeded
	case "||":
		c.dirs = c.failed
	default:
		c.dirs = union(c.succeeded, c.failed)
	}
	c.next = c.dirs
}

// leave adds the directories after a pipeline to those where the operator skips it.
func (c *classifier) leave(after string) {
	switch after {
	case "&&":
		c.succeeded, c.failed = c.next, union(c.failed, c.dirs)
	case "||":
		c.succeeded, c.failed = union(c.succeeded, c.next), c.dirs
	default:
		c.succeeded, c.failed = c.next, c.dirs
	}
}

// union returns the texts of two lists, sorted.
func union(a, b []string) []string {
	list := slices.Concat(a, b)
	slices.Sort(list)
	return slices.Compact(list)
}

// command decides whether a command runs by itself, and then sets its path. Else it
// returns why not, and the prefix that would permit the command, if one can.
func (c *classifier) command(cmd *Command, alone bool) (prefix string, err error) {
	name := cmd.Words[0]
	switch {
	case slices.Contains(own, name):
		return "", c.ownCommand(cmd.Words, alone)
	case slices.Contains(builtins, name):
		return "", fmt.Errorf("%s is a builtin or a reserved word of bash", name)
	case strings.Contains(name, "/") && !filepath.IsAbs(name):
		return "", fmt.Errorf("%s is a path in the working directory", name)
	}
	words := slices.Clone(cmd.Words)
	if filepath.IsAbs(name) {
		words[0] = filepath.Base(name)
	} else if slices.Contains(multicall, name) {
		if len(words) < 2 {
			return "", fmt.Errorf("%s may run other programs", name)
		}
		words = words[1:] // of the applet
	}
	if slices.Contains(Default, words[0]) {
		if slices.Contains(c.Allow, words[0]) {
			cmd.Path, err = c.reader(name, words)
			cmd.ReadOnly = err == nil
			if err == nil {
				return "", nil
			}
		} else {
			err = fmt.Errorf("%s is not in tools.bash.allow", words[0])
		}
	}
	if path, ok := c.permitted(cmd.Words); ok {
		cmd.Path = path
		return "", nil
	} else if err != nil {
		return "", err
	}
	return c.offer(cmd.Words)
}

// ownCommand decides whether a command that needs no program runs by itself.
func (c *classifier) ownCommand(words []string, alone bool) error {
	name, args := words[0], words[1:]
	if !slices.Contains(c.Allow, name) {
		return fmt.Errorf("%s is not in tools.bash.allow", name)
	}
	if err := c.checkDir(); err != nil {
		return err
	}
	switch name {
	case "cd":
		if !alone || len(args) != 1 || args[0] == "" || args[0][0] == '-' {
			return errors.New("cd needs one directory, outside a pipeline")
		}
		next, ok := c.local(filepath.Clean(args[0])) // cd drops a name before ".."
		if !ok {
			return fmt.Errorf("%s is outside the working directory", args[0])
		}
		c.next = next
	case "pwd":
		if len(args) > 0 {
			return errors.New("pwd has arguments")
		}
	case "echo":
		for _, a := range args {
			if a == "" || a[0] != '-' || strings.Trim(a[1:], "neE") != "" {
				break
			}
			if a != "-n" {
				return fmt.Errorf("echo %s is an option of bash", a)
			}
		}
	}
	return nil
}

// local returns what a path can be, relative to Dir and with all links followed, and
// whether it stays in Dir from each directory of the pipeline.
func (c *classifier) local(path string) (list []string, ok bool) {
	dirs := c.dirs
	if filepath.IsAbs(path) {
		rest, ok := strings.CutPrefix(path, c.Dir)
		if !ok {
			rest, ok = strings.CutPrefix(path, resolved(c.Dir))
		}
		if !ok || rest != "" && rest[0] != '/' {
			return nil, false
		}
		dirs, path = []string{"."}, rest
	}
	for _, dir := range dirs {
		to, ok := c.walk(dir, path)
		if !ok {
			return nil, false
		}
		list = append(list, to)
	}
	return list, true
}

// walk follows a relative path from a directory, name by name as the kernel does, and
// reports whether it stays in Dir. Both directories are relative to Dir, without links.
func (c *classifier) walk(dir, path string) (to string, ok bool) {
	top := resolved(c.Dir)
	for name := range strings.SplitSeq(path, "/") {
		dir = filepath.Join(dir, name)
		if filepath.IsLocal(dir) && name != ".." {
			rel, err := filepath.Rel(top, resolved(filepath.Join(top, dir)))
			if err != nil {
				return "", false
			}
			dir = rel
		}
		if !filepath.IsLocal(dir) {
			return "", false
		}
	}
	return dir, true
}

// checkDir returns an error if the working directory contains a home directory, or
// is in the daemon's or a file system of the kernel.
func (c *classifier) checkDir() error {
	dir := resolved(c.Dir)
	for _, home := range append([]string{c.Home, "/"}, c.Users...) {
		if contains(dir, resolved(home)) {
			return fmt.Errorf("working directory %s contains a home directory", dir)
		}
	}
	for _, d := range append([]string{resolved(c.Home)}, kernelDirs...) {
		if contains(d, dir) {
			return fmt.Errorf("working directory is in %s", d)
		}
	}
	return nil
}

var kernelDirs = []string{"/dev", "/proc", "/sys"}

// resolved returns a path with all links followed, or else the clean path.
func resolved(path string) string {
	if real, err := (vfs.OS{}).Resolve(path); err == nil {
		return filepath.Clean(real)
	}
	return filepath.Clean(path)
}

// contains reports whether a path is a directory or in it. Both are resolved. A
// directory may have several names, so identities count too.
func contains(dir, path string) bool {
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return true
	}
	id := identity(dir)
	for id != (vfs.Identity{}) {
		if is := identity(path); is.Dev == id.Dev && is.Ino == id.Ino {
			return true
		}
		up := filepath.Dir(path)
		if up == path {
			break
		}
		path = up
	}
	return false
}

func identity(path string) vfs.Identity {
	fi, err := vfs.OS{}.Lstat(path)
	if err != nil {
		return vfs.Identity{}
	}
	return vfs.Identify(fi)
}
