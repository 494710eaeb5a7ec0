package analysis

import (
	"encoding/binary"
	"math/bits"
	"unicode"
	"unicode/utf8"
)

// A Scanner finds the runs of word bytes in the fields of a document: ASCII letters
// and digits, and all bytes of non-ASCII characters. Other ASCII characters end a
// run. The analyzer decides, per run, which non-ASCII characters are words.
//
// It works on its own copy of the text, eight bytes at a time, and keeps its
// buffers for the next document. It is not safe for concurrent use.
type Scanner struct {
	buf   []byte   // the fields, each ended by a zero byte, padded with zeros
	edges []uint32 // start and end of each run in buf, alternating
	uni   unicodeFolder
	atoms []uint32 // in compounds: start and end of each joined word or number
	join  []byte
	run   int // current run of each if it is ASCII, else -1
	extra int // number of compounds among the terms
}

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
	// pad is the number of zero bytes after the text in Scanner.buf, so that eight
	// bytes can be loaded at any byte of the text.
	pad = 64 + 8
)

// scan copies the fields and finds their runs. With lower, for Plain, the copy has
// ASCII in lower case. Otherwise narrow changes the copy.
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
	s.edges = edges
	s.extra = 0
}

// Scan finds the runs of a text under Standard.
func (s *Scanner) Scan(text string) { s.scan([]string{text}, false) }

// Runs returns the scanned text, with at least eight zero bytes after it, and the
// start and end of each run in it, alternating. The next scan overwrites both.
func (s *Scanner) Runs() (text []byte, edges []uint32) { return s.buf, s.edges }

// Terms calls emit with each term of a run under Standard. The slice is valid
// during the call only.
func (s *Scanner) Terms(run []byte, emit func(term []byte)) { s.uni.standard(run, emit) }

// maxWord is the length of the longest word that Letters returns, in letters.
const maxWord = 40

// Letters returns a run folded if it is one word of at most maxWord letters of a
// script with spaces between words, else "".
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

// partWeight is the weight of the parts of a name in a query, such as foo and bar of
// fooBar. With 1, nDCG@10 is .904 instead of .905 for til-knownitem, and .719
// instead of .722 for scifact.
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

// IsContraction reports whether the run from start to end follows the apostrophe of
// an English word: the s of "user's", the t of "don't".
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

// IsASCII reports whether all characters of b are ASCII.
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

// narrow replaces full-width forms, typographic quotes, hyphens, and spaces with
// ASCII characters. So they join or separate words as ASCII does. It returns the
// text, shortened in place.
func narrow(text []byte) []byte {
	from := nextNarrow(text, 0)
	to := from
	for from < len(text) {
		c, size := narrowed(text[from:])
		text[to] = c
		to++
		from += size
		next := nextNarrow(text, from)
		to += copy(text[to:], text[from:next])
		from = next
	}
	return text[:to]
}

// nextNarrow returns the position of the next character from i on that narrow
// replaces, or len(text).
func nextNarrow(text []byte, i int) int {
	for i < len(text) {
		if i+8 <= len(text) && IsASCII(text[i:i+8]) {
			i += 8
			continue
		}
		if text[i] >= 0xc2 {
			if _, size := narrowed(text[i:]); size > 0 {
				return i
			}
		}
		i++
	}
	return i
}

// narrowed returns the ASCII character that replaces the first character of b, and
// the size of the latter. The size is 0 if narrow does not replace it.
func narrowed(b []byte) (c byte, size int) {
	switch b[0] {
	case 0xc2, 0xe2, 0xe3, 0xef:
	default:
		return 0, 0
	}
	r, size := utf8.DecodeRune(b)
	switch {
	case '！' <= r && r <= '～':
		return byte(r - '！' + '!'), size
	case r == '\u00a0', r == '\u3000', 0x2000 <= r && r <= 0x200A, r == '\u202f':
		return ' ', size
	case r == '\u2010', r == '\u2011', r == '\u2212': // hyphens, minus
		return '-', size
	case 0x2012 <= r && r <= 0x2015, r == '“', r == '”', r == '„', r == '…', r == '•':
		return ';', size
	case r == '’', r == '‘':
		return '\'', size
	}
	return 0, 0
}
