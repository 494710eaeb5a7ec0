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

// count reads the first size bytes of r.
func (c *counter) count(r io.ReaderAt, size, limit int64) (tally, error) {
	var t tally
	var last, inContext *Meta // the last meta record of the file, of the context
	var compacted, behind bool
	s, rec := &c.scan, &c.rec
	s.reset(r, 0, size, limit)
	for s.next() {
		s.decode(rec)
		if s.line.isTorn(rec) {
			t.torn = s.line.size
			break
		}
		if rec.kind == KindBad || s.number == 1 && rec.kind != KindMeta && !s.line.glued {
			t.damaged++
		}
		switch rec.kind {
		case KindMeta:
			t.meta, t.identity = rec.meta(), true
		case KindMessage:
			t.messages++
			behind = true
		case KindUnknown:
			behind = true
		case KindMarker:
			inContext, compacted, behind = nil, true, false
		case KindMetaRecord:
			last = &Meta{Title: rec.text(rec.title), UptimeSecs: rec.uptime}
			inContext = last
		}
	}
	if s.err != nil {
		return tally{}, s.err
	}
	if inContext == nil && compacted && !behind {
		inContext = last
	}
	t.meta.change(inContext)
	if !t.identity && t.torn == size {
		t.damaged++ // there is no line 1
	}
	return t, nil
}

// change makes m what a meta record says; nil is none.
func (m *Meta) change(record *Meta) {
	if record != nil {
		m.Title = record.Title
		m.UptimeSecs = max(m.UptimeSecs, record.UptimeSecs)
	}
}
