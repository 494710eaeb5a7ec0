package history

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// SessionChecker compares sessions with the writes of their SessionWriters. It is
// safe for concurrent use.
type SessionChecker struct {
	seed    uint64
	writers int

	mu       sync.Mutex
	sessions map[[2]int]*SessionWriter // by session and writer
	parts    map[[2]int][]Part         // parts generated so far, by session and writer
}

// NewSessionChecker returns the checker of sessions with the given number of
// writers each.
func NewSessionChecker(seed uint64, writers int) *SessionChecker {
	return &SessionChecker{seed: seed, writers: writers, sessions: make(map[[2]int]*SessionWriter), parts: make(map[[2]int][]Part)}
}

// part returns part n, from 1, of a writer in a session.
func (c *SessionChecker) part(session, writer, n int) Part {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := [2]int{session, writer}
	if c.sessions[at] == nil {
		c.sessions[at] = NewSessionWriter(c.seed, session, writer)
	}
	for len(c.parts[at]) < n {
		c.parts[at] = append(c.parts[at], c.sessions[at].Next()...)
	}
	return c.parts[at][n-1]
}

// Found is the content of a session.
type Found struct {
	Parts []int // number of parts found, by writer
	Meta  sessionlog.Meta
	Bad   error // the bad line at which the content ends
	Torn  bool  // whether the bad line is a tail without a line end

	afterMarker []string // last summary and the messages after it, without tool results
	compact     bool     // whether the last line is a marker
}

// Read compares the lines of a session with the parts of the writers, and stops at
// the first bad line. Each writer's parts must occur once and in order.
func (c *SessionChecker) Read(session int, lines iter.Seq2[sessionlog.Line, error]) (*Found, error) {
	f := &Found{Parts: make([]int, c.writers)}
	for l, err := range lines {
		if err != nil {
			return nil, err
		}
		if l.Kind == record.KindBad || l.Kind == record.KindBlank {
			f.Bad = fmt.Errorf("line %d (offset %d, %d bytes) is %v: %w", l.Number, l.Offset, l.Size, l.Kind, asError(l.Err))
			f.Torn = l.Tail
			break
		}
		if err := c.take(f, session, &l); err != nil {
			return nil, fmt.Errorf("line %d (%v): %w", l.Number, l.Kind, err)
		}
		f.compact = l.Kind == record.KindMarker
	}
	if f.Meta.Agent == "" && f.Bad == nil {
		return nil, errors.New("no meta line")
	}
	return f, nil
}

// asError returns e as an error, which is nil if e is nil.
func asError(e *record.FormatError) error {
	if e == nil {
		return nil
	}
	return e
}

// take adds a line to f.
func (c *SessionChecker) take(f *Found, session int, l *sessionlog.Line) error {
	if (l.Number == 1) != (l.Kind == record.KindMeta) {
		return errors.New("only the first line must be a meta line, and it must be one")
	}
	switch l.Kind {
	case record.KindMeta:
		if want := SessionMeta(session); l.Meta != want {
			return fmt.Errorf("meta is %+v, want %+v", l.Meta, want)
		}
		f.Meta = l.Meta
		return nil
	case record.KindMessage:
		if l.Message.Role != record.RoleTool {
			f.afterMarker = append(f.afterMarker, l.Message.Content)
		}
		return c.next(f, session, l.Message.Content, Part{Kind: l.Kind, Message: l.Message})
	case record.KindMarker:
		f.afterMarker = []string{l.Summary}
		return c.next(f, session, l.Summary, Part{Kind: l.Kind, Text: l.Summary})
	case record.KindMetaRecord:
		return c.takeRecord(f, session, l)
	}
	return errors.New("no writer wrote this line")
}

// takeRecord adds a meta record to f. A writer's record changes either the title or
// the run time. The record after a marker changes neither.
func (c *SessionChecker) takeRecord(f *Found, session int, l *sessionlog.Line) error {
	title, secs := l.Meta.Title, l.Meta.UptimeSecs
	previous := f.Meta
	f.Meta.Title, f.Meta.UptimeSecs = title, secs
	switch {
	case title != previous.Title && secs == previous.UptimeSecs:
		return c.next(f, session, strings.TrimPrefix(title, "Title "), Part{Kind: l.Kind, Text: title})
	case title == previous.Title && secs > previous.UptimeSecs && secs-previous.UptimeSecs <= uint64(c.writers):
		w := int(secs-previous.UptimeSecs) - 1
		return c.next(f, session, fmt.Sprintf("%d/%d ", w, f.Parts[w]+1), Part{Kind: l.Kind})
	case title == previous.Title && secs == previous.UptimeSecs && f.compact:
		return nil
	}
	return fmt.Errorf("title %q and run time %d follow %q and %d", title, secs, previous.Title, previous.UptimeSecs)
}

// next adds part p to f. text begins with the writer and the number of the part.
func (c *SessionChecker) next(f *Found, session int, text string, p Part) error {
	var w, n int
	if _, err := fmt.Sscanf(text, "%d/%d", &w, &n); err != nil || w < 0 || w >= c.writers {
		return fmt.Errorf("%.40q is from no writer", text)
	}
	if n != f.Parts[w]+1 {
		return fmt.Errorf("part %d of writer %d follows part %d", n, w, f.Parts[w])
	}
	if want := c.part(session, w, n); !reflect.DeepEqual(p, want) {
		return fmt.Errorf("part %d of writer %d is %+v, want %+v", n, w, p, want)
	}
	f.Parts[w] = n
	return nil
}

// Context compares the context of a session with its lines.
func (f *Found) Context(c *sessionlog.Context) error {
	if c.Meta != f.Meta {
		return fmt.Errorf("the context has meta %+v, the lines have %+v", c.Meta, f.Meta)
	}
	var got []string
	for i := range c.Messages {
		if m := &c.Messages[i]; m.Role != record.RoleTool {
			got = append(got, m.Content)
		}
	}
	if len(got) != len(f.afterMarker) {
		return fmt.Errorf("the context has %d messages, want %d since the last marker", len(got), len(f.afterMarker))
	}
	for i := range got {
		if got[i] != f.afterMarker[i] {
			return fmt.Errorf("message %d of the context is %.40q, want %.40q", i, got[i], f.afterMarker[i])
		}
	}
	return nil
}

// Within returns an error if a writer has fewer parts than were acknowledged,
// or more than were issued.
func (f *Found) Within(acked, issued []int) error {
	for w, n := range f.Parts {
		if n < acked[w] {
			return fmt.Errorf("writer %d: %d parts acknowledged, %d found: %d lost", w, acked[w], n, acked[w]-n)
		}
		if n > issued[w] {
			return fmt.Errorf("writer %d: %d parts found, but only %d issued", w, n, issued[w])
		}
	}
	return nil
}
