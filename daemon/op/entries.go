package op

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/once"
)

// EntryName names an entry, by its exact name or by an alias that one entry has; or ID
// does, or the target of a link to it.
type EntryName struct {
	Name string `json:"name,omitempty" op:"owner"`
	ID   uint64 `json:"id,omitempty"`
	Link string `json:"link,omitempty" op:"owner"`
}

// named returns a name's entry.
func (s Store) named(n EntryName) (crmem.Entry, error) {
	if n.ID != 0 {
		return s.entry(n.ID)
	}
	if n.Link != "" {
		if to, err := s.Link(n.Link); err == nil {
			return to.Entry, nil
		}
		n.Name = n.Link
	}
	return FindEntry(s.Store, n.Name)
}

var GetEntry = Add(errtable.Store, Op[Store, EntryName, Entry]{
	Name: "entries.get", Does: "Read an entry.", Effect: Reads, Need: NeedRead, Path: "GET /v1/memories/{id}",
	Run: func(_ context.Context, s Store, in *EntryName) (Entry, error) {
		e, err := s.named(*in)
		return *s.shown(&e, true), err
	},
})

// ReadEntry returns an entry.
func ReadEntry(ctx context.Context, c Caller, in EntryName) (crmem.Entry, error) {
	e, err := GetEntry.Do(ctx, c, in)
	return e.Entry(), err
}

// EntryFilter selects entries by ID and kind.
type EntryFilter struct {
	Kinds   []crmem.Kind `json:"kinds,omitempty"`   // empty: all
	Content bool         `json:"content,omitempty"` // with contents
	After   uint64       `json:"after,omitempty"`   // only IDs after this one
	Limit   int          `json:"limit,omitempty"`   // 0: no limit
}

var ListEntries = AddSeq(errtable.Store, Seq[Store, EntryFilter, []crmem.Entry]{
	Name: "entries.list", Does: "List entries by ascending ID.", Effect: Reads, Need: NeedRead,
	Run: func(_ context.Context, s Store, in *EntryFilter, send func([]crmem.Entry) error) error {
		var part []crmem.Entry
		size, left := 0, in.Limit
		for e := range s.All() {
			if e.ID <= in.After || len(in.Kinds) > 0 && !slices.Contains(in.Kinds, e.Kind) {
				continue
			}
			if !in.Content {
				e.Content = ""
			}
			part = append(part, e)
			if size += EntrySize(&e); size >= PartSize {
				if err := send(part); err != nil {
					return err
				}
				part, size = nil, 0
			}
			if left--; left == 0 { // 0 wraps around: no limit
				break
			}
		}
		return send(part)
	},
})

// Entries returns the entries of a filter.
func Entries(ctx context.Context, c Caller, f EntryFilter) iter.Seq2[crmem.Entry, error] {
	return func(yield func(crmem.Entry, error) bool) {
		for part, err := range ListEntries.All(ctx, c, f) {
			if err != nil {
				yield(crmem.Entry{}, err)
				return
			}
			for _, e := range *part {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Note is a note to create, or to replace.
type Note struct {
	crmem.Remember
	Similar bool `json:"similar,omitempty"` // find the entries that a created note may repeat
	Unnamed bool `json:"unnamed,omitempty"` // take [NewName] in place of the name
}

// Validate returns an error for an invalid note.
func (in *Note) Validate() error {
	o := in.Remember
	if in.Unnamed {
		o.Name = unnamed
	}
	return o.Validate()
}

// Written is an entry that a write created or replaced.
type Written struct {
	crmem.EntryInfo
	Created  bool     `json:"created" jsonschema:"there was no entry of this name"`
	Replaced *int64   `json:"replaced_bytes,omitempty" jsonschema:"bytes of the replaced content"`
	Similar  []string `json:"similar,omitempty" jsonschema:"names of other entries that may cover the same subject"`
}

// Replaced returns the result of a write that replaced before with e. If before.ID
// is 0, the write created e.
func Replaced(e, before crmem.Entry) Written {
	w := Written{EntryInfo: e.Info(true), Created: before.ID == 0}
	if !w.Created {
		size := int64(len(before.Content))
		w.Replaced = &size
	}
	return w
}

var Remember = Add(errtable.Store, Op[Store, Note, Written]{
	Name: "entries.remember", Does: "Create or replace a note.", Effect: Writes, Need: NeedWrite, Retry: true,
	Path: "POST /v1/memories/remember", Fails: writeFails,
	Did: func(_ *Note, w *Written) once.Effect { return w.effect() }, Again: writtenAgain,
	Run: func(ctx context.Context, s Store, in *Note) (Written, error) {
		if err := s.place(ctx, &in.Remember); err != nil {
			return Written{}, err
		}
		if in.Unnamed {
			return s.rememberUnnamed(ctx, in.Remember)
		}
		var similar []string
		if in.Similar {
			if old, err := s.Get(in.Name); err != nil || !crmem.SameName(old.Name, in.Name) {
				similar = s.similar(ctx, &in.Remember)
			}
		}
		o, err := s.Guard.remember(s.Store, in.Remember)
		if err != nil {
			return Written{}, err
		}
		e, before, err := s.Overwrite(o, s.by()...)
		if err != nil {
			return Written{}, err
		}
		w := Replaced(e, before)
		if w.Created {
			w.Similar = similar
		}
		return w, nil
	},
})

// rememberUnnamed creates a note with the name [NewName]. If that note has the same content,
// it replaces it: a client may repeat the request.
func (s Store) rememberUnnamed(ctx context.Context, o crmem.Remember) (Written, error) {
	var before crmem.Entry
	list, err := s.Update(ctx, func(st *crmem.Store) (_ []crmem.Op, err error) {
		o.Name, before, err = NewName(st, o, s.now())
		return []crmem.Op{o}, err
	})
	if err != nil {
		return Written{}, err
	}
	return Replaced(list[0], before), nil
}

// Removal names an entry to remove. Its name is exact, and no alias.
type Removal struct {
	Name    string `json:"name" jsonschema:"the exact name of the note" op:"chars=2048"`
	Archive bool   `json:"archive,omitempty" op:"owner"` // remove an archive, too
	DryRun  bool   `json:"dry_run,omitempty" op:"owner"` // change nothing
}

// Removed is a removed entry.
type Removed struct {
	Forgot string      `json:"forgot" jsonschema:"the name of the note that was removed"`
	Entry  crmem.Entry `json:"entry" op:"owner"`
}

var Forget = Add(errtable.Store, Op[Store, Removal, Removed]{
	Name: "entries.forget", Does: "Remove an entry.", Effect: Writes, Need: NeedWrite,
	Fails: []int{http.StatusConflict, http.StatusInsufficientStorage},
	Tool: &Tool{Name: "forget", Title: "Forget a note", Idempotent: true,
		Does: "Remove a note, by its exact name; restore undoes it. forget never removes archives of conversations."},
	Permit: func(s Store, in *Removal) error {
		if in.Archive {
			return s.As.Refused("change archives")
		}
		return nil
	},
	Did: func(in *Removal, out *Removed) once.Effect {
		if in.DryRun {
			return once.Effect{}
		}
		return once.Effect{Entry: out.Entry.ID}
	},
	Again: func(o *Outcome) (out Removed, err error) {
		if o.Before == nil {
			return out, spent()
		}
		return Removed{Forgot: o.Before.Name, Entry: *o.Before}, nil
	},
	Run: func(ctx context.Context, s Store, in *Removal) (out Removed, err error) {
		_, err = s.Update(ctx, func(st *crmem.Store) ([]crmem.Op, error) {
			out.Entry, err = FindToRemove(st, in.Name, in.Archive)
			out.Forgot = out.Entry.Name
			if err != nil || in.DryRun {
				return nil, err
			}
			return []crmem.Op{crmem.Remove{Name: out.Forgot}}, nil
		})
		return out, err
	},
})

// EntrySize returns the size of the texts of an entry in bytes.
func EntrySize(e *crmem.Entry) int {
	n := len(e.Name) + len(e.Content)
	for _, a := range e.Aliases {
		n += len(a)
	}
	return n
}

func (w *Written) effect() once.Effect {
	e := w.Entry()
	return effectOn(&e)
}

// writeFails are the statuses of refusals of a request that writes a note by its name.
var writeFails = []int{http.StatusConflict, http.StatusUnprocessableEntity, http.StatusInsufficientStorage}

// writtenAgain is the response to a repeated request that wrote a note.
func writtenAgain(o *Outcome) (Written, error) {
	if _, err := entryAgain(o); err != nil {
		return Written{}, err
	}
	before := *o.Entry // the request changed nothing
	if o.Seq != 0 {
		before = crmem.Entry{}
	}
	if o.Before != nil {
		before = *o.Before
	}
	return Replaced(*o.Entry, before), nil
}

// effectOn is the effect of a request that wrote an entry.
func effectOn(e *crmem.Entry) once.Effect {
	if e.ID == 0 {
		return once.Effect{}
	}
	return once.Effect{Entry: e.ID, ETag: ETag(e)}
}

// ETag returns a hash of all that a client may change of an entry, and of its ID, in the
// form of the header ETag. Each part is preceded by its length.
func ETag(e *crmem.Entry) string {
	h := sha256.New()
	for _, part := range append([]string{strconv.FormatUint(e.ID, 10), e.Kind.String(), e.Name, e.Content}, e.Aliases...) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return `"` + hex.EncodeToString(h.Sum(nil)) + `"`
}
