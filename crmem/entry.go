package crmem

import (
	"fmt"
	"slices"

	"crabmem/crmem/internal/format"
)

// Kind is the type of an entry. It never changes.
type Kind uint32

// The kinds of CRMEM v1.
const (
	Note    Kind = format.KindNote    // written by remember
	Archive Kind = format.KindArchive // written by compaction
)

func (k Kind) String() string {
	switch k {
	case Note:
		return "note"
	case Archive:
		return "archive"
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// MarshalText writes the kind as [Kind.String] does.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText sets k from "note" or "archive". For any other text it returns
// an error and sets k to zero.
func (k *Kind) UnmarshalText(b []byte) error {
	switch string(b) {
	case "note":
		*k = Note
	case "archive":
		*k = Archive
	default:
		*k = 0
		return fmt.Errorf("kind %q: want note or archive", b)
	}
	return nil
}

// Entry is one memory. Its strings may share the memory of the store's file:
// clone strings that outlive the store.
type Entry struct {
	ID        uint64   `json:"id"` // from 1, never reused
	Name      string   `json:"name"`
	Kind      Kind     `json:"kind"`
	CreatedAt uint64   `json:"created_at"` // unix seconds
	Content   string   `json:"content"`
	Aliases   []string `json:"aliases"`
}

// MarshalJSON writes every key. Aliases are always an array, which may be
// empty.
func (e Entry) MarshalJSON() ([]byte, error) {
	type plain Entry
	if e.Aliases == nil {
		e.Aliases = []string{}
	}
	return format.MarshalJSON(plain(e))
}

// Equal reports whether two entries are the same in every field.
func (e Entry) Equal(o Entry) bool {
	return e.ID == o.ID && e.Name == o.Name && e.Kind == o.Kind && e.CreatedAt == o.CreatedAt &&
		e.Content == o.Content && slices.Equal(e.Aliases, o.Aliases)
}

// entryOf decodes r. The strings of the entry share the memory of r.
func entryOf(r format.Record) Entry {
	content, _ := r.Content()
	return Entry{
		ID:        r.ID(),
		Name:      r.Name(),
		Kind:      Kind(r.Kind()),
		CreatedAt: r.CreatedAt(),
		Content:   content,
		Aliases:   r.Aliases(),
	}
}

// recordOf encodes e. The caller has checked that its lengths fit.
func recordOf(e *Entry) format.Record {
	return format.NewRecord(e.ID, e.CreatedAt, uint32(e.Kind), e.Name, e.Content, e.Aliases)
}
