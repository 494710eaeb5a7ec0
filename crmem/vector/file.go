package vector

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"unsafe"

	"crabmem/crmem/internal/format"
)

// The vector file (FORMAT.md, "Vector file").
const (
	magic       = "CRMEMVEC"
	fileVersion = 1
	headerSize  = 32
	entrySize   = 8 + format.DigestSize + 8
	sumSize     = 4
)

// Size returns the size of the file of the set.
func (s *Set) Size() int64 {
	return fileSize(len(s.model), int64(len(s.entries)), int64(s.Rows()), s.dim)
}

func fileSize(model int, entries, rows int64, dim int) int64 {
	return headerSize + int64(model) + entries*entrySize + rows*int64(4+dim) + sumSize
}

// Write writes the file of the set.
func (s *Set) Write(w io.Writer) error {
	sum := crc32.New(format.Castagnoli())
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	// The last Flush returns the error of every write.
	put32 := func(n uint32) { out.Write(binary.LittleEndian.AppendUint32(out.AvailableBuffer(), n)) }
	put64 := func(n uint64) { out.Write(binary.LittleEndian.AppendUint64(out.AvailableBuffer(), n)) }
	ids := s.IDs()
	out.WriteString(magic)
	for _, n := range []int{fileVersion, s.dim, len(s.model), len(ids), s.Rows(), 0} {
		put32(uint32(n))
	}
	out.WriteString(s.model)
	var places []uint32 // of the vectors
	for _, id := range ids {
		e := s.entries[id]
		before := len(places)
		for i := e.first; i != 0; i = s.rows[i-1].next {
			places = append(places, i-1)
		}
		put64(id)
		out.Write(e.digest.Append(out.AvailableBuffer()))
		put64(uint64(len(places) - before))
	}
	for _, i := range places {
		put32(math.Float32bits(s.rows[i].scale))
	}
	for _, i := range places {
		out.Write(bytesOf(s.vector(i)))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

// bytesOf and valuesOf return the same memory as another type.
func bytesOf(v []int8) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}
func valuesOf(b []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

// Read returns the set of a file of so many bytes. The model and dim are those of the
// vectors that the caller wants: Read refuses a file with others, and a damaged file,
// before it uses memory in proportion to numbers in the file.
func Read(r io.ReaderAt, size int64, model string, dim int) (*Set, error) {
	fail := func(format string, args ...any) (*Set, error) {
		return nil, fmt.Errorf("vector file: "+format, args...)
	}
	head := make([]byte, headerSize+len(model))
	if _, err := r.ReadAt(head, 0); err != nil {
		return fail("%w", err)
	}
	number := func(i int) int64 { return int64(binary.LittleEndian.Uint32(head[len(magic)+4*i:])) }
	if string(head[:len(magic)]) != magic || number(0) != fileVersion || number(5) != 0 {
		return fail("not of this format or version")
	}
	entries, rows := number(3), number(4)
	if number(1) != int64(dim) || number(2) != int64(len(model)) || string(head[headerSize:]) != model {
		return fail("its vectors are of another model")
	}
	if want := fileSize(len(model), entries, rows, dim); size != want || size > math.MaxInt {
		return fail("%d bytes, want %d", size, want)
	}
	b := make([]byte, size)
	if n, err := r.ReadAt(b, 0); n < len(b) {
		return fail("%w", err)
	}
	body := b[:size-sumSize]
	if crc32.Checksum(body, format.Castagnoli()) != binary.LittleEndian.Uint32(b[size-sumSize:]) || !bytes.Equal(head, b[:len(head)]) {
		return fail("the checksum differs")
	}
	s := New(model, dim)
	if err := s.decode(body[len(head):], int(entries), int(rows)); err != nil {
		return fail("%w", err)
	}
	return s, nil
}

// decode reads the entries, scales, and values, which are complete.
func (s *Set) decode(b []byte, entries, rows int) error {
	scales := b[entries*entrySize:]
	s.entries = make(map[uint64]entry, entries)
	s.rows = slices.Grow(s.rows, rows)
	last := uint64(0)
	for i := range entries {
		e := b[i*entrySize:]
		id, n := binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint64(e[8+format.DigestSize:])
		if id <= last || n > uint64(rows-len(s.rows)) {
			return fmt.Errorf("entry %d of %d is invalid", i, entries)
		}
		last = id
		x := entry{digest: format.ReadDigest(e[8:])}
		if n > 0 {
			x.first = uint32(len(s.rows)) + 1
		}
		for left := n; left > 0; left-- {
			scale := math.Float32frombits(binary.LittleEndian.Uint32(scales[4*len(s.rows):]))
			if !(scale >= 0 && scale <= 1) {
				return fmt.Errorf("scale %d of %d is invalid", len(s.rows), rows)
			}
			r := row{scale: scale, id: id}
			if left > 1 {
				r.next = uint32(len(s.rows)) + 2
			}
			s.rows = append(s.rows, r)
		}
		s.put(id, x)
	}
	if len(s.rows) != rows {
		return fmt.Errorf("%d vectors belong to no entry", rows-len(s.rows))
	}
	s.values = valuesOf(scales[4*rows:])
	return nil
}
