package sessionlog

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"crabmem/sessionlog/internal/feed"
	"crabmem/sessionlog/internal/line"
)

// SetTitle sets the title durably and renames the file to match. The ID does not
// change. Errors are those of Append.
func (l *Log) SetTitle(title string) error {
	_, err := l.setTitle(title, nil)
	return err
}

// ReplaceTitle is like SetTitle if the present title equals old. Otherwise it
// changes nothing and returns false.
func (l *Log) ReplaceTitle(old, title string) (bool, error) { return l.setTitle(title, &old) }

// setTitle is ReplaceTitle, but replaces every title if old is nil.
func (l *Log) setTitle(title string, old *string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := validTitle(title); err != nil {
		return false, err
	}
	if err := l.use(); err != nil { // another process may have changed title and run time
		return false, err
	}
	if old != nil && l.meta.Title != *old {
		return false, nil
	}
	l.buf = line.AppendMetaRecord(l.buf[:0], title, l.meta.UptimeSecs)
	if err := l.write(l.buf, l.dir.opts.Sync != SyncNone); err != nil {
		return false, err
	}
	l.meta.Title = title
	return true, l.rename()
}

// maxTitle bounds a title, in bytes.
const maxTitle = 4 << 10

func validTitle(title string) error {
	if !utf8.ValidString(title) || len(title) > maxTitle || strings.ContainsRune(title, 0) {
		return fmt.Errorf("%w: title must be UTF-8 of at most %d bytes without NUL", ErrInvalid, maxTitle)
	}
	return nil
}

// rename renames the file to match its title. The title is in the file, so the
// old name stays if the rename fails (S22).
func (l *Log) rename() error {
	if !l.shaped {
		return nil
	}
	if err := l.renameTo(fileName(l.id, l.meta.Title), l.size); err != nil {
		return l.unknown(err)
	}
	return nil
}

// renameTo renames the file, which has size bytes. The error is that of check.
func (l *Log) renameTo(name string, size int64) error {
	d := l.dir
	got, err := d.rename(l.open.lock, l.name, name, l.open.info, size)
	if got != l.name {
		d.notify(func(w feed.Watcher) { w.Renamed(l.name, got) })
	}
	l.name = got
	return l.keep(err)
}

// rename durably renames a session's file and returns the resulting name. If
// the rename fails, it returns the old name. The caller holds the session's
// lock. The error is that of check: the file is info and has size bytes.
func (d *Dir) rename(lock *sessionLock, from, to string, info fs.FileInfo, size int64) (string, error) {
	if from == to {
		return from, nil
	}
	if _, err := d.fs.Lstat(d.file(to)); err == nil {
		d.warn("%s keeps its name: %s exists", d.file(from), to)
		return from, nil
	}
	if err := d.check(lock, d.file(from), info, size); err != nil {
		return from, err
	}
	err := d.fs.Rename(d.file(from), d.file(to))
	if err != nil && !d.leadsTo(d.file(to), info) { // a failed rename may have taken effect
		d.warn("%s keeps its name: %v", d.file(from), err)
		return from, nil
	}
	if err == nil {
		err = d.fs.SyncDir(d.path)
	}
	if err != nil {
		// A later sync would succeed without the rename. If the file were then
		// replaced, both names would exist.
		if rerr := d.renameBack(lock, to, from, info, size); rerr != nil {
			if errors.Is(rerr, ErrDisplaced) {
				return to, rerr
			}
			d.warn("%s: a crash may undo the rename but not the title: %v", d.file(to), errors.Join(err, rerr))
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
