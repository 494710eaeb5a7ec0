package format

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

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
