package crmem

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// castagnoli returns the table of CRC-32C, which the first call makes.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// digest names a snapshot: its length and two CRCs of different polynomials,
// 64 bits that no accident gets right (FORMAT.md, "Digest"). It is no
// signature: who can write the directory can make any file fit.
type digest struct {
	len  uint64
	c, i uint32 // CRC-32C, CRC-32 (IEEE)
}

const digestSize = 16

func (d *digest) Write(p []byte) (int, error) {
	d.len += uint64(len(p))
	d.c = crc32.Update(d.c, castagnoli(), p)
	d.i = crc32.Update(d.i, crc32.IEEETable, p)
	return len(p), nil
}

func digestOf(b []byte) (d digest) {
	// In pieces that stay in the cache between the two passes.
	for len(b) > 0 {
		n := min(len(b), 1<<17)
		d.Write(b[:n])
		b = b[n:]
	}
	return d
}

func (d digest) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, d.len)
	b = binary.LittleEndian.AppendUint32(b, d.c)
	return binary.LittleEndian.AppendUint32(b, d.i)
}

func readDigest(b []byte) digest {
	return digest{
		binary.LittleEndian.Uint64(b),
		binary.LittleEndian.Uint32(b[8:]),
		binary.LittleEndian.Uint32(b[12:]),
	}
}

func (d digest) String() string { return fmt.Sprintf("%d bytes %08x%08x", d.len, d.c, d.i) }
