// Package links follows the links between the entries of a store and draws them as a
// graph. [metadata] defines which texts are links.
package links

import (
	"errors"
	"iter"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// State tells how a link finds its entry.
type State string

// The states of a link.
const (
	ByName    State = "name"      // the target is the name of an entry
	ByAlias   State = "alias"     // the target is an alias of one entry
	Broken    State = "broken"    // no entry has the name or the alias
	Ambiguous State = "ambiguous" // several entries have the alias or a similar name, so the link leads to none
)

// A Link is a link of an entry.
type Link struct {
	From     string   `json:"from" jsonschema:"name of the entry that contains the link"`
	FromID   uint64   `json:"from_id"`
	Line     int      `json:"line" jsonschema:"of the content, from 1"`
	Relation string   `json:"relation" op:"words=related|supersedes|contradicts|caused_by|part_of"`
	Target   string   `json:"target" jsonschema:"text of the link"`
	State    State    `json:"state"`
	To       string   `json:"to,omitempty" jsonschema:"name of the entry that the link leads to"`
	ToID     uint64   `json:"to_id,omitempty"`
	Owners   []string `json:"owners,omitempty" jsonschema:"names of the entries with an ambiguous alias"`
}

// Leads reports whether the link leads to an entry.
func (l *Link) Leads() bool { return l.State == ByName || l.State == ByAlias }

// Of returns the links of an entry in their order. A link finds its entry as
// [crmem.Store.Link] does. Links to other files, and to places in the entry, are omitted.
func Of(s *crmem.Store, e crmem.Entry) (list []Link) {
	for _, p := range metadata.Places(e.Content) {
		l := Link{From: e.Name, FromID: e.ID, Line: p.Line, Relation: p.Relation, Target: p.Target, State: Broken}
		to, err := s.Link(p.Target)
		many, ok := errors.AsType[*crmem.AmbiguousError](err)
		switch {
		case ok:
			l.State, l.Owners = Ambiguous, many.Owners
		case err != nil && !metadata.IsEntry(p.Target):
			continue
		case err == nil:
			l.To, l.ToID, l.State = to.Entry.Name, to.Entry.ID, ByName
			if to.Alias {
				l.State = ByAlias
			}
		}
		list = append(list, l)
	}
	return list
}

// All returns the links of all entries, ascending by ID. If the store changes during
// the iteration, a link may lead to a newer entry.
func All(s *crmem.Store) iter.Seq[Link] {
	return func(yield func(Link) bool) {
		for e := range s.All() {
			for _, l := range Of(s, e) {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// To returns the links that lead to an entry, ascending by the ID of their entries.
func To(s *crmem.Store, id uint64) (list []Link) {
	for l := range All(s) {
		if l.Leads() && l.ToID == id {
			list = append(list, l)
		}
	}
	return list
}
