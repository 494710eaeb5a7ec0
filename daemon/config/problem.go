package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/secret"

	"github.com/pelletier/go-toml/v2"
)

// Problem is one thing that is wrong in a file.
type Problem struct {
	Path    string `json:"path"`
	Line    int    `json:"line"` // 0 = the file, which may be missing
	Message string `json:"message"`
	// Variable is the unset environment variable that caused the problem, or "".
	Variable string `json:"variable,omitempty"`
	// Secret is the secret of the store that caused the problem, or "".
	Secret string `json:"secret,omitempty"`
	// Fix tells the user what to do, or is "".
	Fix string `json:"fix,omitempty"`
}

// IsVariable reports whether the problem is a variable that is not set.
func (p Problem) IsVariable() bool { return p.Variable != "" }

func (p Problem) String() string {
	if p.Line == 0 {
		return p.Path + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.Path, p.Line, p.Message)
}

// Repair returns what repairs the problem: its fix, or the place to edit and the command
// for that.
func (p Problem) Repair() string {
	line := ""
	if p.Line > 0 {
		line = fmt.Sprintf(", line %d", p.Line)
	}
	switch {
	case p.Fix != "":
		return p.Fix
	case filepath.Base(p.Path) == File:
		return "run crabmem config edit to correct " + errtable.ShellWord(p.Path) + line
	}
	return "correct " + errtable.ShellWord(p.Path) + line + ", then run crabmem config check"
}

// Problems is everything that is wrong with a configuration, by file and line.
// After maxProblems the search ends.
type Problems []Problem

const maxProblems = 200

func (ps Problems) Error() string {
	if len(ps) == 1 {
		return ps[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d problems in the configuration", len(ps))
	for _, p := range ps {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
}

// A file collects its problems.
type file struct {
	found *Problems
	path  string
}

func (f *file) full() bool { return len(*f.found) >= maxProblems }

func (f *file) add(line int, format string, args ...any) {
	if f.full() {
		return
	}
	*f.found = append(*f.found, Problem{Path: f.path, Line: line, Message: fmt.Sprintf(format, args...)})
}

// syntax adds the error of a parser. It stops at the first.
func (f *file) syntax(err error) {
	if d, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := d.Position()
		f.add(line, "%s", strings.TrimPrefix(d.Error(), "toml: "))
		return
	}
	if l, ok := errors.AsType[*lineError](err); ok {
		f.add(l.line, "%s", l.message)
		return
	}
	f.add(0, "%s", strings.TrimPrefix(err.Error(), "toml: "))
}

// lineError is a mistake that no parser minds.
type lineError struct {
	line    int
	message string
}

func (e *lineError) Error() string { return e.message }

// A place is the position of a value, for problems that are found later.
type place struct {
	f    *file
	line int
}

func (p place) add(format string, args ...any) { p.f.add(p.line, format, args...) }

// addFix adds a problem with a fix.
func (p place) addFix(fix, format string, args ...any) {
	if !p.f.full() {
		p.add(format, args...)
		(*p.f.found)[len(*p.f.found)-1].Fix = fix
	}
}

// addVariable adds the problem of a variable that is not set. secrets is set if the key may
// have a secret of the store.
func (l *loader) addVariable(p place, key, name string, secrets bool) {
	if f := l.part(p.f); !f.full() {
		fix := "run export " + name + "=VALUE, or crabmem config set " + errtable.ShellWord(key) + " VALUE"
		if secrets {
			id := strings.ReplaceAll(strings.ToLower(strings.Trim(name, "_")), "_", "-")
			if secret.CheckName(id) != nil {
				id = "key"
			}
			fix = fmt.Sprintf("run export %s=VALUE, or store the value: crabmem secret set %s && crabmem config set %s secret:%s", name, id, errtable.ShellWord(key), id)
		}
		place{f, p.line}.addFix(fix, "%s: the environment variable %s is not set", key, name)
		l.broken[len(l.broken)-1].Variable = name
	}
}

// addSecret adds the problem of a secret that cannot be read.
func (l *loader) addSecret(p place, key, name string, err error) {
	f, row := l.part(p.f), errtable.Find(err)
	if f.full() {
		return
	}
	if row.Kind == "not_found" {
		place{f, p.line}.addFix(row.Fix, "%s: the secret %s is not set: %s", key, name, row.Fix)
	} else {
		place{f, p.line}.addFix(row.Fix, "%s: the secret %s cannot be read: %v", key, name, err)
	}
	l.broken[len(l.broken)-1].Secret = name
}

// unknown adds a message that ends with the name that was probably meant.
func (p place) unknown(name string, known []string, format string, args ...any) {
	if !p.f.full() {
		p.add("%s", fmt.Sprintf(format, args...)+suggest(name, known))
	}
}

// reason returns the cause of a read error without the path.
func reason(err error) string {
	switch big, tooLarge := errors.AsType[*vfs.TooLargeError](err); {
	case errors.Is(err, vfs.ErrNotRegular):
		return "not a regular file (links are not followed): replace it with a regular file"
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case tooLarge:
		return fmt.Sprintf("%d bytes, more than the limit of %d", big.Size, big.Max)
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// suggest returns the known name that is most similar, as the end of a message.
// It returns "" if there are too many names.
func suggest(name string, known []string) string {
	if len(known) > 1100 {
		return ""
	}
	want := []rune(strings.ToLower(name))
	best, dist := "", max(2, len(name)/3)+1
	for _, k := range known {
		if d := display.Distance(want, []rune(k), dist); d < dist && d < len(k) {
			best, dist = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean '%s'?", best)
}
