package crmem

import (
	"encoding/binary"
	"unsafe"
)

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

func (r record) id() uint64        { return r.u64(recID) }
func (r record) kind() uint32      { return uint32(r.u32(recKind)) }
func (r record) createdAt() uint64 { return r.u64(recCreated) }
func (r record) name() string      { return string(r[recName : recName+r.u32(recNameLen)]) }

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

// newRecord encodes an entry. The caller has checked that its lengths fit.
func newRecord(id, createdAt uint64, kind uint32, name, content string, aliases []string) record {
	n := minRecord + len(name) + len(content)
	for _, a := range aliases {
		n += 4 + len(a)
	}
	b := make([]byte, 0, n)
	b = binary.LittleEndian.AppendUint64(b, id)
	b = binary.LittleEndian.AppendUint64(b, createdAt)
	b = binary.LittleEndian.AppendUint32(b, kind)
	b = appendString(b, name)
	b = appendString(b, content)
	return record(view(appendAliases(b, aliases)))
}

// appendAliases appends an encoded alias list.
func appendAliases(b []byte, aliases []string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(aliases)))
	for _, a := range aliases {
		b = appendString(b, a)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// view returns b as a string without a copy. The bytes must not change after.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf returns r as bytes without a copy. The bytes must not be changed.
func bytesOf(r record) []byte { return unsafe.Slice(unsafe.StringData(string(r)), len(r)) }

// withName returns the record with another name.
func (r record) withName(name []byte) record {
	rest := recName + len(r.name())
	b := make([]byte, 0, recName+len(name)+len(r)-rest)
	b = append(b, r[:recNameLen]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
	b = append(b, name...)
	return record(view(append(b, r[rest:]...)))
}

// withAliases returns the record with another alias list, given as encoded.
func (r record) withAliases(list []byte) record {
	_, i := r.content()
	b := make([]byte, 0, i+len(list))
	b = append(b, r[:i]...)
	return record(view(append(b, list...)))
}
