//go:build linux

package vfs_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
)

// TestLockOfReplacedFile replaces or removes the lock file after a process opens
// it and before the process locks it. Two processes must never hold the lock of
// one name.
func TestLockOfReplacedFile(t *testing.T) {
	if name := os.Getenv("CRABMEM_LOCK"); name != "" {
		lockChild(name)
		os.Exit(0)
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("SKIPPED: strace is not installed")
	}
	for _, c := range []struct {
		name    string
		wantErr string // text in the expected error; "" = the process may also get the lock
		change  func(name string) error
	}{
		{"unchanged", "", func(string) error { return nil }},
		{"removed", ": locked", os.Remove}, // Acquire tries again
		{"replaced", "", func(name string) error {
			return errors.Join(os.WriteFile(name+".new", nil, 0o600), os.Rename(name+".new", name))
		}},
		{"removed and created", "", func(name string) error {
			return errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o600))
		}},
		{"replaced by a directory", "not a regular file", func(name string) error {
			return errors.Join(os.Remove(name), os.Mkdir(name, 0o700))
		}},
		{"replaced by a link", "not a regular file", func(name string) error {
			return errors.Join(os.Rename(name, name+".old"), os.Symlink(name+".old", name))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "lock")
			got := lockDuring(t, strace, name, c.change)
			refusal, refused := strings.CutPrefix(got, "refused: ")
			switch {
			case refused && (c.name == "unchanged" || !strings.Contains(refusal, c.wantErr)),
				!refused && (got != "locked" || c.wantErr != ""):
				t.Errorf("the process printed %q, want %q", got, c.wantErr)
				return
			case refused:
				return
			}
			l, err := vfs.OS{}.Lock(name)
			if err == nil {
				t.Errorf("the process printed %q, and a second process got the lock", got)
				l.Unlock()
			}
		})
	}
}

// lockChild reads a line from stdin, locks name, and prints the result. It holds
// the lock until the next line or the end of stdin.
func lockChild(name string) {
	unix.Prctl(unix.PR_SET_PTRACER, unix.PR_SET_PTRACER_ANY, 0, 0, 0) // without this, strace needs root
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	in.ReadString('\n')
	if _, err := (vfs.OS{}).Lock(name); err != nil {
		fmt.Println("refused:", err)
	} else {
		fmt.Println("locked")
	}
	in.ReadString('\n')
}

// lockDuring starts a process that locks name, stops it between the open and
// the lock, calls change, and returns what the process prints. The process
// ends with the test.
func lockDuring(t *testing.T, strace, name string, change func(string) error) string {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestLockOfReplacedFile$")
	cmd.Env = append(os.Environ(), "CRABMEM_LOCK="+name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	guard := time.AfterFunc(gate.Hang, func() { cmd.Process.Kill() })
	defer guard.Stop()
	out := bufio.NewReader(stdout)
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the process printed %q, %v", line, err)
	}
	// The delay ends when strace detaches.
	tracer := exec.Command(strace, "-f", "-e", "trace=flock", "-e", "inject=flock:delay_enter=300000000", "-p", strconv.Itoa(cmd.Process.Pid))
	stderr, err := tracer.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(stderr).ReadString('\n'); !strings.Contains(line, "attached") {
		tracer.Wait()
		t.Skipf("SKIPPED: strace cannot attach: %s", line)
	}
	go io.Copy(io.Discard, stderr)
	fmt.Fprintln(in, "lock")
	gate.Until(t, "the lock file exists", func() bool { _, err := os.Lstat(name); return err == nil })
	err = change(name)
	tracer.Process.Signal(os.Interrupt)
	tracer.Wait()
	if err != nil {
		t.Fatal(err)
	}
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatalf("the process printed %q, %v", line, err)
	}
	return strings.TrimSpace(line)
}
