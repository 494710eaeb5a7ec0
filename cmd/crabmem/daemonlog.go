package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/service"
)

// showLog prints the last lines of a log. If follow is set, it then prints new lines
// until ctx ends.
func (c *app) showLog(ctx context.Context, name string, lines int, follow bool) (err error) {
	r := &service.LogReader{FS: c.fs, Name: name}
	defer func() { err = errors.Join(err, r.Close()) }()
	b, err := r.Last(lines)
	if missing(err) && !follow {
		return &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Path: name, Message: "no log yet: " + name, Remedy: "crabmem daemon start", Err: err}
	} else if err != nil && !missing(err) {
		return err
	}
	part := c.writeLog(b)
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
		if b, err = r.Next(); err != nil {
			return err
		}
		part = c.writeLog(append(part, b...))
	}
	c.writeLog(append(part, '\n'))
	return nil
}

// writeLog prints the complete lines of b and returns the rest.
func (c *app) writeLog(b []byte) (rest []byte) {
	for {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			return b
		}
		b = rest
		text := string(line)
		if !c.JSON {
			text = logLine(line)
		}
		if text != "" {
			c.Out.WriteString(c.Text(text) + "\n")
		}
	}
}

// logLine returns a line of the daemon's log as text: the local time, the level, the
// message, and the attributes in their order. It returns any other line unchanged.
func logLine(line []byte) string {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return string(line)
	}
	var at, level, msg string
	var attrs strings.Builder
	for dec.More() {
		key, err := dec.Token()
		var raw json.RawMessage
		if err = errors.Join(err, dec.Decode(&raw)); err != nil {
			return string(line)
		}
		value := string(raw)
		var s string
		isText := json.Unmarshal(raw, &s) == nil
		switch key {
		case "time":
			if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
				at = t.Local().Format("2006-01-02 15:04:05 MST")
				continue
			}
		case "level":
			level = s
			continue
		case "msg":
			msg = s
			continue
		}
		if isText {
			value = s
			if s == "" || strings.ContainsAny(s, " =\"\n\r\t") {
				value = strconv.Quote(s)
			}
		}
		fmt.Fprintf(&attrs, "  %s=%s", key, value)
	}
	if at == "" || msg == "" {
		return string(line)
	}
	return fmt.Sprintf("%s  %-5s  %s%s", at, level, msg, attrs.String())
}

// rotatingLog is a log that is renamed to NAME.1 when it is long; the previous
// NAME.1 becomes NAME.2, and so on. Only the lock holder of the home rotates
// it: a daemon that finds another one writes a line, and does not rotate the
// files.
//
// lumberjack names old logs by time and limits them by megabytes, loses the
// line if a rotation fails, and keeps a goroutine after Close.
type rotatingLog struct {
	fs   vfs.FS
	name string

	mu   sync.Mutex
	f    vfs.File
	size int64
	max  int64 // 0 = it is not rotated
	keep int   // number of rotated files
}

// openLog opens a log to append to.
func (c *app) openLog(name string) (*rotatingLog, error) {
	if err := vfs.MkdirAll(c.fs, filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	l := &rotatingLog{fs: c.fs, name: name}
	return l, l.open()
}

func (l *rotatingLog) open() error {
	f, err := l.fs.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.f, l.size = f, fi.Size()
	return nil
}

// rotate enables rotation before the log exceeds max bytes; keep is the number
// of old files.
func (l *rotatingLog) rotate(max int64, keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max, l.keep = max, keep
}

// Write appends a line. If the rotation fails, it continues in the same file.
func (l *rotatingLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	if l.max > 0 && l.size > 0 && l.size+int64(len(line)) > l.max {
		l.setAside()
		if l.f == nil {
			if err := l.open(); err != nil {
				return 0, err
			}
		}
	}
	n, err := l.f.Write(line)
	l.size += int64(n)
	return n, err
}

// setAside closes the log, and renames it and the rotated logs. On an error it
// opens the log again; the next attempt is after the log has grown by its size
// again.
func (l *rotatingLog) setAside() {
	l.f.Close() //nolint:errcheck // it is not written to again
	l.f = nil
	var err error
	if l.keep == 0 {
		err = l.fs.Remove(l.name)
	}
	for n := l.keep - 1; n >= 0 && err == nil; n-- {
		if err = l.fs.Rename(l.aside(n), l.aside(n+1)); missing(err) {
			err = nil
		}
	}
	if err != nil && l.open() == nil {
		l.size = 0
	}
}

// aside is the n-th log that was set aside; 0 is the log itself.
func (l *rotatingLog) aside(n int) string {
	if n == 0 {
		return l.name
	}
	return l.name + "." + strconv.Itoa(n)
}

func (l *rotatingLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}
