package daemon

import (
	"fmt"
	"regexp"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/space"
)

// The checks of the memory in TestScopesNeverWiden.

// check counts an action on the memory, which the model of the rules permits or not.
func (w *world) check(count *int, permitted bool, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*count++
	if !permitted {
		w.escapes = append(w.escapes, fmt.Sprintf(format, args...))
	}
}

// foundText finds what the memory tools return: the marks of spaces and the paths of
// sessions.
var foundText = regexp.MustCompile(`(mark|at)=([^\s"\\,}]+)`)

// remembered checks the result of a memory tool.
func (w *world) remembered(at, name, out string) {
	p := parsePath(at)
	if forgot, ok := strings.CutPrefix(out, "forgot: victim-"); ok && name == "forget" {
		w.check(&w.forgot, w.mayWrite(p, "forget", forgot), "%s: forget in %s", at, forgot)
		w.put(forgot, "victim-"+forgot)
	}
	for _, m := range foundText.FindAllStringSubmatch(out, -1) {
		switch {
		case name == "recall" && m[1] == "mark":
			w.check(&w.reads, w.mayRead(p, m[2]), "%s: recall in %s", at, m[2])
		case (name == "session_search" || name == "recall" && strings.Contains(out, "\nsession: ")) && m[1] == "at":
			w.check(&w.searched, w.may(at, "tool", "session_search") && w.maySee(p, parsePath(m[2])), "%s: %s finds %s", at, name, m[2])
		}
	}
}

// put writes an entry to a space.
func (w *world) put(name, entry string) {
	err := w.d.writeSpace(name, func(s *crmem.Store) error {
		_, err := s.Remember(entry, "mark="+name, nil)
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
}

// checkSpaces checks the entries that a sequence wrote, and removes them.
func (w *world) checkSpaces() {
	w.t.Helper()
	names, err := space.Names(w.fs, worldHome)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range names {
		err := w.d.inSpace(name, func(s *crmem.Store) error {
			var remove []crmem.Op
			for e := range s.All() {
				if by, ok := strings.CutPrefix(e.Content, "by="); ok {
					w.check(&w.writes, w.mayWrite(parsePath(by), "remember", name), "%s: remember in %s", by, name)
					if space.IsOfSender(name) {
						w.own++
					}
				} else if e.Kind == crmem.Archive {
					_, by, _ := strings.Cut(e.Content, "at=")
					w.check(&w.archives, w.mayWrite(parsePath(by), "archive", name), "%s: archive in %s", by, name)
				} else {
					continue
				}
				remove = append(remove, crmem.Remove{Name: e.Name})
			}
			return s.Apply(remove...)
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}
