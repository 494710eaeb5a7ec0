package crmem

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// salvageEntries reads the entries of a damaged snapshot: in order from the
// beginning and, after each place that is not an entry, from the next one that
// is. It returns them sorted by id, with a next_id above all, and how many
// bytes they and a whole header take.
func salvageEntries(b []byte) ([]record, uint64, int64) {
	var recs []record
	ids, names := map[uint64]bool{}, map[string]bool{}
	top, recovered := uint64(0), int64(0)
	for off := headerSize; off+minRecord <= len(b); {
		r, ok := entryAt(b, off)
		if !ok || ids[r.id()] || names[r.name()] {
			off++
			continue
		}
		ids[r.id()], names[r.name()] = true, true
		top = max(top, r.id())
		recs = append(recs, r)
		off += len(r)
		recovered += int64(len(r))
	}
	next := top + 1
	if d := (decoder{b: b}); len(b) >= headerSize {
		var n uint64
		if _, err := d.header(&n); err == nil && n > top {
			next = n
			recovered += headerSize
		}
	}
	slices.SortFunc(recs, func(a, b record) int { return cmp.Compare(a.id(), b.id()) })
	return recs, next, recovered
}

// entryAt reads the entry at an offset, if what is there can be one: an id, a
// kind, a name. Its number is not compared with next_id, which may be what is
// damaged.
func entryAt(b []byte, off int) (record, bool) {
	id := binary.LittleEndian.Uint64(b[off:])
	n := binary.LittleEndian.Uint32(b[off+recNameLen:])
	if id == 0 || id == math.MaxUint64 || n == 0 || n > 1<<16 || binary.LittleEndian.Uint32(b[off+recKind:]) > kindArchive {
		return "", false
	}
	d := decoder{b: b, off: off}
	r, err := d.entry(0, math.MaxUint64)
	return r, err == nil
}

// wasStore reports whether a file without an entry that can be read was a
// store all the same: it begins as one, and is not of the other format that
// does.
func wasStore(b []byte) bool {
	n := min(len(b), len(magic))
	if string(b[:n]) != magic[:n] {
		return false
	}
	return len(b) < 32 || !looksLikeCrabdb(b)
}
