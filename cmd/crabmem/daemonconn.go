package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/errtable"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// helloWait is how long a daemon that listens may take to say who it is.
const helloWait = 5 * time.Second

// minHelloWait is the lower limit of helloTimeout: a daemon that runs on a busy
// machine must be able to respond.
const minHelloWait = time.Second

// helloTimeout returns how long a command waits for the daemon's Hello if left
// remains of its --lock-wait.
func helloTimeout(left time.Duration) time.Duration {
	return min(helloWait, max(left, minHelloWait))
}

// tryWait is how long a lock is waited for before it is looked who has it.
const tryWait = 50 * time.Millisecond

// holderOf returns the daemon that has a lock, when the error says that somebody
// has and the daemon is of that place: ours tells by what it answers. nil is
// anybody else, and a daemon that has gone. hung is set if the daemon did not
// respond within wait.
func (c *app) holderOf(ctx context.Context, err error, wait time.Duration, ours func(*pb.HelloReply) bool) (d *client.Client, hung bool, _ error) {
	locked, ok := errors.AsType[*vfs.LockedError](err)
	if !ok || locked.Holder.Socket == "" {
		return nil, false, nil
	}
	d = c.watched(&client.Client{Addr: wire.Addr{Network: "unix", Address: locked.Holder.Socket}})
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	hello, err := c.hello(waiting, d)
	if err == nil && ours(hello) {
		return d, false, nil
	}
	if skew, ok := errors.AsType[*client.SkewError](err); ok {
		err = errors.Join(d.Close(), skew)
		return nil, false, needs(err)
	}
	return nil, noResponse(ctx, err), d.Close()
}

// handOver does something under a lock or, when a daemon has that, has the
// daemon do it. It waits for anybody else, and for a daemon that comes or goes,
// as long as --lock-wait says. try waits for the lock for tryWait at most.
func (c *app) handOver(ctx context.Context, try func() error, ours func(*pb.HelloReply) bool, ask func(*client.Client) error) error {
	end := time.Now().Add(c.lockWait)
	var lost *unanswered
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		err := try()
		if !errors.Is(err, vfs.ErrLocked) {
			return err
		}
		d, hung, derr := c.holderOf(ctx, err, helloTimeout(time.Until(end)), ours)
		if derr != nil {
			return derr
		}
		if d != nil {
			if derr = errors.Join(ask(d), d.Close()); !unsent(derr) {
				return derr
			}
			if u, ok := errors.AsType[*unanswered](derr); ok {
				lost = u
			}
		}
		if !time.Now().Before(end) {
			if lost != nil {
				return lostAnswer(lost.error)
			}
			return c.lockedBy(err, hung)
		}
	}
}

// lockStep is how long one try waits for a lock.
func (c *app) lockStep() time.Duration { return min(c.lockWait, tryWait) }

// unsent reports whether a request did not get to the daemon: it can be made
// again, of whoever comes after it.
func unsent(err error) bool {
	if errors.As(err, new(*client.NoDaemonError)) || errors.As(err, new(*unanswered)) {
		return true
	}
	e, ok := errors.AsType[*net.OpError](err)
	return ok && (e.Op == "dial" || e.Op == "write")
}

// unanswered is an error of a request that may be made again whatever became of
// it: the second time it changes nothing.
type unanswered struct{ error }

func (e *unanswered) Unwrap() error { return e.error }

// again is lostAnswer for such requests.
func again(err error) error {
	if f, ok := errors.AsType[*cli.Failure](lostAnswer(err)); ok && f.Kind == "outcome_unknown" {
		return &unanswered{err}
	}
	return err
}

// lostAnswer is an error of a request that got to the daemon, or may have, and
// was not answered.
func lostAnswer(err error) error {
	var said *client.Error
	if err == nil || unsent(err) || errors.As(err, &said) || errors.Is(err, context.Canceled) || errors.As(err, new(*interrupted)) {
		return err
	}
	if f, ok := errors.AsType[*cli.Failure](err); ok && isUnresponsive(err) {
		return &cli.Failure{Code: cli.ExitUnknown, Kind: "outcome_unknown", Message: "wait for response: outcome unknown: " + f.Message,
			Remedy: f.Remedy + "; then check whether the change was made before you retry", Err: err}
	}
	return &cli.Failure{Code: cli.ExitUnknown, Kind: "outcome_unknown", Message: "the daemon went away before it answered: " + err.Error(),
		Remedy: "look whether it happened before you do it again; crabmem daemon start", Err: err}
}

// needs gives the error of a command that needs a daemon its code.
func needs(err error) error {
	switch {
	case errors.As(err, new(*client.NoDaemonError)):
		return unreachable(err)
	case errors.As(err, new(*client.SkewError)):
		return &cli.Failure{Code: cli.ExitUnreachable, Kind: "daemon_version", Message: err.Error(), Remedy: "crabmem daemon stop, then crabmem daemon start", Err: err}
	case unsent(err):
		return &cli.Failure{Code: cli.ExitUnreachable, Kind: "no_daemon", Message: err.Error(), Remedy: "crabmem daemon start", Err: err}
	}
	return err
}

// asking runs f with a client of the daemon of this home, which the command
// needs. The daemon must respond within helloWait; requests in f end when its
// process stops.
func (c *app) asking(ctx context.Context, f func(d *client.Client) error) error {
	d, err := c.client()
	if err != nil {
		return err
	}
	// Ping, because daemons of other programs do not have Hello.
	waiting, cancel := context.WithTimeout(ctx, helloWait)
	err = d.Ping(waiting)
	cancel()
	switch {
	case noResponse(ctx, err):
		err = c.unresponsive(c.daemonPID(d.Addr.Address), helloWait, err)
	case err == nil:
		err = f(d)
	}
	return needs(errors.Join(err, d.Close()))
}

// describe adds to f the fields of an error that the daemon reported.
func describe(f *cli.Failure, e *client.Error) {
	f.Message = strings.Replace(f.Message, e.Error(), e.Message, 1)
	if f.Kind == errtable.Failed && e.Kind != "" {
		f.Kind, f.Code = e.Kind, errtable.ExitFor(e.Code)
	}
	if e.Kind == "config" {
		f.Code, f.Remedy = cli.ExitFailure, mendConfig
		if json.Valid(e.Details) {
			f.More = json.RawMessage(e.Details)
		}
	}
	if e.ExitCode > 0 {
		f.Code = e.ExitCode
	}
	if f.Path == "" {
		f.Path = e.Path
	}
	if f.Offset == nil {
		f.Offset = e.Offset
	}
	if e.Remedy != "" {
		f.Remedy = e.Remedy
	}
	f.Warnings = append(f.Warnings, e.Warnings...)
}
