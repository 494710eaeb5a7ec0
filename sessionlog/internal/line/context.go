package line

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"crabmem/sessionlog/record"
)

// missingResult is the result of a tool call without a result (S11).
const missingResult = "error: no result was recorded for this call"

// maxDamage is how many damages are listed: a file may have millions.
const MaxDamage = 1000

// ReadOptions configures ReadContext. Nil and the zero value read the context
// for resuming the session.
type ReadOptions struct {
	// Lenient reports bad lines and reads on, to show or to search a session.
	// A bad line is an error else.
	Lenient bool
	MaxLine int64 // bytes a line may have, 0 = 64 MiB
	Work    bool  // also read Context.Work
}

// Context is the input for resuming a session.
type Context struct {
	Meta Meta // with the newest title and run time
	// Messages begins with the summary, as a user message, if the session was
	// compacted. Every tool call in it has a result.
	Messages  []Message
	Start     int64 // offset of the marker, or of the line after the meta line
	Compacted bool  // Start is a marker's
	// Damage lists omitted lines by offset: bad lines, which only a lenient
	// reader omits, and results without a call. It has at most a thousand
	// elements; Damaged counts all.
	Damage  []record.Damage
	Damaged int
	Torn    int64 // bytes of the torn tail

	// Streamed is the text of an incomplete response after Messages. Failed reports
	// whether the newest turn failed (S31).
	Streamed string
	Failed   bool

	// Work is the work of the lines from Start on, or nil without any. WorkKnown
	// reports whether no earlier line has other work (S39).
	Work      *record.OpenWork
	WorkKnown bool

	bare    bool      // the marker is the last line: its record was torn off
	missing []Message // of the tail: their copies after the marker were torn off (S42)
}

// placed is a message and the number and offset of its line.
type placed struct {
	off, size int64
	m         Message
}

// ReadContext reads the context of the session file in the first size bytes of
// r, from its end (S10 to S14). A bad line in the context, or a first line that is
// not a meta line, is a *FormatError, unless o is lenient.
func ReadContext(r io.ReaderAt, size int64, o *ReadOptions) (*Context, error) {
	if o == nil {
		o = &ReadOptions{}
	}
	x := contextReader{c: &Context{}, r: r, size: size, o: o}
	return x.read()
}

// read reads the context of the first x.size bytes.
func (x *contextReader) read() (*Context, error) {
	x.back.Reset(x.r, x.size, x.o.MaxLine)
	for !x.c.Compacted && x.back.Next() {
		if err := x.take(); err != nil {
			return nil, err
		}
	}
	if !x.c.Compacted {
		x.found = append(x.found, x.copies...)
	}
	if x.back.Err == nil && x.change == nil && x.c.Compacted && !x.recordsFollow {
		x.c.bare = true // the marker's own meta record was torn off
		x.findChange()
	}
	if x.back.Err != nil {
		return nil, x.back.Err
	}
	c := x.c
	if !x.identified {
		if err := c.readIdentity(x.r, x.size, x.o); err != nil {
			return nil, err
		}
	}
	c.Meta.change(x.change)
	if err := x.addMissing(); err != nil {
		return nil, err
	}
	slices.Reverse(x.found)
	c.pair(x.found)
	slices.Reverse(x.streamed)
	c.Streamed = strings.Join(x.streamed, "")
	slices.SortStableFunc(c.Damage, func(a, b record.Damage) int { return cmp.Compare(a.Offset, b.Offset) })
	x.openWork()
	return c, locate(x.r, c.Damage)
}

// AppendMissing appends the lines after the marker of c that were torn off and that a
// writer appends again: the meta record (S17) and copies (S42).
func AppendMissing(dst []byte, c *Context) []byte {
	if c.bare {
		dst = AppendMetaRecord(dst, c.Meta.Title, c.Meta.UptimeSecs)
	}
	for i := range c.missing {
		dst = AppendCopy(dst, &c.missing[i])
	}
	return dst
}

// contextReader is the state of ReadContext.
type contextReader struct {
	c      *Context
	r      io.ReaderAt
	size   int64
	o      *ReadOptions
	nested bool // reads the context before a marker

	back          BackScanner
	rec           Record
	found         []placed   // newest first
	copies        []placed   // after the marker, newest first
	others        int        // of found: those after the copies
	kept          int        // number of copies that the marker states
	change        *Meta      // the newest meta record
	recordsFollow bool       // messages or unknown records follow the marker
	identified    bool       // line 1 was decoded
	streamed      []string   // pieces of the streamed text, newest first
	turned        bool       // the records that count for streamed were read
	work          []workLine // newest first
}

// take decodes the current line and adds it to the context.
func (x *contextReader) take() error {
	c, rec, l := x.c, &x.rec, &x.back.Line
	x.back.Decode(rec)
	if l.IsTorn(rec) {
		c.Torn = l.Size
		return nil
	}
	if rec.Kind == record.KindBad && l.Offset > 0 {
		if err := x.bad(l); err != nil {
			return err
		}
	}
	x.add(l)
	if c.Compacted && l.Glued && x.back.glue.line.Offset > 0 {
		// The scan ends before the bad line that contains the marker.
		l = &x.back.glue.line
		rec.decodeLine(l, x.back.limit)
		if err := x.bad(l); err != nil {
			return err
		}
	}
	if l.Offset == 0 && !l.Glued {
		x.identified = true
		return c.identify(rec, l, x.o)
	}
	return nil
}

// add adds a decoded line.
func (x *contextReader) add(l *Raw) {
	c, rec := x.c, &x.rec
	switch rec.Kind {
	case record.KindMessage:
		x.found = append(x.found, placed{l.Offset, l.Size, rec.Message()})
		x.recordsFollow, x.turned = true, true
		if x.o.Work {
			x.takeWork()
		}
	case record.KindUnknown:
		x.recordsFollow = true
		x.takeTurn()
		if x.o.Work {
			x.takeWork()
		}
	case record.KindCopy:
		x.copies = append(x.copies, placed{l.Offset, l.Size, rec.Message()})
		x.recordsFollow = true
	case record.KindMarker:
		x.others, x.kept = len(x.found), record.Kept(rec.Line)
		x.found = append(append(x.found, x.copies...), placed{l.Offset, l.Size, Message{Role: record.RoleUser, Content: rec.Summary()}})
		c.Start, c.Compacted = l.Offset, true
	case record.KindMetaRecord:
		x.takeChange()
	case record.KindMeta:
		c.Meta, c.Start = rec.Meta(), min(l.Next(), x.size)
	}
}

// addMissing adds the messages of the tail that have no copy after the marker: the last
// ones of the context before the marker.
func (x *contextReader) addMissing() error {
	n := x.kept - len(x.copies)
	if n <= 0 || x.nested {
		return nil
	}
	before := contextReader{c: &Context{}, r: x.r, size: x.c.Start, o: x.o, nested: true}
	c, err := before.read()
	if err != nil {
		return err
	}
	ms := c.Messages
	if c.Compacted {
		ms = ms[1:] // without the summary
	}
	x.c.missing = ms[max(0, len(ms)-n):]
	add := make([]placed, 0, n)
	for _, m := range slices.Backward(x.c.missing) {
		add = append(add, placed{off: x.c.Start, m: m})
	}
	x.found = slices.Insert(x.found, x.others, add...)
	return nil
}

// takeTurn applies a decoded turn record to the end of the context.
func (x *contextReader) takeTurn() {
	if x.turned {
		return
	}
	switch t, ok := record.ParseTurn(x.rec.Line); {
	case !ok:
	case t.Kind == "":
		x.streamed = append(x.streamed, t.Text)
	case len(x.streamed) > 0: // a later attempt streamed the text
		x.turned = true
	default:
		x.c.Failed = true
	}
}

// bad reports a bad line. It returns an error unless the reader is lenient.
func (x *contextReader) bad(l *Raw) error {
	if !x.o.Lenient {
		return located(x.r, l.Offset, x.rec.Reason())
	}
	x.c.report(l.Offset, l.Size, x.rec.Reason)
	return nil
}

// takeChange applies a decoded meta record unless a newer one was applied.
func (x *contextReader) takeChange() {
	if x.change == nil {
		x.change = &Meta{Title: x.rec.Text(x.rec.Title), UptimeSecs: x.rec.uptime}
	}
}

// findChange scans to the newest meta record before the marker.
func (x *contextReader) findChange() {
	for x.change == nil && x.back.Next() {
		if x.back.Decode(&x.rec); x.rec.Kind == record.KindMetaRecord {
			x.takeChange()
		}
	}
}

// identify takes the decoded line 1.
func (c *Context) identify(rec *Record, l *Raw, o *ReadOptions) error {
	if rec.Kind == record.KindMeta {
		return nil
	}
	why := fmt.Sprintf("no meta line: line 1 is of kind %s", rec.Kind)
	switch rec.Kind {
	case record.KindBad:
		why = rec.Reason()
	case record.KindBlank:
		why = "no meta line: line 1 is empty"
	}
	if !o.Lenient {
		return &record.FormatError{Line: 1, Msg: why}
	}
	c.report(0, l.Size, func() string { return why })
	return nil
}

// readIdentity reads line 1 of a file that was not read so far.
func (c *Context) readIdentity(r io.ReaderAt, size int64, o *ReadOptions) error {
	// A meta line is short, so one read of one page is enough.
	s := Scanner{chunk: 4 << 10}
	var rec Record
	s.Reset(r, 0, size, o.MaxLine)
	if !s.Next() {
		if s.Err != nil {
			return s.Err
		}
		return c.identify(&rec, &Raw{}, o) // a blank line
	}
	s.Decode(&rec)
	line := s.Line
	if line.Pieces > 0 && s.Next() {
		s.Decode(&rec)
	}
	if rec.Kind == record.KindMeta {
		c.Meta = rec.Meta()
	}
	if rec.Kind != record.KindMeta || c.Start < line.Next() {
		rec.decodeLine(&line, s.limit)
	}
	return c.identify(&rec, &line, o)
}

// pair sets the messages of the context from the found ones, so that every call
// has a result and every result a call (S11).
func (c *Context) pair(found []placed) {
	c.Messages = make([]Message, 0, len(found))
	var calls []ToolCall                 // of the last message that is no result
	var waiting, answered map[string]int // how many of them, by id
	unanswered := func() {
		for i := range calls {
			if id := calls[i].ID; answered[id] > 0 {
				answered[id]--
			} else {
				c.Messages = append(c.Messages, Message{Role: record.RoleTool, Content: missingResult, ToolCallID: id})
			}
		}
		calls = nil
	}
	for i := range found {
		p := &found[i]
		if p.m.Role != record.RoleTool {
			unanswered()
			c.Messages = append(c.Messages, p.m)
			if calls = p.m.ToolCalls; len(calls) > 0 {
				waiting, answered = make(map[string]int), make(map[string]int)
			}
			for i := range calls {
				waiting[calls[i].ID]++
			}
			continue
		}
		if len(calls) == 0 || waiting[p.m.ToolCallID] == 0 {
			c.report(p.off, p.size, func() string {
				return fmt.Sprintf("result without an open call: tool_call_id %.64q", p.m.ToolCallID)
			})
			continue
		}
		waiting[p.m.ToolCallID]--
		answered[p.m.ToolCallID]++
		c.Messages = append(c.Messages, p.m)
	}
	unanswered()
}

// report adds a damage of the line at an offset, up to the limit.
func (c *Context) report(off, size int64, why func() string) {
	c.Damaged++
	if len(c.Damage) < MaxDamage {
		c.Damage = append(c.Damage, record.Damage{Offset: off, Size: size, Msg: why()})
	}
}

// located returns an error for the line at an offset, with the number of the
// line.
func located(r io.ReaderAt, off int64, why string) error {
	n, err := newlines(r, 0, off)
	if err != nil {
		return err
	}
	return &record.FormatError{Line: n + 1, Offset: off, Msg: why}
}

// locate finds the lines of damages, which are in the order of their offsets.
func locate(r io.ReaderAt, ds []record.Damage) error {
	line, off := int64(1), int64(0)
	for i := range ds {
		n, err := newlines(r, off, ds[i].Offset)
		if err != nil {
			return err
		}
		line, off = line+n, ds[i].Offset
		ds[i].Line = line
	}
	return nil
}
