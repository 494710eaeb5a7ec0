//go:build unix

package main

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// TestOtherVersion stops a daemon with another protocol, and checks the
// fix that doctor prints.
func TestOtherVersion(t *testing.T) {
	home, err := vfs.OS{}.Resolve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command("sleep", "600")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Process.Kill()
	for _, dir := range []string{"h", "h/run"} {
		if err := (vfs.OS{}).Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	home = filepath.Join(home, "h")
	l, err := wire.ListenUnix(vfs.OS{}, filepath.Join(home, "daemon.sock"))
	if err != nil {
		t.Fatal(err)
	}
	hello := responseOf(op.DaemonInfo{Protocol: pb.Version + 1, Version: "v9", PID: daemon.Process.Pid, Home: home})
	s := &wire.Server{Handler: func(_ context.Context, _ *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		_ = send(hello)
	}}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		_ = s.Shutdown(context.Background())
		<-served
	}()
	run := func(args ...string) (string, int) {
		var out bytes.Buffer
		c := newApp(strings.NewReader(""), &out, &out)
		code := c.report(c.execute(t.Context(), append(args, "--home", home)))
		return out.String(), code
	}
	const skew = "call daemon: it has version v9 and protocol 4, but this program needs protocol 3\n"
	if out, code := run("daemon", "status"); code != 8 || out != "error: "+skew+"try: run crabmem daemon stop, then crabmem daemon start\n" {
		t.Errorf("status: exit code %d: %s", code, out)
	}
	if out, _ := run("doctor"); strings.Count(out, skew) != 1 || strings.Count(out, "run crabmem daemon stop, then") != 1 {
		t.Errorf("doctor: %s", out)
	}
	if out, code := run("daemon", "stop"); code != 0 || !strings.HasPrefix(out, "stopped: pid ") {
		t.Errorf("stop: exit code %d: %s", code, out)
	}
	err = daemon.Wait()
	if e, ok := err.(*exec.ExitError); !ok || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the daemon ended with %v, want SIGTERM", err)
	}
}
