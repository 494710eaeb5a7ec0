package line

import (
	"bytes"
	"fmt"
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
		if !utf8.FullRune(b[len(b)-n:]) {
			return n
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

// fault is an error of a line. Its text is built on demand, because a file may
// have millions of bad lines.
type fault struct {
	code faultCode
	key  key // of a fault with a key
	at   int // offset in the line
}

type faultCode uint8

const (
	faultNone faultCode = iota
	faultEnd
	faultSyntax
	faultNoObject
	faultTrailing
	faultControl
	faultEscape
	faultSurrogate
	faultUTF8
	faultDepth
	faultTwice
	faultType
	faultMissing
	faultLong
	faultMany
)

// text describes the fault of line.
func (f fault) text(line []byte) string {
	if f.code == faultLong {
		return fmt.Sprintf("longer than the limit of %d bytes", f.at)
	}
	n := 0
	for f.at+n < len(line) && line[f.at+n] == 0 {
		n++
	}
	if n > 0 {
		if n == len(line) {
			return fmt.Sprintf("only %d NUL bytes", n)
		}
		return fmt.Sprintf("%d NUL bytes at byte %d", n, f.at+1)
	}
	switch f.code {
	case faultEnd:
		return fmt.Sprintf("record is cut after %d bytes", len(line))
	case faultNoObject:
		return "not a JSON object"
	case faultTrailing:
		return fmt.Sprintf("data after the object at byte %d", f.at+1)
	case faultControl:
		return fmt.Sprintf("control character %#U in a string at byte %d", line[f.at], f.at+1)
	case faultEscape:
		return fmt.Sprintf("invalid JSON escape at byte %d: %.6q", f.at+1, line[f.at:])
	case faultSurrogate:
		return fmt.Sprintf("lone surrogate at byte %d: %.6s", f.at+1, line[f.at:])
	case faultUTF8:
		return fmt.Sprintf("not UTF-8 at byte %d: 0x%02x", f.at+1, line[f.at])
	case faultDepth:
		return fmt.Sprintf("nested deeper than %d at byte %d", maxDepth, f.at+1)
	case faultTwice:
		return fmt.Sprintf("duplicate key %q at byte %d", f.key, f.at+1)
	case faultType:
		return fmt.Sprintf("%s is not %s, at byte %d", f.key, f.key.wants(), f.at+1)
	case faultMany:
		return fmt.Sprintf("more than %d tool calls, at byte %d", MaxCalls, f.at+1)
	case faultMissing:
		return fmt.Sprintf("no meta line: %q is missing", f.key)
	}
	if bytes.HasPrefix(line[f.at:], byteOrderMark) {
		return fmt.Sprintf("byte order mark at byte %d", f.at+1)
	}
	r, _ := utf8.DecodeRune(line[f.at:])
	return fmt.Sprintf("not JSON at byte %d: unexpected %q", f.at+1, r)
}
