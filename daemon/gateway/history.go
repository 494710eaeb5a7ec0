package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// Version is the state of an entry after a change.
type Version struct {
	Version uint64   `json:"version" jsonschema:"sequence number of the change; 0 if another program made it"`
	Time    string   `json:"time,omitempty" jsonschema:"RFC 3339; absent if unknown"`
	Change  string   `json:"change" jsonschema:"add, update, alias, rename, or remove"`
	Name    string   `json:"name" jsonschema:"after the change; before a removal"`
	OldName string   `json:"old_name,omitempty" jsonschema:"before a rename"`
	Kind    string   `json:"kind" jsonschema:"note or archive"`
	Bytes   int      `json:"bytes" jsonschema:"size of the content"`
	Aliases []string `json:"aliases"`
	Agent   string   `json:"agent,omitempty" jsonschema:"the agent that made the change"`
	Client  string   `json:"client,omitempty" jsonschema:"the program that made the change"`
	Content *string  `json:"content,omitempty" jsonschema:"only of one version"`

	Redacted string `json:"redacted,omitempty" jsonschema:"RFC 3339: when the content was removed from the history"`
}

type versionList struct {
	Items   []*Version `json:"items"`
	Next    string     `json:"next,omitempty" jsonschema:"value of after for the next page; absent on the last page"`
	Damaged string     `json:"damaged,omitempty" jsonschema:"why a part of the history is not readable"`
}

var historyRoutes = []route{
	{method: "GET", path: "/v1/memories/{id}/history", summary: "List versions of an entry, newest first", out: of[versionList](), status: 200, fails: []int{403},
		query: []param{spaceParam, limitParam, {name: "after", summary: "next of the page before", kind: "integer"}}, run: (*call).listVersions},
	{method: "GET", path: "/v1/memories/{id}/history/{version}", summary: "Read a version of an entry", out: of[Version](), status: 200, fails: []int{403},
		query: []param{spaceParam}, run: (*call).readVersion},
}

// versionOf converts a change, with the content if full is set.
func versionOf(c *op.Change, full bool) *Version {
	v := &Version{Version: c.Seq, Change: string(c.Type), Name: c.Entry.Name, OldName: c.OldName, Kind: c.Entry.Kind.String(), Bytes: c.Bytes,
		Aliases: append([]string{}, c.Entry.Aliases...), Agent: c.By.Agent, Client: c.By.Client}
	if !c.Time.IsZero() {
		v.Time = c.Time.UTC().Format(time.RFC3339Nano)
	}
	if !c.Redacted.IsZero() {
		v.Redacted = exactTime(c.Redacted)
	} else if full {
		v.Content = &c.Entry.Content
	}
	return v
}

// listVersions lists the versions of an entry that exists, or of a removed one.
func (c *call) listVersions() (any, error) {
	list := versionList{Items: []*Version{}}
	limit := max(c.number("limit", defaultPage), 1)
	return &list, c.in(func(d *client.Client) error {
		id, ok := positive(c.r.PathValue("id"))
		if !ok {
			return c.noEntry()
		}
		all, err := op.ListChanges.Do(c.r.Context(), d, op.ChangeFilter{ID: id, Until: c.number("after", 0), Limit: int(limit) + 1})
		if err != nil {
			return err
		}
		changes := all.Changes
		if len(changes) == 0 { // the history may begin later, or be empty
			if _, err := c.entry(d); err != nil {
				return err
			}
		}
		list.Damaged = c.g.hide(all.Damaged)
		if len(changes) > int(limit) {
			list.Next = strconv.FormatUint(changes[limit].Place, 10)
			changes = changes[:limit]
		}
		for i := range changes {
			list.Items = append(list.Items, versionOf(&changes[i], false))
		}
		return nil
	})
}

func (c *call) readVersion() (v any, err error) {
	text := c.r.PathValue("version")
	missing := problemf(http.StatusNotFound, "not_found", "no version %s of entry %s", printable(text), printable(c.r.PathValue("id"))).
		fix("list the versions with GET /v1/memories/{id}/history")
	id, known := positive(c.r.PathValue("id"))
	seq, ok := positive(text)
	if !known || !ok {
		return nil, missing
	}
	err = c.in(func(d *client.Client) error {
		list, err := op.ListChanges.Do(c.r.Context(), d, op.ChangeFilter{ID: id, Seq: seq})
		if errors.Is(err, crmem.ErrNotFound) || err == nil && len(list.Changes) == 0 {
			return missing
		}
		if err != nil {
			return err
		}
		change := &list.Changes[0]
		v = versionOf(change, change.Type != crmem.ChangeRemove)
		return nil
	})
	return v, err
}
