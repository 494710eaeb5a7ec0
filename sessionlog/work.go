package sessionlog

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/sessionlog/internal/feed"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// AppendWork appends a work record (FORMAT.md, S36). If AppendWork returns nil, the
// record is durable. Errors are those of Append.
func (l *Log) AppendWork(w record.Work) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.spare()
	b, err := w.AppendLine(l.buf[:0])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	l.buf = b
	var rec line.Record
	rec.Decode(b[:len(b)-1], false)
	if _, ok := record.ParseWork(rec.Line); !ok || rec.Kind != record.KindUnknown { // a scope may be nested too deep
		return fmt.Errorf("%w: work record cannot be read back: %s", ErrInvalid, rec.Reason())
	}
	if n := int64(len(b) - 1); n > l.dir.opts.MaxLine {
		return l.dir.tooLong("work record", n)
	}
	if err := l.write(b, l.dir.opts.Sync != SyncNone); err != nil { // ◄ the commit point of the spawn, the outcome, the route, or the flush
		return err
	}
	if w.Op == record.WorkFlush {
		return nil
	}
	if l.work == nil {
		l.work = &record.OpenWork{}
	}
	l.work.Add(w)
	return nil
}

// Size returns the length of the session's complete lines, in bytes.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// Flushes returns the flushes of the session (S43), the number of its last line, and how many
// messages follow the line up to which the last flush covers them, without results of tools.
func (s *Session) Flushes() (list []record.Work, last int64, messages int, err error) {
	var scan line.Scanner
	var rec line.Record
	var at []int64 // lines of messages
	scan.Reset(s.file, 0, s.Size, s.maxLine)
	for scan.Next() {
		last = scan.Number
		scan.Decode(&rec)
		if rec.Kind == record.KindMessage && rec.Text(rec.Values[line.KeyRole]) != record.RoleTool {
			at = append(at, scan.Number)
		} else if w, ok := record.ParseWork(rec.Line); ok && rec.Kind == record.KindUnknown && w.Op == record.WorkFlush {
			list = append(list, w)
		}
	}
	if messages = len(at); len(list) > 0 {
		i, _ := slices.BinarySearch(at, list[len(list)-1].Upto+1)
		messages -= i
	}
	return list, last, messages, scan.Err
}

// CutAt ends the session after the line from, and returns the offset of the last marker up to
// it, or 0. ok is false if the file has another line there.
func (s *Session) CutAt(from *record.WorkFrom) (marker int64, ok bool, err error) {
	for l, err := range s.Lines(0) {
		if err != nil || l.Number > from.Line {
			return 0, false, err
		}
		if l.Kind == record.KindMarker {
			marker = l.Offset
		}
		if l.Number == from.Line && *record.NewWorkFrom(l.Number, l.Raw) == *from {
			s.Size = min(s.Size, l.Offset+l.Size+1)
			return marker, true, nil
		}
	}
	return 0, false, nil
}

// OpenWork returns the session's work that may owe an outcome (S39), and its open question
// (S41). It reads the complete file if the last marker has no open record.
func (l *Log) OpenWork() (o record.OpenWork, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.use(); err != nil {
		return o, err
	}
	if !l.workKnown {
		w, err := line.ReadWork(l.open.file, l.size, l.dir.opts.MaxLine)
		if err != nil {
			return o, err
		}
		l.work, l.workKnown = w, true
	}
	if l.work != nil {
		o = *l.work
	}
	return o.Clone(), nil
}

// delivered applies the messages that were appended.
func (l *Log) delivered(ms []Message) {
	for i := range ms {
		if l.work != nil && !ms[i].Injected {
			l.work.Deliver(ms[i].Work)
		}
	}
}

// openRecord returns the line of the open record to write after a marker. It returns nil
// for a session without work and questions, if the work is not known, and if the line is too long. A
// later OpenWork then reads the complete file.
func (l *Log) openRecord() []byte {
	if l.work == nil || !l.workKnown {
		return nil
	}
	w := l.work.Record()
	if len(w.Items)+w.N == 0 && *w.Next == (record.WorkNext{B: 1, W: 1}) {
		return nil
	}
	b, err := w.AppendLine(nil)
	if err != nil || int64(len(b)) > l.dir.opts.MaxLine {
		return nil
	}
	return b
}

// workSlug is in the name of each session that does work.
const workSlug = "_work"

// isWork reports whether a file of the folder or its trash is a session that does work.
func (d *Dir) isWork(folder, name string) bool {
	if !strings.Contains(name, workSlug) {
		return false
	}
	d.mu.Lock()
	is, known := d.workers[name]
	d.mu.Unlock()
	if !known {
		m, _, err := d.firstLine(filepath.Join(folder, name))
		if err != nil {
			return false
		}
		is = m.IsWork()
		d.mu.Lock()
		d.workers[name] = is
		d.mu.Unlock()
	}
	return is
}

// withoutWork removes the sessions that do work from the names of a folder.
func (d *Dir) withoutWork(folder string, names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return d.isWork(folder, name) })
}

// Children returns the parent and the ID of the work, as in crab_user_1/w7, of each
// session that does work, by its ID. Sessions that cannot be read are not in the result.
func (d *Dir) Children() (map[string]string, error) {
	names, err := d.names(d.path)
	children := make(map[string]string)
	for _, name := range names {
		if !d.isWork(d.path, name) {
			continue
		}
		if m, err := d.readMetaLine(d.file(name)); err == nil && m.IsWork() {
			id, _ := idOf(name, &m)
			children[id] = m.Parent
		}
	}
	return children, err
}

// workFilter is a watcher that does not see sessions that do work.
type workFilter struct {
	d *Dir
	w feed.Watcher
}

func (f workFilter) Wrote(name string, at int64, b []byte) {
	if !f.d.isWork(f.d.path, name) {
		f.w.Wrote(name, at, b)
	}
}

func (f workFilter) Renamed(from, to string) {
	if !f.d.isWork(f.d.path, to) {
		f.w.Renamed(from, to)
	}
}

func (f workFilter) Removed(name string) { f.w.Removed(name) }

func (f workFilter) Changed(name string) {
	if !f.d.isWork(f.d.path, name) {
		f.w.Changed(name)
	}
}
