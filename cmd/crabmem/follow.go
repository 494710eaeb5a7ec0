package main

import (
	"context"
	"errors"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/service"
)

// showLog prints the last lines of a log, and with follow its additions until
// ctx ends.
func (c *app) showLog(ctx context.Context, name string, lines int, follow bool) (err error) {
	r := &service.LogReader{FS: c.fs, Name: name}
	defer func() { err = errors.Join(err, r.Close()) }()
	b, err := r.Last(lines)
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
		if b, err = r.Next(); err != nil {
			return err
		}
		c.Out.WriteString(c.Text(string(b)))
	}
	return nil
}
