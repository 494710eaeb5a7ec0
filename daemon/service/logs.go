package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// maxTail limits the bytes that Logs reads from the end.
const maxTail = 1 << 20

// Logs writes the last lines of the service's log, and with follow those that
// are added until ctx ends.
func (s *Service) Logs(ctx context.Context, w io.Writer, lines int, follow bool) error {
	if err := s.check(); err != nil {
		return err
	}
	name, err := s.LogFile()
	if err != nil {
		return err
	}
	b, at, err := s.readFrom(name, -1)
	if errors.Is(err, fs.ErrNotExist) && !follow {
		return fmt.Errorf("no log yet: %w", err)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := w.Write(lastLines(b, lines)); err != nil {
		return err
	}
	for follow {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
		if b, at, err = s.readFrom(name, at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// readFrom returns the bytes of a file from an offset on, at most the last
// maxTail bytes, and the offset after them. -1 reads from the earliest offset.
// If the file is shorter than at, it was recreated.
func (s *Service) readFrom(name string, at int64) ([]byte, int64, error) {
	f, err := s.fs().Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if at > fi.Size() || at < 0 {
		at = 0
	}
	at = max(at, fi.Size()-maxTail)
	b, err := io.ReadAll(io.NewSectionReader(f, at, fi.Size()-at))
	return b, at + int64(len(b)), err
}

func lastLines(b []byte, n int) []byte {
	end := len(bytes.TrimSuffix(b, []byte("\n")))
	for i := 0; i < n; i++ {
		j := bytes.LastIndexByte(b[:end], '\n')
		if j < 0 {
			return b
		}
		if i == n-1 {
			return b[j+1:]
		}
		end = j
	}
	return nil
}
