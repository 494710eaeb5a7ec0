package format

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"unicode/utf8"
)

// The header of CRMEM v1 (FORMAT.md, "Snapshot").
const (
	magic   = "CRMEM\x00"
	version = 1

	offVersion  = 6
	OffFlags    = 10
	offReserved = 12
	OffNextID   = 16
	offCount    = 24
	HeaderSize  = 28 // with next_id and entry_count
)

// The kinds of an entry.
const (
	KindNote    = 0
	KindArchive = 1
	kindTopic   = 2 // of a newer program
)

// SnapshotHeader returns the header of a snapshot.
func SnapshotHeader(nextID uint64, entries int) []byte {
	h := make([]byte, HeaderSize)
	copy(h, magic)
	binary.LittleEndian.PutUint32(h[offVersion:], version)
	binary.LittleEndian.PutUint64(h[OffNextID:], nextID)
	binary.LittleEndian.PutUint32(h[offCount:], uint32(entries))
	return h
}

// Decoder is a bounds-checked cursor over a file. It validates every size
// against the remaining bytes before it reads or allocates.
type Decoder struct {
	b    []byte
	off  int
	last uint64 // id of the entry before
	// topics accepts kindTopic, to distinguish a file of a newer program from a
	// corrupt one.
	topics bool
	record bool // b is a single record without a header
}

// NewDecoder returns a decoder of a snapshot.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Offset returns the offset of the next byte.
func (d *Decoder) Offset() int { return d.off }

func (d *Decoder) Header(nextID *uint64) (int, error) {
	b := d.b
	fail := func(off int, field, format string, args ...any) (int, error) {
		return 0, &Error{Offset: int64(off), Entry: -1, Field: field, Msg: fmt.Sprintf(format, args...)}
	}
	for i := range min(len(b), len(magic)) {
		if b[i] != magic[i] {
			return fail(0, "magic", "%q is not CRMEM", b[:min(len(b), len(magic))])
		}
	}
	if len(b) < HeaderSize {
		return fail(len(b), "header", "the file ends after %d of %d header bytes", len(b), HeaderSize)
	}
	if v := binary.LittleEndian.Uint32(b[offVersion:]); v != version {
		return fail(offVersion, "version", "version %d, this program reads version %d", v, version)
	}
	if f := binary.LittleEndian.Uint16(b[OffFlags:]); f != 0 {
		return fail(OffFlags, "flags", "unknown flags %#04x", f)
	}
	if r := binary.LittleEndian.Uint32(b[offReserved:]); r != 0 {
		return fail(offReserved, "reserved", "reserved bytes are %#08x, not zero", r)
	}
	*nextID = binary.LittleEndian.Uint64(b[OffNextID:])
	if *nextID == 0 {
		return fail(OffNextID, "next_id", "next_id is 0")
	}
	n := binary.LittleEndian.Uint32(b[offCount:])
	if most := (len(b) - HeaderSize) / MinRecord; uint64(n) > uint64(most) {
		return fail(offCount, "entry_count", "%d entries do not fit: the %d bytes left hold at most %d", n, len(b)-HeaderSize, most)
	}
	d.off = HeaderSize
	return int(n), nil
}

func (d *Decoder) Record(i int, nextID uint64) (Record, error) {
	start := d.off
	b := d.b[start:]
	fail := func(off int, field, format string, args ...any) (Record, error) {
		return "", &Error{Offset: int64(start + off), Entry: i, Field: field, Msg: fmt.Sprintf(format, args...)}
	}
	if len(b) < MinRecord {
		return fail(len(b), "entry", "the file ends inside the entry: %d bytes left, at least %d needed", len(b), MinRecord)
	}
	id := binary.LittleEndian.Uint64(b[recID:])
	switch {
	case i > 0 && id == d.last:
		return fail(recID, "id", "duplicate id %d", id)
	case id < d.last:
		return fail(recID, "id", "id %d after id %d: ids must ascend", id, d.last)
	case id >= nextID:
		return fail(recID, "id", "id %d is not below next_id %d", id, nextID)
	}
	d.last = id
	switch k := binary.LittleEndian.Uint32(b[OffKind:]); {
	case k <= KindArchive || k == kindTopic && d.topics:
	case k == kindTopic:
		e := &Error{Offset: int64(start + OffKind), Entry: i, Field: "kind", Msg: corruptTopic}
		if d.otherwiseValid() {
			e.Newer, e.Msg = true, "kind 2 (topic): written by a newer program; this program reads kinds 0 and 1"
		}
		return "", e
	default:
		return fail(OffKind, "kind", "unknown kind %d", k)
	}
	off, err := d.text(b, recNameLen, start, i, "name")
	if err == nil {
		off, err = d.text(b, off, start, i, "content")
	}
	if err != nil {
		return "", err
	}
	if err := d.aliases(start+off, i); err != nil {
		return "", err
	}
	return Record(View(b[:d.off-start])), nil
}

const corruptTopic = "kind 2 (topic) is not of CRMEM v1"

// NotNewer clears Newer and changes the message to the one for a corrupt file.
func (e *Error) NotNewer() { e.Newer, e.Msg = false, corruptTopic }

// otherwiseValid reports whether the kind (F5) is the only violation in the bytes
// from the first entry on.
func (d *Decoder) otherwiseValid() bool {
	again := Decoder{b: d.b, topics: true}
	if d.record {
		_, err := again.only()
		return err == nil && again.End() == nil
	}
	var nextID uint64
	n, err := again.Header(&nextID)
	names := make(map[string]bool)
	for i := 0; i < n && err == nil; i++ {
		var r Record
		if r, err = again.Record(i, nextID); err == nil && names[r.Name()] {
			return false
		}
		if err == nil {
			names[r.Name()] = true
		}
	}
	return err == nil && again.End() == nil
}

// DecodeRecord checks one record without an order or a next_id.
func DecodeRecord(b []byte) (Record, error) {
	d := Decoder{b: b, record: true}
	r, err := d.only()
	if err == nil {
		err = d.End()
	}
	return r, err
}

// only reads a record without an order or a next_id.
func (d *Decoder) only() (Record, error) { return d.Record(0, math.MaxUint64) }

// CheckAliases returns why b is not an encoded alias list, or nil.
func CheckAliases(b []byte) error {
	d := Decoder{b: b}
	err := d.aliases(0, 0)
	if err == nil {
		err = d.End()
	}
	return err
}

// aliases checks the count and the aliases at off and moves to their end.
func (d *Decoder) aliases(off, i int) error {
	b := d.b
	fail := func(format string, args ...any) error {
		return &Error{Offset: int64(off), Entry: i, Field: "alias_count", Msg: fmt.Sprintf(format, args...)}
	}
	if len(b)-off < 4 {
		return fail("the file ends before alias_count")
	}
	n := binary.LittleEndian.Uint32(b[off:])
	if most := (len(b) - off - 4) / 4; uint64(n) > uint64(most) {
		return fail("%d aliases do not fit: the %d bytes left hold at most %d", n, len(b)-off-4, most)
	}
	off += 4
	for range n {
		var err error
		if off, err = d.text(b, off, 0, i, "alias"); err != nil {
			return err
		}
	}
	d.off = off
	return nil
}

// text checks the length and the UTF-8 of the string at b[off:] and returns
// the offset after it.
func (d *Decoder) text(b []byte, off, start, i int, field string) (int, error) {
	if len(b)-off < 4 {
		return 0, &Error{Offset: int64(start + off), Entry: i, Field: field + "_len", Msg: "the file ends before the length"}
	}
	n := binary.LittleEndian.Uint32(b[off:])
	if uint64(n) > uint64(len(b)-off-4) {
		return 0, &Error{Offset: int64(start + off), Entry: i, Field: field + "_len",
			Msg: fmt.Sprintf("%d bytes do not fit in the %d left", n, len(b)-off-4)}
	}
	off += 4
	s := b[off : off+int(n)]
	if !utf8.Valid(s) {
		at := InvalidUTF8(s)
		return 0, &Error{Offset: int64(start + off + at), Entry: i, Field: field,
			Msg: fmt.Sprintf("invalid UTF-8 at byte %d", at)}
	}
	return off + int(n), nil
}

func InvalidUTF8(s []byte) int {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(s)
}

func (d *Decoder) End() error {
	if d.off != len(d.b) {
		return &Error{Offset: int64(d.off), Entry: -1, Field: "trailing",
			Msg: fmt.Sprintf("%d bytes after the last entry", len(d.b)-d.off)}
	}
	return nil
}

// Explain adds a guess of the file's type to an error.
func (d *Decoder) Explain(err error) error {
	e, ok := err.(*Error)
	if ok && e.Field != "magic" && e.Field != "version" && len(d.b) >= 32 && looksLikeCrabdb(d.b) {
		e.Msg += "; this looks like a crabdb store, which has the same magic and is another format"
	}
	return err
}

// looksLikeCrabdb reports whether a file may be of the crabdb format: the same
// magic and version, and index_at and index_len where v1 holds next_id and
// entry_count.
func looksLikeCrabdb(b []byte) bool {
	at, n := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	return at == 0 && n == 0 || at >= 32 && at <= uint64(len(b)) && n <= uint64(len(b))-at
}

// Castagnoli returns the table of CRC-32C, which the first call makes.
func Castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Digest identifies a snapshot by its length and two CRCs of different
// polynomials (FORMAT.md, "Digest"). It detects accidents. It is not a
// signature: an attacker who can write the directory can forge it.
type Digest struct {
	Len  uint64
	C, I uint32 // CRC-32C, CRC-32 (IEEE)
}

const DigestSize = 16

func (d *Digest) Write(p []byte) (int, error) {
	d.Len += uint64(len(p))
	d.C = crc32.Update(d.C, Castagnoli(), p)
	d.I = crc32.Update(d.I, crc32.IEEETable, p)
	return len(p), nil
}

func DigestOf(b []byte) (d Digest) {
	// In pieces that stay in the cache between the two passes.
	for len(b) > 0 {
		n := min(len(b), 1<<17)
		d.Write(b[:n])
		b = b[n:]
	}
	return d
}

func (d Digest) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, d.Len)
	b = binary.LittleEndian.AppendUint32(b, d.C)
	return binary.LittleEndian.AppendUint32(b, d.I)
}

func ReadDigest(b []byte) Digest {
	return Digest{
		binary.LittleEndian.Uint64(b),
		binary.LittleEndian.Uint32(b[8:]),
		binary.LittleEndian.Uint32(b[12:]),
	}
}

func (d Digest) String() string { return fmt.Sprintf("%d bytes %08x%08x", d.Len, d.C, d.I) }
