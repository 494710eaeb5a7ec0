package op

import (
	"context"
	"slices"

	"crabmem/crmem/links"
	"crabmem/daemon/errtable"
)

// LinkFilter selects links. Without Name and ID, it selects the links of all entries.
type LinkFilter struct {
	EntryName
	Broken bool `json:"broken,omitempty"` // only those that lead to no entry
}

// EntryLinks are the links of an entry, then the links of other entries to it.
type EntryLinks struct {
	Name  string       `json:"name,omitempty" jsonschema:"of the entry; absent for the links of all entries"`
	Links []links.Link `json:"links"`
}

var ReadLinks = Add(errtable.Store, Op[Store, LinkFilter, EntryLinks]{
	Name: "entries.links", Does: "List the links of an entry, and the links to it.", Effect: Reads, Need: NeedRead,
	Run: func(_ context.Context, s Store, in *LinkFilter) (EntryLinks, error) {
		out := EntryLinks{Links: []links.Link{}}
		if in.EntryName == (EntryName{}) {
			out.Links = slices.AppendSeq(out.Links, links.All(s.Store))
		} else {
			e, err := s.named(in.EntryName)
			if err != nil {
				return out, err
			}
			out.Name = e.Name
			out.Links = append(out.Links, links.Of(s.Store, e)...)
			for _, l := range links.To(s.Store, e.ID) {
				if l.FromID != e.ID { // listed above
					out.Links = append(out.Links, l)
				}
			}
		}
		if in.Broken {
			out.Links = slices.DeleteFunc(out.Links, func(l links.Link) bool { return l.Leads() })
		}
		return out, nil
	},
})
