package tool

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxNesting is the nesting that encoding/json accepts.
const maxNesting = 10_000

// CheckArguments returns an error if decoding the arguments would alter a text:
// encoding/json replaces invalid UTF-8 and each escape of a lone surrogate with
// U+FFFD. The error names the argument. CheckArguments accepts invalid JSON,
// which no decoder accepts.
func CheckArguments(args []byte) error {
	s := string(args)
	var p argPath
	for i := 0; i < len(s); {
		switch s[i] {
		case '{', '[':
			if len(p) == maxNesting {
				return fmt.Errorf("arguments: more than %d levels of nesting", maxNesting)
			}
			p = append(p, argStep{object: s[i] == '{', atKey: s[i] == '{'})
		case '}', ']':
			p = p[:max(len(p)-1, 0)]
		case ',':
			p.next()
		case '"':
			n, fault := scanString(s[i:])
			if fault != nil {
				return fmt.Errorf("%s: %w", &p, fault)
			}
			p.text(s[i : i+n])
			i += n
			continue
		}
		i++
	}
	return nil
}

// scanString returns the length of the JSON string at the start of s, with its
// quotes, and an error if decoding alters it.
func scanString(s string) (n int, err error) {
	for i := 1; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			high, low := surrogate(s[i:])
			if low || high && !isLow(s[i+6:]) {
				return n, fmt.Errorf("lone surrogate %s: send complete characters", s[i:i+6])
			}
			if i += 2; high {
				i += 10
			}
		case c < utf8.RuneSelf:
			i++
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				return n, errors.New("invalid UTF-8: send text")
			}
			i += size
		}
	}
	return len(s), nil
}

// surrogate reports which half of a surrogate pair the escape at the start of
// s is, if any.
func surrogate(s string) (high, low bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return false, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	if err != nil {
		return false, false
	}
	return n&0xfc00 == 0xd800, n&0xfc00 == 0xdc00
}

func isLow(s string) bool {
	_, low := surrogate(s)
	return low
}

// argPath is the place of a value in the arguments, from the outside in.
type argPath []argStep

type argStep struct {
	object bool
	atKey  bool // the next text is a key
	key    string
	index  int
}

// next moves on to the next element or member.
func (p argPath) next() {
	if len(p) > 0 {
		top := &p[len(p)-1]
		top.atKey = top.object
		top.index++
	}
}

// text notes a JSON string at the place.
func (p argPath) text(s string) {
	if len(p) > 0 {
		if top := &p[len(p)-1]; top.atKey {
			top.atKey, top.key = false, s[1:max(len(s)-1, 1)]
		}
	}
}

// maxPath bounds an argPath in a message, in bytes.
const maxPath = 256

// String returns a message's words for the place, such as "argument
// tasks[2].agent".
func (p *argPath) String() string {
	var b strings.Builder
	for _, s := range *p {
		switch {
		case b.Len() > maxPath:
		case s.atKey && b.Len() == 0:
			return "name of an argument"
		case s.atKey:
			return "name of a member of argument " + clipName(b.String())
		case !s.object:
			fmt.Fprintf(&b, "[%d]", s.index)
		case b.Len() > 0:
			b.WriteString("." + clipName(s.key))
		default:
			b.WriteString(clipName(s.key))
		}
	}
	if b.Len() == 0 {
		return "arguments"
	}
	return "argument " + clipName(b.String())
}
