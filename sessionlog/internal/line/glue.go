package line

import (
	"bytes"
	"unicode/utf8"

	"crabmem/sessionlog/record"
)

// A piece is a complete record in a bad line (S7), with the white space after
// it and, for a piece at the start of the line, before it.
type piece struct{ Lo, Hi int32 }

// vain limits the bytes read of a line without finding a record, beyond four
// times its length. Objects that begin like records can be nested as deep as
// JSON permits, and each would be read.
const vain = 64 << 10

// Pieces appends the complete records of a bad line to dst, in their order. It
// decodes each as a line; first marks line 1 of a file.
//
// A JSON string contains no `{"`, and within an object no brace follows an
// object. So no record is inside another, and a search from the left finds all
// of them.
func Pieces(dst []piece, line []byte, first bool) []piece {
	at, lo := 0, 0
	if first && bytes.HasPrefix(line, byteOrderMark) {
		at = len(byteOrderMark)
	}
	r := Record{Line: line}
	any := true // kind of record: where the line begins, or a record ends
	c := cursor{b: line, i: at}
	c.peek()
	at = c.i
	for left := 4*len(line) + vain; at < len(line); {
		hi, ok := r.piece(at, first && lo == 0, any)
		if ok {
			dst = append(dst, piece{int32(lo), int32(hi)})
			at, lo, any = hi, hi, true
			continue
		}
		if left -= hi - at; left < 0 {
			break
		}
		n := opening(line[at+1:])
		if n < 0 {
			break
		}
		at += 1 + n
		lo, any = at, false
	}
	return dst
}

// piece reads an object of the line. It returns the offset after the object, or
// the offset that it reached. ok is true for a valid record that is followed by
// the end of the line or by another brace.
func (r *Record) piece(at int, first, any bool) (end int, ok bool) {
	c := cursor{b: r.Line, i: at}
	if c.peek() != '{' {
		return at, false
	}
	c.i++
	var d draft
	r.clear()
	r.object(&c, &d, first)
	if c.fault.code != faultNone {
		return max(at, c.fault.at), false
	}
	end = c.i
	if c.peek() != '{' && c.i < len(c.b) {
		return end, false
	}
	if c.high&0x8080808080808080 != 0 && !utf8.Valid(r.Line[at:end]) {
		return end, false
	}
	switch r.classify(&d, first) {
	case record.KindMeta, record.KindUnknown:
		return c.i, any
	case record.KindMessage, record.KindMarker, record.KindMetaRecord:
		return c.i, true
	}
	return end, false
}

// opening returns the index of the next prefix of a record in a bad line, or -1
// if there is none.
func opening(line []byte) int {
	for at := 0; ; at += 2 {
		n := bytes.Index(line[at:], []byte(`{"`))
		if n < 0 {
			return -1
		}
		at += n
		for _, key := range [...]string{`role":`, `compact":`, `meta":`} {
			if bytes.HasPrefix(line[at+2:], []byte(key)) {
				return at
			}
		}
	}
}

// A splitter returns the records in a bad line as separate lines: first the
// line, then its pieces, then the torn tail after them at the end of a file
// (S14). It is reusable.
type splitter struct {
	line   Raw // without the torn tail
	rest   Raw // the torn tail, or empty
	pieces []piece
}

// split looks for complete records in a bad line, and reports whether it found
// one.
func (s *splitter) split(l *Raw) bool {
	if cap(s.pieces) > MaxScratch/8 {
		s.pieces = nil
	}
	s.pieces = Pieces(s.pieces[:0], l.Bytes, l.Offset == 0)
	if len(s.pieces) == 0 {
		return false
	}
	s.line, s.rest = *l, Raw{}
	if l.Torn {
		end := s.pieces[len(s.pieces)-1].Hi
		s.line = l.part(piece{0, end})
		if int64(end) < l.Size {
			s.rest = l.part(piece{end, int32(l.Size)})
			s.rest.Torn = true
		}
		if len(s.pieces) == 1 && s.pieces[0].Lo == 0 { // the piece is the line
			s.line.Torn = s.rest.Size == 0
			s.pieces = s.pieces[:0]
		}
	}
	s.line.split, s.line.Pieces = true, len(s.pieces)
	return true
}

// len is how many lines there are.
func (s *splitter) len() int {
	n := 1 + len(s.pieces)
	if s.rest.Size > 0 {
		n++
	}
	return n
}

// at returns the i-th of the lines.
func (s *splitter) at(i int) Raw {
	switch {
	case i == 0:
		return s.line
	case i > len(s.pieces):
		return s.rest
	}
	l := s.line.part(s.pieces[i-1])
	l.Glued = true
	if i == len(s.pieces) {
		l.Torn = s.line.Unended && s.rest.Size == 0
		l.Unended = s.line.Unended || int(s.pieces[i-1].Hi) < len(s.line.Bytes) // bytes follow it, but no \n
	}
	return l
}

// part returns a part of a line that is not followed by \n.
func (l *Raw) part(p piece) Raw {
	return Raw{
		Offset: l.Offset + int64(p.Lo), Size: int64(p.Hi - p.Lo), Bytes: l.Bytes[p.Lo:p.Hi:p.Hi],
		Unended: true, Tail: l.Tail, split: true,
	}
}
