//go:build unix

package displaced_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/refdec"
)

// Outcomes of a cell, best first.
const (
	kept     = "kept"         // an open returns every entry, without a message
	warned   = "kept, warned" // an open returns every entry, with a message
	repaired = "repair"       // a repair that the error names restores every entry
	copied   = "copy"         // a message names a copy with the missing entries
	reported = "LOST, reported"
	silent   = "LOST"
)

// oracle follows the messages to find the acknowledged entries.
type oracle struct {
	t        *testing.T
	acked    map[string]string
	maybe    map[string]string
	extra    []string // unexpected entries
	messages []string // messages of the first open, and of the repairs after it
}

var ownName = regexp.MustCompile(`/[^ ]*\.own-[0-9a-f]{8}(\.[0-9]+)?`)

// outcome returns the outcome for a machine without running writers.
func (o *oracle) outcome(m machine) string {
	lines, state, err := reopen(m.copied(o.t))
	o.messages = lines
	if err != nil {
		o.messages = append(o.messages, err.Error())
	}
	if err == nil {
		if o.has(state) {
			if len(lines) > 0 {
				return warned
			}
			return kept
		}
		if o.has(state, o.copies(m, lines)...) {
			return copied
		}
		if len(lines) == 0 {
			return silent
		}
		return reported
	}
	if o.has(nil, o.copies(m, o.messages)...) {
		return copied
	}
	if out := o.explore(m, err, 0); out != "" {
		return out
	}
	return reported
}

// explore tries each remedy of an error on a copy of the machine. It returns the
// outcome of the first that restores every entry, or "".
func (o *oracle) explore(m machine, err error, depth int) string {
	if depth == 4 {
		return ""
	}
	o.messages = append(o.messages, err.Error())
	for _, remedy := range remedies(m, err) {
		c := m.copied(o.t)
		if rerr := remedy(c); rerr != nil {
			if rerr.Error() != err.Error() {
				if out := o.explore(c, rerr, depth+1); out != "" {
					return out
				}
			}
			continue
		}
		lines, state, rerr := reopen(c.copied(o.t))
		if rerr != nil {
			if out := o.explore(c, rerr, depth+1); out != "" {
				return out
			}
			continue
		}
		if o.has(state) {
			return repaired
		}
		if o.has(state, o.copies(c, append(lines, o.messages...))...) {
			return copied
		}
	}
	return ""
}

// reopen opens the store as a writer, and returns warnings and entries.
func reopen(m machine) (lines []string, state map[string]string, err error) {
	s, err := crmem.Open(m.store(), options(m, crmem.CheckpointNever, func(line string) { lines = append(lines, line) }))
	if err != nil {
		return lines, nil, err
	}
	state = map[string]string{}
	for e := range s.All() {
		state[e.Name] = e.Content
	}
	return lines, state, s.Close()
}

var (
	keepLog  = regexp.MustCompile(`--keep-log (/[^ ]*)`)
	moveLog  = regexp.MustCompile(`without its log (/[^ ,]*), which .*: move the log to (/[^ ]*),`)
	removeID = regexp.MustCompile(`remove (/[^ ]*) if the log is correct`)
	useFile  = regexp.MustCompile(`(?:in|to) (/[^ ]*\.own-[^ :]*): .*rename that file to`)
)

// remedies returns the actions that an error recommends.
func remedies(m machine, err error) (list []func(machine) error) {
	text := err.Error()
	repairWith := func(o crmem.RepairOptions) func(machine) error {
		return func(c machine) error {
			o := o
			o.FS, o.KeepLog = c, moveRoot(m, c, o.KeepLog)
			_, err := crmem.Repair(c.store(), &o)
			return err
		}
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, vfs.ErrNotRegular) || strings.Contains(text, "directory") || strings.Contains(text, "hard links") {
		list = append(list, clearNames)
	}
	if match := moveLog.FindStringSubmatch(text); match != nil {
		list = append(list, func(c machine) error {
			return c.Rename(moveRoot(m, c, match[1]), moveRoot(m, c, match[2]))
		})
	}
	if match := removeID.FindStringSubmatch(text); match != nil {
		list = append(list, func(c machine) error { return c.Remove(moveRoot(m, c, match[1])) })
	}
	if match := useFile.FindStringSubmatch(text); match != nil {
		list = append(list, func(c machine) error {
			create(c, c.store(), read(c, moveRoot(m, c, match[1])))
			_, err := crmem.Repair(c.store(), &crmem.RepairOptions{FS: c, KeepDB: true})
			return err
		})
	}
	if !strings.Contains(text, "repair") && !errors.Is(err, crmem.ErrFormat) {
		return list
	}
	list = append(list, repairWith(crmem.RepairOptions{}))
	if strings.Contains(text, "--rejoin") {
		list = append(list, repairWith(crmem.RepairOptions{Rejoin: true}))
	}
	if match := keepLog.FindStringSubmatch(text); match != nil {
		list = append(list, repairWith(crmem.RepairOptions{KeepLog: match[1]}))
	}
	if strings.Contains(text, "--keep-db") {
		list = append(list, repairWith(crmem.RepairOptions{KeepDB: true}))
	}
	return list
}

// moveRoot returns the path in machine c of a file of machine m.
func moveRoot(m, c machine, name string) string {
	root := func(m machine) string { return filepath.Dir(filepath.Dir(m.store())) }
	rest, ok := strings.CutPrefix(name, root(m))
	if !ok {
		return name
	}
	return filepath.Join(root(c), rest)
}

// clearNames makes the store's regular files readable and removes other file types.
func clearNames(m machine) error {
	for _, suffix := range targets[len(targets)-1].suffixes {
		name := m.store() + suffix
		fi, err := m.Lstat(name)
		switch {
		case err != nil:
		case fi.Mode().IsRegular():
			m.chmod(name, 0o600)
		default:
			must(m.Remove(name))
		}
	}
	return nil
}

// copies reads the copies of the store that messages name.
func (o *oracle) copies(m machine, lines []string) (list []map[string]string) {
	for _, line := range lines {
		for _, name := range ownName.FindAllString(line, -1) {
			name = strings.TrimRight(name, ":;,")
			name = filepath.Join(filepath.Dir(m.store()), filepath.Base(name))
			b, err := vfs.ReadFile(m, name, 1<<30)
			if err != nil {
				o.t.Errorf("a message names %s: %v", name, err)
				continue
			}
			s, err := refdec.Snapshot(b)
			if err != nil {
				o.t.Errorf("%s: %v", name, err)
				continue
			}
			state := map[string]string{}
			for _, e := range s.Entries {
				state[e.Name] = e.Content
			}
			list = append(list, state)
		}
	}
	return list
}

// has reports whether the states together contain every acknowledged entry. If so,
// it also records entries that no writer wrote.
func (o *oracle) has(state map[string]string, more ...map[string]string) bool {
	missing := maps.Clone(o.acked)
	var extra []string
	for _, s := range append(more, state) {
		for name, content := range s {
			if missing[name] == content {
				delete(missing, name)
			}
			if o.acked[name] != content && o.maybe[name] != content && !strings.Contains(name, "rejoined") && !outdated[name+"="+content] {
				extra = append(extra, fmt.Sprintf("%s=%q", name, content))
			}
		}
	}
	if len(missing) == 0 {
		o.extra = append(o.extra, extra...)
	}
	return len(missing) == 0
}

// outdated lists contents that a later write of a start replaces.
var outdated = map[string]bool{"s1=one": true}
