package tool

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// Capture stores the beginning and the end of its input.
type Capture struct {
	max  int
	n    int64  // bytes written
	head []byte // the first max/2 of them
	tail []byte // the last of the others, as a ring once it is full
	at   int    // where the ring begins
}

// NewCapture returns a capture that stores at most max bytes.
func NewCapture(max int) *Capture { return &Capture{max: max} }

// Write implements [io.Writer]. It returns no error.
func (c *Capture) Write(p []byte) (int, error) {
	written := len(p)
	c.n += int64(written)
	k := min(len(p), c.max/2-len(c.head))
	c.head = append(c.head, p[:k]...)
	size := c.max - c.max/2
	p = p[k:]
	p = p[max(0, len(p)-size):]
	k = min(len(p), size-len(c.tail))
	c.tail = append(c.tail, p[:k]...)
	for p = p[k:]; len(p) > 0; {
		k = copy(c.tail[c.at:], p)
		c.at = (c.at + k) % size
		p = p[k:]
	}
	return written, nil
}

// Text returns the stored output as valid UTF-8 that takes at most budget bytes
// as a JSON string, with a note of the omitted bytes.
func (c *Capture) Text(budget int) string {
	tail := slices.Concat(c.tail[c.at:], c.tail[:c.at])
	if c.n == int64(len(c.head)+len(tail)) {
		whole := slices.Concat(c.head, tail)
		if jsonLen(whole) <= budget {
			return lossy(whole)
		}
	}
	const note = 64 // longer than the note
	half := max(0, (budget-note)/2)
	head := c.head[:fits(c.head, half)]
	tail = tail[fitsBack(tail, half):]
	// Omit a character that the cut splits.
	for i := 1; i <= 3 && i <= len(head); i++ {
		if b := head[len(head)-i:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				head = head[:len(head)-i]
			}
			break
		}
	}
	for i := 0; i < 3 && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	return fmt.Sprintf("%s\n... [%d bytes left out] ...\n%s", lossy(head), c.n-int64(len(head)+len(tail)), lossy(tail))
}

// fits returns the number of leading bytes of b that take at most budget bytes
// as JSON. fitsBack returns the start of the trailing bytes that do.
func fits(b []byte, budget int) int {
	i := 0
	for i < len(b) {
		_, size := utf8.DecodeRune(b[i:])
		if budget -= jsonLen(b[i : i+size]); budget < 0 {
			break
		}
		i += size
	}
	return i
}

func fitsBack(b []byte, budget int) int {
	i := len(b)
	for i > 0 {
		_, size := utf8.DecodeLastRune(b[:i])
		if budget -= jsonLen(b[i-size : i]); budget < 0 {
			break
		}
		i -= size
	}
	return i
}

// lossy returns text as valid UTF-8. Each longest piece that could begin a
// character and does not is one U+FFFD, as Rust and the Web have it.
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	text, _ := unicode.UTF8.NewDecoder().Bytes(b) // it replaces what would be an error
	return string(text)
}

// jsonLen returns at most how long text is as the inside of a JSON string.
func jsonLen(b []byte) int {
	n := 0
	for i := 0; i < len(b); {
		c := b[i]
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			n += 2
		case c < ' ':
			n += 6
		case c < utf8.RuneSelf:
			n++
		default:
			_, size := utf8.DecodeRune(b[i:])
			n += max(size, 3)
			i += size
			continue
		}
		i++
	}
	return n
}

// appendJSON appends text as a JSON string with the fewest escapes: it does not
// escape HTML or U+2028.
func appendJSON(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, c := range []byte(text) {
		switch i := strings.IndexByte("\"\\\n\r\t\b\f", c); {
		case i >= 0:
			b = append(b, '\\', `"\nrtbf`[i])
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// bashResult returns the JSON object of a command's result. It never exceeds
// MaxOutput: text is omitted inside its strings.
func bashResult(code int, stdout, stderr *Capture) string {
	budget := MaxOutput - 128
	out, errs := stdout.Text(budget), ""
	// A part that needs less than half leaves the rest to the other.
	errs = stderr.Text(max(budget/2, budget-jsonLen([]byte(out))))
	if n := jsonLen([]byte(errs)); jsonLen([]byte(out))+n > budget {
		out = stdout.Text(budget - n)
	}
	b := fmt.Appendf(nil, `{"exit_code":%d,"stderr":`, code)
	b = appendJSON(b, errs)
	b = append(b, `,"stdout":`...)
	b = appendJSON(b, out)
	return string(append(b, '}'))
}
