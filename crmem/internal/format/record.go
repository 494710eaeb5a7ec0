// Package format encodes and decodes the files of a store: snapshots, logs, and
// identities (FORMAT.md). It does no I/O.
package format

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"unsafe"
)

// Record is the CRMEM v1 encoding of one entry (FORMAT.md, "Entry"). The store
// keeps entries in this form, in memory as on disk. A Record is always valid:
// its constructors check it.
type Record string

// Offsets in a record.
const (
	recID      = 0
	OffCreated = 8
	OffKind    = 16
	recNameLen = 20
	OffName    = 24

	// MinRecord is the size of a record with an empty name, no content and no
	// aliases: the bound on how many entries some bytes can hold.
	MinRecord = 32
)

func (r Record) u32(i int) int {
	return int(uint32(r[i]) | uint32(r[i+1])<<8 | uint32(r[i+2])<<16 | uint32(r[i+3])<<24)
}

func (r Record) u64(i int) uint64 {
	return uint64(uint32(r.u32(i))) | uint64(uint32(r.u32(i+4)))<<32
}

func (r Record) ID() uint64        { return r.u64(recID) }
func (r Record) Kind() uint32      { return uint32(r.u32(OffKind)) }
func (r Record) CreatedAt() uint64 { return r.u64(OffCreated) }
func (r Record) Name() string      { return string(r[OffName : OffName+r.u32(recNameLen)]) }

// Content returns the content and the offset after it.
func (r Record) Content() (string, int) {
	i := OffName + r.u32(recNameLen)
	n := r.u32(i)
	return string(r[i+4 : i+4+n]), i + 4 + n
}

func (r Record) Aliases() []string {
	_, i := r.Content()
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

// NewRecord encodes an entry. The caller has checked that its lengths fit.
func NewRecord(id, createdAt uint64, kind uint32, name, content string, aliases []string) Record {
	b := make([]byte, 0, recordSize(name, content, aliases))
	b = binary.LittleEndian.AppendUint64(b, id)
	b = binary.LittleEndian.AppendUint64(b, createdAt)
	b = binary.LittleEndian.AppendUint32(b, kind)
	b = AppendString(b, name)
	b = AppendString(b, content)
	return Record(View(AppendAliases(b, aliases)))
}

// recordSize returns the length of the record of an entry.
func recordSize(name, content string, aliases []string) int {
	n := MinRecord + len(name) + len(content)
	for _, a := range aliases {
		n += 4 + len(a)
	}
	return n
}

// AppendAliases appends an encoded alias list.
func AppendAliases(b []byte, aliases []string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(aliases)))
	for _, a := range aliases {
		b = AppendString(b, a)
	}
	return b
}

func AppendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// View returns b as a string without a copy. The bytes must not change after.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf returns r as bytes without a copy. The bytes must not be changed.
func bytesOf(r Record) []byte { return unsafe.Slice(unsafe.StringData(string(r)), len(r)) }

// WithoutContent returns the record with an empty content.
func (r Record) WithoutContent() Record {
	start := OffName + r.u32(recNameLen)
	_, end := r.Content()
	return r[:start] + "\x00\x00\x00\x00" + r[end:]
}

// WithName returns the record with another name.
func (r Record) WithName(name []byte) Record {
	rest := OffName + len(r.Name())
	b := make([]byte, 0, OffName+len(name)+len(r)-rest)
	b = append(b, r[:recNameLen]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
	b = append(b, name...)
	return Record(View(append(b, r[rest:]...)))
}

// WithAliases returns the record with another alias list, given as encoded.
func (r Record) WithAliases(list []byte) Record {
	_, i := r.Content()
	b := make([]byte, 0, i+len(list))
	b = append(b, r[:i]...)
	return Record(View(append(b, list...)))
}

// IdentityText returns the contents of an identity file (FORMAT.md, "Identity").
func IdentityText(id ID) string {
	line := "identity " + id.String() + "\n"
	return line + fmt.Sprintf("sum %08x\n", crc32.ChecksumIEEE([]byte(line)))
}

// ParseIdentity reads the contents of an identity file. It returns false for
// any other text.
func ParseIdentity(text string) (id ID, ok bool) {
	line, _, _ := strings.Cut(text, "\n")
	b, err := hex.DecodeString(strings.TrimPrefix(line, "identity "))
	if err != nil || len(b) != len(id) {
		return ID{}, false
	}
	copy(id[:], b)
	return id, id != ID{} && text == IdentityText(id)
}

// MarshalJSON returns the JSON of v, without escapes of HTML.
func MarshalJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

var (
	// ErrFormat matches every Error.
	ErrFormat = errors.New("not a valid store")
	// ErrNewer matches an Error with Newer.
	ErrNewer = errors.New("written by a newer program")
	// ErrOlder matches an Error with Older.
	ErrOlder = errors.New("of a version that is no longer read")
)

// Error reports where a file breaks a rule of FORMAT.md. It is ErrFormat.
type Error struct {
	Path   string // empty for bytes without a file
	Offset int64  // from the start of the file, of the first byte that is wrong
	Entry  int    // position of the entry, from 0; -1 outside the entries
	Field  string // name of FORMAT.md; "trailing" for bytes after the end
	Msg    string
	// Newer is set if the only violation is that a newer program wrote the file: an entry
	// kind, or a log version.
	Newer bool
	// Older is set for a log version that this program no longer reads.
	Older bool
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Path != "" {
		fmt.Fprintf(&b, "%s: ", e.Path)
	}
	fmt.Fprintf(&b, "offset %d: ", e.Offset)
	if e.Entry >= 0 {
		fmt.Fprintf(&b, "entry %d: ", e.Entry)
	}
	fmt.Fprintf(&b, "%s: %s", e.Field, e.Msg)
	return b.String()
}

// Is reports whether target is ErrFormat, ErrNewer if Newer is set, or ErrOlder if Older
// is set.
func (e *Error) Is(target error) bool {
	return target == ErrFormat || e.Newer && target == ErrNewer || e.Older && target == ErrOlder
}

// OffsetOf returns the offset of a Error, or 0.
func OffsetOf(err error) int64 {
	var f *Error
	if errors.As(err, &f) {
		return f.Offset
	}
	return 0
}

// Actor describes who made a change. Every field may be empty. A field has at most
// [MaxActorField] bytes of UTF-8.
type Actor struct {
	Agent   string `json:"agent,omitempty"`              // agent name
	Session string `json:"session,omitempty" op:"owner"` // session ID
	Call    string `json:"call,omitempty" op:"owner"`    // tool call ID
	Client  string `json:"client,omitempty"`             // cli, mcp, ...
	Origin  string `json:"origin,omitempty" op:"owner"`  // sender identity
	Op      string `json:"op,omitempty" op:"owner"`      // ID that the client gave the operation
}

// MaxActorField limits each [Actor] field, in bytes.
const MaxActorField = 1024

// Fields returns the fields in the order of their tags in FORMAT.md, "Context".
func (a *Actor) Fields() [6]*string {
	return [...]*string{&a.Agent, &a.Session, &a.Call, &a.Client, &a.Origin, &a.Op}
}
