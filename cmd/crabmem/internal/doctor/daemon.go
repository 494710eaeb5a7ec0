package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// checkSocket looks who listens where the daemon does.
func (d *doctor) checkSocket(ctx context.Context) {
	path := d.Client.Addr.Address
	good := true
	for _, name := range []string{path, filepath.Join(d.Home, "run", "crabtalk.sock")} {
		if fi, err := d.FS.Lstat(name); err == nil && fi.Mode()&fs.ModeSocket == 0 && isUnix {
			good = false
			d.fail("socket", "move the file: mv "+errtable.ShellWord(name)+" "+errtable.ShellWord(name+".old"), "listen on %s: not a socket", name)
		}
	}
	if !good {
		return
	}
	wait, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	hello, err := d.Client.Hello(wait)
	var none *client.NoDaemonError
	switch {
	case err == nil:
		d.hello = &hello
		d.ok("socket", "%s", path)
		return
	case errors.As(err, &none):
		if _, err := d.FS.Lstat(path); err == nil {
			d.warn("socket", "run crabmem daemon start to replace it", "%s has no listener: a killed daemon left it", path)
		} else {
			d.ok("socket", "no daemon listens")
		}
	case errors.As(err, new(*client.SkewError)):
		d.broken("daemon", client.Unreachable(err))
	case ctx.Err() != nil:
	case errors.Is(err, context.DeadlineExceeded):
		d.fail("socket", "stop the listener; see crabmem daemon logs", "%s: the listener did not respond within %v", path, d.Timeout)
	case errors.Is(err, syscall.ENAMETOOLONG):
		d.fail("socket", "set another home with --home or CRABTALK_HOME", "the daemon cannot listen: %v", err)
	default:
		d.fail("socket", "stop the listener, or set another home with --home or CRABTALK_HOME", "%s: another program answers: %v", path, err)
	}
}

// checkDaemon looks whether the daemon that answers is this program's, and of
// this home; or who has the home when none answers.
func (d *doctor) checkDaemon(context.Context) {
	if d.hello == nil {
		h, err := d.holder(filepath.Join(d.Home, "run", "daemon.lock"))
		switch {
		case err != nil:
			d.broken("daemon", err)
		case h != nil:
			d.hung = h.PID
			state, fix := "", "run crabmem daemon logs; stop pid "+strconv.Itoa(h.PID)+", then run crabmem daemon start"
			if h.PID > 0 && h.Boot == d.FS.BootID() {
				state, fix = d.DescribeProcess(h.PID)
			}
			if state != "" {
				state = ": pid " + strconv.Itoa(h.PID) + " " + state
			}
			d.fail("daemon", fix, "a daemon (pid %d) holds the home, but does not answer%s", h.PID, state)
		default:
			d.ok("daemon", "not running; run crabmem daemon start to start it")
		}
		return
	}
	const again = "run crabmem daemon stop, then run crabmem daemon start"
	real, err := d.FS.Resolve(d.Home)
	switch {
	case err == nil && d.hello.Home != real:
		d.warn("daemon", "unset CRABMEM_SOCKET, or set CRABTALK_HOME to that home", "the daemon that answers belongs to another home: %s", d.hello.Home)
	case d.hello.Store != d.Store:
		d.warn("daemon", "set --db or CRABMEM_DB to that store, or restart the daemon with this store", "the daemon uses another store: %s", d.hello.Store)
	case d.hello.Version != d.Version:
		d.warn("daemon", again, "the daemon has version %s, but this program has version %s", d.hello.Version, d.Version)
	default:
		d.ok("daemon", "pid %d, since %s", d.hello.PID, d.hello.StartedAt)
	}
}

const (
	maxPorts = 100 // files that are looked into
	portWait = time.Second
)

// checkPorts reports port files of components whose port has no listener.
func (d *doctor) checkPorts(ctx context.Context) {
	dir := filepath.Join(d.Home, "run")
	list, err := d.FS.ReadDir(dir)
	if err != nil && !missing(err) {
		d.broken("components", err)
		return
	}
	seen, bad := 0, 0
	for _, e := range list {
		name := filepath.Join(dir, e.Name())
		component, ok := strings.CutSuffix(e.Name(), ".port")
		if !ok || component == "" || seen == maxPorts {
			continue
		}
		seen++
		b, err := vfs.ReadFile(d.FS, name, 64)
		if missing(err) {
			continue
		}
		port := strings.TrimSpace(string(b))
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 {
			bad++
			d.warn("components", "run rm "+errtable.ShellWord(name)+", and start the component again", "%s contains no port", name)
			continue
		}
		wait, cancel := context.WithTimeout(ctx, min(portWait, d.Timeout))
		conn, err := new(net.Dialer).DialContext(wait, "tcp", net.JoinHostPort("127.0.0.1", port))
		cancel()
		if err != nil {
			bad++
			d.warn("components", "start "+component+" again, or run rm "+errtable.ShellWord(name), "%s contains port %s, which has no listener", name, port)
			continue
		}
		conn.Close()
	}
	if bad == 0 {
		d.ok("components", "%s", display.Plural(seen, "port file", "port files"))
	}
}
