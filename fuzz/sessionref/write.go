package sessionref

import (
	"bytes"
	"fmt"
	"strconv"
)

// AppendMeta appends a meta line as the reference writes it.
func AppendMeta(b []byte, m Meta) []byte {
	b = appendKey(b, `{"agent":`, m.Agent)
	b = appendKey(b, `,"created_by":`, m.CreatedBy)
	b = appendKey(b, `,"created_at":`, m.CreatedAt)
	b = appendKey(b, `,"title":`, m.Title)
	b = append(b, `,"uptime_secs":`...)
	b = strconv.AppendUint(b, m.UptimeSecs, 10)
	return append(b, "}\n"...)
}

// AppendMessage appends a message as the reference writes it. The reference omits
// the key of empty arguments of a call, and cannot read the result.
func AppendMessage(b []byte, m Message) []byte {
	b = appendKey(b, `{"role":`, m.Role)
	if m.Content != "" {
		b = appendKey(b, `,"content":`, m.Content)
	}
	if m.ReasoningContent != "" {
		b = appendKey(b, `,"reasoning_content":`, m.ReasoningContent)
	}
	if m.ToolCallID != "" {
		b = appendKey(b, `,"tool_call_id":`, m.ToolCallID)
	}
	for i, c := range m.ToolCalls {
		if i == 0 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendCall(b, c)
		if i == len(m.ToolCalls)-1 {
			b = append(b, ']')
		}
	}
	return append(b, "}\n"...)
}

func appendCall(b []byte, c Call) []byte {
	b = append(b, '{')
	if c.ID != "" {
		b = appendKey(b, `"id":`, c.ID)
		b = append(b, ',')
	}
	b = appendKey(b, `"type":`, c.Type)
	b = append(b, `,"function":{`...)
	if c.Name != "" {
		b = appendKey(b, `"name":`, c.Name)
	}
	if c.Arguments != "" {
		if c.Name != "" {
			b = append(b, ',')
		}
		b = appendKey(b, `"arguments":`, c.Arguments)
	}
	return append(b, "}}"...)
}

// AppendMarker appends a compaction marker as the reference writes it.
func AppendMarker(b []byte, summary string) []byte {
	b = appendKey(b, `{"compact":`, summary)
	return append(b, "}\n"...)
}

// appendKey appends key, which includes the punctuation around a key, and value as
// a JSON string. As serde_json does, it escapes as few bytes as possible.
func appendKey(b []byte, key, value string) []byte {
	b = append(b, key...)
	b = append(b, '"')
	for _, c := range []byte(value) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c < 0x20:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// File is a session file that the reference writes.
type File struct {
	Name string
	Data []byte
	meta Meta
}

// Create creates the session with the given sequence number.
func Create(agent, createdBy string, seq uint32, now string) *File {
	f := &File{
		Name: fmt.Sprintf("%s%d.jsonl", prefixOf(agent, createdBy), seq),
		meta: Meta{Agent: agent, CreatedBy: createdBy, CreatedAt: now},
	}
	f.Data = AppendMeta(nil, f.meta)
	return f
}

// Append appends messages, also after a torn line.
func (f *File) Append(ms ...Message) {
	for _, m := range ms {
		f.Data = AppendMessage(f.Data, m)
	}
}

// Compact appends a marker.
func (f *File) Compact(summary string) { f.Data = AppendMarker(f.Data, summary) }

// Tear truncates the last n bytes, as a crash in the last append does. The next
// append is then joined with the torn line.
func (f *File) Tear(n int) { f.Data = f.Data[:len(f.Data)-n] }

// AddUptime adds to the run time, as each run does. It rewrites the first line and
// sets created_at to now.
func (f *File) AddUptime(secs uint64, now string) {
	f.meta.UptimeSecs += secs
	f.rewrite(now)
}

// SetTitle rewrites the first line with the title and sets created_at to now. It
// appends the slug of the title to the name, which keeps the slugs of earlier
// titles.
func (f *File) SetTitle(title, now string) {
	f.meta.Title = title
	f.rewrite(now)
	slug := Slug(title)
	if slug == "" {
		return
	}
	name := f.Name[:len(f.Name)-len(".jsonl")] + "_" + slug + ".jsonl"
	if len(name) <= 255 { // otherwise the rename fails, and the reference ignores the error
		f.Name = name
	}
}

// rewrite replaces the first line.
func (f *File) rewrite(now string) {
	f.meta.CreatedAt = now
	line := AppendMeta(nil, f.meta)
	line = line[:len(line)-1]
	rest := []byte(nil)
	if i := bytes.IndexByte(f.Data, '\n'); i >= 0 {
		rest = f.Data[i:]
	}
	f.Data = append(line, rest...)
}
