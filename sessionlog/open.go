package sessionlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"crabmem/crmem/vfs"
)

// openFiles are what an open session holds: its file and its lock.
type openFiles struct {
	file  vfs.File
	info  fs.FileInfo // of file
	lock  *sessionLock
	dirty bool // the lock's text says so
	wrote written
}

// abandon closes the files without saying that they were left clean.
func (f *openFiles) abandon() error { return errors.Join(f.file.Close(), f.lock.Unlock()) }

// Open opens a session for writing: under the session's lock, with what a crash
// left at its end set aside. While it is open, Open returns the same Log;
// Close it as often.
//
// Errors: [ErrNotFound], [ErrReadOnly] for an imported session, *[FormatError]
// for a file without a meta line, *[vfs.LockedError], and the system's.
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

// enlist puts a session that is being opened into the table. One of the same id
// that is there already is returned instead, once more open.
func (d *Dir) enlist(l *Log) (*Log, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("%w: the folder is", ErrClosed)
	}
	if other := d.logs[l.id]; other != nil {
		other.refs++
		return other, nil
	}
	d.logs[l.id] = l
	return nil, nil
}

// use makes the files of a session open, and the latest used. Caller holds
// l.mu.
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

// touch makes a session the latest used, and closes the files of those used
// longest ago while there are too many.
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
		// One that is being written to is not idle.
		if o := e.Value.(*Log); o != l && o.mu.TryLock() {
			idle = append(idle, o)
		}
	}
	d.mu.Unlock()
	for _, o := range idle {
		if err := o.closeFiles(); err != nil {
			o.unreported = o.stopped != nil
			d.warn("%v", err) // its next write says so too, or its Close
		}
		o.mu.Unlock()
	}
}

// unlist takes a session out of those with open files.
func (d *Dir) unlist(l *Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.used != nil {
		d.recent.Remove(l.used)
		l.used = nil
	}
}

// openFiles takes the lock and opens the file, and mends what a crash left
// there. On an error nothing is held. Caller holds l.mu.
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
		err = l.markDirty() // whom the lock stops is told where to go
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

// openFile opens the session's file, wherever another process's title has
// moved it.
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
			err = errors.Join(errors.New("it was replaced while it was being opened"), err1, err2, f.Close())
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

// recover looks at the end of the file under the lock, mends it, and learns
// the session's size and meta.
func (l *Log) recover(before vfs.LockHolder, ours bool) error {
	fi, err := l.open.file.Stat()
	if err != nil {
		return err
	}
	size := fi.Size()
	boot := l.dir.fs.BootID()
	same := before.Boot == boot && boot != ""
	clean := before.Clean == size
	if same {
		l.report(before, size)
	}
	if same && clean && size == l.size && size > 0 {
		l.synced = true
		return nil // as this process left it
	}
	end := size
	if l.dir.cut(before, ours, size) {
		if end, err = l.tear(size); err != nil {
			return err
		}
	}
	if end == size {
		if end, err = l.mendTail(size); err != nil {
			return err
		}
		size = end
	}
	if end == size && l.open.dirty { // whatever there was is mended
		if err := l.open.lock.SetText(l.holder(-1).Text()); err != nil {
			return err
		}
	}
	if end < size || l.dir.maybeUnsynced(before, fi.Size()) {
		if err := l.rewrite(end); err != nil {
			return err
		}
	}
	l.size, l.synced = end, same && clean
	if end != fi.Size() {
		l.dir.notify(func(w feed.Watcher) { w.Changed(l.name) })
	}
	c, err := line.ReadContext(l.open.file, end, &line.ReadOptions{Lenient: true, MaxLine: l.dir.opts.MaxLine})
	if err != nil {
		return err
	}
	l.meta = c.Meta
	if line.HasBareMarker(c) {
		// The record behind the marker was torn off: the tail must have it (S17).
		err = l.write(line.AppendMetaRecord(nil, l.meta.Title, l.meta.UptimeSecs), true)
	}
	return err
}

// cut tells whether a power cut may have torn a file of this size: its writer
// was of another boot and did not end well, or found it so and did not mend it.
func (d *Dir) cut(before vfs.LockHolder, ours bool, size int64) bool {
	boot := d.fs.BootID()
	return before.Torn || ours && before.Clean != size && (before.Boot != boot || boot == "")
}

// maybeUnsynced tells whether only the page cache may know what is read of a file of
// this size: in the boot of a writer that did not end well. A failed sync would
// show nothing of that (S21).
func (d *Dir) maybeUnsynced(before vfs.LockHolder, size int64) bool {
	boot := d.fs.BootID()
	same := before.Boot == boot || boot == "" || before.Boot == ""
	return same && (before.Boot != "" || before.Torn) && before.Clean != size
}

// tear finds where a power cut tore the file, and sets aside what is from there
// on. It returns the offset, or size (S19).
//
// A cut leaves any of the blocks that were not synced. They are behind the last
// line that was: nothing that is acknowledged as durable is written while
// anything is unsynced. A bad line with such a line behind it is no tear.
func (l *Log) tear(size int64) (int64, error) {
	d := l.dir
	torn := l.holder(-1)
	torn.Torn = true
	if err := l.open.lock.SetText(torn.Text()); err != nil {
		return size, err
	}
	l.open.dirty = true
	var back line.BackScanner
	var rec line.Record
	end := size
	var titles []string // of the meta records behind end, and of those before it
	behind := 0         // how many are behind
	back.Reset(l.open.file, size, d.opts.MaxLine)
	for back.Next() {
		if back.Line.Torn {
			continue // what has no end was never acknowledged
		}
		back.Decode(&rec)
		if rec.Kind == KindMeta || rec.Kind == KindMarker {
			break
		}
		if rec.Kind == KindMessage && endsTurn(rec.Message()) {
			break
		}
		if rec.Kind == KindMetaRecord {
			titles = append(titles, rec.Text(rec.Title))
		}
		if rec.Kind == KindBad {
			end, behind = back.Line.Offset, len(titles)
		}
	}
	if back.Err != nil || end == size {
		return size, back.Err
	}
	// A title is durable, and a run time is not: which one a record behind is of
	// shows by what the title was before.
	c, err := line.ReadContext(l.open.file, end, &line.ReadOptions{Lenient: true, MaxLine: d.opts.MaxLine})
	if err != nil {
		return size, err
	}
	for _, title := range titles[:behind] {
		if title != c.Meta.Title {
			return size, nil
		}
	}
	name, err := d.setAside(tornFolder, fmt.Sprintf("%s-%d", shortSlug(l.id, maxAside), end), l.open.file, end, size-end)
	if err != nil {
		return size, err
	}
	d.warn("%s: cut %d bytes that a power cut left torn at offset %d; kept in %s", d.file(l.name), size-end, end, name)
	return end, nil
}

// mendTail gives the last whole record the line end that it lacks, with what is
// torn behind it set aside, and returns the size (S19).
func (l *Log) mendTail(size int64) (int64, error) {
	d, f := l.dir, l.open.file
	from, err := lastLineEnd(f, size)
	if err != nil || from == size {
		return size, err
	}
	end, err := l.lastRecordEnd(from, size)
	if err != nil {
		return size, err
	}
	if end == 0 {
		return size, &FormatError{Line: 1, Msg: "the meta line is not whole: its writer died, or this is no session file"}
	}
	name := ""
	if end < size {
		name, err = d.setAside(tornFolder, fmt.Sprintf("%s-%d", shortSlug(l.id, maxAside), end), f, end, size-end)
		if err != nil {
			return size, err
		}
	}
	if err := l.markDirty(); err != nil {
		return size, err
	}
	if err := l.check(size); err != nil {
		return size, err
	}
	if end < size {
		if err := f.Truncate(end); err != nil {
			return size, l.unknown(err)
		}
	}
	l.size = end
	if end > from {
		if n, err := f.Write([]byte{'\n'}); err != nil || n != 1 {
			return size, l.undo(errors.Join(err, io.ErrShortWrite), n)
		}
	}
	if err := f.Datasync(); err != nil {
		return size, l.unknown(err)
	}
	if end < size {
		d.warn("%s: cut %d bytes of an unfinished line at offset %d; kept in %s", d.file(l.name), size-end, end, name)
	}
	if end > from {
		d.warn("%s: the last line lacked its end, and was whole: added", d.file(l.name))
		end++
	}
	return end, nil
}

// lastRecordEnd returns the offset behind the last whole record behind the last
// line end, or that.
func (l *Log) lastRecordEnd(from, to int64) (int64, error) {
	if to-from > l.dir.opts.MaxLine {
		return from, nil
	}
	b := make([]byte, to-from)
	if n, err := l.open.file.ReadAt(b, from); n < len(b) {
		return from, err
	}
	var r line.Record
	switch r.Decode(b, from == 0); r.Kind {
	case KindBlank:
		return from, nil
	case KindBad:
		if found := line.Pieces(nil, b, from == 0); len(found) > 0 {
			return from + int64(found[len(found)-1].Hi), nil
		}
		return from, nil
	}
	return to, nil
}

// lastLineEnd returns the offset behind the last line end, 0 when there is none.
func lastLineEnd(r io.ReaderAt, size int64) (int64, error) {
	b := make([]byte, min(size, 64<<10))
	for size > 0 {
		n := min(size, int64(len(b)))
		if got, err := r.ReadAt(b[:n], size-n); int64(got) < n {
			return 0, err
		}
		for i := n - 1; i >= 0; i-- {
			if b[i] == '\n' {
				return size - n + i + 1, nil
			}
		}
		size -= n
	}
	return 0, nil
}

// setAside copies n bytes from an offset on to a file of a name that nothing
// else has, in a folder beside the sessions, and returns its path. The same
// bytes are copied once.
func (d *Dir) setAside(folder, name string, r io.ReaderAt, from, n int64) (string, error) {
	if err := d.makeFolder(d.folder(folder)); err != nil {
		return "", err
	}
	for i := 0; ; i++ {
		path := filepath.Join(d.folder(folder), name+nameExt)
		if i > 0 {
			path = filepath.Join(d.folder(folder), fmt.Sprintf("%s.%d%s", name, i, nameExt))
		}
		_, err := d.fs.Lstat(path)
		free := errors.Is(err, fs.ErrNotExist)
		if err == nil {
			// Of the same incident, when the crash came after the copy. Its name may
			// not be on the disk: it is made again.
			free, err = d.holds(path, io.NewSectionReader(r, from, n))
		}
		if free {
			return path, vfs.Replace(d.fs, path, 0o600, func(w io.Writer) error {
				_, err := io.Copy(w, io.NewSectionReader(r, from, n))
				return err
			})
		}
		if err != nil {
			return "", err
		}
	}
}

// holds tells whether a file is regular and has just these bytes.
func (d *Dir) holds(path string, want *io.SectionReader) (bool, error) {
	f, err := d.fs.Open(path)
	if errors.Is(err, vfs.ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Size() != want.Size() {
		return false, err
	}
	a, err := checksum(f, want.Size())
	if err != nil {
		return false, err
	}
	b, err := checksum(want, want.Size())
	return a == b, err
}

// checksum returns the CRC-32C of the first n bytes.
func checksum(r io.ReaderAt, n int64) (uint32, error) {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	_, err := io.Copy(sum, io.NewSectionReader(r, 0, n))
	return sum.Sum32(), err
}

// rewrite puts a copy of the first size bytes in the file's place, on the disk
// for certain.
func (l *Log) rewrite(size int64) error {
	d, old, oldInfo := l.dir, l.open.file, l.open.info
	fi, err := old.Stat()
	if err != nil {
		return err
	}
	if err := l.markDirty(); err != nil {
		return err
	}
	d.sweep(l.id)
	// The name it has first: were only the new file's kept, there would be two.
	if err := d.fs.SyncDir(d.path); err != nil {
		return err
	}
	path := d.file(l.name)
	err = vfs.ReplaceChecked(d.fs, path, 0o600, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(old, 0, size))
		return err
	}, func(p vfs.Pending) error {
		if err := d.check(l.open.lock, path, oldInfo, fi.Size()); err != nil {
			return err
		}
		info, err := p.Stat()
		if err == nil {
			l.open.info = info
			err = l.open.lock.SetText(l.holder(-1, oldInfo).Text())
		}
		return err
	})
	if err != nil {
		return l.keep(err)
	}
	f, err := d.fs.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if err := l.check(size); err != nil { // the old file has the same bytes
		return errors.Join(err, f.Close())
	}
	l.open.file = f
	return errors.Join(old.Close(), l.open.lock.SetText(l.holder(-1).Text()))
}

// sweep removes what a crash left of a session's file that was being replaced.
// Caller holds the session's lock.
func (d *Dir) sweep(id string) {
	if _, leftovers, err := d.listFolder(d.path); err == nil {
		d.remove(id, leftovers)
	}
}

// remove removes those of a list of leftovers that are a session's. What cannot
// be removed does no harm. Caller holds the session's lock.
func (d *Dir) remove(id string, leftovers []string) {
	for _, name := range leftovers {
		if stem, _ := leftoverOf(name); stem == id || strings.HasPrefix(stem, id+"_") {
			_ = d.fs.Remove(d.file(name))
		}
	}
}

// leftoverOf returns which file, without its .jsonl, a temporary file was to
// replace.
func leftoverOf(name string) (stem string, ok bool) {
	if stem, ok = strings.CutPrefix(name, "."); !ok {
		return "", false
	}
	stem, ok = strings.CutSuffix(strings.TrimRight(stem, "0123456789"), nameExt)
	return stem, ok && len(name) > len("."+stem+nameExt)
}

// markDirty says in the lock file, before the first thing is written, that the
// file is in use.
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

// closeFiles syncs what was written and gives file and lock back. An error of
// the sync leaves the outcome of unsynced writes unknown. Caller holds l.mu.
func (l *Log) closeFiles() error {
	if l.open == nil {
		return nil
	}
	if l.stopped != nil { // no copy could be kept
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
