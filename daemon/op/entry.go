package op

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/secret/scan"
)

// unnamed is the name of an entry whose content has no title.
const unnamed = "note"

// NewName returns a name for a new entry: the content's title without secrets. If an entry
// has that name, the day follows it, and then a number. If the entry with one of these names
// is a note with the same content, NewName returns its name and the note.
func NewName(s *crmem.Store, o crmem.Remember, now time.Time) (name string, same crmem.Entry, err error) {
	o.Name = unnamed
	content, err := o.ContentFor("")
	if err != nil {
		return "", same, err
	}
	base := cmp.Or(metadata.Title(scan.Replace(content, scan.Find(content))), unnamed)
	name = base
	for n := 1; ; n++ {
		e, err := s.Get(name)
		switch {
		case errors.Is(err, crmem.ErrNotFound):
			return name, same, nil
		case err == nil && e.Name == name && e.Kind == crmem.Note && e.Content == content:
			return name, e, nil
		case n == 1:
			name = base + now.Format(" 2006-01-02")
		default:
			name = fmt.Sprintf("%s %s %d", base, now.Format(time.DateOnly), n)
		}
	}
}

// FindEntry returns the entry of a name, or of an alias that one entry has, or else of an
// ID after #.
func FindEntry(s *crmem.Store, name string) (crmem.Entry, error) {
	e, err := s.Get(name)
	if id := numberOf(name); id != 0 && errors.Is(err, crmem.ErrNotFound) {
		if found, err := (Store{Store: s}).entry(id); err == nil {
			return found, nil
		}
	}
	switch {
	case errors.Is(err, crmem.ErrAmbiguous):
		return e, &errtable.Error{Kind: "ambiguous", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, Path: s.Path(), Err: err,
			Message: err.Error(), Fix: "use one of the names"}
	case errors.Is(err, crmem.ErrNotFound):
		return e, notFound(s, err, nearFix(s, name)+"run crabmem list to see the names, or crabmem recall to search the entries", "no entry %q", name)
	}
	return e, err
}

// numberOf returns the ID in a name such as #5, or 0.
func numberOf(name string) uint64 {
	digits, ok := strings.CutPrefix(name, "#")
	id, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil {
		return 0
	}
	return id
}

// isArchive returns the error for an archive in place of a note.
func isArchive(s *crmem.Store, name, fix string) error {
	return &errtable.Error{Kind: "kind", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, Path: s.Path(), Err: crmem.ErrKind,
		Message: display.Quoted(name) + " is an archive", Fix: fix}
}

// FindToRemove returns the entry of a name or of a canonically equivalent one, which must
// not be an alias. Unless archives is set, the error for an archive is crmem.ErrKind.
func FindToRemove(s *crmem.Store, name string, archives bool) (crmem.Entry, error) {
	e, err := FindEntry(s, name)
	switch {
	case err != nil:
		return e, err
	case !crmem.SameName(e.Name, name) && numberOf(name) != e.ID: // an alias is too often an alias of another entry, too
		return e, notFound(s, crmem.ErrNotFound, "crabmem forget "+errtable.ShellWord(e.Name), "no entry %q; it is an alias of %q", name, e.Name)
	case e.Kind == crmem.Archive && !archives:
		return e, isArchive(s, name, "crabmem forget --archive "+errtable.ShellWord(name))
	}
	return e, nil
}

// WithAliases returns list with the aliases of more that it does not contain.
func WithAliases(list, more []string) []string {
	list = slices.Clone(list)
	for _, a := range more {
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// WithoutAliases returns the aliases of an entry of s without the given ones.
// An alias that the entry does not have means the canonically equivalent ones. The
// error is crmem.ErrNotFound if no entry matches.
func WithoutAliases(s *crmem.Store, e crmem.Entry, given []string) ([]string, error) {
	list := slices.Clone(e.Aliases)
	for _, a := range given {
		exact := slices.Contains(e.Aliases, a)
		if !exact && !slices.ContainsFunc(e.Aliases, func(b string) bool { return crmem.SameName(a, b) }) {
			return nil, notFound(s, crmem.ErrNotFound, "crabmem alias "+errtable.ShellWord(e.Name)+" lists its aliases", "%q has no alias %q", e.Name, a)
		}
		list = slices.DeleteFunc(list, func(b string) bool { return a == b || !exact && crmem.SameName(a, b) })
	}
	return list, nil
}

func notFound(s *crmem.Store, err error, fix, format string, args ...any) error {
	return &errtable.Error{Kind: "not_found", HTTP: http.StatusNotFound, Exit: errtable.ExitNotFound, Path: s.Path(), Err: err,
		Message: fmt.Sprintf(format, args...), Fix: fix}
}
