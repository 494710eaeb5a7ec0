package line

import (
	"math/bits"
	"strconv"
	"strings"

	"crabmem/sessionlog/record"
)

// AppendMessage appends m as a line of a session file, with its end. Sender
// and Injected are not written. All text must be UTF-8.
func AppendMessage(dst []byte, m *Message) []byte {
	return append(appendMessage(dst, m), '\n')
}

// AppendMeta appends m as the first line of a session file, with its end. All
// text must be UTF-8.
func AppendMeta(dst []byte, m *Meta) []byte {
	return append(appendMeta(dst, m), '\n')
}

// AppendLine appends m as a line of a session file, with its \n. Sender and
// Injected are not written. All text must be UTF-8.
func (m *Message) AppendLine(dst []byte) []byte { return AppendMessage(dst, m) }

// AppendLine appends m as the first line of a session file, with its \n. All
// text must be UTF-8.
func (m *Meta) AppendLine(dst []byte) []byte { return AppendMeta(dst, m) }

// AppendMarker appends the line that puts summary in the place of everything
// before it, with its end. The summary must be UTF-8.
func AppendMarker(dst []byte, summary string) []byte {
	dst = append(dst, `{"compact":`...)
	dst = appendString(dst, summary)
	return append(dst, "}\n"...)
}

// AppendTailMarker is AppendMarker for a marker that keeps n messages: n copies follow it
// (S42).
func AppendTailMarker(dst []byte, summary string, n int) []byte {
	dst = AppendMarker(dst, summary)
	return append(record.AppendKeep(dst[:len(dst)-len("}\n")], n), '\n')
}

// AppendCopy appends the copy of m after a marker, with its line end. It has neither the
// request nor the work of m, which the message before the marker has.
func AppendCopy(dst []byte, m *Message) []byte {
	c := *m
	c.Work, c.Request = nil, ""
	dst = appendMessage(dst, &c)
	return append(append(dst[:len(dst)-1], record.Copied...), '\n')
}

// AppendMetaRecord appends the line that changes title and run time, with its
// end. The title must be UTF-8.
func AppendMetaRecord(dst []byte, title string, uptimeSecs uint64) []byte {
	dst = append(dst, `{"meta":{"title":`...)
	dst = appendString(dst, title)
	dst = append(dst, `,"uptime_secs":`...)
	dst = strconv.AppendUint(dst, uptimeSecs, 10)
	return append(dst, "}}\n"...)
}

// AppendTurnText appends the text record of a part of a response (S30), with its
// line end. The text must be UTF-8.
func AppendTurnText(dst []byte, text string) []byte {
	dst = append(dst, record.TurnText...)
	dst = appendString(dst, text)
	return append(dst, "}}\n"...)
}

// AppendTurnFailed appends the turn record of a failure (S30), with its line end.
// The texts must be UTF-8.
func AppendTurnFailed(dst []byte, kind, message string) []byte {
	dst = append(dst, record.TurnFailed...)
	dst = appendString(dst, kind)
	dst = append(dst, `,"error":`...)
	dst = appendString(dst, message)
	return append(dst, "}}\n"...)
}

func appendMessage(dst []byte, m *Message) []byte {
	dst = append(dst, `{"role":`...)
	dst = appendString(dst, m.Role)
	if m.Content != "" {
		dst = append(dst, `,"content":`...)
		dst = appendString(dst, m.Content)
	}
	if m.ReasoningContent != "" {
		dst = append(dst, `,"reasoning_content":`...)
		dst = appendString(dst, m.ReasoningContent)
	}
	if m.ToolCallID != "" {
		dst = append(dst, `,"tool_call_id":`...)
		dst = appendString(dst, m.ToolCallID)
	}
	if len(m.ToolCalls) > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for i := range m.ToolCalls {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCall(dst, &m.ToolCalls[i])
		}
		dst = append(dst, ']')
	}
	for i, key := range m.Work {
		sep := `,"work":[`
		if i > 0 {
			sep = ","
		}
		dst = appendString(append(dst, sep...), key)
	}
	if len(m.Work) > 0 {
		dst = append(dst, ']')
	}
	return append(appendRequest(dst, m.Request), '}')
}

// appendRequest appends the key of a request's ID (S35), if there is one.
func appendRequest(dst []byte, id string) []byte {
	if id == "" {
		return dst
	}
	return append(append(dst, ','), RequestKey(id)...)
}

// RequestKey returns the key request with an ID as lines contain it (S35). No other
// part of a line that this package wrote contains these bytes.
func RequestKey(id string) []byte { return appendString([]byte(`"request":`), id) }

func appendCall(dst []byte, c *ToolCall) []byte {
	dst = append(dst, '{')
	if c.ID != "" {
		dst = append(dst, `"id":`...)
		dst = appendString(dst, c.ID)
		dst = append(dst, ',')
	}
	dst = append(dst, `"type":`...)
	if c.Type == "" {
		dst = append(dst, `"function"`...)
	} else {
		dst = appendString(dst, c.Type)
	}
	dst = append(dst, `,"function":{`...)
	if c.Function.Name != "" {
		dst = append(dst, `"name":`...)
		dst = appendString(dst, c.Function.Name)
		dst = append(dst, ',')
	}
	// Always there: the reference implementation cannot read a call without.
	dst = append(dst, `"arguments":`...)
	dst = appendString(dst, c.Function.Arguments)
	return append(dst, "}}"...)
}

func appendMeta(dst []byte, m *Meta) []byte {
	dst = append(dst, `{"agent":`...)
	dst = appendString(dst, m.Agent)
	dst = append(dst, `,"created_by":`...)
	dst = appendString(dst, m.CreatedBy)
	dst = append(dst, `,"created_at":`...)
	dst = appendString(dst, m.CreatedAt)
	dst = append(dst, `,"title":`...)
	dst = appendString(dst, m.Title)
	dst = append(dst, `,"uptime_secs":`...)
	dst = strconv.AppendUint(dst, m.UptimeSecs, 10)
	if m.Source != "" {
		dst = append(dst, `,"source":`...)
		dst = appendString(dst, m.Source)
	}
	if m.Project != "" {
		dst = append(dst, `,"project":`...)
		dst = appendString(dst, m.Project)
	}
	if m.Parent != "" {
		dst = append(dst, `,"parent":`...)
		dst = appendString(dst, m.Parent)
	}
	if m.Workspace != "" {
		dst = append(dst, `,"workspace":`...)
		dst = appendString(dst, m.Workspace)
	}
	return append(appendRequest(dst, m.Request), '}')
}

// escapes has the letters after a backslash that stand for the characters of
// escaped.
const escapes, escaped = `"\bfnrt`, "\"\\\b\f\n\r\t"

// appendString appends s in quotes, with serde_json's escapes and no others.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; ; {
		for len(s)-i >= 8 {
			if m := specials(load8(s, i)); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
			i++
		}
		dst = append(dst, s[from:i]...)
		if i == len(s) {
			return append(dst, '"')
		}
		c := s[i]
		if k := strings.IndexByte(escaped, c); k >= 0 {
			dst = append(dst, '\\', escapes[k])
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
}

// load8 returns s[i:i+8] as a little-endian number; the compiler emits one
// load.
func load8(s string, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// specials returns a word whose lowest set bit is in the first byte of x that a
// JSON string must escape: a quote, a backslash, or a control character. The
// word is zero if there is none. Higher bits may be wrong.
func specials(x uint64) uint64 {
	const ones = 0x0101010101010101
	// x^2 maps the quote to 0x20, and only control characters below 0x21.
	quotes := (x ^ 2*ones) - 0x21*ones
	slash := x ^ '\\'*ones
	return (quotes&^x | (slash-ones)&^slash) & (0x80 * ones)
}
