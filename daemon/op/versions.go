package op

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
)

// EntryVersion is the state of an entry after a change.
type EntryVersion struct {
	Change  uint64           `json:"change" jsonschema:"its number; 0: another program made it"`
	Time    string           `json:"time,omitempty" jsonschema:"RFC 3339; absent if unknown"`
	Type    crmem.ChangeType `json:"type"`
	Name    string           `json:"name" jsonschema:"after the change; before a removal"`
	OldName string           `json:"old_name,omitempty" jsonschema:"before a rename"`
	Kind    string           `json:"kind" jsonschema:"note or archive"`
	Bytes   int              `json:"bytes" jsonschema:"size of the content"`
	Aliases []string         `json:"aliases"`
	Agent   string           `json:"agent,omitempty" jsonschema:"the agent that made the change"`
	Client  string           `json:"client,omitempty" jsonschema:"the program that made the change"`
	Content *string          `json:"content,omitempty" jsonschema:"only of one version"`

	Redacted string `json:"redacted,omitempty" jsonschema:"RFC 3339: when the content was removed from the history"`
}

// VersionQuery selects a page of the versions of an entry.
type VersionQuery struct {
	EntryID
	Limit int    `json:"limit" jsonschema:"items of a page, at least 1; absent: 50" op:"default=50,min=1,max=200"`
	After uint64 `json:"after,omitempty" jsonschema:"next of the page before"`
}

// VersionList is a page of versions, the newest first.
type VersionList struct {
	Items   []*EntryVersion `json:"items"`
	Next    string          `json:"next,omitempty" jsonschema:"value of after for the next page; absent on the last page"`
	Damaged string          `json:"damaged,omitempty" jsonschema:"why a part of the history is not readable" op:"paths"`
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
		out, limit := VersionList{Items: []*EntryVersion{}}, max(in.Limit, 1)
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
			out.Items = append(out.Items, versionOf(&list.Changes[i], false))
		}
		return out, err
	},
})

var ShowVersion = Add(errtable.Store, Op[Store, VersionID, EntryVersion]{
	Name: "entries.version", Does: "Read a version of an entry.", Effect: Reads, Need: NeedRead, Path: "GET /v1/memories/{id}/history/{change}",
	Run: func(ctx context.Context, s Store, in *VersionID) (EntryVersion, error) {
		list, err := ListChanges.Do(ctx, s, ChangeFilter{ID: in.ID, Seq: in.Change})
		if errors.Is(err, crmem.ErrNotFound) || err == nil && len(list.Changes) == 0 {
			err = &errtable.Error{HTTP: http.StatusNotFound, Kind: "not_found", Exit: errtable.ExitNotFound, Err: err,
				Message: fmt.Sprintf("no version %d of entry %d", in.Change, in.ID), Fix: "list the versions with GET /v1/memories/{id}/history"}
		}
		if err != nil {
			return EntryVersion{}, err
		}
		c := &list.Changes[0]
		return *versionOf(c, c.Type != crmem.ChangeRemove), nil
	},
})

// versionOf converts a change, with the content if full is set.
func versionOf(c *Change, full bool) *EntryVersion {
	v := &EntryVersion{Change: c.Seq, Type: c.Type, Name: c.Entry.Name, OldName: c.OldName, Kind: c.Entry.Kind.String(), Bytes: c.Bytes,
		Aliases: append([]string{}, c.Entry.Aliases...), Agent: c.By.Agent, Client: c.By.Client}
	if !c.Time.IsZero() {
		v.Time = c.Time.UTC().Format(time.RFC3339Nano)
	}
	if !c.Redacted.IsZero() {
		v.Redacted = c.Redacted.UTC().Format(time.RFC3339Nano)
	} else if full {
		v.Content = &c.Entry.Content
	}
	return v
}
