package sessionlog

import (
	"errors"
	"fmt"
	"os"

	"crabmem/sessionlog/internal/feed"
	"crabmem/sessionlog/internal/line"
)

// Size returns the size of the file of a session.
func (im *Importer) Size(id string) (int64, error) {
	name, err := im.d.find(im.d.path, id)
	if err != nil {
		return 0, err
	}
	fi, err := im.d.fs.Lstat(im.d.file(name))
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// Extend appends the next items of a transcript to the session that was imported from it,
// without reading the session. size is the size of its file after the last import; Extend
// returns the new one. m describes the items: its source, and the time of the last one.
//
// Errors: [ErrDisplaced] if the file is no longer the result of that import, and those of
// [Importer.Import]. After an error, import the complete transcript.
func (im *Importer) Extend(id string, size int64, m Meta, items []Item) (_ int64, err error) {
	d := im.d
	name, err := d.find(d.path, id)
	if err != nil {
		return 0, err
	}
	path := d.file(name)
	meta, err := d.readMetaLine(path)
	if err != nil {
		return 0, err
	}
	text, err := d.importText(&m, items)
	if err != nil {
		return 0, err
	}
	text = text[len(line.AppendMeta(nil, &m)):]
	if end, ok := m.End(); ok {
		meta.SetEnd(end)
	}
	text = line.AppendMetaRecord(text, meta.Title, meta.UptimeSecs)
	lock, before, _, err := d.acquire(id, d.opts.LockWait)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	f, err := d.fs.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err == nil {
		err = d.check(lock, path, info, size)
	}
	if err == nil && (before.Clean != size || meta.Source != m.Source) {
		err = &DisplacedError{Path: path, Why: "is not as the last import left it"}
	}
	if err == nil {
		err = lock.SetText(d.holder(-1).Text())
	}
	if err != nil {
		return 0, err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Datasync()
	}
	if err == nil {
		size += int64(len(text))
		err = d.check(lock, path, info, size)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	_ = lock.SetText(d.holder(size).Text()) // without this text the next import reads the session
	d.notify(func(w feed.Watcher) { w.Wrote(name, size-int64(len(text)), text) })
	return size, nil
}
