// Package sessionref reads and writes session files as the reference
// implementation does, including the bugs of the reference. It shares no code with
// package sessionlog, so that tests can compare the two.
package sessionref

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Meta is the first line of a session.
type Meta struct {
	Agent      string
	CreatedBy  string
	CreatedAt  string
	Title      string
	UptimeSecs uint64
}

// Message is one message.
type Message struct {
	Role             string
	Content          string
	ReasoningContent string
	ToolCallID       string
	ToolCalls        []Call
}

// Call is a tool call of a message.
type Call struct {
	ID        string
	Type      string
	Name      string
	Arguments string
}

// Record is a line that the reference can read: a message or a compaction marker.
type Record struct {
	Line    int // from 1
	Marker  bool
	Summary string  // of a marker
	Message Message // of a message
}

// Skipped is a line that the reference ignores without a report.
type Skipped struct {
	Line int // from 1
	Text string
	Err  error
}

// Session is a file as the reference reads it.
type Session struct {
	Meta    Meta
	Context []Message // summary of the last marker as a user message, and the messages after it
	Records []Record  // all messages and markers
	Skipped []Skipped // all ignored lines
}

// Messages returns all messages of the file, also those before the last marker.
func (s *Session) Messages() []Message {
	var ms []Message
	for _, r := range s.Records {
		if !r.Marker {
			ms = append(ms, r.Message)
		}
	}
	return ms
}

// Read reads a session file. It returns an error if the reference cannot load the
// file: it is empty, its first line is not a meta line, or a line is not UTF-8.
func Read(data []byte) (*Session, error) {
	ls := lines(data)
	for i, l := range ls {
		if !utf8.Valid(l) {
			return nil, fmt.Errorf("line %d: not UTF-8", i+1)
		}
	}
	if len(ls) == 0 {
		return nil, errors.New("empty session file")
	}
	s := &Session{}
	var err error
	if s.Meta, err = parseMeta(ls[0]); err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	from := 0
	for i, l := range ls[1:] {
		line := i + 2
		if strings.TrimSpace(string(l)) == "" {
			continue
		}
		if summary, ok := parseMarker(l); ok {
			from = len(s.Records)
			s.Records = append(s.Records, Record{Line: line, Marker: true, Summary: summary})
			continue
		}
		m, err := parseMessage(l)
		if err != nil {
			s.Skipped = append(s.Skipped, Skipped{line, string(l), err})
			continue
		}
		s.Records = append(s.Records, Record{Line: line, Message: m})
	}
	for _, r := range s.Records[from:] {
		if r.Marker {
			r.Message = Message{Role: "user", Content: r.Summary}
		}
		s.Context = append(s.Context, r.Message)
	}
	return s, nil
}

// lines splits data as BufRead::lines of Rust does: at each \n or \r\n. The bytes
// after the last \n are a line unless they are empty.
func lines(data []byte) [][]byte {
	var ls [][]byte
	for len(data) > 0 {
		l, rest, ended := bytes.Cut(data, []byte("\n"))
		if ended {
			l = bytes.TrimSuffix(l, []byte("\r"))
		}
		ls = append(ls, l)
		data = rest
	}
	return ls
}

func parseMeta(line []byte) (Meta, error) {
	var m Meta
	o, err := parseObject(line)
	if err != nil {
		return m, err
	}
	err = errors.Join(
		o.text("agent", &m.Agent, required),
		o.text("created_by", &m.CreatedBy, required),
		o.text("created_at", &m.CreatedAt, required),
		o.text("title", &m.Title, optional),
		o.unsigned("uptime_secs", &m.UptimeSecs, 64),
	)
	return m, err
}

// parseMarker returns the summary of a marker. Every object with a string at the key
// compact is a marker.
func parseMarker(line []byte) (summary string, ok bool) {
	o, err := parseObject(line)
	if err != nil {
		return "", false
	}
	err = o.text("compact", &summary, required)
	return summary, err == nil
}

func parseMessage(line []byte) (Message, error) {
	var m Message
	o, err := parseObject(line)
	if err != nil {
		return m, err
	}
	var calls [][]byte
	err = errors.Join(
		o.text("role", &m.Role, required),
		o.text("content", &m.Content, optional),
		o.text("reasoning_content", &m.ReasoningContent, optional),
		o.text("tool_call_id", &m.ToolCallID, optional),
		o.array("tool_calls", &calls),
	)
	for _, raw := range calls {
		c, callErr := parseCall(raw)
		err = errors.Join(err, callErr)
		m.ToolCalls = append(m.ToolCalls, c)
	}
	return m, err
}

func parseCall(raw []byte) (Call, error) {
	var c Call
	o, err := parseObject(raw)
	if err != nil {
		return c, err
	}
	var index uint64 // checked but not stored
	err = errors.Join(
		o.text("id", &c.ID, optional),
		o.unsigned("index", &index, 32),
		o.text("type", &c.Type, optional),
	)
	f, ferr := o.object("function")
	if ferr != nil {
		return c, errors.Join(err, ferr)
	}
	return c, errors.Join(err,
		f.text("name", &c.Name, optional),
		f.text("arguments", &c.Arguments, required),
	)
}
