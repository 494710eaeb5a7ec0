package line

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"slices"

	"crabmem/sessionlog/record"
)

// lineLimit is the default limit of a line's length. Spans cannot exceed
// maxLineLimit.
const (
	lineLimit    = 64 << 20
	maxLineLimit = 1 << 30
)

// forwardChunk is the number of bytes per read. For one long line it grows up
// to the limit.
const forwardChunk = 256 << 10

// Line is one line of a session file, or a complete record in a bad line (S7).
// A bad line is followed by its records, which have its number, and by the torn
// tail at the end of a file.
type Line struct {
	Number int64  // from 1
	Offset int64  // of its first byte in the file
	Size   int64  // bytes, without the \n
	Raw    []byte // without the \n, good until the next line; nil over the limit
	Kind   record.Kind
	Glued  bool // it was found in a bad line
	Pieces int  // of a bad line: how many records follow that were found in it
	// Tail reports that the line is after the last \n: a writer may not have
	// finished it. Torn marks the last such line. If it is bad or blank, it is
	// the torn tail (S14), not a line.
	Tail, Torn bool

	Message Message // of KindMessage and KindCopy
	Meta    Meta    // of KindMeta; of KindMetaRecord title and run time only
	Summary string  // of KindMarker
	Err     *record.FormatError
}

// rawLine is a line as the scanners find it.
type Raw struct {
	Offset, Size int64
	Bytes        []byte // without the \n, good until the next line; nil over the limit
	Torn         bool   // without \n, and the last line
	Unended      bool   // without \n
	Tail         bool   // after the last \n

	split  bool // split was called, or the line is a result of split
	Glued  bool // a record in a bad line
	Pieces int  // how many of those follow
}

// Next returns the offset after the line.
func (l *Raw) Next() int64 {
	if l.Unended {
		return l.Offset + l.Size
	}
	return l.Offset + l.Size + 1
}

// IsTorn reports whether the line is the torn tail (S14). r is the decoded
// line.
func (l *Raw) IsTorn(r *Record) bool {
	return l.Torn && (r.Kind == record.KindBad || r.Kind == record.KindBlank)
}

// decodeLine decodes a line a scanner found.
func (r *Record) decodeLine(l *Raw, limit int64) {
	if l.Bytes == nil {
		r.tooLong(limit)
		return
	}
	r.Decode(l.Bytes, l.Offset == 0)
}

// Scanner reads lines forward. Its memory is limited by the limit of a line,
// and shrinks to a chunk after a long line. Reset makes it reusable.
type Scanner struct {
	Line   Raw
	Number int64 // of line, from 1 at the offset the scan began
	Err    error // of the reader

	r      io.ReaderAt
	pos    int64 // file offset of buf[hi]
	end    int64
	limit  int64
	chunk  int
	buf    []byte
	lo, hi int // bytes read but not yet returned

	glue splitter
	Left int // of its lines
}

// Reset starts a scan of the bytes of r from one offset, at the start of a
// line, to another.
func (s *Scanner) Reset(r io.ReaderAt, from, to, limit int64) {
	if s.chunk == 0 {
		s.chunk = forwardChunk
	}
	buf := s.buf
	if size := int(min(int64(s.chunk), to-from)); len(buf) < size || len(buf) > 2*s.chunk {
		buf = make([]byte, size)
	}
	*s = Scanner{r: r, pos: from, end: to, limit: LimitOf(limit), chunk: s.chunk, buf: buf, glue: s.glue}
}

// Decode decodes the current line. It must be called for a bad line to find the
// records in it.
func (s *Scanner) Decode(r *Record) {
	r.decodeLine(&s.Line, s.limit)
	if r.Kind == record.KindBad && !s.Line.split && s.Line.Bytes != nil && s.glue.split(&s.Line) {
		s.Line, s.Left = s.glue.line, s.glue.len()-1
		r.decodeLine(&s.Line, s.limit)
	}
}

// LimitOf returns the limit of a line for the value of an option.
func LimitOf(n int64) int64 {
	if n <= 0 {
		return lineLimit
	}
	return min(n, maxLineLimit)
}

// next goes to the next line. False is the end, or an error.
func (s *Scanner) Next() bool {
	if s.Err != nil {
		return false
	}
	if s.Left > 0 {
		s.Line = s.glue.at(s.glue.len() - s.Left)
		s.Left--
		return true
	}
	scanned := 0
	for {
		if i := bytes.IndexByte(s.buf[s.lo+scanned:s.hi], '\n'); i >= 0 {
			s.give(scanned+i, false)
			s.lo++
			return true
		}
		scanned = s.hi - s.lo
		if s.pos == s.end {
			if scanned == 0 {
				return false
			}
			s.give(scanned, true)
			return true
		}
		if !s.room() {
			return s.skip()
		}
		if s.Err != nil || !s.read() {
			return false
		}
	}
}

// give makes the next n bytes the current line.
func (s *Scanner) give(n int, torn bool) {
	s.Number++
	s.Line = Raw{Offset: s.pos - int64(s.hi-s.lo), Size: int64(n), Torn: torn, Unended: torn, Tail: torn}
	if int64(n) <= s.limit {
		s.Line.Bytes = s.buf[s.lo : s.lo+n : s.lo+n]
	}
	s.lo += n
}

// room makes room to read more of the line that begins at lo. If that line
// exceeds the limit, room makes no room and returns false.
func (s *Scanner) room() bool {
	n := s.hi - s.lo
	size := len(s.buf)
	switch {
	case int64(n) > s.limit:
		return false
	case n <= s.chunk/2 && size > 2*s.chunk:
		size = s.chunk
	case n == size && n >= farChunks*s.chunk:
		long := n + s.ahead()
		if int64(long) > s.limit {
			return false
		}
		size = long + 1
	case n == size:
		size = int(min(2*int64(n), s.limit+int64(s.chunk)))
	}
	to := s.buf
	if size != len(s.buf) {
		to = make([]byte, size)
	}
	copy(to, s.buf[s.lo:s.hi])
	s.buf, s.lo, s.hi = to, 0, n
	return true
}

// farChunks is the number of chunks of a line for which the buffer doubles. For
// a longer line the scanner first finds its length, then allocates the buffer
// once, or not at all if the line exceeds the limit.
const farChunks = 16

// ahead returns how many bytes of the line that begins at lo are not read yet,
// or more than it may have.
func (s *Scanner) ahead() int {
	b := make([]byte, s.chunk)
	most := s.limit - int64(s.hi-s.lo) + 1
	for at := s.pos; at < s.end && at-s.pos < most; at += int64(len(b)) {
		b = b[:min(int64(len(b)), s.end-at)]
		if s.Err = ReadFull(s.r, b, at); s.Err != nil {
			return 0
		}
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			return int(at-s.pos) + i
		}
	}
	return int(min(most, s.end-s.pos))
}

// read fills the buffer.
func (s *Scanner) read() bool {
	n := int(min(int64(len(s.buf)-s.hi), s.end-s.pos))
	if s.Err = ReadFull(s.r, s.buf[s.hi:s.hi+n], s.pos); s.Err != nil {
		return false
	}
	s.hi += n
	s.pos += int64(n)
	return true
}

// skip passes over a line that is too long.
func (s *Scanner) skip() bool {
	s.Number++
	s.Line = Raw{Offset: s.pos - int64(s.hi-s.lo), Size: int64(s.hi - s.lo)}
	if len(s.buf) > s.chunk {
		s.buf = make([]byte, s.chunk)
	}
	for s.pos < s.end {
		s.lo, s.hi = 0, 0
		if !s.read() {
			return false
		}
		if i := bytes.IndexByte(s.buf[:s.hi], '\n'); i >= 0 {
			s.Line.Size += int64(i)
			s.lo = i + 1
			return true
		}
		s.Line.Size += int64(s.hi)
	}
	s.lo = s.hi
	s.Line.Torn, s.Line.Unended, s.Line.Tail = true, true, true
	return true
}

// bytes returns n bytes at an offset: those that were read last, where they are
// among them, and else they are read.
func (s *Scanner) Bytes(r io.ReaderAt, off, n int64) ([]byte, error) {
	if from := s.pos - int64(s.hi); off >= from && off+n <= s.pos {
		return s.buf[off-from : off-from+n], nil
	}
	b := make([]byte, n)
	return b, ReadFull(r, b, off)
}

// readFull reads all of b. A file that ends before is an error: it was longer
// when the scan began.
func ReadFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || err == io.EOF:
		return fmt.Errorf("file shrank during the read: it ends at %d: %w", off+int64(n), io.ErrUnexpectedEOF)
	}
	return err
}

// Numbered yields the lines of r from an offset, at the start of a line, to
// another. number is the number of the first line; 0 counts it from the start
// of r. Bad lines are yielded as lines. An error of r is yielded last.
func Numbered(r io.ReaderAt, from, number, to, limit int64) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		before := number - 1
		if number <= 0 {
			var err error
			if before, err = newlines(r, 0, from); err != nil {
				yield(Line{}, err)
				return
			}
		}
		var s Scanner
		var rec Record
		s.Reset(r, from, to, limit)
		for s.Next() {
			s.Decode(&rec)
			if !yield(rec.toLine(&s.Line, before+s.Number), nil) {
				return
			}
		}
		if s.Err != nil {
			yield(Line{}, s.Err)
		}
	}
}

// toLine returns a line, which r was decoded from, with all that is in it.
func (r *Record) toLine(raw *Raw, number int64) Line {
	l := Line{
		Number: number, Offset: raw.Offset, Size: raw.Size, Raw: raw.Bytes, Kind: r.Kind,
		Glued: raw.Glued, Pieces: raw.Pieces, Tail: raw.Tail, Torn: raw.Torn,
	}
	switch r.Kind {
	case record.KindMessage, record.KindCopy:
		l.Message = r.Message()
	case record.KindMarker:
		l.Summary = r.Summary()
	case record.KindMeta:
		l.Meta = r.Meta()
	case record.KindMetaRecord:
		l.Meta = Meta{Title: r.Text(r.Title), UptimeSecs: r.uptime}
	case record.KindBad:
		l.Err = &record.FormatError{Line: number, Offset: raw.Offset, Msg: r.Reason()}
	}
	return l
}

// newlines counts the line ends of r between two offsets.
func newlines(r io.ReaderAt, from, to int64) (n int64, err error) {
	var b []byte
	for from < to {
		size := int(min(forwardChunk, to-from))
		b = slices.Grow(b[:0], size)[:size]
		if err := ReadFull(r, b, from); err != nil {
			return 0, err
		}
		n += int64(bytes.Count(b, []byte{'\n'}))
		from += int64(size)
	}
	return n, nil
}
