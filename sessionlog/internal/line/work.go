package line

import (
	"io"
	"slices"

	"crabmem/sessionlog/record"
)

// workLine is a work record, or the list work of a user message.
type workLine struct {
	record record.Work
	keys   []string
}

// workLine returns what the decoded line changes of the work of its session.
func (r *Record) workLine() (w workLine, ok bool) {
	switch {
	case r.Kind == record.KindUnknown:
		w.record, ok = record.ParseWork(r.Line)
		ok = ok && !slices.Contains([]string{record.WorkState, record.WorkRoute, record.WorkFlush}, w.record.Op)
	case r.Kind == record.KindMessage && r.Text(r.Values[KeyRole]) == record.RoleUser:
		w.keys = record.WorkKeys(r.Line)
		ok = len(w.keys) > 0
	}
	return w, ok
}

func (w *workLine) apply(o *record.OpenWork) {
	o.Add(w.record)
	o.Deliver(w.keys)
}

// takeWork notes the work of the decoded line.
func (x *contextReader) takeWork() {
	if w, ok := x.rec.workLine(); ok {
		x.work = append(x.work, w)
	}
}

// openWork sets the work of the context.
func (x *contextReader) openWork() {
	x.c.WorkKnown = !x.c.Compacted
	for _, w := range slices.Backward(x.work) {
		if x.c.Work == nil {
			x.c.Work = &record.OpenWork{}
		}
		w.apply(x.c.Work)
		x.c.WorkKnown = x.c.WorkKnown || w.record.Op == record.WorkOpen
	}
}

// ReadWork returns the work of the first size bytes of r, or nil without any.
func ReadWork(r io.ReaderAt, size, limit int64) (o *record.OpenWork, err error) {
	var s Scanner
	var rec Record
	s.Reset(r, 0, size, limit)
	for s.Next() {
		s.Decode(&rec)
		if w, ok := rec.workLine(); ok {
			if o == nil {
				o = &record.OpenWork{}
			}
			w.apply(o)
		}
	}
	return o, s.Err
}

// IsDurableWork reports whether the decoded line is a work record that is on disk when
// its write returns. An open record is in the write of a marker (S16).
func (r *Record) IsDurableWork() bool {
	if r.Kind != record.KindUnknown {
		return false
	}
	w, ok := record.ParseWork(r.Line)
	return ok && w.Op != record.WorkOpen
}
