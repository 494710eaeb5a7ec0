package crmem

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"crabmem/crmem/internal/format"
)

// SameName reports whether two names are canonically equivalent, such as "é" as one
// character and as a letter with an accent. Files and the log keep each name as it was
// given. Only the lookup of a name that no entry has finds an equivalent name.
func SameName(a, b string) bool { return a == b || norm.NFC.String(a) == norm.NFC.String(b) }

// isNormal reports whether a name is in normal form C. Characters below U+0300 are.
func isNormal(name string) bool {
	for i := range len(name) {
		if name[i] >= 0xcc {
			return norm.NFC.IsNormalString(name)
		}
	}
	return true
}

// normalForm returns a name's normal form C.
func normalForm(name string) string {
	if isNormal(name) {
		return name
	}
	return norm.NFC.String(name)
}

// forms contains names that differ from another form of theirs, by that form.
type forms map[string][]string

// add adds a name of another form.
func (f *forms) add(name, form string) {
	if form == name {
		return
	}
	if *f == nil {
		*f = make(forms)
	}
	if !slices.Contains((*f)[form], name) {
		(*f)[form] = append((*f)[form], strings.Clone(name)) // a piece of a record would keep the record in memory
	}
}

func (f forms) remove(name, form string) {
	if form == name {
		return
	}
	f[form] = slices.DeleteFunc(f[form], func(other string) bool { return other == name })
	if len(f[form]) == 0 {
		delete(f, form)
	}
}

// equivalentNames returns the ids of the entries whose names are canonically equivalent
// to a name that no entry has, ascending.
func (t *table) equivalentNames(name string) (ids []uint64) {
	form := norm.NFC.String(name)
	for _, other := range append([]string{form}, t.nameForms[form]...) {
		if r := t.byName(other); r != "" {
			ids = append(ids, r.ID())
		}
	}
	return t.withFile(ids, form, false, func(other string) bool { return SameName(other, form) })
}

// equivalentAliases returns the ids of the entries with an alias that is canonically
// equivalent to one that no entry has, ascending. The map of aliases exists.
func (t *table) equivalentAliases(alias string) (ids []uint64) {
	form := norm.NFC.String(alias)
	for _, other := range append([]string{form}, t.aliasForms[form]...) {
		ids = append(ids, t.alias(other)...)
	}
	return t.withFile(ids, form, true, func(other string) bool { return SameName(other, form) })
}

// withFile adds the entries of the index file with a name or an alias of a form that is
// the same, and returns the ids ascending.
func (t *table) withFile(ids []uint64, form string, alias bool, same func(string) bool) []uint64 {
	if t.file != nil {
		for _, r := range t.file.find(form, alias, same) {
			if _, ok := t.at(r.ID()); !ok {
				ids = append(ids, r.ID())
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// find returns an entry's name and staged record by a name. If no entry has the name, the
// only entry with a canonically equivalent name counts; without one, the record is empty.
func (g *stage) find(name string) (string, format.Record, error) {
	if r := g.get(name); r != "" {
		return name, r, nil
	}
	form := norm.NFC.String(name)
	others := []string{form}
	for _, f := range g.forms {
		others = append(others, f[form]...)
	}
	for _, id := range g.t.equivalentNames(name) {
		others = append(others, strings.Clone(g.t.byID(id).Name())) // a piece of a record would keep the record in memory
	}
	var owners []string
	for _, other := range others {
		if g.get(other) != "" && !slices.Contains(owners, other) {
			owners = append(owners, other)
		}
	}
	switch len(owners) {
	case 0:
		return name, "", nil
	case 1:
		return owners[0], g.get(owners[0]), nil
	}
	return name, "", &AmbiguousError{Alias: name, Owners: owners}
}
