package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
)

// maxTail limits the bytes of one read of a log.
const maxTail = 1 << 20

// A logReader reads additions to a log, also across rotations. Close it after
// use.
type logReader struct {
	fs   vfs.FS
	name string
	f    vfs.File // nil if the log is missing
	at   int64    // read up to here
}

func (r *logReader) Close() error {
	if r.f == nil {
		return nil
	}
	err := r.f.Close()
	r.f = nil
	return err
}

// last returns the last lines of the log, and of the rotated log before it if
// necessary.
func (r *logReader) last(lines int) ([]byte, error) {
	f, err := r.fs.Open(r.name)
	if err != nil {
		return nil, err
	}
	r.f, r.at = f, 0
	b, err := r.rest()
	if err != nil {
		return nil, err
	}
	if bytes.Count(b, []byte("\n")) < lines {
		old := &logReader{fs: r.fs, name: r.name + ".1"}
		if old.f, err = r.fs.Open(old.name); err == nil {
			before, err := old.rest()
			if err = errors.Join(err, old.Close()); err != nil {
				return nil, err
			}
			b = append(before, b...)
		} else if !missing(err) {
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
func (r *logReader) rest() ([]byte, error) {
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

// next returns the additions: to the open file, and to its replacement.
func (r *logReader) next() ([]byte, error) {
	fi, err := r.fs.Lstat(r.name)
	if missing(err) && r.f == nil {
		return nil, nil
	} else if err != nil && !missing(err) {
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
	f, err := r.fs.Open(r.name)
	if missing(err) {
		return b, nil
	} else if err != nil {
		return nil, err
	}
	r.f, r.at = f, 0
	more, err := r.rest()
	return append(b, more...), err
}

// showLog prints the last lines of a log, and with follow its additions until
// ctx ends.
func (c *app) showLog(ctx context.Context, name string, lines int, follow bool) (err error) {
	r := &logReader{fs: c.fs, name: name}
	defer func() { err = errors.Join(err, r.Close()) }()
	b, err := r.last(lines)
	if missing(err) && !follow {
		return &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Path: name, Message: "no log yet: " + name, Remedy: "crabmem daemon start", Err: err}
	} else if err != nil && !missing(err) {
		return err
	}
	c.Out.WriteString(c.Text(string(b)))
	for follow {
		if err := c.Out.Flush(); err != nil {
			return err
		}
		c.Waiting.Store(true)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
		c.Waiting.Store(false)
		if b, err = r.next(); err != nil {
			return err
		}
		c.Out.WriteString(c.Text(string(b)))
	}
	return nil
}
