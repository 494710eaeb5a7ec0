package sessionlog

import (
	"container/list"
	"errors"
	"fmt"
	"math"
	"sync"
	"unicode/utf8"

	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// Log is a session that is open for writing. One process holds it at a time. It
// is safe for concurrent use.
type Log struct {
	dir *Dir
	id  string

	refs int           // Opens less Closes; under Dir.mu
	used *list.Element // in Dir.recent while the files are open; under Dir.mu

	mu         sync.Mutex       // over everything below
	name       string           // of the file in the folder
	shaped     bool             // the name consists of id and title
	meta       Meta             // with the newest title and run time
	work       *record.OpenWork // nil: no line since the last marker is of work
	workKnown  bool             // no earlier line is of work that is not in work
	open       *openFiles       // nil while they are closed
	size       int64            // of the file: complete lines
	synced     bool             // all of them are on the disk
	stopped    error            // why no more is written
	unreported bool             // the stop is not yet reported
	closed     bool
	buf        []byte
}

// ID returns the session's ID, which never changes.
func (l *Log) ID() string { return l.id }

// Path returns the session's file. A title changes it.
func (l *Log) Path() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dir.file(l.name)
}

// Meta returns the session's meta line with the newest title and run time.
func (l *Log) Meta() Meta {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meta
}

// Sync makes all writes durable.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil || l.open == nil { // closed files were synced
		return err
	}
	if err := l.sync(); err != nil {
		return err
	}
	return l.verify()
}

// Compact appends a compaction marker and copies of tail, the last messages of
// Context, in one write. The session then resumes with the summary in place of all
// messages before the tail. If Compact returns nil, the marker is durable. Errors are
// those of Append.
func (l *Log) Compact(summary string, tail ...Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !utf8.ValidString(summary) {
		return fmt.Errorf("%w: summary is not UTF-8", ErrInvalid)
	}
	defer l.spare()
	b := line.AppendMarker(l.buf[:0], summary)
	if len(tail) > 0 {
		b = line.AppendTailMarker(l.buf[:0], summary, len(tail))
	}
	if n := int64(len(b) - 1); n > l.dir.opts.MaxLine {
		return l.dir.tooLong("summary", n)
	}
	copies, err := l.copies(tail)
	if err != nil {
		return err
	}
	if err := l.use(); err != nil { // another process may have set a title
		return err
	}
	// Title, run time, and open work follow the marker, so that the lines after it
	// contain them (S17).
	l.buf = append(line.AppendMetaRecord(b, l.meta.Title, l.meta.UptimeSecs), l.openRecord()...)
	l.buf = append(l.buf, copies...)
	return l.write(l.buf, l.dir.opts.Sync != SyncNone)
}

// copies returns the lines of the copies of tail after a marker (S42).
func (l *Log) copies(tail []Message) (b []byte, err error) {
	if len(tail) > record.MaxKept {
		return nil, fmt.Errorf("%w: tail has %d messages; limit is %d", ErrInvalid, len(tail), record.MaxKept)
	}
	if len(tail) > 0 && tail[0].Role == record.RoleTool {
		return nil, fmt.Errorf("%w: tail begins with a result without its call", ErrInvalid)
	}
	for i := range tail {
		if err := checkMessage(&tail[i]); err != nil {
			return nil, err
		}
		start := len(b)
		b = line.AppendCopy(b, &tail[i])
		if n := int64(len(b) - start - 1); n > l.dir.opts.MaxLine {
			return nil, l.dir.tooLong("copy of a message", n)
		}
	}
	return b, nil
}

// AddUptime adds to the session's run time. It does not sync. Errors are those
// of Append.
func (l *Log) AddUptime(secs uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.use(); err != nil { // as in Compact
		return err
	}
	sum := l.meta.UptimeSecs + secs
	if sum < secs {
		sum = math.MaxUint64
	}
	l.buf = line.AppendMetaRecord(l.buf[:0], l.meta.Title, sum)
	if err := l.write(l.buf, l.dir.opts.Sync == SyncAll); err != nil {
		return err
	}
	l.meta.UptimeSecs = sum
	return nil
}

// AppendStreamed appends a text record: the next part of an incomplete response
// (S31). It does not sync. Errors are those of Append.
func (l *Log) AppendStreamed(text string) error {
	return l.appendTurn("streamed text", func(dst []byte) []byte { return line.AppendTurnText(dst, text) }, text)
}

// AppendFailure appends the failure of the newest turn (S31). kind is not empty.
// It does not sync. Errors are those of Append.
func (l *Log) AppendFailure(kind, message string) error {
	return l.appendTurn("failure", func(dst []byte) []byte { return line.AppendTurnFailed(dst, kind, message) }, kind, message)
}

// appendTurn appends the turn record that encode writes. It returns ErrInvalid if
// one of texts is not UTF-8. what names the record in errors.
func (l *Log) appendTurn(what string, encode func([]byte) []byte, texts ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return fmt.Errorf("%w: %s is not UTF-8", ErrInvalid, what)
		}
	}
	l.buf = encode(l.buf[:0])
	if n := int64(len(l.buf) - 1); n > l.dir.opts.MaxLine {
		return l.dir.tooLong(what, n)
	}
	return l.write(l.buf, l.dir.opts.Sync == SyncAll)
}

// Context returns the messages with which the session resumes, as
// [Session.Context] does.
func (l *Log) Context() (*Context, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.use(); err != nil {
		return nil, err
	}
	c, err := line.ReadContext(l.open.file, l.size, &line.ReadOptions{MaxLine: l.dir.opts.MaxLine})
	return c, inFile(err, l.dir.file(l.name))
}

// Close syncs the session and releases its lock after as many calls as there were
// calls of [Dir.Open] and [Dir.Create].
func (l *Log) Close() error {
	d := l.dir
	d.mu.Lock()
	l.refs--
	last := l.refs <= 0
	d.mu.Unlock()
	if !last {
		return nil
	}
	return l.end()
}

// end closes the session for all its users.
func (l *Log) end() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	err := l.closeFiles()
	l.leave()
	if l.unreported {
		err = errors.Join(err, l.stoppedError())
	}
	return err
}

// leave removes the session from the folder's table, so that the next Open
// reads the file.
func (l *Log) leave() {
	d := l.dir
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.logs[l.id] == l {
		delete(d.logs, l.id)
	}
}

// inFile adds the path to a FormatError.
func inFile(err error, path string) error {
	var f *record.FormatError
	if errors.As(err, &f) && f.Path == "" {
		f.Path = path
	}
	return err
}
