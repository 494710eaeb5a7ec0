package op

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/once"
)

// A Change is a change of an entry, which is as after the change or, if the change
// removed it, as before.
type Change struct {
	Change  uint64           `json:"change" jsonschema:"its number; 0: another program made it"`
	Time    time.Time        `json:"time,omitzero" jsonschema:"RFC 3339; absent if unknown"`
	By      crmem.Actor      `json:"by"`
	Type    crmem.ChangeType `json:"type"`
	OldName string           `json:"old_name,omitempty" jsonschema:"before a rename"`
	crmem.EntryInfo
	Redacted time.Time `json:"redacted,omitzero" jsonschema:"when the content was removed from the history"`

	Place  uint64 `json:"-" cbor:"place"`            // in the history of the entry; the oldest has 1
	SHA256 []byte `json:"-" cbor:"sha256,omitempty"` // of the content
}

// ChangeFilter selects changes.
type ChangeFilter struct {
	ID uint64 `json:"id,omitempty"` // of the entry; 0: all entries
	// Seq selects only the change with this number, with its content.
	Seq uint64 `json:"change,omitempty" op:"owner"`
	// Until selects only changes up to this place, and Limit the newest ones. 0: no limit.
	Until    uint64   `json:"after,omitempty" jsonschema:"next of the page before"`
	Limit    int      `json:"limit,omitempty" jsonschema:"items of a page, at least 1; absent: 50" op:"default=50,min=1,max=200"`
	Sums     bool     `json:"sums,omitempty" op:"owner"` // with digests of the contents
	NewestOf []uint64 `json:"newest_of,omitempty" op:"owner"`
}

// ChangeList is a page of changes, newest first.
type ChangeList struct {
	Changes []Change `json:"items"`
	Next    string   `json:"next,omitempty" jsonschema:"value of after for the next page; absent on the last page"`
	Damaged string   `json:"damaged,omitempty" jsonschema:"why a part of the history is not readable" op:"paths"`
}

const (
	maxNewest     = 200    // entries whose newest changes a request selects
	maxAllChanges = 10_000 // changes of all entries in a response
)

// ListChanges lists the changes of an entry that exists, of a removed one, or of all
// entries. Without content, it keeps no text of the history in memory.
var ListChanges = Add(errtable.Store, Op[Store, ChangeFilter, ChangeList]{
	Name: "entries.changes", Does: "List versions of an entry, newest first.", Effect: Reads, Need: NeedRead, Path: "GET /v1/memories/{id}/history",
	Run: func(_ context.Context, s Store, in *ChangeFilter) (ChangeList, error) {
		if n := len(in.NewestOf); n > maxNewest || n > 0 && (in.ID != 0 || in.Seq != 0) {
			return ChangeList{}, errtable.Invalidf("newest_of: want at most %d entries, without id and change", maxNewest)
		}
		if in.ID == 0 && in.Seq == 0 && len(in.NewestOf) == 0 && (in.Limit < 1 || in.Limit > maxAllChanges) {
			return ChangeList{}, errtable.Invalidf("limit: want 1 to %d changes of all entries", maxAllChanges)
		}
		if s.NoHistory {
			return ChangeList{}, &errtable.Error{HTTP: http.StatusNotFound, Kind: "no_history", Exit: errtable.ExitNotFound,
				Message: "the store keeps no history", Fix: `set history = "on" in [memory] of config.toml`}
		}
		out, err := s.changes(in)
		if err == nil && in.ID != 0 && len(out.Changes) == 0 { // the history may begin later, or be empty
			_, err = s.entry(in.ID)
		}
		return out, err
	},
})

func (s Store) changes(in *ChangeFilter) (out ChangeList, err error) {
	out.Changes = []Change{}
	place := uint64(0)
	for c, err := range s.selected(in) {
		if err != nil {
			out.Damaged = clip.Bytes(err.Error(), 1<<10)
			continue
		}
		if len(in.NewestOf) > 0 {
			out.Changes = slices.DeleteFunc(out.Changes, func(older Change) bool { return older.ID == c.Entry().ID })
		}
		if place++; in.Until > 0 && place > in.Until {
			break
		}
		if in.Seq > 0 && c.Seq != in.Seq {
			continue
		}
		if in.Limit > 0 && len(out.Changes) == in.Limit {
			out.Changes = slices.Delete(out.Changes, 0, 1)
		}
		out.Changes = append(out.Changes, changeOf(&c, place, in))
	}
	if in.Seq > 0 && len(out.Changes) == 0 {
		return out, fmt.Errorf("%w: the history has no change %d of entry %d", crmem.ErrNotFound, in.Seq, in.ID)
	}
	if len(out.Changes) > 0 && in.Seq == 0 && len(in.NewestOf) == 0 && out.Changes[0].Place > 1 {
		out.Next = strconv.FormatUint(out.Changes[0].Place-1, 10)
	}
	slices.Reverse(out.Changes)
	return out, nil
}

// selected returns the changes of the entries of a filter, oldest first.
func (s Store) selected(in *ChangeFilter) iter.Seq2[crmem.Change, error] {
	switch {
	case len(in.NewestOf) > 0:
		return s.ChangesOfID(in.NewestOf...)
	case in.ID == 0:
		return s.Store.Changes()
	}
	return s.ChangesOfID(in.ID)
}

// changeOf returns a change for a response. Without content, it shares no memory with c.
func changeOf(c *crmem.Change, place uint64, in *ChangeFilter) Change {
	out := ChangeOf(c, in.Seq > 0)
	out.Place = place
	if in.Sums || in.Seq > 0 {
		sum := sha256.Sum256([]byte(c.Entry().Content))
		out.SHA256 = sum[:]
	}
	out.Name, out.OldName = strings.Clone(out.Name), strings.Clone(out.OldName)
	for i, a := range out.Aliases {
		out.Aliases[i] = strings.Clone(a)
	}
	return out
}

// ChangeOf returns a change for an output, with the content if full is set.
func ChangeOf(c *crmem.Change, full bool) Change {
	out := Change{Change: c.Seq, Time: c.Time.UTC(), By: c.By, Type: c.Type, EntryInfo: c.Entry().Info(full), Redacted: c.Redacted().UTC()}
	if c.Type == crmem.ChangeRename {
		out.OldName = c.Before.Name
	}
	return out
}

var ShowVersion = Add(errtable.Store, Op[Store, Version, Change]{
	Name: "entries.version", Does: "Read a version of an entry.", Effect: Reads, Need: NeedRead, Path: "GET /v1/memories/{id}/history/{change}",
	Run: func(ctx context.Context, s Store, in *Version) (Change, error) {
		list, err := ListChanges.Do(ctx, s, ChangeFilter{ID: in.ID, Seq: in.Seq})
		if errors.Is(err, crmem.ErrNotFound) || err == nil && len(list.Changes) == 0 {
			err = &errtable.Error{HTTP: http.StatusNotFound, Kind: "not_found", Exit: errtable.ExitNotFound, Err: err,
				Message: fmt.Sprintf("no version %d of entry %d", in.Seq, in.ID), Fix: "list the versions with GET /v1/memories/{id}/history"}
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

// NewestChanges returns the newest change of each of at most 200 entries that the
// history contains, by ID.
func NewestChanges(ctx context.Context, c Caller, ids ...uint64) (map[uint64]Change, error) {
	newest := make(map[uint64]Change)
	if len(ids) == 0 {
		return newest, nil
	}
	list, err := ListChanges.Do(ctx, c, ChangeFilter{NewestOf: ids, Sums: true})
	for _, change := range list.Changes {
		newest[change.ID] = change
	}
	return newest, err
}

// ChangeNumber names a change.
type ChangeNumber struct {
	Seq uint64 `json:"change"`
}

// Undone is an entry before and after a change was undone. An ID of 0 is a missing entry.
type Undone struct {
	Before crmem.Entry `json:"before"`
	After  crmem.Entry `json:"after"`
}

var Undo = Add(errtable.Store, Op[Store, ChangeNumber, Undone]{
	Name: "entries.undo", Does: "Restore an entry to its state before a change.", Effect: Writes,
	Did: func(_ *ChangeNumber, u *Undone) once.Effect {
		if u.After.ID == 0 {
			return once.Effect{Entry: u.Before.ID}
		}
		return effectOn(&u.After)
	},
	Run: func(_ context.Context, s Store, in *ChangeNumber) (Undone, error) {
		c, err := s.Store.Undo(in.Seq, s.by()...)
		return Undone{c.Before, c.After}, err
	},
})
