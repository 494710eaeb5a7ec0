package sessionlog

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/feed"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// Append appends messages in one write. It omits injected messages. If Append
// returns nil, the messages are in the file, and on disk if the [SyncPolicy]
// requires it. A crash before that leaves a prefix of them.
//
// Errors: [ErrInvalid], [ErrNotApplied], [ErrUnknown], [ErrStopped],
// [ErrClosed], and the errors of [Dir.Open].
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
	if err := l.write(l.buf, durable); err != nil {
		return err
	}
	l.delivered(ms)
	return nil
}

// endsTurn reports whether SyncTurns makes a message durable.
func endsTurn(m Message) bool {
	return m.Role == record.RoleUser || m.Role == record.RoleAssistant && len(m.ToolCalls) == 0
}

// checkMessage refuses a message that could not be read back unchanged.
func checkMessage(m *Message) error {
	switch {
	case m.Role == "":
		return fmt.Errorf("%w: message has no role", ErrInvalid)
	case !record.ValidWorkKeys(m.Work) || len(m.Work) > 0 && m.Role != record.RoleUser:
		return fmt.Errorf("%w: only a user message may deliver work, and its keys must be valid", ErrInvalid)
	case !utf8.ValidString(m.Request) || len(m.Request) > MaxRequest:
		return fmt.Errorf("%w: the ID of a request must be UTF-8 of at most %d bytes", ErrInvalid, MaxRequest)
	case !utf8.ValidString(m.Role) || !utf8.ValidString(m.Content) || !utf8.ValidString(m.ReasoningContent) || !utf8.ValidString(m.ToolCallID):
		return fmt.Errorf("%w: message of role %q is not UTF-8", ErrInvalid, m.Role)
	}
	if len(m.ToolCalls) > line.MaxCalls {
		return fmt.Errorf("%w: message has %d tool calls; limit is %d", ErrInvalid, len(m.ToolCalls), line.MaxCalls)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		if !utf8.ValidString(c.ID) || !utf8.ValidString(c.Type) || !utf8.ValidString(c.Function.Name) || !utf8.ValidString(c.Function.Arguments) {
			return fmt.Errorf("%w: tool call %d is not UTF-8", ErrInvalid, i+1)
		}
	}
	return nil
}

func (d *Dir) tooLong(what string, n int64) error {
	return fmt.Errorf("%w: %s needs a line of %d bytes; limit is %d", ErrInvalid, what, n, d.opts.MaxLine)
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

// stoppedError returns the error of each write after a stop.
func (l *Log) stoppedError() error { return fmt.Errorf("%w after an error: %w", ErrStopped, l.stopped) }

// maxKept is the largest size of a buffer that is kept for the next write.
const maxKept = 64 << 10

// spare releases the buffer of a long message, also if the message was refused.
func (l *Log) spare() {
	if cap(l.buf) > maxKept {
		l.buf = nil
	}
}

// write appends complete lines to the file.
func (l *Log) write(b []byte, durable bool) error {
	l.spare() // b may be it
	if err := l.use(); err != nil {
		return err
	}
	if err := l.markDirty(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	if durable {
		// Sync earlier lines first, so that a power cut leaves no torn bytes
		// before an acknowledged durable line: see tear.
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

// sync makes the file's content durable.
func (l *Log) sync() error {
	if l.synced {
		return nil
	}
	if err := l.open.file.Datasync(); err != nil { // ◄ the commit point: after this returns nil, the write is acknowledged as durable
		return l.unknown(err)
	}
	l.synced = true
	return nil
}

// undo reverts a write that failed after n bytes. If the disk is full and the
// file can be truncated, the file is unchanged. After any other error,
// including one of the truncation, the outcome is unknown (S20).
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

// unknown stops the session and returns an error that the outcome is unknown.
func (l *Log) unknown(err error) error {
	if errors.Is(err, ErrDisplaced) { // which names the file
		return fmt.Errorf("%w: %w", ErrUnknown, l.stop(err))
	}
	return fmt.Errorf("%w: %s: %w", ErrUnknown, l.dir.file(l.name), l.stop(err))
}

// stop records err as the reason to refuse later writes, and closes the files
// without state clean, so that the next Open recovers them. Files that could
// not be copied (S28) stay open until Close.
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
