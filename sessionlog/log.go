package sessionlog

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"
	"sync"
	"unicode/utf8"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/feed"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// Log is a session that is open for writing. One process has it at a time. It
// is safe for concurrent use; writes are made one after the other.
type Log struct {
	dir *Dir
	id  string

	refs int           // Opens less Closes; under Dir.mu
	used *list.Element // in Dir.recent while the files are open; under Dir.mu

	mu         sync.Mutex // over everything below
	name       string     // of the file in the folder
	shaped     bool       // the name is made of id and title
	meta       Meta       // with the newest title and run time
	open       *openFiles // nil while they are closed
	size       int64      // of the file: whole lines
	synced     bool       // all of them are on the disk
	stopped    error      // why no more is written
	unreported bool       // the stop is not yet reported
	closed     bool
	buf        []byte
}

// ID returns the session's id, which never changes.
func (l *Log) ID() string { return l.id }

// Path returns the session's file. A title changes it.
func (l *Log) Path() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dir.file(l.name)
}

// Meta returns what the session says of itself, with the newest title and run
// time.
func (l *Log) Meta() Meta {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meta
}

// Append writes messages, in one write; those that are injected are left out.
// When it returns nil they are in the file, and on the disk if the policy says
// so. A crash before leaves a prefix of them.
//
// Errors: [ErrInvalid], [ErrNotApplied], [ErrUnknown], [ErrStopped],
// [ErrClosed], and those of opening again, see [Dir.Open].
func (l *Log) Append(ms ...Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.spare()
	l.buf = l.buf[:0]
	durable := l.dir.opts.Sync == SyncAll
	for i := range ms {
		m := &ms[i]
		if m.Injected {
			continue
		}
		if err := checkMessage(m); err != nil {
			return err
		}
		start := len(l.buf)
		l.buf = line.AppendMessage(l.buf, m)
		if n := int64(len(l.buf) - start - 1); n > l.dir.opts.MaxLine {
			return l.dir.tooLong("message", n)
		}
		durable = durable || l.dir.opts.Sync == SyncTurns && endsTurn(*m)
	}
	if len(l.buf) == 0 {
		return l.usable()
	}
	return l.write(l.buf, durable)
}

// Sync makes everything that was written durable.
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

// Compact writes a marker: from here on the summary stands for everything
// before it. It is durable when Compact returns nil. Errors as of Append.
func (l *Log) Compact(summary string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !utf8.ValidString(summary) {
		return fmt.Errorf("%w: the summary is not UTF-8", ErrInvalid)
	}
	b := line.AppendMarker(l.buf[:0], summary)
	if n := int64(len(b) - 1); n > l.dir.opts.MaxLine {
		return l.dir.tooLong("summary", n)
	}
	if err := l.use(); err != nil { // another process may have given it a title
		return err
	}
	// The title and the run time go with it, so that the tail has them (S17).
	l.buf = line.AppendMetaRecord(b, l.meta.Title, l.meta.UptimeSecs)
	return l.write(l.buf, l.dir.opts.Sync != SyncNone)
}

// SetTitle gives the session a title, durably, and renames its file after it.
// The id stays. Errors as of Append.
func (l *Log) SetTitle(title string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := validTitle(title); err != nil {
		return err
	}
	if err := l.use(); err != nil { // another process may have given it a run time
		return err
	}
	l.buf = line.AppendMetaRecord(l.buf[:0], title, l.meta.UptimeSecs)
	if err := l.write(l.buf, l.dir.opts.Sync != SyncNone); err != nil {
		return err
	}
	l.meta.Title = title
	return l.rename()
}

// maxTitle bounds a title, in bytes.
const maxTitle = 4 << 10

func validTitle(title string) error {
	if !utf8.ValidString(title) || len(title) > maxTitle || strings.ContainsRune(title, 0) {
		return fmt.Errorf("%w: a title is UTF-8 of at most %d bytes without NUL", ErrInvalid, maxTitle)
	}
	return nil
}

// rename gives the file the name that goes with its title. The title is in the
// file: where the name cannot be had, the old one does (S22).
func (l *Log) rename() error {
	if !l.shaped {
		return nil
	}
	if err := l.renameTo(fileName(l.id, l.meta.Title), l.size); err != nil {
		return l.unknown(err)
	}
	return nil
}

// renameTo renames the file, which has size bytes. An error is that of check.
func (l *Log) renameTo(name string, size int64) error {
	d := l.dir
	got, err := d.rename(l.open.lock, l.name, name, l.open.info, size)
	if got != l.name {
		d.notify(func(w feed.Watcher) { w.Renamed(l.name, got) })
	}
	l.name = got
	return l.keep(err)
}

// rename gives a session's file another name, durably, and returns the one it
// has then: where the new one cannot be had, its own. Caller holds the session's
// lock. An error is that of check: the file is info, and has size bytes.
func (d *Dir) rename(lock *sessionLock, from, to string, info fs.FileInfo, size int64) (string, error) {
	if from == to {
		return from, nil
	}
	if _, err := d.fs.Lstat(d.file(to)); err == nil {
		d.warn("%s keeps its name: there is another %s", d.file(from), to)
		return from, nil
	}
	if err := d.check(lock, d.file(from), info, size); err != nil {
		return from, err
	}
	err := d.fs.Rename(d.file(from), d.file(to))
	if err != nil && !d.leadsTo(d.file(to), info) { // one that fails may have happened
		d.warn("%s keeps its name: %v", d.file(from), err)
		return from, nil
	}
	if err == nil {
		err = d.fs.SyncDir(d.path)
	}
	if err != nil {
		// A later sync would succeed without it, and the file be found under
		// both names when it is written anew.
		if rerr := d.renameBack(lock, to, from, info, size); rerr != nil {
			if errors.Is(rerr, ErrDisplaced) {
				return to, rerr
			}
			d.warn("%s: the name may be lost in a crash, and the title not: %v", d.file(to), errors.Join(err, rerr))
			return to, nil
		}
		d.warn("%s keeps its name: %v", d.file(from), err)
		return from, nil
	}
	return to, nil
}

// renameBack is a rename to a name that the file had a moment ago.
func (d *Dir) renameBack(lock *sessionLock, from, to string, info fs.FileInfo, size int64) error {
	err := d.check(lock, d.file(from), info, size)
	if err == nil {
		err = d.checkFree(lock, d.file(to))
	}
	if err != nil {
		return err
	}
	if err = d.fs.Rename(d.file(from), d.file(to)); err != nil && d.leadsTo(d.file(to), info) {
		return nil
	}
	return err
}

// AddUptime adds to the session's run time. It is not synced by itself. Errors
// as of Append.
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

// Context reads what the session resumes with, strictly: see [ReadContext].
func (l *Log) Context() (*Context, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.use(); err != nil {
		return nil, err
	}
	c, err := line.ReadContext(l.open.file, l.size, &line.ReadOptions{MaxLine: l.dir.opts.MaxLine})
	return c, inFile(err, l.dir.file(l.name))
}

// Close syncs what was written and gives the session up, when it was closed as
// often as it was opened.
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

// end closes the session for everybody who has it.
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

// leave takes the session out of the folder's table, so that the next Open
// reads the file.
func (l *Log) leave() {
	d := l.dir
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.logs[l.id] == l {
		delete(d.logs, l.id)
	}
}

func (l *Log) usable() error {
	switch {
	case l.closed:
		return fmt.Errorf("%w: %s", ErrClosed, l.id)
	case l.stopped != nil:
		l.unreported = false
		return l.stoppedError()
	case l.meta.Source != "":
		return fmt.Errorf("%w: %s was imported from %s", ErrReadOnly, l.id, l.meta.Source)
	}
	return nil
}

// stoppedError returns the error of writes after a stop.
func (l *Log) stoppedError() error { return fmt.Errorf("%w after an error: %w", ErrStopped, l.stopped) }

// endsTurn tells the messages that SyncTurns makes durable.
func endsTurn(m Message) bool {
	return m.Role == record.RoleUser || m.Role == record.RoleAssistant && len(m.ToolCalls) == 0
}

// checkMessage refuses a message that could not be read back as it is.
func checkMessage(m *Message) error {
	switch {
	case m.Role == "":
		return fmt.Errorf("%w: a message without a role", ErrInvalid)
	case !utf8.ValidString(m.Role) || !utf8.ValidString(m.Content) || !utf8.ValidString(m.ReasoningContent) || !utf8.ValidString(m.ToolCallID):
		return fmt.Errorf("%w: a message of role %q is not UTF-8", ErrInvalid, m.Role)
	}
	if len(m.ToolCalls) > line.MaxCalls {
		return fmt.Errorf("%w: a message with %d tool calls, and the limit is %d", ErrInvalid, len(m.ToolCalls), line.MaxCalls)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		if !utf8.ValidString(c.ID) || !utf8.ValidString(c.Type) || !utf8.ValidString(c.Function.Name) || !utf8.ValidString(c.Function.Arguments) {
			return fmt.Errorf("%w: tool call %d of a message is not UTF-8", ErrInvalid, i+1)
		}
	}
	return nil
}

func (d *Dir) tooLong(what string, n int64) error {
	return fmt.Errorf("%w: the %s takes a line of %d bytes, and the limit is %d", ErrInvalid, what, n, d.opts.MaxLine)
}

// maxKept is how long a buffer may be that is kept for the next write.
const maxKept = 64 << 10

// spare gives back a buffer that a long message needed, also one that was refused.
func (l *Log) spare() {
	if cap(l.buf) > maxKept {
		l.buf = nil
	}
}

// write puts whole lines at the end of the file.
func (l *Log) write(b []byte, durable bool) error {
	l.spare() // b may be it
	if err := l.use(); err != nil {
		return err
	}
	if err := l.markDirty(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	if durable {
		// So that a power cut leaves nothing torn before what is acknowledged
		// as durable: see tear.
		if err := l.sync(); err != nil {
			return err
		}
	}
	n, err := l.open.file.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return l.undo(err, n)
	}
	l.open.wrote.add(l.size, b)
	l.synced = false
	if durable {
		if err := l.sync(); err != nil {
			return err
		}
	}
	start := l.size
	l.size += int64(len(b))
	verify := l.verifyFile
	if durable {
		verify = l.verify
	}
	if err := verify(); err != nil {
		return err
	}
	l.dir.notify(func(w feed.Watcher) { w.Wrote(l.name, start, b) })
	return nil
}

// sync makes the file's contents durable.
func (l *Log) sync() error {
	if l.synced {
		return nil
	}
	if err := l.open.file.Datasync(); err != nil { // ◄ the commit point: when this returns nil, what was written is acknowledged as durable
		return l.unknown(err)
	}
	l.synced = true
	return nil
}

// undo takes back a write that failed after n bytes. A full disk leaves the
// file as it was, if it can be cut; every other error, and one of the cut, leaves
// the outcome unknown (S20).
func (l *Log) undo(err error, n int) error {
	if !vfs.OutOfSpace(err) {
		return l.unknown(err)
	}
	if cerr := l.check(l.size + int64(n)); cerr != nil {
		return l.unknown(errors.Join(err, cerr))
	}
	if terr := l.open.file.Truncate(l.size); terr != nil {
		return l.unknown(errors.Join(err, terr))
	}
	if serr := l.open.file.Datasync(); serr != nil {
		return l.unknown(errors.Join(err, serr))
	}
	l.synced = true
	return fmt.Errorf("%w: %w", ErrNotApplied, err)
}

// unknown stops the session and says that the outcome is not known.
func (l *Log) unknown(err error) error {
	if errors.Is(err, ErrDisplaced) { // which names the file
		return fmt.Errorf("%w: %w", ErrUnknown, l.stop(err))
	}
	return fmt.Errorf("%w: %s: %w", ErrUnknown, l.dir.file(l.name), l.stop(err))
}

// stop makes err the reason why nothing more is written, and gives the files
// up as they are: the next Open finds that they were not left clean. Files of
// which no copy could be kept (S28) stay open until Close.
func (l *Log) stop(err error) error {
	if l.stopped == nil {
		l.stopped = err
	}
	if l.open != nil {
		if unkept(err) == nil {
			err = errors.Join(err, l.open.abandon())
			l.open = nil
		}
	}
	l.dir.unlist(l)
	l.leave()
	return err
}

// inFile adds the path to a FormatError.
func inFile(err error, path string) error {
	var f *record.FormatError
	if errors.As(err, &f) && f.Path == "" {
		f.Path = path
	}
	return err
}
