package op

import (
	"context"
	"net/http"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
)

// NamedQuery names an entry by its exact name, or by an alias that one entry has.
type NamedQuery struct {
	Name   string `json:"name" jsonschema:"the name of the entry, or an alias that no other entry has" op:"size=4096"`
	Use    bool   `json:"use,omitempty" jsonschema:"true: with the times of changes and reads"`
	Remove string `json:"remove,omitempty" jsonschema:"the entry is to be removed: note refuses an alias and an archive, any only an alias" op:"words=note|any"`
}

// ReadNamed returns the entry of a name. Its errors suggest similar names.
var ReadNamed = Add(errtable.Store, Op[Store, NamedQuery, Entry]{
	Name: "entries.named", Does: "Read an entry by its name.", Effect: Reads, Need: NeedRead,
	Path: "GET /v1/memories/named", Fails: []int{http.StatusConflict},
	Run: func(_ context.Context, s Store, in *NamedQuery) (Entry, error) {
		find := FindEntry
		if in.Remove != "" {
			find = func(st *crmem.Store, name string) (crmem.Entry, error) {
				return FindToRemove(st, name, in.Remove == "any")
			}
		}
		e, err := find(s.Store, in.Name)
		if err != nil {
			return Entry{}, err
		}
		if in.Use {
			return *s.shown(&e, true), nil
		}
		return *EntryOf(&e, true), nil
	},
})
