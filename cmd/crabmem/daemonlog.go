package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
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
