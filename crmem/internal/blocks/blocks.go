// Package blocks reads and writes files of checksummed blocks (FORMAT.md, "Index
// file"). Each read checks the blocks that it touches.
package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"crabmem/crmem/internal/format"
)

// Size is the length of a block; the last one may be shorter.
const Size = 64 << 10

// maxCached limits the blocks that a Reader keeps.
const maxCached = 128

// ErrChanged is returned for a block whose checksum is wrong.
var ErrChanged = errors.New("checksum mismatch")

// A Writer writes blocks and collects their checksums.
type Writer struct {
	w    io.Writer
	n    int64
	sum  uint32 // of the current block
	sums []byte
}

// NewWriter returns a Writer whose blocks start at the present position of w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Len returns the number of bytes written.
func (w *Writer) Len() int64 { return w.n }

func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	p = p[:n]
	for len(p) > 0 {
		part := p[:min(len(p), Size-int(w.n%Size))]
		w.sum = crc32.Update(w.sum, format.Castagnoli(), part)
		w.n += int64(len(part))
		p = p[len(part):]
		if w.n%Size == 0 {
			w.endBlock()
		}
	}
	return n, err
}

func (w *Writer) endBlock() {
	w.sums = binary.LittleEndian.AppendUint32(w.sums, w.sum)
	w.sum = 0
}

// Sums ends the last block and returns the checksums, four bytes each.
func (w *Writer) Sums() []byte {
	if w.n%Size != 0 {
		w.endBlock()
	}
	return w.sums
}

// A Reader reads blocks and checks their checksums. It is safe for concurrent use.
type Reader struct {
	r    io.ReaderAt
	n    int64  // bytes in all blocks
	sums []byte // of the blocks

	mu     sync.Mutex
	cached map[int64][]byte // by number
	order  []int64          // of cached blocks, the oldest first
}

// NumSums returns the length of the checksums of n bytes.
func NumSums(n int64) int64 { return (n + Size - 1) / Size * 4 }

// NewReader returns a Reader of n bytes at the start of r. The length of sums must be
// NumSums(n).
func NewReader(r io.ReaderAt, n int64, sums []byte) *Reader {
	return &Reader{r: r, n: n, sums: sums, cached: make(map[int64][]byte)}
}

// Len returns the number of bytes in all blocks.
func (r *Reader) Len() int64 { return r.n }

// Sums returns the checksums, which must not be changed.
func (r *Reader) Sums() []byte { return r.sums }

// ReadAt implements [io.ReaderAt]. It returns an error that wraps [ErrChanged] if a
// block has changed.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read at offset %d", off)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	read := 0
	for read < len(p) && off < r.n {
		number, skip := off/Size, off%Size
		length := min(Size, r.n-number*Size)
		to := p[read:]
		if _, ok := r.cached[number]; !ok && skip == 0 && int64(len(to)) >= length {
			if err := r.load(to[:length], number); err != nil {
				return read, err
			}
			read += int(length)
			off += length
			continue
		}
		b, err := r.block(number, length)
		if err != nil {
			return read, err
		}
		n := copy(to, b[skip:])
		read += n
		off += int64(n)
	}
	if read < len(p) {
		return read, io.EOF
	}
	return read, nil
}

// block returns a block, which it caches. The caller holds mu.
func (r *Reader) block(number, length int64) ([]byte, error) {
	if b, ok := r.cached[number]; ok {
		return b, nil
	}
	var b []byte
	if len(r.order) == maxCached {
		b = r.cached[r.order[0]][:0]
		delete(r.cached, r.order[0])
		r.order = append(r.order[:0], r.order[1:]...)
	}
	if int64(cap(b)) < length {
		b = make([]byte, length)
	}
	b = b[:length]
	if err := r.load(b, number); err != nil {
		return nil, err
	}
	r.cached[number] = b
	r.order = append(r.order, number)
	return b, nil
}

// load reads a block into b and checks it.
func (r *Reader) load(b []byte, number int64) error {
	if n, err := r.r.ReadAt(b, number*Size); n < len(b) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("block %d: %w", number, err)
	}
	if want := binary.LittleEndian.Uint32(r.sums[4*number:]); crc32.Checksum(b, format.Castagnoli()) != want {
		return fmt.Errorf("block %d: %w", number, ErrChanged)
	}
	return nil
}
