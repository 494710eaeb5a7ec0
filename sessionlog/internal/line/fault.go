package line

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

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
	if f.at < len(line) && line[f.at] == 0 {
		n := 1
		for f.at+n < len(line) && line[f.at+n] == 0 {
			n++
		}
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
