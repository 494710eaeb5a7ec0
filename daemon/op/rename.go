package op

import (
	"context"
	"slices"

	"crabmem/crmem"
	"crabmem/crmem/links"
	"crabmem/daemon/errtable"
)

// Renaming is a new name of an entry.
type Renaming struct {
	Name      string `json:"name"`
	To        string `json:"to"`
	KeepLinks bool   `json:"keep_links,omitempty"` // change no link, and add no alias
}

// Renamed is a renamed entry.
type Renamed struct {
	crmem.EntryInfo
	Old      string `json:"renamed" jsonschema:"the name before"`
	Relinked int    `json:"relinked" jsonschema:"number of other entries whose links changed"`
	Shared   bool   `json:"shared,omitempty" jsonschema:"another entry has the old name as an alias, too"`
}

var Rename = Add(errtable.Store, Op[Store, Renaming, Renamed]{
	Name: "entries.rename", Does: "Rename an entry, and change the links to it.", Effect: Writes,
	Run: func(ctx context.Context, s Store, in *Renaming) (out Renamed, err error) {
		var e crmem.Entry
		list, err := s.Update(ctx, func(st *crmem.Store) ([]crmem.Op, error) {
			if e, err = FindEntry(st, in.Name); err != nil {
				return nil, err
			}
			out = Renamed{Old: e.Name}
			first := crmem.Rename{Name: e.Name, To: in.To, NoAlias: in.KeepLinks}
			ops := []crmem.Op{first}
			if e.Name == in.To {
				return ops, nil
			}
			for other := range st.All() {
				out.Shared = out.Shared || !in.KeepLinks && other.ID != e.ID && slices.Contains(other.Aliases, e.Name)
				content := other.Content
				if !in.KeepLinks {
					content = links.Renamed(st, other, e, in.To)
				}
				switch {
				case content == other.Content:
				case other.ID == e.ID:
					first.Content = &content
					ops[0] = first
				default:
					ops = append(ops, crmem.Update{Name: other.Name, Content: content, Aliases: other.Aliases})
				}
			}
			out.Relinked = len(ops) - 1
			return ops, nil
		})
		if len(list) > 0 {
			e = list[0]
		}
		out.EntryInfo = e.Info(true)
		return out, err
	},
})
