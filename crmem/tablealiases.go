package crmem

import (
	"slices"
	"strings"

	"crabmem/crmem/internal/format"
)

// alias returns the ids of the entries that have an alias, ascending.
func (t *table) alias(alias string) []uint64 {
	ids := t.aliased(alias)
	if t.file == nil {
		return ids
	}
	ids = slices.Clone(ids)
	for _, r := range t.file.named(alias, true) {
		if _, ok := t.at(r.ID()); !ok {
			ids = append(ids, r.ID())
		}
	}
	slices.Sort(ids)
	return ids
}

// aliased is alias for the records in recs.
func (t *table) aliased(alias string) []uint64 {
	if t.owners == nil {
		t.owners = make(map[string]*[]uint64)
		for _, r := range t.recs {
			if r.enc != "" {
				t.indexAliases(r.enc)
			}
		}
	}
	if ids := t.owners[alias]; ids != nil {
		return *ids
	}
	return nil
}

func (t *table) indexAliases(r format.Record) {
	if t.owners == nil {
		return
	}
	t.linkNames.add(r.Name(), linkKey(r.Name()))
	for _, a := range r.Aliases() {
		ids := t.owners[a]
		if ids == nil {
			ids = new([]uint64)
			t.owners[strings.Clone(a)] = ids
			t.aliasForms.add(a, normalForm(a))
			t.linkAlias.add(a, linkKey(a))
		}
		if i, ok := slices.BinarySearch(*ids, r.ID()); !ok { // an entry may list an alias twice
			*ids = slices.Insert(*ids, i, r.ID())
		}
	}
}

func (t *table) unindexAliases(r format.Record) {
	if t.owners == nil {
		return
	}
	t.linkNames.remove(r.Name(), linkKey(r.Name()))
	for _, a := range r.Aliases() {
		ids := t.owners[a]
		if ids == nil {
			continue // an entry may list an alias twice
		}
		if i, ok := slices.BinarySearch(*ids, r.ID()); ok {
			*ids = slices.Delete(*ids, i, i+1)
		}
		if len(*ids) == 0 {
			delete(t.owners, a)
			t.aliasForms.remove(a, normalForm(a))
			t.linkAlias.remove(a, linkKey(a))
		}
	}
}
