package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/doctor"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
)

// localOrDaemon is [client.Access.LocalOrDaemon].
func (c *app) localOrDaemon(ctx context.Context, local func() error, serves func(client.Daemon) bool, remote func(*client.Client) error) error {
	a := c.access()
	return a.LocalOrDaemon(ctx, local, serves, func(d *client.Client) error {
		d.Space = c.space
		return remote(d)
	})
}

// lockStep is the wait for a lock in one attempt.
func (c *app) lockStep() time.Duration {
	a := c.access()
	return a.Step()
}

// withDaemon runs f with a client of the daemon of this home, which the command
// needs. The daemon must respond within client.HelloWait; requests in f end when its
// process stops.
func (c *app) withDaemon(ctx context.Context, f func(d *client.Client) error) error {
	d := c.client()
	// Ping, because daemons of other programs do not have Hello.
	waiting, cancel := context.WithTimeout(ctx, client.HelloWait)
	err := d.Ping(waiting)
	cancel()
	switch {
	case client.IsTimeout(ctx, err):
		err = c.unresponsive(c.daemonPID(d.Addr.Address), client.HelloWait, err)
	case err == nil:
		err = f(d)
	}
	return client.Unreachable(errors.Join(err, d.Close()))
}

// describe adds to f the fields of an error that the daemon reported and that are
// not in its row.
func describe(f *cli.Failure, e *client.Error) {
	f.Message = strings.Replace(f.Message, e.Error(), e.Message, 1)
	if ps, ok := errors.AsType[config.Problems](doctor.ConfigError(e)); ok {
		describeConfig(f, ps)
		if slices.ContainsFunc(ps, config.Problem.IsVariable) {
			f.Remedy += doctor.DaemonVariables
		}
	}
	if f.Path == "" {
		f.Path = e.Path
	}
	if f.Offset == nil {
		f.Offset = e.Offset
	}
}
