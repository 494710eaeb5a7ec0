package crmem

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"unsafe"
)

// Kind says what an entry is. It never changes.
type Kind uint32

// The kinds of CRMEM v1.
const (
	Note    Kind = 0 // written by remember
	Archive Kind = 1 // written by compaction
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

// ParseKind reads "note" or "archive".
func ParseKind(s string) (Kind, error) {
	switch s {
	case "note":
		return Note, nil
	case "archive":
		return Archive, nil
	}
	return 0, fmt.Errorf("kind %q: want note or archive", s)
}

// MarshalText writes the kind as [Kind.String] does.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (k *Kind) UnmarshalText(b []byte) error {
	v, err := ParseKind(string(b))
	*k = v
	return err
}

// Entry is one memory. Its strings may share the memory of the whole store:
// clone what is kept after the store is closed.
type Entry struct {
	ID        uint64   `json:"id"` // from 1, never reused
	Name      string   `json:"name"`
	Kind      Kind     `json:"kind"`
	CreatedAt uint64   `json:"created_at"` // unix seconds
	Content   string   `json:"content"`
	Aliases   []string `json:"aliases"`
}

// MarshalJSON writes every key, and aliases as an array even when there are
// none.
func (e Entry) MarshalJSON() ([]byte, error) {
	type plain Entry
	if e.Aliases == nil {
		e.Aliases = []string{}
	}
	return marshalJSON(plain(e))
}

func marshalJSON(v any) ([]byte, error) {
	var b jsonBuffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b[:len(b)-1], nil // Encode ends with a newline
}

type jsonBuffer []byte

func (b *jsonBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// Equal reports whether two entries are the same in every field.
func (e Entry) Equal(o Entry) bool {
	if e.ID != o.ID || e.Name != o.Name || e.Kind != o.Kind || e.CreatedAt != o.CreatedAt ||
		e.Content != o.Content || len(e.Aliases) != len(o.Aliases) {
		return false
	}
	for i, a := range e.Aliases {
		if a != o.Aliases[i] {
			return false
		}
	}
	return true
}

// record is the CRMEM v1 encoding of one entry (FORMAT.md, "Entry"). The
// store holds its entries in this form: what is in memory is what is on disk.
// A record is valid: it was checked when it was made.
type record string

// Offsets in a record.
const (
	recID      = 0
	recCreated = 8
	recKind    = 16
	recNameLen = 20
	recName    = 24

	// minRecord is the size of a record with an empty name, no content and no
	// aliases: the bound on how many entries some bytes can hold.
	minRecord = 32
)

func (r record) u32(i int) int {
	return int(uint32(r[i]) | uint32(r[i+1])<<8 | uint32(r[i+2])<<16 | uint32(r[i+3])<<24)
}

func (r record) u64(i int) uint64 {
	return uint64(uint32(r.u32(i))) | uint64(uint32(r.u32(i+4)))<<32
}

func (r record) id() uint64   { return r.u64(recID) }
func (r record) kind() Kind   { return Kind(r.u32(recKind)) }
func (r record) name() string { return string(r[recName : recName+r.u32(recNameLen)]) }

// content returns the content and the offset of what follows it.
func (r record) content() (string, int) {
	i := recName + r.u32(recNameLen)
	n := r.u32(i)
	return string(r[i+4 : i+4+n]), i + 4 + n
}

func (r record) aliases() []string {
	_, i := r.content()
	n := r.u32(i)
	if n == 0 {
		return nil
	}
	i += 4
	out := make([]string, n)
	for k := range out {
		l := r.u32(i)
		out[k] = string(r[i+4 : i+4+l])
		i += 4 + l
	}
	return out
}

func (r record) entry() Entry {
	content, _ := r.content()
	return Entry{
		ID:        r.id(),
		Name:      r.name(),
		Kind:      r.kind(),
		CreatedAt: r.u64(recCreated),
		Content:   content,
		Aliases:   r.aliases(),
	}
}

// record encodes e. The caller has checked that its lengths fit.
func (e *Entry) record() record {
	n := minRecord + len(e.Name) + len(e.Content)
	for _, a := range e.Aliases {
		n += 4 + len(a)
	}
	b := make([]byte, 0, n)
	b = binary.LittleEndian.AppendUint64(b, e.ID)
	b = binary.LittleEndian.AppendUint64(b, e.CreatedAt)
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Kind))
	b = appendString(b, e.Name)
	b = appendString(b, e.Content)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Aliases)))
	for _, a := range e.Aliases {
		b = appendString(b, a)
	}
	return record(view(b))
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// view returns b as a string without a copy. The bytes must not change after.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf returns r as bytes without a copy. The bytes must not be changed.
func bytesOf(r record) []byte { return unsafe.Slice(unsafe.StringData(string(r)), len(r)) }
