package sessionlog

import (
	"errors"
	"fmt"

	"crabmem/sessionlog/internal/feed"
	"crabmem/sessionlog/internal/line"
)

// Discard is like Close. If this call closes the session and the file has only its
// meta line, Discard also removes the file and returns true (S33). Errors are those
// of Close, [ErrNotApplied], [ErrUnknown], and errors of the system. After an error,
// a crash may undo the removal.
func (l *Log) Discard() (removed bool, err error) {
	d := l.dir
	d.mu.Lock()
	l.refs--
	last := l.refs <= 0
	d.mu.Unlock()
	if !last {
		return false, nil
	}
	removed, err = l.removeEmpty()
	return removed, errors.Join(err, l.end())
}

// removeEmpty removes the file and closes the session if the file has only its meta
// line. Otherwise it does nothing.
func (l *Log) removeEmpty() (removed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.use() != nil || l.size != int64(len(line.AppendMeta(nil, &l.meta))) {
		return false, nil // end reports an unusable session
	}
	if err := l.verify(); err != nil {
		return false, err
	}
	removed, err = l.removeFile()
	l.closed = true
	l.leave()
	return removed, err
}

// removeFile closes and removes the session's file. The caller holds mu.
func (l *Log) removeFile() (removed bool, err error) {
	d, o, path := l.dir, l.open, l.dir.file(l.name)
	l.open, l.buf = nil, nil
	d.unlist(l)
	if err = o.file.Close(); err == nil { // Windows removes no open file
		err = d.check(o.lock, path, o.info, l.size)
	}
	if err == nil {
		err = d.fs.Remove(path)
	}
	if err != nil {
		return false, errors.Join(fmt.Errorf("%w: %s: %w", ErrNotApplied, path, err), o.lock.Unlock())
	}
	d.notify(func(w feed.Watcher) { w.Removed(l.name) })
	if err = d.fs.SyncDir(d.path); err == nil {
		err = o.lock.SetText("") // the session never existed (S29)
	}
	return true, errors.Join(err, o.lock.Unlock())
}
