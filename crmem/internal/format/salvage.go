package format

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Salvage reads the valid entries of a corrupt snapshot. After bytes that are
// not an entry, it continues at the next valid entry. It returns the records in
// ascending order of id, a next_id above all ids, and the number of bytes of
// the records and a header.
func Salvage(b []byte) ([]Record, uint64, int64) {
	var recs []Record
	ids, names := map[uint64]bool{}, map[string]bool{}
	top, recovered := uint64(0), int64(0)
	for off := HeaderSize; off+MinRecord < len(b); { // an entry with a name is longer
		r, ok := entryAt(b, off)
		if !ok || ids[r.ID()] || names[r.Name()] {
			off++
			continue
		}
		ids[r.ID()], names[r.Name()] = true, true
		top = max(top, r.ID())
		recs = append(recs, r)
		off += len(r)
		recovered += int64(len(r))
	}
	next := top + 1
	if d := (Decoder{b: b}); len(b) >= HeaderSize {
		var n uint64
		if _, err := d.Header(&n); err == nil && n > top {
			next = n
			recovered += HeaderSize
		}
	}
	slices.SortFunc(recs, func(a, b Record) int { return cmp.Compare(a.ID(), b.ID()) })
	return recs, next, recovered
}

// entryAt reads the entry at an offset if the bytes are plausible: an id, a
// kind, a name. It does not compare the id with next_id, which may be corrupt.
func entryAt(b []byte, off int) (Record, bool) {
	id := binary.LittleEndian.Uint64(b[off:])
	n := binary.LittleEndian.Uint32(b[off+recNameLen:])
	if id == 0 || n == 0 || n > 1<<16 || binary.LittleEndian.Uint32(b[off+OffKind:]) > KindArchive {
		return "", false
	}
	d := Decoder{b: b, off: off}
	r, err := d.only()
	return r, err == nil
}

// WasStore reports whether a file without an entry that can be read was a
// store all the same: it begins as one, and is not of the other format that
// does.
func WasStore(b []byte) bool {
	n := min(len(b), len(magic))
	if string(b[:n]) != magic[:n] {
		return false
	}
	return len(b) < 32 || !looksLikeCrabdb(b)
}
