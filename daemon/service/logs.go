package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"crabmem/crmem/vfs"
)

// maxTail limits the bytes of one read of a log.
const maxTail = 1 << 20

// A LogReader reads additions to a log, also across rotations to NAME.1. Close it
// after use.
type LogReader struct {
	FS   vfs.FS
	Name string
	f    vfs.File // nil if the log is missing
	at   int64    // read up to here
}

// Close closes the log.
func (r *LogReader) Close() error {
	if r.f == nil {
		return nil
	}
	err := r.f.Close()
	r.f = nil
	return err
}

// Last returns the last lines of the log, and of the rotated log before it if
// necessary.
func (r *LogReader) Last(lines int) ([]byte, error) {
	f, err := r.FS.Open(r.Name)
	if err != nil {
		return nil, err
	}
	r.f, r.at = f, 0
	b, err := r.rest()
	if err != nil {
		return nil, err
	}
	if bytes.Count(b, []byte("\n")) < lines {
		old := &LogReader{FS: r.FS, Name: r.Name + ".1"}
		if old.f, err = r.FS.Open(old.Name); err == nil {
			before, err := old.rest()
			if err = errors.Join(err, old.Close()); err != nil {
				return nil, err
			}
			b = append(before, b...)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	from := len(b)
	for n := 0; n < lines && from > 0; n++ {
		from = bytes.LastIndexByte(b[:from-1], '\n') + 1
	}
	return b[from:], nil
}

// rest returns the additions to the open file, at most the last maxTail bytes.
func (r *LogReader) rest() ([]byte, error) {
	fi, err := r.f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Size() < r.at {
		r.at = 0 // the file was recreated
	}
	r.at = max(r.at, fi.Size()-maxTail)
	b, err := io.ReadAll(io.NewSectionReader(r.f, r.at, fi.Size()-r.at))
	r.at += int64(len(b))
	return b, err
}

// Next returns the additions: to the open file, and to its replacement.
func (r *LogReader) Next() ([]byte, error) {
	fi, err := r.FS.Lstat(r.Name)
	if errors.Is(err, fs.ErrNotExist) && r.f == nil {
		return nil, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var b []byte
	if r.f != nil {
		open, serr := r.f.Stat()
		if serr != nil {
			return nil, serr
		}
		// After this read a rotated file is complete, because the daemon no
		// longer writes to it.
		if b, serr = r.rest(); serr != nil {
			return nil, serr
		}
		if err != nil {
			return b, nil // the next look finds it
		}
		is, was := vfs.Identify(fi), vfs.Identify(open)
		if is == was && (is != vfs.Identity{} || fi.Size() >= r.at) {
			return b, nil
		}
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	f, err := r.FS.Open(r.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	} else if err != nil {
		return nil, err
	}
	r.f, r.at = f, 0
	more, err := r.rest()
	return append(b, more...), err
}

// Logs writes the last lines of the service's log, and with follow those that
// are added until ctx ends.
func (s *Service) Logs(ctx context.Context, w io.Writer, lines int, follow bool) (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	name, err := s.LogFile()
	if err != nil {
		return err
	}
	r := &LogReader{FS: s.fs(), Name: name}
	defer func() { err = errors.Join(err, r.Close()) }()
	b, err := r.Last(lines)
	if errors.Is(err, fs.ErrNotExist) && !follow {
		return fmt.Errorf("no log yet: %w", err)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	for follow {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
		if b, err = r.Next(); err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}
