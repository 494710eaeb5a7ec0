package sessionlog

import (
	"errors"
	"io"
	"os"
	"strings"

	"crabmem/crmem/vfs"
)

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
	// Sync the first name: otherwise a crash could keep both the old and the
	// new file.
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

// sweep removes the temporary files of interrupted replacements of a session's
// file. The caller holds the session's lock.
func (d *Dir) sweep(id string) {
	if _, leftovers, err := d.listFolder(d.path); err == nil {
		d.remove(id, leftovers)
	}
}

// remove removes the leftovers that belong to a session. A leftover that cannot
// be removed is harmless. The caller holds the session's lock.
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
