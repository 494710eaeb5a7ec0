package crmem

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"crabmem/bm25/clip"
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
	CreatedAt UnixTime `json:"created_at"`
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

// EntryInfo is an entry in an output, perhaps without its content and its use.
type EntryInfo struct {
	ID        uint64   `json:"id"`
	Name      string   `json:"name"`
	Kind      Kind     `json:"kind"`
	CreatedAt UnixTime `json:"created_at"`
	Content   *string  `json:"content,omitempty"`
	Bytes     int      `json:"bytes" jsonschema:"size of the content"`
	Aliases   []string `json:"aliases"`
	Use
}

// Info returns e for an output, with its content if full is set.
func (e *Entry) Info(full bool) EntryInfo {
	i := EntryInfo{ID: e.ID, Name: e.Name, Kind: e.Kind, CreatedAt: e.CreatedAt, Bytes: len(e.Content), Aliases: append([]string{}, e.Aliases...)}
	if full {
		i.Content = &e.Content
	}
	return i
}

// Entry returns i without its size.
func (i *EntryInfo) Entry() Entry {
	e := Entry{ID: i.ID, Name: i.Name, Kind: i.Kind, CreatedAt: i.CreatedAt, Aliases: i.Aliases}
	if i.Content != nil {
		e.Content = *i.Content
	}
	return e
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
		CreatedAt: UnixTime(r.CreatedAt()),
		Content:   content,
		Aliases:   r.Aliases(),
	}
}

// recordOf encodes e. The caller has checked that its lengths fit.
func recordOf(e *Entry) format.Record {
	return format.NewRecord(e.ID, uint64(e.CreatedAt), uint32(e.Kind), e.Name, e.Content, e.Aliases)
}

// Snapshot is a decoded CRMEM v1 file. It does not change.
type Snapshot struct {
	NextID uint64
	t      table
}

// Decode reads a CRMEM v1 file, strictly: every rule of FORMAT.md holds, or
// it returns a *[FormatError]. The snapshot shares the memory of b, which
// must not change after.
func Decode(b []byte) (*Snapshot, error) {
	d := format.NewDecoder(b)
	s := &Snapshot{}
	n, err := d.Header(&s.NextID)
	if err != nil {
		return nil, d.Explain(err)
	}
	s.t.init(n)
	for i := range n {
		at := d.Offset()
		r, err := d.Record(i, s.NextID)
		if err != nil {
			return nil, d.Explain(err)
		}
		if !s.t.append(r) {
			return nil, &FormatError{Offset: int64(at) + format.OffName, Entry: i, Field: "name",
				Msg: fmt.Sprintf("duplicate name %.80q", r.Name())}
		}
	}
	if err := d.End(); err != nil {
		return nil, d.Explain(err)
	}
	return s, nil
}

// NewSnapshot creates a snapshot of entries in any order. It returns the errors
// of Decode for entries that a file must not contain.
func NewSnapshot(nextID uint64, entries []Entry) (*Snapshot, error) {
	sorted := slices.SortedFunc(slices.Values(entries), func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	size := format.HeaderSize
	recs := make([]rec, len(sorted))
	for i := range sorted {
		recs[i] = rec{sorted[i].ID, recordOf(&sorted[i])}
		size += len(recs[i].enc)
	}
	b := make(appender, 0, size)
	if _, err := writeSnapshot(&b, nextID, len(recs), recs); err != nil {
		return nil, err
	}
	return Decode(b)
}

// Get returns the entry of a name.
func (s *Snapshot) Get(name string) (Entry, bool) {
	r := s.t.byName(name)
	if r == "" {
		return Entry{}, false
	}
	return entryOf(r), true
}

// Len returns the number of entries.
func (s *Snapshot) Len() int { return s.t.live }

// All returns the entries, ascending by ID.
func (s *Snapshot) All() iter.Seq[Entry] { return s.t.all() }

// AppendBinary appends the CRMEM v1 encoding to b.
func (s *Snapshot) AppendBinary(b []byte) ([]byte, error) {
	w := appender(b)
	_, err := s.WriteTo(&w)
	return w, err
}

// WriteTo writes the CRMEM v1 encoding.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	return writeSnapshot(w, s.NextID, s.t.live, s.t.recs)
}

type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

func writeSnapshot(w io.Writer, nextID uint64, live int, recs []rec) (int64, error) {
	n, err := w.Write(format.SnapshotHeader(nextID, live))
	total := int64(n)
	for i := 0; i < len(recs) && err == nil; i++ {
		n, err = io.WriteString(w, string(recs[i].enc))
		total += int64(n)
	}
	return total, err
}

// Limits of new entries. A write that exceeds one fails with ErrInvalid. Reading
// accepts larger entries.
const (
	MaxName    = 1 << 10 // bytes in a name or an alias
	MaxAliases = 1 << 10 // aliases per entry
	MaxContent = 8 << 20 // bytes in a text
)

// validEntry returns an error if a new entry is invalid or exceeds the limits.
func validEntry(name, content string, aliases []string) error {
	if err := validName(name, "name", name); err != nil {
		return err
	}
	if len(content) > MaxContent {
		return &nameError{ErrInvalid, name, fmt.Sprintf("content of %d bytes, at most %d", len(content), MaxContent)}
	}
	if err := storable(name, "content", content); err != nil {
		return err
	}
	if len(aliases) > MaxAliases {
		return &nameError{ErrInvalid, name, fmt.Sprintf("%d aliases, at most %d", len(aliases), MaxAliases)}
	}
	for _, a := range aliases {
		if err := validName(name, "alias", a); err != nil {
			return err
		}
	}
	return nil
}

func validName(entry, field, s string) error {
	switch {
	case s == "":
		return &nameError{ErrInvalid, cutName(entry), "empty " + field}
	case len(s) > MaxName:
		return &nameError{ErrInvalid, cutName(entry), fmt.Sprintf("%s of %d bytes, at most %d", field, len(s), MaxName)}
	}
	if err := storable(entry, field, s); err != nil {
		return err
	}
	if i := strings.IndexByte(s, 0); i >= 0 {
		return &nameError{ErrInvalid, cutName(entry), fmt.Sprintf("%s: NUL at byte %d", field, i)}
	}
	return nil
}

// storable returns an error if a file cannot contain the text s of an entry.
func storable(entry, field, s string) error {
	switch {
	case !utf8.ValidString(s):
		return &nameError{ErrInvalid, cutName(entry), fmt.Sprintf("%s: invalid UTF-8 at byte %d", field, format.InvalidUTF8([]byte(s)))}
	case uint64(len(s)) > math.MaxUint32:
		return &nameError{ErrInvalid, cutName(entry), fmt.Sprintf("%s of %d bytes, at most %d", field, len(s), uint32(math.MaxUint32))}
	}
	return nil
}

// cutName returns the beginning of a name, for an error.
func cutName(s string) string { return strings.ToValidUTF8(clip.Bytes(s, 80), "\uFFFD") }
