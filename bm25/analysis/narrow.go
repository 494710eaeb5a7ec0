package analysis

import "unicode/utf8"

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
