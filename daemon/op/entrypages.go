package op

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/once"
)

// Entry is an entry in a state that a change may require.
type Entry struct {
	crmem.EntryInfo
	ETag string `json:"etag" jsonschema:"of this state of the entry, for If-Match" op:"header=ETag"`
}

// EntryOf returns an entry, with its content if full is set.
func EntryOf(e *crmem.Entry, full bool) *Entry { return &Entry{e.Info(full), ETag(e)} }

// shown is EntryOf with the use of an entry of the store.
func (s Store) shown(e *crmem.Entry, full bool) *Entry {
	out := EntryOf(e, full)
	if e.ID > 0 {
		s.AddUse(&out.EntryInfo)
	}
	return out
}

// EntryQuery selects a page of entries.
type EntryQuery struct {
	Limit int    `json:"limit" jsonschema:"items of a page, at least 1; absent: 50" op:"default=50,min=1,max=200"`
	After uint64 `json:"after,omitempty" jsonschema:"next of the page before"`
	Kind  string `json:"kind,omitempty" jsonschema:"only this kind" op:"words=note|archive"`
	Name  string `json:"name,omitempty" jsonschema:"only the entry with this name or alias" op:"size=4096"`
	View  string `json:"view,omitempty" jsonschema:"full: with contents; absent: basic" op:"words=basic|full"`
}

// EntryPage is a page of entries.
type EntryPage struct {
	Items []*Entry `json:"items"`
	Next  string   `json:"next,omitempty" jsonschema:"value of after for the next page; absent on the last page"`
}

// NewEntry is a note to create.
type NewEntry struct {
	Name    string   `json:"name"`
	Content string   `json:"content"`
	Aliases []string `json:"aliases,omitempty"`
}

// EntryState names an entry in a state: that of an ETag in Match, or any if Match is *.
type EntryState struct {
	ID    uint64 `json:"id"`
	Match string `json:"match" op:"header=If-Match"`
}

// ChangedEntry is the new state of a note.
type ChangedEntry struct {
	EntryState
	Content string    `json:"content"`
	Aliases *[]string `json:"aliases,omitempty" jsonschema:"absent: they do not change"`
}

// DeletedEntry is an entry to remove.
type DeletedEntry struct {
	EntryState
	Archive bool `json:"archive,omitempty" jsonschema:"true: also an archive"`
}

var PageEntries = Add(errtable.Store, Op[Store, EntryQuery, EntryPage]{
	Name: "entries.page", Does: "List entries by ID.", Effect: Reads, Need: NeedRead, Path: "GET /v1/memories",
	Run: func(_ context.Context, s Store, in *EntryQuery) (EntryPage, error) {
		out, full, size := EntryPage{Items: []*Entry{}}, in.View == "full", 0
		passes := func(e *crmem.Entry) bool { return e.ID > in.After && (in.Kind == "" || e.Kind.String() == in.Kind) }
		if in.Name != "" {
			e, err := FindEntry(s.Store, in.Name)
			if err == nil && passes(&e) {
				out.Items = append(out.Items, s.shown(&e, full))
			}
			if errors.Is(err, crmem.ErrNotFound) {
				err = nil
			}
			return out, err
		}
		for e := range s.All() {
			if !passes(&e) {
				continue
			}
			size += len(e.Content)
			if n := len(out.Items); n > 0 && (n >= in.Limit || full && size > maxPage) {
				out.Next = strconv.FormatUint(out.Items[n-1].ID, 10)
				break
			}
			out.Items = append(out.Items, s.shown(&e, full))
		}
		return out, nil
	},
})

// AllEntries returns the entries with their contents, in pages.
func AllEntries(ctx context.Context, c Caller) (list []*Entry, err error) {
	for q := (EntryQuery{Limit: 200, View: "full"}); ; {
		page, err := PageEntries.Do(ctx, c, q)
		if err != nil {
			return nil, err
		}
		list = append(list, page.Items...)
		if page.Next == "" {
			return list, nil
		}
		if q.After, err = strconv.ParseUint(page.Next, 10, 64); err != nil || len(page.Items) == 0 {
			return nil, fmt.Errorf("list entries: the next page is %q", page.Next)
		}
	}
}

var CreateEntry = Add(errtable.Store, Op[Store, NewEntry, Entry]{
	Name: "entries.create", Does: "Create a note.", Effect: Writes, Need: NeedWrite, Did: wroteEntry[NewEntry], Again: entryAgain,
	Path: "POST /v1/memories", Status: http.StatusCreated,
	Fails: []int{http.StatusConflict, http.StatusUnprocessableEntity, http.StatusInsufficientStorage},
	Run: func(_ context.Context, s Store, in *NewEntry) (Entry, error) {
		e, err := s.applyTo(crmem.Entry{Name: in.Name}, crmem.Add{Name: in.Name, Content: in.Content, Aliases: in.Aliases})
		if errors.Is(err, crmem.ErrExists) || errors.Is(err, crmem.ErrStale) {
			err = &errtable.Error{HTTP: http.StatusConflict, Kind: "exists", Exit: errtable.ExitConflict, Err: err,
				Message: fmt.Sprintf("an entry has the name %q", display.Short(in.Name, shownName)), Fix: "choose another name, or change the entry with PUT"}
		}
		return e, err
	},
})

var RewriteEntry = Add(errtable.Store, Op[Store, ChangedEntry, Entry]{
	Name: "entries.rewrite", Does: "Replace content and aliases of a note.", Effect: Writes, Need: NeedWrite, Did: wroteEntry[ChangedEntry], Again: entryAgain,
	Path:  "PUT /v1/memories/{id}",
	Fails: []int{http.StatusConflict, http.StatusPreconditionFailed, http.StatusUnprocessableEntity, http.StatusInsufficientStorage},
	Run: func(_ context.Context, s Store, in *ChangedEntry) (Entry, error) {
		e, err := s.inState(&in.EntryState, false)
		if err != nil {
			return Entry{}, err
		}
		aliases := e.Aliases
		if in.Aliases != nil {
			aliases = *in.Aliases
		}
		return s.applyTo(e, crmem.Update{Name: e.Name, Content: in.Content, Aliases: aliases})
	},
})

var DeleteEntry = Add(errtable.Store, Op[Store, DeletedEntry, None]{
	Name: "entries.delete", Does: "Remove an entry.", Effect: Writes, Need: NeedWrite,
	Path: "DELETE /v1/memories/{id}", Fails: []int{http.StatusConflict, http.StatusPreconditionFailed, http.StatusInsufficientStorage},
	Did:   func(in *DeletedEntry, _ *None) once.Effect { return once.Effect{Entry: in.ID} },
	Again: func(*Outcome) (None, error) { return None{}, nil },
	Run: func(_ context.Context, s Store, in *DeletedEntry) (None, error) {
		e, err := s.inState(&in.EntryState, in.Archive)
		if err == nil {
			_, err = s.applyTo(e, crmem.Remove{Name: e.Name})
		}
		return None{}, err
	},
})

// entry returns the entry with an ID.
func (s Store) entry(id uint64) (crmem.Entry, error) {
	for e := range s.All() {
		if e.ID == id {
			return e, nil
		}
	}
	return crmem.Entry{}, &errtable.Error{HTTP: http.StatusNotFound, Kind: "not_found", Exit: errtable.ExitNotFound, Err: crmem.ErrNotFound,
		Message: fmt.Sprintf("no entry %d", id), Fix: "run crabmem list to see the names"}
}

// inState returns an entry that a request may change.
func (s Store) inState(in *EntryState, archives bool) (crmem.Entry, error) {
	e, err := s.entry(in.ID)
	if err != nil {
		return e, err
	}
	if e.Kind != crmem.Note && archives && s.As.Name != "" && !s.As.Owner {
		return e, s.As.Refused("change archives")
	}
	if e.Kind != crmem.Note && !archives {
		return e, &errtable.Error{HTTP: http.StatusForbidden, Kind: "archive", Exit: errtable.ExitPermission,
			Message: fmt.Sprintf("%q is an archive of a conversation", display.Short(e.Name, shownName)),
			Fix:     "change a note; an admin removes an archive with archive=true"}
	}
	for one := range strings.SplitSeq(in.Match, ",") {
		if one = strings.TrimSpace(one); one == ETag(&e) || one == "*" { // W/ etags never match
			return e, nil
		}
	}
	return e, errChanged
}

var errChanged = &errtable.Error{HTTP: http.StatusPreconditionFailed, Kind: "changed", Exit: errtable.ExitConflict,
	Message: "the entry has changed", Fix: "compare current with your change, and send its etag"}

// applyTo applies an operation to an entry that is as before, and returns the entry that
// it wrote.
func (s Store) applyTo(before crmem.Entry, change crmem.Op) (Entry, error) {
	if err := change.Validate(); err != nil {
		return Entry{}, errtable.Invalidf("%v", err)
	}
	ops, err := s.Guard.Ops(s.Store, []crmem.Op{change})
	if err != nil {
		return Entry{}, err
	}
	wrote, err := s.Do(slices.Concat(s.by(), []crmem.Op{crmem.Unchanged{Entry: before}}, ops)...)
	switch {
	case errors.Is(err, crmem.ErrStale) && before.ID != 0:
		return Entry{}, errChanged
	case err != nil || len(wrote) == 0:
		return Entry{}, err
	}
	return *EntryOf(&wrote[0], true), nil
}

// wroteEntry is the effect of a request that wrote an entry.
func wroteEntry[I any](_ *I, e *Entry) once.Effect { return once.Effect{Entry: e.ID, ETag: e.ETag} }

// entryAgain is the response to a repeated request that wrote an entry.
func entryAgain(o *Outcome) (Entry, error) {
	if o.Entry == nil {
		return Entry{}, spent()
	}
	return *EntryOf(o.Entry, true), nil
}

// spent returns the error for a repeated request whose effect is not known anymore.
func spent() error {
	return &errtable.Error{HTTP: http.StatusConflict, Kind: "spent", Exit: errtable.ExitConflict,
		Message: "an earlier request has this key, and its outcome is no longer kept", Fix: "read the entries, then use another key"}
}
