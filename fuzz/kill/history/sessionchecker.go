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

// SessionChecker compares sessions with the writes of their SessionWriters. Its
// methods may be called concurrently.
type SessionChecker struct {
	seed    uint64
	writers int

	mu    sync.Mutex
	talks map[[2]int]*SessionWriter // by session and writer
	parts map[[2]int][]Part
}

// NewSessionChecker returns the checker of sessions with so many writers each.
func NewSessionChecker(seed uint64, writers int) *SessionChecker {
	return &SessionChecker{seed: seed, writers: writers, talks: make(map[[2]int]*SessionWriter), parts: make(map[[2]int][]Part)}
}

// part returns part n of a talk.
func (c *SessionChecker) part(session, writer, n int) Part {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := [2]int{session, writer}
	if c.talks[at] == nil {
		c.talks[at] = NewSessionWriter(c.seed, session, writer)
	}
	for len(c.parts[at]) < n {
		c.parts[at] = append(c.parts[at], c.talks[at].Next()...)
	}
	return c.parts[at][n-1]
}

// Found is the content of a session.
type Found struct {
	Parts   []int // by writer: its talk up to there, once and in order
	Meta    sessionlog.Meta
	Behind  []string // messages after the last marker for the model, without results
	Bad     error    // the bad line at which it ends
	Torn    bool     // that is a tail without its line end
	compact bool     // the last line is a marker
}

// Read compares the lines of a session with the writers' lines. It ends at the
// first bad line.
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

func asError(e *record.FormatError) error {
	if e == nil {
		return nil
	}
	return e
}

// take counts a line.
func (c *SessionChecker) take(f *Found, session int, l *sessionlog.Line) error {
	if (l.Number == 1) != (l.Kind == record.KindMeta) {
		return errors.New("the meta line, and no other, is the first")
	}
	switch l.Kind {
	case record.KindMeta:
		if want := SessionMeta(session); l.Meta != want {
			return fmt.Errorf("it says %+v, want %+v", l.Meta, want)
		}
		f.Meta = l.Meta
		return nil
	case record.KindMessage:
		if l.Message.Role != record.RoleTool {
			f.Behind = append(f.Behind, l.Message.Content)
		}
		return c.next(f, session, l.Message.Content, Part{Kind: l.Kind, Message: l.Message})
	case record.KindMarker:
		f.Behind = []string{l.Summary}
		return c.next(f, session, l.Summary, Part{Kind: l.Kind, Text: l.Summary})
	case record.KindMetaRecord:
		return c.takeRecord(f, session, l)
	}
	return errors.New("nobody wrote it")
}

// takeRecord counts a title or a run time; a marker's record changes neither.
func (c *SessionChecker) takeRecord(f *Found, session int, l *sessionlog.Line) error {
	title, secs := l.Meta.Title, l.Meta.UptimeSecs
	was := f.Meta
	f.Meta.Title, f.Meta.UptimeSecs = title, secs
	switch {
	case title != was.Title && secs == was.UptimeSecs:
		return c.next(f, session, strings.TrimPrefix(title, "Title "), Part{Kind: l.Kind, Text: title})
	case title == was.Title && secs > was.UptimeSecs && secs-was.UptimeSecs <= uint64(c.writers):
		w := int(secs-was.UptimeSecs) - 1
		return c.next(f, session, fmt.Sprintf("%d/%d ", w, f.Parts[w]+1), Part{Kind: l.Kind})
	case title == was.Title && secs == was.UptimeSecs && f.compact:
		return nil
	}
	return fmt.Errorf("title %q and run time %d follow %q and %d", title, secs, was.Title, was.UptimeSecs)
}

// next counts a part. Its text begins with its writer and number.
func (c *SessionChecker) next(f *Found, session int, text string, p Part) error {
	var w, n int
	if _, err := fmt.Sscanf(text, "%d/%d", &w, &n); err != nil || w < 0 || w >= c.writers {
		return fmt.Errorf("%.40q was written by nobody", text)
	}
	if n != f.Parts[w]+1 {
		return fmt.Errorf("part %d of writer %d follows its part %d", n, w, f.Parts[w])
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
		return fmt.Errorf("the context is of %+v, the lines are of %+v", c.Meta, f.Meta)
	}
	var told []string
	for i := range c.Messages {
		if m := &c.Messages[i]; m.Role != record.RoleTool {
			told = append(told, m.Content)
		}
	}
	if len(told) != len(f.Behind) {
		return fmt.Errorf("the context has %d messages, the lines %d behind the last marker", len(told), len(f.Behind))
	}
	for i := range told {
		if told[i] != f.Behind[i] {
			return fmt.Errorf("message %d of the context is %.40q, want %.40q", i, told[i], f.Behind[i])
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
			return fmt.Errorf("writer %d: %d parts found, and %d issued", w, n, issued[w])
		}
	}
	return nil
}
