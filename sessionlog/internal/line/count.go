package line

import (
	"io"

	"crabmem/sessionlog/record"
)

// Tally is the summary of a session in a list.
type Tally struct {
	Meta     Meta  // as in the context (S13)
	identity bool  // line 1 is a meta line
	Messages int   // valid ones, including those in bad lines
	Damaged  int   // bad lines, and line 1 if it is not a meta line
	Torn     int64 // bytes after the last \n that are not a record (S14)
}

// Counter reads sessions from start to end without storing lines. It is
// reusable.
type Counter struct {
	scan Scanner
	rec  Record
}

// listPart is how many bytes a list reads at each end of a file. A file of up
// to two parts is read completely.
const ListPart = 16 << 20

// counting is a tally that is not complete yet.
type counting struct {
	Tally
	last, inContext        *Meta // the last meta record of the file, of the context
	compacted, afterMarker bool
}

// add counts a decoded line. first is set for line 1.
func (t *counting) add(rec *Record, first bool) {
	if rec.Kind == record.KindBad || first && rec.Kind != record.KindMeta {
		t.Damaged++
	}
	switch rec.Kind {
	case record.KindMeta:
		t.Meta, t.identity = rec.Meta(), true
	case record.KindMessage:
		t.Messages++
		t.afterMarker = true
	case record.KindUnknown, record.KindCopy:
		t.afterMarker = true
	case record.KindMarker:
		t.inContext, t.compacted, t.afterMarker = nil, true, false
	case record.KindMetaRecord:
		t.last = &Meta{Title: rec.Text(rec.Title), UptimeSecs: rec.uptime}
		t.inContext = t.last
	}
}

// end returns the tally of all lines that were added.
func (t *counting) end() Tally {
	if t.inContext == nil && t.compacted && !t.afterMarker {
		t.inContext = t.last
	}
	t.Meta.change(t.inContext)
	return t.Tally
}

// count reads the first size bytes of r.
func (c *Counter) Count(r io.ReaderAt, size, limit int64) (Tally, error) {
	var t counting
	s, rec := &c.scan, &c.rec
	s.Reset(r, 0, size, limit)
	for s.Next() {
		s.Decode(rec)
		if s.Line.IsTorn(rec) {
			t.Torn = s.Line.Size
			break
		}
		t.add(rec, s.Number == 1 && !s.Line.Glued)
	}
	if s.Err != nil {
		return Tally{}, s.Err
	}
	if !t.identity && t.Torn == size {
		t.Damaged++ // line 1 is missing
	}
	return t.end(), nil
}

// countParts reads the first and the last listPart bytes of the first size bytes
// of r, which has more than two parts. It counts the lines that are completely
// in a part. Of a torn tail that is longer than a part, it counts one part.
func (c *Counter) CountParts(r io.ReaderAt, size, limit int64) (Tally, error) {
	var t counting
	s, rec := &c.scan, &c.rec
	s.Reset(r, 0, ListPart, limit)
	for s.Next() && !s.Line.Tail { // the last line may end after the part
		s.Decode(rec)
		t.add(rec, s.Number == 1 && !s.Line.Glued)
	}
	if s.Err != nil {
		return Tally{}, s.Err
	}
	if !t.identity && t.Damaged == 0 {
		t.Damaged++ // line 1 is longer than a part, or blank
	}
	s.Reset(r, size-ListPart, size, limit)
	if s.Next() && s.Line.Unended { // the first line may begin before the part
		t.Torn = s.Line.Size
	}
	for s.Next() {
		s.Decode(rec)
		if s.Line.IsTorn(rec) {
			t.Torn = s.Line.Size
			break
		}
		t.add(rec, false)
	}
	if s.Err != nil {
		return Tally{}, s.Err
	}
	return t.end(), nil
}

// change applies a meta record to m; nil changes nothing.
func (m *Meta) change(record *Meta) {
	if record != nil {
		m.Title = record.Title
		m.UptimeSecs = max(m.UptimeSecs, record.UptimeSecs)
	}
}
