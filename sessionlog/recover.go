package sessionlog

import (
	"errors"
	"fmt"
	"io"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/feed"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// recover recovers the end of the file under the lock, and reads the session's
// size and meta.
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
	if end == size && l.open.dirty { // the file is recovered
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
	c, err := line.ReadContext(l.open.file, end, &line.ReadOptions{Lenient: true, MaxLine: l.dir.opts.MaxLine, Work: true})
	if err != nil {
		return err
	}
	l.meta, l.work, l.workKnown = c.Meta, c.Work, c.WorkKnown
	if missing := line.AppendMissing(nil, c); len(missing) > 0 {
		err = l.write(missing, true)
	}
	return err
}

// cut reports whether a power cut may have torn a file of this size: its writer
// was of another boot and did not end cleanly, or did not complete a recovery.
func (d *Dir) cut(before vfs.LockHolder, ours bool, size int64) bool {
	boot := d.fs.BootID()
	return before.Torn || ours && before.Clean != size && (before.Boot != boot || boot == "")
}

// maybeUnsynced reports whether a file of this size may have content that is only
// in the page cache: its last writer, of this boot, did not end cleanly. A failed
// sync leaves no other trace (S21).
func (d *Dir) maybeUnsynced(before vfs.LockHolder, size int64) bool {
	boot := d.fs.BootID()
	same := before.Boot == boot || boot == "" || before.Boot == ""
	return same && (before.Boot != "" || before.Torn) && before.Clean != size
}

// tear finds the offset at which a power cut tore the file, and quarantines the
// bytes from there on. It returns the offset, or size (S19).
//
// A power cut keeps any subset of the unsynced blocks. These are after the last
// synced line, because a durable line is acknowledged only after all earlier
// bytes are synced. So a bad line before a durable line is not a tear.
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
	var titles []string // of the meta records after end, then of those before it
	after := 0          // number of records after end
	back.Reset(l.open.file, size, d.opts.MaxLine)
	for back.Next() {
		if back.Line.Torn {
			continue // a line without \n was never acknowledged
		}
		back.Decode(&rec)
		if rec.Kind == record.KindMeta || rec.Kind == record.KindMarker {
			break
		}
		if rec.Kind == record.KindMessage && endsTurn(rec.Message()) || rec.IsDurableWork() {
			break
		}
		if rec.Kind == record.KindMetaRecord {
			titles = append(titles, rec.Text(rec.Title))
		}
		if rec.Kind == record.KindBad {
			end, after = back.Line.Offset, len(titles)
		}
	}
	if back.Err != nil || end == size {
		return size, back.Err
	}
	// Titles are durable, run times are not. A meta record after end is of a
	// title if its title differs from the previous one.
	c, err := line.ReadContext(l.open.file, end, &line.ReadOptions{Lenient: true, MaxLine: d.opts.MaxLine})
	if err != nil {
		return size, err
	}
	for _, title := range titles[:after] {
		if title != c.Meta.Title {
			return size, nil
		}
	}
	name, err := d.setAside(tornFolder, fmt.Sprintf("%s-%d", shortSlug(l.id, maxAside), end), l.open.file, end, size-end)
	if err != nil {
		return size, err
	}
	d.warn("%s: moved %d bytes torn by a power cut at offset %d to %s", d.file(l.name), size-end, end, name)
	return end, nil
}

// mendTail appends the missing line end to the last complete record,
// quarantines the torn tail after it, and returns the size (S19).
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
		return size, &record.FormatError{Line: 1, Msg: "meta line is torn: the writer died, or this is not a session file"}
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
		d.warn("%s: moved a torn tail of %d bytes at offset %d to %s", d.file(l.name), size-end, end, name)
	}
	if end > from {
		d.warn("%s: added the missing newline of the last line", d.file(l.name))
		end++
	}
	return end, nil
}

// lastRecordEnd returns the offset after the last complete record that follows
// the last line end, or after the last line end.
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
	case record.KindBlank:
		return from, nil
	case record.KindBad:
		if found := line.Pieces(nil, b, from == 0); len(found) > 0 {
			return from + int64(found[len(found)-1].Hi), nil
		}
		return from, nil
	}
	return to, nil
}

// lastLineEnd returns the offset after the last line end, or 0 if there is
// none.
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
