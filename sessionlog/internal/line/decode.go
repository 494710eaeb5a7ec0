package line

import (
	"bytes"
	"math"
	"unicode/utf8"

	"crabmem/sessionlog/record"
)

// key is a key that FORMAT.md names.
type key uint8

const (
	keyOther key = iota
	KeyCompact
	KeyRole
	KeyContent
	keyReasoning
	KeyToolCallID
	KeyToolCalls
	keyMeta
	keyAgent
	keyCreatedBy
	keyCreatedAt
	keyTitle
	keyUptime
	keySource
	keyProject
	keyParent
	keyWorkspace // the last key of a line's own object
	keyID
	keyType
	keyFunction
	keyName
	keyArguments
	numKeys
)

var keyNames = [numKeys]string{
	"", "compact", "role", "content", "reasoning_content", "tool_call_id", "tool_calls", "meta",
	"agent", "created_by", "created_at", "title", "uptime_secs", "source", "project", "parent", "workspace",
	"id", "type", "function", "name", "arguments",
}

func (k key) String() string { return keyNames[k] }

// wants describes the type of the key's value.
func (k key) wants() string {
	switch k {
	case KeyToolCalls:
		return "an array of objects"
	case keyMeta, keyFunction:
		return "an object"
	case keyUptime:
		return "an integer from 0 to 2^64-1"
	}
	return "a string"
}

// keys is a set of them.
type keys uint32

func (s keys) has(k key) bool { return s>>k&1 != 0 }

const (
	recordKeys   keys = 1<<KeyCompact | 1<<KeyRole | 1<<keyMeta // they determine the kind of a line
	messageKeys  keys = 1<<KeyRole | 1<<KeyContent | 1<<keyReasoning | 1<<KeyToolCallID | 1<<KeyToolCalls
	identityKeys keys = 1<<keyAgent | 1<<keyCreatedBy | 1<<keyCreatedAt
	metaKeys     keys = identityKeys | 1<<keyTitle | 1<<keyUptime | 1<<keySource | 1<<keyProject | 1<<keyParent | 1<<keyWorkspace
	titleKeys    keys = 1<<keyTitle | 1<<keyUptime
	callKeys     keys = 1<<keyID | 1<<keyType | 1<<keyFunction
	functionKeys keys = 1<<keyName | 1<<keyArguments
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// Record is a decoded line. Its spans are positions in the line, so it is valid
// as long as the line's bytes are. It is reused for the next line.
type Record struct {
	Line []byte
	Kind record.Kind
	// Truncated reports that a bad line is the beginning of a valid one. The
	// spans cover the existing part.
	Truncated bool
	fault     fault // of a bad line

	Values  [keyWorkspace + 1]Span // by key; of the line's own object
	Title   Span                   // of a meta record
	uptime  uint64                 // of the meta line or a meta record
	scratch []byte
}

// draft has errors of a line that count only for some kinds of record.
type draft struct {
	seen, twice keys
	again       [keyWorkspace + 1]int32 // position of the second occurrence of a key of twice
	calls, meta fault                   // inside tool_calls, inside meta
}

// Decode decodes line, which has no \n. first marks line 1 of a file. It does
// not allocate memory.
func (r *Record) Decode(line []byte, first bool) {
	if len(line) == 0 && r.Kind == record.KindBlank {
		r.Line = line // keep the pointer unchanged if possible: a file may have millions of lines
		return
	}
	r.reset(line)
	from := 0
	if first && bytes.HasPrefix(line, byteOrderMark) {
		from = len(byteOrderMark)
	}
	if len(line) > math.MaxInt32-16 {
		r.fault = fault{code: faultLong, at: math.MaxInt32 - 16}
		r.Kind = record.KindBad
		return
	}
	r.Kind = r.parse(from, first)
}

// tooLong makes r the record of a line over the limit, without its bytes.
func (r *Record) tooLong(limit int64) {
	r.reset(nil)
	r.Kind = record.KindBad
	r.fault = fault{code: faultLong, at: int(limit)}
}

func (r *Record) reset(line []byte) {
	r.Line = line
	r.Truncated = false
	r.fault = fault{}
	r.clear()
}

func (r *Record) clear() {
	r.Values = [keyWorkspace + 1]Span{}
	r.Title, r.uptime = Span{}, 0
}

// Reason explains why a bad line is bad.
func (r *Record) Reason() string { return r.fault.text(r.Line) }

// parse reads the line from a position on as one record.
func (r *Record) parse(from int, first bool) record.Kind {
	c := cursor{b: r.Line, i: from}
	var d draft
	switch c.peek() {
	case '{':
		c.i++
		r.object(&c, &d, first)
	case 0:
		if c.i == len(c.b) {
			return record.KindBlank
		}
		c.unexpected()
	default:
		var s Span
		if c.value(&s, 0) {
			c.fail(faultNoObject, from)
		}
	}
	if c.fault.code == faultNone {
		c.peek()
		if c.i < len(c.b) {
			c.fail(faultTrailing, c.i)
		}
	}
	r.fault = c.fault
	if c.high&0x8080808080808080 != 0 || c.fault.code != faultNone {
		// The last character of a truncated line may be incomplete. Bytes after
		// a fault do not matter.
		end := len(r.Line)
		switch c.fault.code {
		case faultNone:
		case faultEnd:
			end -= partialRune(r.Line)
		default:
			end = min(end, c.fault.at+utf8.UTFMax)
		}
		if at := from + validPrefix(r.Line[from:end]); at < end && (c.fault.code == faultNone || at <= c.fault.at) {
			r.clear()
			return r.bad(faultUTF8, keyOther, at)
		}
	}
	switch c.fault.code {
	case faultNone:
		k := r.classify(&d, first)
		if k == record.KindMessage && record.IsCopy(r.Line) {
			k = record.KindCopy
		}
		return k
	case faultEnd:
		r.Truncated = true
	}
	return record.KindBad
}

// validPrefix returns how many bytes at the start of b are UTF-8.
func validPrefix(b []byte) int {
	if utf8.Valid(b) {
		return len(b)
	}
	i := 0
	for {
		c, n := utf8.DecodeRune(b[i:])
		if c == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
}

// object reads the members of the line's object.
func (r *Record) object(c *cursor, d *draft, first bool) {
	var name Span
	for start := true; c.member(&name, start); start = false {
		k := c.keyOf(name)
		if k > keyWorkspace || k > keyMeta && !first {
			k = keyOther
		}
		if k != keyOther && d.seen.has(k) {
			d.twice |= 1 << k
			d.again[k] = name.Lo - 1
			k = keyOther
		}
		d.seen |= 1 << k
		s := &r.Values[k]
		switch b := c.peek(); {
		case k == KeyToolCalls && b == '[':
			if !r.readCalls(c, s, &d.calls) {
				return
			}
		case k == keyMeta && b == '{':
			if !r.readMeta(c, s, &d.meta) {
				return
			}
		default:
			if !c.value(s, 1) {
				return
			}
		}
	}
}

// keyOf returns which key a string is.
func (c *cursor) keyOf(s Span) key {
	b := c.b[s.Lo:s.Hi]
	if s.Escaped {
		// Longer than every key we know, with each character escaped.
		if len(b) > 6*len("reasoning_content") {
			return keyOther
		}
		var buf [6 * len("reasoning_content")]byte
		b = appendUnescaped(buf[:0], b)
	}
	for k := KeyCompact; k < numKeys; k++ {
		if string(b) == keyNames[k] {
			return k
		}
	}
	return keyOther
}

// call is one tool call of a message.
type call struct{ ID, typ, Name, Arguments Span }

func (l *call) read(c *cursor, bad *fault) bool {
	*l = call{}
	var v Span
	if b := c.peek(); b != '{' {
		at := int32(c.i)
		if !c.value(&v, 2) {
			return false
		}
		bad.set(faultType, KeyToolCalls, at)
		return true
	}
	c.i++
	var name Span
	var seen keys
	for start := true; c.member(&name, start); start = false {
		k := c.keyOf(name)
		if !callKeys.has(k) {
			k = keyOther
		}
		if k != keyOther && seen.has(k) {
			bad.set(faultTwice, k, name.Lo-1)
			k = keyOther
		}
		seen |= 1 << k
		if k == keyFunction && c.peek() == '{' {
			if !l.readFunction(c, bad) {
				return false
			}
			continue
		}
		if !c.value(&v, 3) {
			return false
		}
		switch {
		case k == keyOther || v.Type == jsonNull:
		case v.Type != String || k == keyFunction:
			bad.set(faultType, k, v.start())
		case k == keyID:
			l.ID = v
		case k == keyType:
			l.typ = v
		}
	}
	return c.fault.code == faultNone
}

func (l *call) readFunction(c *cursor, bad *fault) bool {
	return c.known(functionKeys, 4, bad, func(k key, v Span) {
		switch {
		case v.Type == jsonNull:
		case v.Type != String:
			bad.set(faultType, k, v.start())
		case k == keyName:
			l.Name = v
		default:
			l.Arguments = v
		}
	})
}
