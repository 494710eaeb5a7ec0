package faultfs

import "bytes"

const (
	blockSize  = 4096 // unit of write-back, in bytes
	sectorSize = 512  // a torn write ends at a multiple of this file offset
)

var zeros [blockSize]byte

// content stores the bytes of a file in blocks. Visible contents, durable
// contents, and crash states share blocks, so a block is never changed in place.
// A nil block contains zeros. A short block is padded with zeros.
type content struct {
	blocks [][]byte
	size   int64
	shared bool // another content uses the slice blocks: copy it before a change
}

// share returns a content with the same bytes, which shares the slice blocks.
func (c *content) share() content {
	c.shared = true
	return *c
}

// own copies the slice blocks if another content uses it. The copy has capacity
// for the given number of blocks.
func (c *content) own(blocks int) {
	if c.shared {
		table := make([][]byte, len(c.blocks), max(blocks, len(c.blocks)))
		copy(table, c.blocks)
		c.blocks, c.shared = table, false
	}
}

// writeAt writes p at off. If off exceeds the size, zeros fill the gap. writeAt
// does not keep p.
func (c *content) writeAt(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	end := off + int64(len(p))
	last := int((end + blockSize - 1) / blockSize)
	c.own(last)
	for len(c.blocks) < last {
		c.blocks = append(c.blocks, nil)
	}
	c.size = max(c.size, end)
	if len(p) >= blockSize {
		p = bytes.Clone(p) // complete blocks are slices of this copy
	}
	for len(p) > 0 {
		i, lo := int(off/blockSize), int(off%blockSize)
		n := min(blockSize-lo, len(p))
		switch {
		case n == blockSize && bytes.Equal(p[:n], zeros[:]):
			c.blocks[i] = nil
		case n == blockSize:
			c.blocks[i] = p[:n:n]
		default:
			b := make([]byte, max(len(c.blocks[i]), lo+n))
			copy(b, c.blocks[i])
			copy(b[lo:], p[:n])
			c.blocks[i] = b
		}
		p = p[n:]
		off += int64(n)
	}
}

// readAt reads bytes at off into p and returns the number of bytes read.
func (c *content) readAt(p []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	p = p[:min(int64(len(p)), c.size-off)]
	for n := 0; n < len(p); {
		at := off + int64(n)
		lo := int(at % blockSize)
		part := p[n:min(len(p), n+blockSize-lo)]
		b := c.blocks[at/blockSize]
		done := copy(part, b[min(lo, len(b)):])
		clear(part[done:])
		n += len(part)
	}
	return len(p)
}

// truncate sets the size. Zeros fill an extension.
func (c *content) truncate(size int64) {
	n := int((size + blockSize - 1) / blockSize)
	c.own(n)
	if size < c.size {
		clear(c.blocks[n:])
		c.blocks = c.blocks[:n]
		if rest := int(size % blockSize); rest > 0 && len(c.blocks[n-1]) > rest {
			c.blocks[n-1] = c.blocks[n-1][:rest:rest]
		}
	}
	for len(c.blocks) < n {
		c.blocks = append(c.blocks, nil)
	}
	c.size = size
}

// piece is an unsynced change of a file's contents: bytes written to one block,
// or a new size.
type piece struct {
	off    int64  // offset of the bytes, or the new size
	data   []byte // never changed in place
	resize bool   // the change sets the size to off
}

// pieces appends the pieces of a write to ps, one per block. c already contains
// the n bytes written at off. The system writes back each block as a unit. So
// pieces merges a write with the last piece if they overlap or adjoin in one
// block.
func (c *content) pieces(ps []piece, off int64, n int) []piece {
	for n > 0 {
		lo := int(off % blockSize)
		k := min(blockSize-lo, n)
		start := off
		if i := len(ps) - 1; i >= 0 && !ps[i].resize && ps[i].off/blockSize == off/blockSize &&
			ps[i].off <= off && off <= ps[i].off+int64(len(ps[i].data)) {
			start = ps[i].off
			hi := max(off+int64(k), start+int64(len(ps[i].data)))
			ps[i].data = c.bytes(start, int(hi-start))
		} else {
			ps = append(ps, piece{off: off, data: c.bytes(off, k)})
		}
		off += int64(k)
		n -= k
	}
	return ps
}

// bytes returns n bytes of one block without a copy. The block must contain
// them.
func (c *content) bytes(off int64, n int) []byte {
	b, lo := c.blocks[off/blockSize], int(off%blockSize)
	if b == nil {
		return zeros[:n:n]
	}
	return b[lo : lo+n : lo+n]
}

// apply applies an unsynced change with outcome f.
func (c *content) apply(p piece, f Outcome) {
	switch {
	case f == Lost:
	case p.resize:
		c.truncate(p.off)
	case f == Kept:
		c.writeAt(p.data, p.off)
	case f == Zeroed:
		c.writeAt(zeros[:len(p.data)], p.off)
	case f == Garbage:
		b := make([]byte, len(p.data))
		x := uint64(p.off)*0x9e3779b97f4a7c15 + uint64(len(b)) + 1
		for i := range b {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			b[i] = byte(x >> 24)
		}
		c.writeAt(b, p.off)
	default:
		if n := p.boundary(int(f - cut)); n < len(p.data) {
			c.writeAt(p.data[:n], p.off)
		} else {
			c.writeAt(p.data, p.off)
		}
	}
}

// boundary returns the number of bytes before the k-th sector boundary after
// the start of the piece. k starts at 1.
func (p *piece) boundary(k int) int {
	return sectorSize*k - int(p.off%sectorSize)
}

// cuts returns the number of sector boundaries inside the bytes.
func (p *piece) cuts() int {
	if p.resize || len(p.data) == 0 {
		return 0
	}
	return int((p.off+int64(len(p.data))-1)/sectorSize - p.off/sectorSize)
}
