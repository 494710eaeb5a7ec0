package line

import (
	"encoding/binary"
	"math/bits"
)

// maxDepth is how deep the arrays and objects of a line may be nested.
const maxDepth = 128

// Span is a value of a line: its position and its type. The bytes of a string
// are those between its quotes.
type Span struct {
	Lo, Hi  int32
	Type    valueType
	Escaped bool // of a string: it holds escapes
}

type valueType uint8

const (
	absent valueType = iota
	jsonNull
	jsonBool
	jsonNumber
	String
	Array
	jsonObject
)

// cursor parses one line strictly by RFC 8259. It stores only positions.
type cursor struct {
	b     []byte
	i     int
	high  uint64 // bits of all bytes of strings: 0x80 is set in some byte unless all are ASCII
	fault fault  // the first thing that is wrong
}

func (c *cursor) fail(code faultCode, at int) bool {
	c.fault = fault{code: code, at: at}
	return false
}

// peek skips white space and returns the next byte, 0 at the end.
func (c *cursor) peek() byte {
	for c.i < len(c.b) {
		switch b := c.b[c.i]; b {
		case ' ', '\t', '\r', '\n':
			c.i++
		default:
			return b
		}
	}
	return 0
}

// unexpected records an invalid byte at the current position.
func (c *cursor) unexpected() bool {
	if c.i >= len(c.b) {
		return c.fail(faultEnd, len(c.b))
	}
	return c.fail(faultSyntax, c.i)
}

// member reads the key and the colon of an object's next member. It returns
// false at the end of the object and on a fault. The cursor must be after the
// opening brace or the previous value.
func (c *cursor) member(key *Span, first bool) bool {
	b := c.peek()
	if b == '}' {
		c.i++
		return false
	}
	if !first {
		if b != ',' {
			return c.unexpected()
		}
		c.i++
		b = c.peek()
	}
	if b != '"' {
		return c.unexpected()
	}
	if !c.str(key) {
		return false
	}
	if c.peek() != ':' {
		return c.unexpected()
	}
	c.i++
	return true
}

// element advances to an array's next element. It returns false at the end of
// the array and on a fault. The cursor must be after the opening bracket or the
// previous value.
func (c *cursor) element(first bool) bool {
	b := c.peek()
	if b == ']' {
		c.i++
		return false
	}
	if !first {
		if b != ',' {
			return c.unexpected()
		}
		c.i++
	}
	return true
}

// enter enters the array or object at the cursor, at the given depth.
func (c *cursor) enter(depth int) bool {
	if depth > maxDepth {
		return c.fail(faultDepth, c.i)
	}
	c.i++
	return true
}

// value reads any value. depth is the number of arrays and objects around it.
func (c *cursor) value(s *Span, depth int) bool {
	b := c.peek()
	lo := c.i
	switch b {
	case '"':
		return c.str(s)
	case '{':
		if !c.enter(depth + 1) {
			return false
		}
		var inner Span
		for first := true; c.member(&inner, first); first = false {
			if !c.value(&inner, depth+1) {
				return false
			}
		}
		s.Type = jsonObject
	case '[':
		if !c.enter(depth + 1) {
			return false
		}
		var inner Span
		for first := true; c.element(first); first = false {
			if !c.value(&inner, depth+1) {
				return false
			}
		}
		s.Type = Array
	case 't':
		c.word("true")
		s.Type = jsonBool
	case 'f':
		c.word("false")
		s.Type = jsonBool
	case 'n':
		c.word("null")
		s.Type = jsonNull
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		c.number()
		s.Type = jsonNumber
	default:
		return c.unexpected()
	}
	s.Lo, s.Hi, s.Escaped = int32(lo), int32(c.i), false
	return c.fault.code == faultNone
}

func (c *cursor) word(w string) {
	for i := range len(w) {
		if c.i >= len(c.b) || c.b[c.i] != w[i] {
			c.unexpected()
			return
		}
		c.i++
	}
}

func (c *cursor) number() {
	if c.b[c.i] == '-' {
		c.i++
	}
	if c.i < len(c.b) && c.b[c.i] == '0' {
		c.i++
	} else if !c.digits() {
		return
	}
	if c.i < len(c.b) && c.b[c.i] == '.' {
		c.i++
		if !c.digits() {
			return
		}
	}
	if c.i < len(c.b) && c.b[c.i]|0x20 == 'e' {
		c.i++
		if c.i < len(c.b) && (c.b[c.i] == '+' || c.b[c.i] == '-') {
			c.i++
		}
		c.digits()
	}
}

func (c *cursor) digits() bool {
	from := c.i
	for c.i < len(c.b) && c.b[c.i]-'0' <= 9 {
		c.i++
	}
	return c.i > from || c.unexpected()
}

// str reads the string at the cursor. For a string without an end, s covers the
// complete characters.
func (c *cursor) str(s *Span) bool {
	b, i := c.b, c.i+1
	*s = Span{Lo: int32(i), Type: String}
	high := c.high
	for {
		for len(b)-i >= 8 {
			x := binary.LittleEndian.Uint64(b[i:])
			high |= x
			if m := specials(x); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				goto special
			}
			i += 8
		}
		for ; i < len(b); i++ {
			if ch := b[i]; ch < ' ' || ch == '"' || ch == '\\' {
				goto special
			} else {
				high |= uint64(ch)
			}
		}
		c.high = high
		s.Hi = int32(i - partialRune(b[s.Lo:i]))
		return c.fail(faultEnd, len(b))
	special:
		switch b[i] {
		case '"':
			c.high = high
			s.Hi = int32(i)
			c.i = i + 1
			return true
		case '\\':
			s.Escaped = true
			n := escapeLen(b[i:])
			if n <= 0 {
				c.high = high
				s.Hi = int32(i)
				return c.fail(escapeFault(b[i:]), i)
			}
			i += n
		default:
			c.high = high
			s.Hi = int32(i)
			return c.fail(faultControl, i)
		}
	}
}
