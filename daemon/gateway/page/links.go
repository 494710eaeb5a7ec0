package page

import (
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/op"
)

const (
	maxLinkNames = 4  // names of an entry whose links are searched for
	maxLinked    = 50 // hits of each search
)

// linkedEntry is an entry that links to another.
type linkedEntry struct {
	ID   uint64
	Name string
}

// linkedFrom returns entries that link to an entry, by name. It searches for the words of
// each name in a row, because no index contains links.
func (v *visit) linkedFrom(e *crmem.Entry) (list []linkedEntry, err error) {
	names := append([]string{e.Name}, e.Aliases...)
	seen := map[uint64]bool{e.ID: true}
	for i, name := range names[:min(len(names), maxLinkNames)] {
		if i > 0 {
			if to, err := op.ReadEntry(v.r.Context(), v.store(), op.EntryName{Name: name}); err != nil || to.ID != e.ID { // a name of another entry, or an alias of several
				continue
			}
		}
		q := op.Question{Query: `"` + strings.ReplaceAll(name, `"`, " ") + `"`, Syntax: true, Limit: maxLinked}
		a, err := op.Recall.Do(v.r.Context(), v.store(), q)
		if err != nil {
			return nil, err
		}
		for _, hit := range a.Hits {
			leads := func(l metadata.Link) bool { return l.Target == name }
			if !seen[hit.ID] && hit.Content != nil && slices.ContainsFunc(metadata.Links(*hit.Content), leads) {
				seen[hit.ID] = true
				list = append(list, linkedEntry{hit.ID, hit.Name})
			}
		}
	}
	slices.SortFunc(list, func(a, b linkedEntry) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
