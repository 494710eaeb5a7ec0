package line

import (
	"encoding/binary"
	"io"
	"math/bits"

	"crabmem/sessionlog/record"
)

// backwardChunk is the number of bytes per read from the end of a file.
const BackwardChunk = 64 << 10

// backScanner reads the lines of a file from the last to the first. Every byte
// is read once, and the memory is bounded as the scanner's is.
type BackScanner struct {
	Line Raw
	Err  error // of the reader

	r      io.ReaderAt
	pos    int64 // of buf[lo]
	limit  int64
	chunk  int
	begun  bool
	done   bool
	buf    []byte
	lo, hi int // bytes read but not yet returned, without the \n of the last line

	glue splitter
	left int // of its lines
}

// reset starts a scan of the first size bytes of r.
func (s *BackScanner) Reset(r io.ReaderAt, size, limit int64) {
	if s.chunk == 0 {
		s.chunk = BackwardChunk
	}
	*s = BackScanner{r: r, pos: size, limit: LimitOf(limit), chunk: s.chunk, done: size <= 0}
	s.buf = make([]byte, min(size, 2*int64(s.chunk)))
	s.lo, s.hi = len(s.buf), len(s.buf)
}

// Decode decodes the current line. It must be called for a bad line to find the
// records in it.
func (s *BackScanner) Decode(r *Record) {
	r.decodeLine(&s.Line, s.limit)
	if r.Kind == record.KindBad && !s.Line.split && s.Line.Bytes != nil && s.glue.split(&s.Line) {
		s.left = s.glue.len() - 1
		s.Line = s.glue.at(s.left)
		r.decodeLine(&s.Line, s.limit)
	}
}

// next goes to the line before. False is the beginning of the file, or an
// error.
func (s *BackScanner) Next() bool {
	if s.left > 0 {
		s.left--
		s.Line = s.glue.at(s.left)
		return true
	}
	if s.Err != nil || s.done {
		return false
	}
	torn := false
	if !s.begun {
		s.begun = true
		if !s.read() {
			return false
		}
		torn = s.buf[s.hi-1] != '\n'
		if !torn {
			s.hi--
		}
	}
	scanned := 0
	for {
		if i := lastNewline(s.buf[s.lo : s.hi-scanned]); i >= 0 {
			s.give(s.lo+i+1, torn)
			s.hi = s.lo + i
			return true
		}
		scanned = s.hi - s.lo
		if s.pos == 0 {
			s.give(s.lo, torn)
			s.done = true
			return true
		}
		if !s.room() {
			return s.skip(torn)
		}
		if s.Err != nil || !s.read() {
			return false
		}
	}
}

// give makes buf[i:] the current line.
func (s *BackScanner) give(i int, torn bool) {
	s.Line = Raw{Offset: s.pos + int64(i-s.lo), Size: int64(s.hi - i), Torn: torn, Unended: torn, Tail: torn}
	if s.Line.Size <= s.limit {
		s.Line.Bytes = s.buf[i:s.hi:s.hi]
	}
}

// room makes room before lo for a chunk. If the line that ends at hi exceeds the
// limit, room makes no room and returns false.
func (s *BackScanner) room() bool {
	want := int(min(int64(s.chunk), s.pos))
	n := s.hi - s.lo
	size := len(s.buf)
	switch {
	case int64(n) > s.limit:
		return false
	case s.lo >= want:
		return true
	case n <= s.chunk && size > 4*s.chunk:
		size = 2 * s.chunk
	case n+want > size && n >= farChunks*s.chunk:
		long := n + s.unreadBytes()
		if int64(long) > s.limit {
			return false
		}
		size = n + int(min(int64((long-n)/s.chunk+1)*int64(s.chunk), s.pos)) // read reads complete chunks
	case n+want > size:
		size = int(min(2*int64(size), s.limit+int64(s.chunk)))
	}
	to := s.buf
	if size != len(s.buf) {
		to = make([]byte, size)
	}
	copy(to[size-n:], s.buf[s.lo:s.hi])
	s.buf, s.lo, s.hi = to, size-n, size
	return true
}

// unreadBytes returns how many bytes of the line that ends at hi are not read yet,
// or a number above the limit of a line.
func (s *BackScanner) unreadBytes() int {
	b := make([]byte, s.chunk)
	most := s.limit - int64(s.hi-s.lo) + 1
	for at := s.pos; at > 0 && s.pos-at < most; {
		b = b[:min(int64(len(b)), at)]
		at -= int64(len(b))
		if s.Err = ReadFull(s.r, b, at); s.Err != nil {
			return 0
		}
		if i := lastNewline(b); i >= 0 {
			return int(s.pos-at) - i - 1
		}
	}
	return int(min(most, s.pos))
}

// read reads the chunk before lo into the room that room made.
func (s *BackScanner) read() bool {
	n := int(min(int64(s.chunk), s.pos))
	if s.Err = ReadFull(s.r, s.buf[s.lo-n:s.lo], s.pos-int64(n)); s.Err != nil {
		return false
	}
	s.lo -= n
	s.pos -= int64(n)
	return true
}

// skip passes over a line that is too long.
func (s *BackScanner) skip(torn bool) bool {
	end := s.pos + int64(s.hi-s.lo)
	if len(s.buf) > 2*s.chunk {
		s.buf = make([]byte, 2*s.chunk)
	}
	for s.pos > 0 {
		s.lo, s.hi = len(s.buf), len(s.buf)
		if !s.read() {
			return false
		}
		if i := lastNewline(s.buf[s.lo:s.hi]); i >= 0 {
			from := s.pos + int64(i) + 1
			s.Line = Raw{Offset: from, Size: end - from, Torn: torn, Unended: torn, Tail: torn}
			s.hi = s.lo + i
			return true
		}
	}
	s.Line = Raw{Size: end, Torn: torn, Unended: torn, Tail: torn}
	s.done = true
	return true
}

// lastNewline returns the index of the last \n in b, or -1. It is
// bytes.LastIndexByte for eight bytes at a time.
func lastNewline(b []byte) int {
	const ones = 0x0101010101010101
	i := len(b)
	for ; i >= 8; i -= 8 {
		x := binary.LittleEndian.Uint64(b[i-8:]) ^ '\n'*ones
		// Exact in every byte, because the highest is needed: a sum of seven
		// bits does not carry into another byte.
		if m := ^((x&(0x7f*ones) + 0x7f*ones) | x) & (0x80 * ones); m != 0 {
			return i - 1 - bits.LeadingZeros64(m)>>3
		}
	}
	for i--; i >= 0; i-- {
		if b[i] == '\n' {
			return i
		}
	}
	return -1
}
