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
	c := classifier{Rules: r, cwd: "."}
	var missing []string
	var reason error
	for _, p := range line {
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

// classifier classifies the commands of a text in their order.
type classifier struct {
	Rules
	cwd string // relative to Dir, if each cd before succeeds
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
		rel, ok := c.local(args[0])
		if !ok {
			return fmt.Errorf("%s is outside the working directory", args[0])
		}
		c.cwd = rel
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

// local returns a path relative to Dir, and whether it is in Dir.
func (c *classifier) local(path string) (string, bool) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.cwd, path)
		return path, filepath.IsLocal(path)
	}
	for _, dir := range []string{c.Dir, resolved(c.Dir)} {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return rel, true
		}
	}
	return "", false
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
