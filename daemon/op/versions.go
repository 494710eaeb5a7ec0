package op

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
)

// VersionQuery selects a page of the versions of an entry.
type VersionQuery struct {
	EntryID
	Limit int    `json:"limit" jsonschema:"items of a page, at least 1; absent: 50" op:"default=50,min=1,max=200"`
	After uint64 `json:"after,omitempty" jsonschema:"next of the page before"`
}

// VersionList is a page of versions, the newest first.
type VersionList struct {
	Items   []Change `json:"items"`
	Next    string   `json:"next,omitempty" jsonschema:"value of after for the next page; absent on the last page"`
	Damaged string   `json:"damaged,omitempty" jsonschema:"why a part of the history is not readable" op:"paths"`
}

// VersionID names a version of an entry.
type VersionID struct {
	EntryID
	Change uint64 `json:"change"`
}

// ListVersions lists the versions of an entry that exists, or of a removed one.
var ListVersions = Add(errtable.Store, Op[Store, VersionQuery, VersionList]{
	Name: "entries.versions", Does: "List versions of an entry, newest first.", Effect: Reads, Need: NeedRead, Path: "GET /v1/memories/{id}/history",
	Run: func(ctx context.Context, s Store, in *VersionQuery) (VersionList, error) {
		out, limit := VersionList{Items: []Change{}}, max(in.Limit, 1)
		list, err := ListChanges.Do(ctx, s, ChangeFilter{ID: in.ID, Until: in.After, Limit: limit + 1})
		if err != nil {
			return out, err
		}
		if len(list.Changes) == 0 { // the history may begin later, or be empty
			_, err = s.entry(in.ID)
		}
		out.Damaged = list.Damaged
		for i := range list.Changes {
			if i == limit {
				out.Next = strconv.FormatUint(list.Changes[i].Place, 10)
				break
			}
			out.Items = append(out.Items, list.Changes[i])
		}
		return out, err
	},
})

var ShowVersion = Add(errtable.Store, Op[Store, VersionID, Change]{
	Name: "entries.version", Does: "Read a version of an entry.", Effect: Reads, Need: NeedRead, Path: "GET /v1/memories/{id}/history/{change}",
	Run: func(ctx context.Context, s Store, in *VersionID) (Change, error) {
		list, err := ListChanges.Do(ctx, s, ChangeFilter{ID: in.ID, Seq: in.Change})
		if errors.Is(err, crmem.ErrNotFound) || err == nil && len(list.Changes) == 0 {
			err = &errtable.Error{HTTP: http.StatusNotFound, Kind: "not_found", Exit: errtable.ExitNotFound, Err: err,
				Message: fmt.Sprintf("no version %d of entry %d", in.Change, in.ID), Fix: "list the versions with GET /v1/memories/{id}/history"}
		}
		if err != nil {
			return Change{}, err
		}
		c := list.Changes[0]
		if c.Type == crmem.ChangeRemove || !c.Redacted.IsZero() {
			c.Content = nil
		}
		return c, nil
	},
})
