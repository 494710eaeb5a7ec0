package search

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"crabmem/bm25/analysis"
	"crabmem/bm25/clip"
	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// An indexReader turns the lines of one session file into places and documents.
// [entry.take] takes the result. The reader is reusable.
type indexReader struct {
	tools bool // results and arguments are text, too

	pos    position
	tail   int        // places after the last \n: pos is before them
	meta   *line.Meta // of line 1, when that was read
	titles titles
	title  string // including the title of a record after pos
	others []string
	places []place
	texts  []docText
	more   bool // maxTexts was reached before the end

	size    int             // of the texts
	arena   strings.Builder // memory of the texts
	scan    line.Scanner
	record  line.Record
	scratch []byte
}

// docText is the text of a document.
type docText struct {
	place int // -1 for the session itself
	class uint8
	text  string
}

// Limits of one read: bytes of text of one file, and the smallest allocation.
const (
	maxTexts  = 1 << 20
	arenaSize = 64 << 10
)

// begin prepares r to continue after the read part of an entry's file; nil
// begins an unread file.
func (r *indexReader) begin(e *entry) {
	r.pos, r.titles, r.others = position{}, titles{}, nil
	if e != nil {
		r.pos, r.titles, r.others = e.pos, e.titles, slices.Clip(e.others)
	}
	r.tail, r.meta, r.more, r.title = 0, nil, false, r.titles.title()
	r.places, r.texts, r.size = r.places[:0], r.texts[:0], 0
}

// file reads a file up to size, or until it has maxText bytes of text.
func (r *indexReader) file(f vfs.File, size, limit int64, maxText int) error {
	r.scan.Reset(f, r.pos.end, size, limit)
	lines := r.pos.lines
	var stable titles // as of pos
	tail := false
	for r.scan.Next() {
		l := &r.scan.Line
		r.scan.Decode(&r.record)
		if l.Tail && !tail {
			stable, tail = r.titles, true
		}
		n := len(r.places)
		r.line(lines+r.scan.Number, l.Offset, l.Glued)
		if tail {
			r.tail += len(r.places) - n
			continue
		}
		if !l.Glued {
			r.pos.end, r.pos.lines = l.Next(), lines+r.scan.Number
		}
		if r.size > maxText && r.scan.Left == 0 {
			r.more = r.pos.end < size
			break
		}
	}
	r.title = r.titles.title()
	if tail {
		r.titles = stable
	}
	if r.scan.Err != nil {
		return r.scan.Err
	}
	return r.sample(f)
}

// sample reads the samples that identify the read part of a file.
func (r *indexReader) sample(f vfs.File) error {
	n := min(r.pos.end, maxSample)
	if r.pos.first.n == 0 {
		b, err := r.scan.Bytes(f, 0, n)
		if err != nil {
			return err
		}
		r.pos.first = takeSample(b, 0)
	}
	b, err := r.scan.Bytes(f, r.pos.end-n, n)
	if err != nil {
		return err
	}
	r.pos.last = takeSample(b, r.pos.end-n)
	return nil
}

// written reads complete lines that were written at pos, after line 1.
func (r *indexReader) written(b []byte) {
	for rest := b; len(rest) > 0; {
		line, next, _ := bytes.Cut(rest, []byte{'\n'})
		r.record.Decode(line, false)
		r.line(r.pos.lines+1, r.pos.end, false)
		r.pos.end += int64(len(line)) + 1
		r.pos.lines++
		rest = next
	}
	r.title = r.titles.title()
	n := min(len(b), maxSample)
	r.pos.last = takeSample(b[len(b)-n:], r.pos.end-int64(n))
}

// line reads the decoded line.
func (r *indexReader) line(number, offset int64, glued bool) {
	t, rec := &r.titles, &r.record
	switch rec.Kind {
	case record.KindMeta:
		m := rec.Meta()
		r.meta = &m
		t.line1 = m.Title
	case record.KindMetaRecord:
		t.last, t.recorded, t.inContext = rec.Text(rec.Title), true, true
	case record.KindMarker:
		t.inContext, t.afterMarker = false, false
		r.place(number, offset, classCompact, glued)
	case record.KindMessage:
		t.afterMarker = true
		r.place(number, offset, r.role(), glued)
	case record.KindUnknown, record.KindCopy:
		t.afterMarker = true
	}
}

// role returns the role of the message in hand, as places have it.
func (r *indexReader) role() uint16 {
	r.scratch = r.record.AppendText(r.scratch[:0], r.record.Values[line.KeyRole])
	if c := classOf(r.scratch); c != classOther {
		return c
	}
	name := clip.Bytes(string(r.scratch), maxRole)
	i := slices.Index(r.others, name)
	if i < 0 && len(r.others) < maxOthers {
		r.others = append(r.others, name)
		i = len(r.others) - 1
	}
	if i < 0 {
		i = maxOthers
	}
	return uint16(classes + i)
}

// place creates the place of the current record and, if the record has text,
// its document.
func (r *indexReader) place(number, offset int64, role uint16, glued bool) {
	if number > math.MaxUint32 {
		return // exceeds the fields of a place: not indexed
	}
	var m marks
	if glued {
		m = markGlued
	}
	text := r.text()
	var asks analysis.TermSet
	if role != classCompact && role != classTool && r.says() {
		m |= markSays
		asks = analysis.Asked(r.record.Text(r.record.Values[line.KeyContent]))
	}
	if text != "" {
		m |= markDoc
		class := classOther
		if role < classes {
			class = int(role)
		}
		r.texts = append(r.texts, docText{len(r.places), uint8(class), text})
		r.size += len(text)
	}
	r.places = append(r.places, place{offset, uint32(number), role, m, asks})
}

// says reports whether the current record is a message with content, and not a result.
func (r *indexReader) says() bool {
	body := r.record.Values[line.KeyContent]
	return !r.record.IsResult() && body.Type == line.String && body.Lo < body.Hi
}

// text returns the indexed text of the current record: the summary, or the
// content, unless it is a result, and the names of called tools.
func (r *indexReader) text() string {
	rec := &r.record
	body := rec.Values[line.KeyContent]
	if rec.Kind == record.KindMarker {
		body = rec.Values[line.KeyCompact]
	} else if rec.IsResult() && !r.tools {
		return ""
	}
	calls := rec.Values[line.KeyToolCalls]
	if rec.Kind != record.KindMessage || calls.Type != line.Array {
		calls = line.Span{}
	}
	// A text is at most as long as its parts and the line end.
	if need := int(body.Hi - body.Lo + calls.Hi - calls.Lo + 1); r.arena.Cap()-r.arena.Len() < need {
		r.arena = strings.Builder{}
		r.arena.Grow(max(need, arenaSize))
	}
	from := r.arena.Len()
	r.write(body)
	if calls.Type == line.Array {
		for c := range rec.Calls {
			r.write(c.Name)
			if r.tools {
				r.write(c.Arguments)
			}
		}
	}
	return r.arena.String()[from:]
}

// write adds a string of the record in hand to the arena, and a line end.
func (r *indexReader) write(s line.Span) {
	if s.Type != line.String || s.Lo == s.Hi {
		return
	}
	defer r.arena.WriteByte('\n')
	if !s.Escaped {
		r.arena.Write(r.record.Line[s.Lo:s.Hi])
		return
	}
	r.scratch = r.record.AppendText(r.scratch[:0], s)
	r.arena.Write(r.scratch)
	if cap(r.scratch) > line.MaxScratch {
		r.scratch = nil
	}
}
