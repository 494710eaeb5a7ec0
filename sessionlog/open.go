package sessionlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"crabmem/crmem/vfs"
)

// openFiles are the open file and lock of a session.
type openFiles struct {
	file  vfs.File
	info  fs.FileInfo // of file
	lock  *sessionLock
	dirty bool // the lock's text has state dirty
	wrote written
}

// abandon closes the files without saying that they were left clean.
func (f *openFiles) abandon() error { return errors.Join(f.file.Close(), f.lock.Unlock()) }

// Open opens a session for writing. It takes the session's lock and recovers
// the end of the file after a crash. While the session is open, Open returns
// the same Log. Call Close once per call of Open.
//
// Errors: [ErrNotFound], [ErrReadOnly] for an imported session,
// *[record.FormatError] for a file without a meta line, *[vfs.LockedError], and
// the system's.
func (d *Dir) Open(id string) (*Log, error) {
	var name string
	var m Meta
	err := d.located(d.path, id, func(at string) (err error) {
		name = at
		m, err = d.readMetaLine(d.file(at))
		return err
	})
	if err != nil {
		return nil, d.explain(id, err)
	}
	id, shaped := idOf(name, &m)
	if m.Source != "" {
		return nil, fmt.Errorf("%w: %s was imported from %s", ErrReadOnly, id, m.Source)
	}
	for {
		l := &Log{dir: d, id: id, name: name, shaped: shaped, refs: 1}
		l.mu.Lock()
		other, err := d.enlist(l)
		if err == nil && other == nil {
			if err = l.openFiles(); err != nil {
				l.closed = true
				l.leave()
			}
		}
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if other == nil {
			d.warnKept(id)
			return l, nil
		}
		// It may be being opened, or closed, at this moment.
		other.mu.Lock()
		live := !other.closed && other.stopped == nil
		other.mu.Unlock()
		if live {
			return other, nil
		}
	}
}

// enlist adds a session that is being opened to the table. If the table already
// has the id, enlist returns that Log and increments its use count.
func (d *Dir) enlist(l *Log) (*Log, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("%w: folder %s", ErrClosed, d.path)
	}
	if other := d.logs[l.id]; other != nil {
		other.refs++
		return other, nil
	}
	d.logs[l.id] = l
	return nil, nil
}

// use opens the files of a session if necessary, and marks it as most recently
// used. The caller holds l.mu.
func (l *Log) use() error {
	if err := l.usable(); err != nil {
		return err
	}
	if l.open == nil {
		if err := l.openFiles(); err != nil {
			return err
		}
	}
	l.dir.touch(l)
	return nil
}

// touch marks a session as most recently used, and closes the files of the
// least recently used ones while too many are open.
func (d *Dir) touch(l *Log) {
	d.mu.Lock()
	if l.used == nil {
		l.used = d.recent.PushFront(l)
	} else {
		d.recent.MoveToFront(l.used)
	}
	if d.recent.Len() <= d.opts.MaxOpen {
		d.mu.Unlock()
		return
	}
	var idle []*Log
	for e := d.recent.Back(); e != nil && len(idle) < d.recent.Len()-d.opts.MaxOpen; e = e.Prev() {
		// A session with a write in progress is not idle.
		if o := e.Value.(*Log); o != l && o.mu.TryLock() {
			idle = append(idle, o)
		}
	}
	d.mu.Unlock()
	for _, o := range idle {
		if err := o.closeFiles(); err != nil {
			o.unreported = o.stopped != nil
			d.warn("%v", err) // its next write or Close returns the error too
		}
		o.mu.Unlock()
	}
}

// unlist removes a session from those with open files.
func (d *Dir) unlist(l *Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.used != nil {
		d.recent.Remove(l.used)
		l.used = nil
	}
}

// openFiles takes the lock, opens the file, and recovers its end. After an
// error neither is open. The caller holds l.mu.
func (l *Log) openFiles() error {
	d := l.dir
	lock, before, ours, err := d.acquire(l.id, d.opts.LockWait)
	if err != nil {
		return err
	}
	f, info, err := l.openFile()
	if err != nil {
		return errors.Join(d.explain(l.id, err), lock.Unlock())
	}
	l.open = &openFiles{file: f, info: info, lock: lock}
	if title := strings.TrimSuffix(strings.TrimPrefix(l.name, l.id), nameExt); l.shaped && len(l.name) > maxName {
		err = l.renameTo(fileName(l.id, title), anyLength) // so that its temporary names fit
	}
	if err == nil {
		err = l.recover(before, ours)
	}
	if err == nil && d.opts.Socket != "" {
		err = l.markDirty() // the text directs other processes to this one
	}
	if err != nil {
		err = inFile(err, d.file(l.name))
		if l.open != nil {
			err = errors.Join(err, l.open.abandon())
			l.open = nil
		}
		return err
	}
	d.touch(l)
	return nil
}

// openFile opens the session's file. It looks again if another process renamed
// the file.
func (l *Log) openFile() (vfs.File, fs.FileInfo, error) {
	d := l.dir
	for try := 1; ; try++ {
		f, err := d.fs.OpenFile(d.file(l.name), os.O_RDWR|os.O_APPEND, 0)
		if err == nil {
			held, err1 := f.Stat()
			named, err2 := d.fs.Lstat(d.file(l.name))
			if err1 == nil && err2 == nil && vfs.Identify(held) == vfs.Identify(named) {
				return f, held, nil
			}
			err = errors.Join(errors.New("file was replaced during open"), err1, err2, f.Close())
		}
		if try == 3 {
			return nil, nil, err
		}
		name, ferr := d.find(d.path, l.id)
		if ferr != nil {
			return nil, nil, ferr
		}
		l.name = name
	}
}

// markDirty writes state dirty to the lock file. The caller calls it before the
// first write.
func (l *Log) markDirty() error {
	if l.open.dirty {
		return nil
	}
	if err := l.open.lock.SetText(l.holder(-1).Text()); err != nil {
		return err
	}
	l.open.dirty = true
	return nil
}

// closeFiles syncs the file and releases file and lock. An error of the sync
// makes the outcome of unsynced writes unknown. The caller holds l.mu.
func (l *Log) closeFiles() error {
	if l.open == nil {
		return nil
	}
	if l.stopped != nil { // the copies could not be written
		err := l.keep(l.stopped)
		err = errors.Join(err, l.open.abandon())
		l.open = nil
		return err
	}
	if l.open.dirty {
		if err := l.sync(); err != nil {
			return err
		}
	}
	if err := l.verify(); err != nil {
		return err
	}
	o, text := l.open, l.holder(l.size).Text()
	l.open, l.buf = nil, nil // there may be very many that are not written to
	l.dir.unlist(l)
	err := o.file.Close()
	if err == nil && o.dirty {
		err = o.lock.SetText(text)
	}
	return errors.Join(err, o.lock.Unlock())
}
