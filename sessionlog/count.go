package sessionlog

import "io"

// tally is what a list says of a session.
type tally struct {
	meta     Meta  // as in the context (S13)
	identity bool  // line 1 is a meta line
	messages int   // good ones, and those in bad lines
	damaged  int   // bad lines, and line 1 when it is no meta line
	torn     int64 // bytes behind the last \n that are no record (S14)
}

// counter reads sessions from their first byte to their last and keeps nothing
// of them. It can be used again.
type counter struct {
	scan scanner
	rec  record
}

// listPart is how many bytes a list reads at each end of a file. A file of up
// to two parts is read completely.
const listPart = 16 << 20

// counting is a tally that is not complete yet.
type counting struct {
	tally
	last, inContext   *Meta // the last meta record of the file, of the context
	compacted, behind bool
}

// add counts a decoded line. first is set for line 1.
func (t *counting) add(rec *record, first bool) {
	if rec.kind == KindBad || first && rec.kind != KindMeta {
		t.damaged++
	}
	switch rec.kind {
	case KindMeta:
		t.meta, t.identity = rec.meta(), true
	case KindMessage:
		t.messages++
		t.behind = true
	case KindUnknown:
		t.behind = true
	case KindMarker:
		t.inContext, t.compacted, t.behind = nil, true, false
	case KindMetaRecord:
		t.last = &Meta{Title: rec.text(rec.title), UptimeSecs: rec.uptime}
		t.inContext = t.last
	}
}

// end returns the tally of all lines that were added.
func (t *counting) end() tally {
	if t.inContext == nil && t.compacted && !t.behind {
		t.inContext = t.last
	}
	t.meta.change(t.inContext)
	return t.tally
}

// count reads the first size bytes of r.
func (c *counter) count(r io.ReaderAt, size, limit int64) (tally, error) {
	var t counting
	s, rec := &c.scan, &c.rec
	s.reset(r, 0, size, limit)
	for s.next() {
		s.decode(rec)
		if s.line.isTorn(rec) {
			t.torn = s.line.size
			break
		}
		t.add(rec, s.number == 1 && !s.line.glued)
	}
	if s.err != nil {
		return tally{}, s.err
	}
	if !t.identity && t.torn == size {
		t.damaged++ // there is no line 1
	}
	return t.end(), nil
}

// countParts reads the first and the last listPart bytes of the first size bytes
// of r, which has more than two parts. It counts the lines that are completely
// in a part. Of a torn tail that is longer than a part, it counts one part.
func (c *counter) countParts(r io.ReaderAt, size, limit int64) (tally, error) {
	var t counting
	s, rec := &c.scan, &c.rec
	s.reset(r, 0, listPart, limit)
	for s.next() && !s.line.unended {
		s.decode(rec)
		t.add(rec, s.number == 1 && !s.line.glued)
	}
	if s.err != nil {
		return tally{}, s.err
	}
	if !t.identity && t.damaged == 0 {
		t.damaged++ // line 1 is longer than a part, or blank
	}
	s.reset(r, size-listPart, size, limit)
	if s.next() && s.line.unended { // the first line may begin before the part
		t.torn = s.line.size
	}
	for s.next() {
		s.decode(rec)
		if s.line.isTorn(rec) {
			t.torn = s.line.size
			break
		}
		t.add(rec, false)
	}
	if s.err != nil {
		return tally{}, s.err
	}
	return t.end(), nil
}

// change makes m what a meta record says; nil is none.
func (m *Meta) change(record *Meta) {
	if record != nil {
		m.Title = record.Title
		m.UptimeSecs = max(m.UptimeSecs, record.UptimeSecs)
	}
}
