package analysis

import (
	"encoding/binary"
	"math/bits"
	"unicode"
)

// A Scanner finds the runs of word bytes in the fields of one document: ASCII
// letters and digits, and every byte of a non-ASCII character. What a
// non-ASCII character is gets decided per run by the analyzer; everything else
// in ASCII ends a run in both analyzers.
//
// It works on a private copy of the text, eight bytes at a time, and is reused
// from document to document.
type Scanner struct {
	buf   []byte   // the fields, each ended by a zero byte, padded with zeros
	edges []uint32 // start and end of each run in buf, alternating
	uni   unicodeFolder
	atoms []uint32 // see compounds
	join  []byte
	run   int // that each is at, an ASCII one; -1 = none
	extra int // how many terms were compounds
}

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
	// pad is how many zero bytes follow the text in scanner.buf, so that eight
	// bytes can be loaded at any byte of it.
	pad = 64 + 8
)

// scan loads the fields and finds their runs. With lower, ASCII capitals are
// lower-cased in the copy, which is for Plain; without, it is narrowed.
func (s *Scanner) scan(fields []string, lower bool) {
	buf := s.buf[:0]
	for _, f := range fields {
		buf = append(buf, f...)
		buf = append(buf, 0)
	}
	if !lower && !IsASCII(buf) {
		buf = narrow(buf)
	}
	n := (len(buf) + 63) &^ 63
	buf = append(buf, make([]byte, pad)...)
	s.buf = buf
	edges := s.edges[:0]
	fold := uint64(0)
	if lower {
		fold = highs
	}
	carry := uint64(0)
	for base := 0; base < n; base += 64 {
		block := buf[base : base+64 : base+64]
		word := uint64(0)
		for i := 0; i < 64; i += 8 {
			w := binary.LittleEndian.Uint64(block[i:])
			x := w &^ highs
			upper := (x + (0x80-'A')*ones) &^ (x + (0x7f-'Z')*ones) &^ w & highs
			w |= upper & fold >> 2
			binary.LittleEndian.PutUint64(block[i:], w)
			x |= upper >> 2
			letter := (x + (0x80-'a')*ones) &^ (x + (0x7f-'z')*ones)
			digit := (x + (0x80-'0')*ones) &^ (x + (0x7f-'9')*ones)
			in := (letter | digit | w) & highs
			word |= in >> 7 * 0x0102040810204080 >> 56 << i
		}
		e := word ^ (word<<1 | carry)
		carry = word >> 63
		for e != 0 {
			edges = append(edges, uint32(base+bits.TrailingZeros64(e)))
			e &= e - 1
		}
	}
	if carry != 0 {
		edges = append(edges, uint32(n))
	}
	s.edges = edges
	s.extra = 0
}

// Scan finds the runs of a text under Standard.
func (s *Scanner) Scan(text string) { s.scan([]string{text}, false) }

// Runs returns the text that was scanned, with at least eight zero bytes after
// it, and the start and end of each run in it, alternating.
func (s *Scanner) Runs() (text []byte, edges []uint32) { return s.buf, s.edges }

// Terms emits the Terms of a run under Standard.
func (s *Scanner) Terms(run []byte, emit func(term []byte)) { s.uni.standard(run, emit) }

// maxWord is the longest word that letters returns, in letters.
const maxWord = 40

// Letters returns a run folded, if it is one word of at most maxWord Letters of a
// script with spaces between words; "" otherwise.
func (s *Scanner) Letters(run []byte) string {
	if len(run) > 4*maxWord {
		return ""
	}
	u := &s.uni
	u.fold(run)
	n := 0
	for _, r := range string(u.text) {
		if n++; !unicode.IsLetter(r) && !unicode.Is(unicode.M, r) || IsUnspaced(r) {
			return ""
		}
	}
	if n > maxWord {
		return ""
	}
	return string(u.text)
}

// each calls emit with every term of the fields under a, in order. The slice is
// valid during the call only.
func (s *Scanner) each(a Analyzer, fields []string, emit func(term []byte)) {
	s.scan(fields, a == Plain)
	done := 0
	s.run = -1
	for i := 0; i < len(s.edges); i += 2 {
		start, end := s.edges[i], s.edges[i+1]
		run := s.buf[start:end:end]
		switch {
		case a == Standard:
			if s.IsContraction(start, end) {
				continue
			}
			if s.run = -1; IsASCII(run) {
				s.run = i
			}
			s.uni.standard(run, emit)
			s.run = -1
			if i >= done && s.compound(i) {
				done = s.compounds(i, emit)
			}
		case IsASCII(run):
			if len(run) > 1 && !plainStop[string(run)] {
				emit(run)
			}
		default:
			s.uni.plain(run, func(term []byte) {
				if !plainStop[string(term)] {
					emit(term)
				}
			})
		}
	}
}

// partWeight is what the parts of a name count in a query, fooBar's foo and bar,
// besides the whole: at 1 til-knownitem has .904 instead of .905 nDCG@10, and
// scifact .704 instead of .709.
const partWeight = 0.5

// Query calls emit with every term of a Query under a, in order, and its weight.
func (s *Scanner) Query(a Analyzer, text string, emit func(term []byte, weight float64)) {
	run := -1
	s.each(a, []string{text}, func(term []byte) {
		if s.run >= 0 && s.run == run {
			emit(term, partWeight)
			return
		}
		run = s.run
		emit(term, 1)
	})
}

// IsContraction reports whether the run at start is what follows the apostrophe
// of an English word: the s of "user's", the t of "don't".
func (s *Scanner) IsContraction(start, end uint32) bool {
	return start >= 2 && s.buf[start-1] == '\'' && wordByte(s.buf[start-2]) && contractionTail(s.buf[start:end])
}

func contractionTail(run []byte) bool {
	switch string(run) {
	case "s", "S", "t", "T", "d", "D", "m", "M", "ll", "LL", "re", "RE", "ve", "VE":
		return true
	}
	return false
}

func wordByte(c byte) bool {
	return c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// IsASCII reports whether b has no byte of a non-ASCII character.
func IsASCII(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b)&highs != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
