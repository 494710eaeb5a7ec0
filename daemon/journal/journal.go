// Package journal stores records in a derived file, one line of JSON for each. A line
// that a crash tore is omitted, and a lost file is an empty one: the caller must be
// correct without the newest records, or without all of them.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"crabmem/crmem/vfs"
)

// maxFile limits the file that Open reads, in bytes.
const maxFile = 64 << 20

// File is a file of records. It is not safe for concurrent use.
type File[T any] struct {
	fs    vfs.FS
	path  string
	file  vfs.File // nil: not open
	lines int
}

// Open reads the records of a file, oldest first. It creates the file with the first
// record. With an error, the File is usable, and has no records.
func Open[T any](fsys vfs.FS, path string) (j *File[T], list []T, err error) {
	j = &File[T]{fs: fsys, path: path}
	f, fi, err := vfs.OpenDerived(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil, nil
	}
	if err != nil {
		return j, nil, err
	}
	defer f.Close()
	if fi.Size() > maxFile {
		return j, nil, &vfs.TooLargeError{Name: path, Size: fi.Size(), Max: maxFile}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return j, nil, err
	}
	for line := range bytes.Lines(text) {
		var r T
		if j.lines++; json.Unmarshal(line, &r) == nil && bytes.HasSuffix(line, []byte("\n")) {
			list = append(list, r)
		}
	}
	return j, list, nil
}

// Lines returns the number of lines in the file.
func (j *File[T]) Lines() int { return j.lines }

// Append adds a record. It does not sync the file. An empty line ends a torn one.
func (j *File[T]) Append(r *T) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if j.file == nil {
		if err := vfs.MkdirAll(j.fs, filepath.Dir(j.path), 0o700); err != nil {
			return err
		}
		if j.file, err = j.fs.OpenFile(j.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			return err
		}
		line = append([]byte("\n"), line...)
		j.lines++
	}
	j.lines++
	_, err = j.file.Write(append(line, '\n'))
	return err
}

// Sync makes the appended records durable.
func (j *File[T]) Sync() error {
	if j.file == nil {
		return nil
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	return j.fs.SyncDir(filepath.Dir(j.path))
}

// Replace replaces the records of the file.
func (j *File[T]) Replace(list iter.Seq[T]) error {
	err := j.Close()
	var text bytes.Buffer
	n := 0
	for r := range list {
		line, merr := json.Marshal(&r)
		if merr != nil {
			return errors.Join(err, merr)
		}
		text.Write(append(line, '\n'))
		n++
	}
	if merr := vfs.MkdirAll(j.fs, filepath.Dir(j.path), 0o700); merr != nil {
		return errors.Join(err, merr)
	}
	_, werr := vfs.WriteDerived(j.fs, j.path, int64(text.Len()), func(w io.Writer) error {
		_, err := w.Write(text.Bytes())
		return err
	}, func() (bool, error) { return true, nil })
	if werr == nil {
		j.lines = n
	}
	return errors.Join(err, werr)
}

// Close closes the file. Append opens it again.
func (j *File[T]) Close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}
