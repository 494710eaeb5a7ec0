package format

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// The counts of reads (FORMAT.md, "Counts of reads").
const (
	usageMagic   = "CRUSE\x00"
	usageVersion = 1
	usageHeader  = 32
	usageRow     = 32

	// MaxUsageRows limits the rows of a file.
	MaxUsageRows = 1 << 20
)

// UsageSize returns the size of a file of n rows.
func UsageSize(n int) int64 { return usageHeader + usageRow*int64(n) + 4 }

// Usage counts the reads of an entry.
type Usage struct {
	ID        uint64
	CreatedAt uint64 // of the entry: distinguishes it from one of another state of the store
	Reads     uint64 // at least 1
	Last      uint64 // time of the last read, in unix seconds
}

// Add adds counts of the same entry. Reads do not overflow.
func (u *Usage) Add(o Usage) {
	if u.Reads += o.Reads; u.Reads < o.Reads {
		u.Reads = math.MaxUint64
	}
	u.Last = max(u.Last, o.Last)
}

// EncodeUsage returns the file of rows, which ascend by ID.
func EncodeUsage(store ID, rows []Usage) []byte {
	b := make([]byte, usageHeader, UsageSize(len(rows)))
	copy(b, usageMagic)
	binary.LittleEndian.PutUint16(b[6:], usageVersion)
	copy(b[8:], store[:])
	binary.LittleEndian.PutUint32(b[24:], uint32(len(rows)))
	for _, r := range rows {
		for _, v := range []uint64{r.ID, r.CreatedAt, r.Reads, r.Last} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, Castagnoli()))
}

// DecodeUsage returns the rows of a file of the store, or an error if the file is of
// another store or version, or damaged.
func DecodeUsage(b []byte, store ID) ([]Usage, error) {
	fail := func(format string, args ...any) ([]Usage, error) {
		return nil, fmt.Errorf("counts of reads: "+format, args...)
	}
	if int64(len(b)) < UsageSize(0) || int64(len(b)) > UsageSize(MaxUsageRows) || string(b[:6]) != usageMagic {
		return fail("%d bytes, not of this format", len(b))
	}
	if v := binary.LittleEndian.Uint16(b[6:]); v != usageVersion {
		return fail("version %d", v)
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, Castagnoli()) != sum {
		return fail("the checksum differs")
	}
	if ID(body[8:24]) != store {
		return fail("of another store")
	}
	n := (len(body) - usageHeader) / usageRow
	if uint64(binary.LittleEndian.Uint32(b[24:])) != uint64(n) || len(body) != usageHeader+n*usageRow || binary.LittleEndian.Uint32(b[28:]) != 0 {
		return fail("invalid header")
	}
	rows := make([]Usage, n)
	last := uint64(0)
	for i := range rows {
		r := body[usageHeader+i*usageRow:]
		u := Usage{binary.LittleEndian.Uint64(r), binary.LittleEndian.Uint64(r[8:]), binary.LittleEndian.Uint64(r[16:]), binary.LittleEndian.Uint64(r[24:])}
		if u.ID <= last || u.Reads == 0 {
			return fail("row %d is invalid", i)
		}
		rows[i], last = u, u.ID
	}
	return rows, nil
}
