package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"crabmem/bench/gate"
	"crabmem/cmd/crabmem/internal/cli"
)

// stoppableDaemon is a daemon in a process of its own.
type stoppableDaemon struct {
	t    *testing.T
	file string
	env  []string
	home string
	cmd  *exec.Cmd
}

func startStoppable(t *testing.T) *stoppableDaemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "crab") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	d := &stoppableDaemon{t: t, home: filepath.Join(dir, "home")}
	d.file, d.env = program(t)
	d.cmd = exec.Command(d.file, "daemon", "--home", d.home)
	d.cmd.Env = d.env
	d.cmd.Stderr = t.Output()
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		os.RemoveAll(dir)
	})
	gate.Until(t, "the daemon responds", func() bool { _, _, code := d.run("", "ping"); return code == 0 })
	return d
}

// stop sends SIGSTOP and waits until the process is stopped.
func (d *stoppableDaemon) stop() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		d.t.Fatal(err)
	}
	gate.Until(d.t, "the daemon is stopped", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
		if err != nil {
			d.t.Fatal(err)
		}
		return strings.Contains(string(b), ") T ")
	})
}

func (d *stoppableDaemon) command(ctx context.Context, stdin string, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, d.file, append(args, "--home", d.home)...)
	cmd.Env = d.env
	var out, diag bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &diag
	return cmd, &out, &diag
}

func (d *stoppableDaemon) run(stdin string, args ...string) (stdout, stderr string, code int) {
	ctx, cancel := context.WithTimeout(d.t.Context(), gate.Hang)
	defer cancel()
	cmd, out, diag := d.command(ctx, stdin, args...)
	if err := cmd.Run(); cmd.ProcessState == nil {
		d.t.Error(err)
		return "", "", -1
	}
	return out.String(), diag.String(), cmd.ProcessState.ExitCode()
}

// says checks that a text names the process, its state, and a command that
// continues it.
func (d *stoppableDaemon) says(t *testing.T, what, text string) {
	t.Helper()
	pid := d.cmd.Process.Pid
	for _, want := range []string{fmt.Sprintf("pid %d", pid), "stopped (SIGSTOP)", fmt.Sprintf("kill -CONT %d", pid)} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: no %q in the output: %s", what, want, text)
		}
	}
}

// TestStoppedDaemon stops the process of a daemon. Each command that needs the
// daemon exits by itself and prints pid, state, and a fix.
func TestStoppedDaemon(t *testing.T) {
	t.Parallel()
	d := startStoppable(t)
	if out, diag, code := d.run("", "remember", "tea", "green"); code != 0 {
		t.Fatalf("exit code %d: %s%s", code, out, diag)
	}
	out, diag, code := d.run("", "send", "--json", "--new", "--model", "offline", "which tea?")
	var sent struct {
		Stored string `json:"stored_id"`
	}
	if err := json.Unmarshal([]byte(out), &sent); err != nil || code != 0 || sent.Stored == "" {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, diag)
	}
	d.stop()
	var all sync.WaitGroup // not t.Parallel: the commands wait, and need few processors
	defer all.Wait()
	for _, test := range []struct {
		stdin string
		args  []string
		code  int
	}{
		{"", []string{"ping"}, cli.ExitUnreachable},
		{"", []string{"daemon", "status"}, cli.ExitUnreachable},
		{"", []string{"daemon", "status", "--json"}, cli.ExitUnreachable},
		{"", []string{"daemon", "stop"}, cli.ExitUnreachable},
		{"", []string{"daemon", "start"}, cli.ExitUnreachable},
		{"", []string{"events"}, cli.ExitUnreachable},
		{"", []string{"events", "--for", "1s"}, cli.ExitUnreachable},
		{"", []string{"agents"}, cli.ExitUnreachable},
		{"", []string{"models", "list"}, cli.ExitUnreachable},
		{"", []string{"cron", "list"}, cli.ExitUnreachable},
		{"", []string{"compact", sent.Stored}, cli.ExitUnreachable},
		{"", []string{"config", "set", "system.crab.thinking", "true"}, cli.ExitUnreachable},
		{"", []string{"send", "hello"}, cli.ExitUnreachable},
		{"", []string{"send", "--model", "offline", "hello"}, cli.ExitUnreachable},
		{"hello\n", []string{"chat"}, cli.ExitUnreachable},
		{"", []string{"remember", "tea", "black", "--lock-wait", "1s"}, cli.ExitConflict},
		{"", []string{"remember", "tea", "black", "--lock-wait", "0s"}, cli.ExitConflict},
		{"", []string{"forget", "tea", "--lock-wait", "1s", "--json"}, cli.ExitConflict},
		{"", []string{"checkpoint", "--lock-wait", "1s"}, cli.ExitConflict},
		{"", []string{"repair", "--lock-wait", "1s"}, cli.ExitConflict},
		{"", []string{"sessions", "title", sent.Stored, "tea", "--lock-wait", "1s"}, cli.ExitConflict},
		{"", []string{"recall", "tea"}, 0},
		{"", []string{"stats"}, 0},
		{"", []string{"doctor", "--timeout", "1s"}, cli.ExitFailure},
	} {
		all.Go(func() {
			out, diag, code := d.run(test.stdin, test.args...)
			line := strings.Join(test.args, " ")
			if code != test.code {
				t.Errorf("%s: exit code %d, want %d: %s%s", line, code, test.code, out, diag)
			}
			d.says(t, line, out+diag)
		})
	}
}

// TestDaemonStopsDuringRequest stops the process of a daemon while a command
// receives events. The command ends by itself.
func TestDaemonStopsDuringRequest(t *testing.T) {
	t.Parallel()
	d := startStoppable(t)
	ctx, cancel := context.WithTimeout(t.Context(), gate.Hang)
	defer cancel()
	cmd, out, diag := d.command(ctx, "", "events")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitSubscribers(t, d.file, d.env, 1, "--home", d.home)
	d.stop()
	_ = cmd.Wait() // the exit code is checked
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitUnreachable {
		t.Errorf("exit code %d, want %d: %s%s", code, cli.ExitUnreachable, out, diag)
	}
	d.says(t, "events", diag.String())
}
