package sessionlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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

// setAside copies n bytes from an offset to a file with an unused name, in a
// subfolder of the sessions, and returns its path. If a file already contains
// the same bytes, setAside replaces it instead of creating another.
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
			// An earlier attempt copied the same bytes before a crash. Its name
			// may not be durable, so write the file again.
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

// holds reports whether a file is regular and contains exactly these bytes.
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
