package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"

	"crabmem/crmem/vfs"
	"crabmem/daemon/tool"
	"crabmem/daemon/wire"
)

// Serve serves clients until ctx ends: on the sockets of the home, and over TCP
// if the configuration enables it. Then it rejects new requests, waits up to
// [limits] drain for active runs, cancels the others, and returns.
func (d *Daemon) Serve(ctx context.Context) error {
	c := d.setup().config
	var metrics net.Listener
	if c.Metrics.Listen != "" {
		var err error
		if metrics, err = wire.ListenTCP(c.Metrics.Listen); err != nil {
			return err
		}
	}
	listeners, err := d.listen(c.TCP.Listen)
	if err != nil {
		if metrics != nil {
			err = errors.Join(err, metrics.Close())
		}
		return err
	}
	server := &wire.Server{
		Handler: d.Handle, Waits: waits, Token: string(c.TCP.Token), Trust: d.trust, Log: d.log,
		Limits: wire.Limits{Header: c.Limits.FrameTimeout, Progress: c.Limits.Progress, InFlight: int64(c.Limits.InFlight), Conns: c.Limits.Connections},
	}
	var wg sync.WaitGroup
	failed := make(chan error, len(listeners)+1)
	for _, l := range listeners {
		d.log.Info("listening", "network", l.Addr().Network(), "address", l.Addr().String())
		wg.Go(func() { failed <- server.Serve(l) })
	}
	firing, stopFiring := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopFiring(nil)
	wg.Go(func() { d.firing.run(firing) })
	wg.Go(func() { d.bulletins(firing) })
	if metrics != nil {
		wg.Go(func() { failed <- d.serveMetrics(firing, metrics, server) })
	}
	for ctx.Err() == nil && err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
			if err == nil {
				err = errors.New("a listener stopped unexpectedly")
			}
		}
	}
	stopFiring(errStopping) // pending entries stay in the table
	drain := c.Limits.Drain
	d.log.Info("stopping", "drain", drain.String())
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	down := server.Shutdown(ending)
	if errors.Is(down, context.DeadlineExceeded) {
		d.log.Warn("canceled active runs", "after", drain.String())
		down = nil
	}
	wg.Wait()
	return errors.Join(err, down, d.unlisten())
}

// trust reports whether a peer of this user needs no token. Commands of a
// confined agent run as this user. They cannot reach sockets but can reach
// every port, so while such an agent exists, a port requires the token.
func (d *Daemon) trust(p wire.Peer) bool {
	if p.Network != "tcp" {
		return true
	}
	for _, s := range d.setups() {
		for _, a := range s.agents {
			if a.Scope.Confined && a.Scope.Tools.Allows(tool.Bash) {
				return false
			}
		}
	}
	return true
}

// listen opens the sockets: the one of RFC 0009, and one where the reference's
// clients look. It opens the first one last: a client that can dial it also
// finds the other one and the port file.
func (d *Daemon) listen(tcp string) (ls []net.Listener, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, l := range ls {
			err = errors.Join(err, l.Close())
		}
		ls = nil
	}()
	if tcp != "" {
		l, err := d.listenTCP(tcp)
		if err != nil {
			return ls, err
		}
		ls = append(ls, l)
	}
	for _, path := range []string{d.oldSocket(), Socket(d.home)} {
		l, err := wire.ListenUnix(d.fs, path)
		if err != nil {
			if tcp != "" {
				err = errors.Join(err, d.fs.Remove(d.portFile()))
			}
			return ls, err
		}
		ls = append(ls, l)
	}
	return ls, nil
}

// listenTCP opens the port, and writes it down for clients.
func (d *Daemon) listenTCP(address string) (net.Listener, error) {
	l, err := wire.ListenTCP(address)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err == nil {
		_, err = strconv.Atoi(port)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", l.Addr(), err), l.Close())
	}
	if err := vfs.WriteFile(d.fs, d.portFile(), 0o600, []byte(port)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	d.log.Warn("TCP is enabled: every process of this user, and everyone with the token, can use the daemon", "address", l.Addr().String())
	return l, nil
}

func (d *Daemon) oldSocket() string { return filepath.Join(d.home, "run", "crabtalk.sock") }
func (d *Daemon) portFile() string  { return filepath.Join(d.home, "run", "crabtalk.port") }

// unlisten removes the files that contain the addresses of the daemon.
func (d *Daemon) unlisten() error {
	var errs []error
	for _, name := range []string{d.portFile(), d.oldSocket(), Socket(d.home)} {
		if _, err := d.fs.Lstat(name); err == nil {
			errs = append(errs, d.fs.Remove(name))
		}
	}
	return errors.Join(errs...)
}
