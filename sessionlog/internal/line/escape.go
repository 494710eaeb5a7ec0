package line

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// escapeLen returns the length of the escape at the start of b, or 0 if it is
// invalid or incomplete. A surrogate pair is one escape.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
	default:
		return 0
	}
	switch r := hex4(b); {
	case r < 0, r&0xfc00 == 0xdc00:
		return 0
	case r&0xfc00 != 0xd800:
		return 6
	}
	if hex4(b[6:])&^0x3ff != 0xdc00 {
		return 0
	}
	return 12
}

// escapeFault returns the fault of the escape at the start of b.
func escapeFault(b []byte) faultCode {
	if len(b) < 2 {
		return faultEnd
	}
	if b[1] != 'u' {
		return faultEscape
	}
	for i := 2; i < 6; i++ {
		if i == len(b) {
			return faultEnd
		}
		if unhex(b[i]) < 0 {
			return faultEscape
		}
	}
	if r := hex4(b); r&0xfc00 == 0xd800 {
		// The other half may be missing.
		rest := b[6:min(12, len(b))]
		for i, want := range []byte(`\u`) {
			if i == len(rest) {
				return faultEnd
			}
			if rest[i] != want {
				return faultSurrogate
			}
		}
		for i := 2; i < 6; i++ {
			if i == len(rest) {
				return faultEnd
			}
			if unhex(rest[i]) < 0 {
				return faultSurrogate
			}
		}
	}
	return faultSurrogate
}

// hex4 returns the number of a \u and its four digits at the start of b, or -1
// if b does not begin with them.
func hex4(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		d := unhex(c)
		if d < 0 {
			return -1
		}
		r = r<<4 | d
	}
	return r
}

func unhex(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	}
	return -1
}

// partialRune returns the length of an incomplete character at the end of b.
func partialRune(b []byte) int {
	for n := 1; n <= min(3, len(b)); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			break
		}
	}
	return 0
}

// appendUnescaped appends the text of a string's bytes b, which were found
// good.
func appendUnescaped(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return append(dst, b...)
		}
		dst = append(dst, b[:i]...)
		b = b[i:]
		if k := strings.IndexByte(escapes, b[1]); k >= 0 {
			dst = append(dst, escaped[k])
		} else if b[1] == '/' {
			dst = append(dst, '/')
		} else {
			r := hex4(b)
			if r&0xfc00 == 0xd800 {
				r = 0x10000 + (r&0x3ff)<<10 + hex4(b[6:])&0x3ff
				b = b[6:]
			}
			dst = utf8.AppendRune(dst, r)
			b = b[4:]
		}
		b = b[2:]
	}
}
