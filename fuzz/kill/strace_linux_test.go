package kill_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem"
)

var (
	faultCalls = []string{"openat", "write", "pwrite64", "fsync", "fdatasync", "renameat", "unlinkat", "ftruncate", "mkdirat", "flock"}
	faultKinds = []string{"error=EIO", "error=ENOSPC", "signal=KILL"}
)

// TestFaultMatrix fails the n-th system call of each kind in crabmem remember, or
// kills the process there. It does so without a store and with a store that has a
// log.
//
// strace counts calls by thread, but Go moves calls between threads, so the matrix
// is only a sample. The tests on faultfs.Mem enumerate all faults.
func TestFaultMatrix(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		skipWithout(t, "strace", err.Error())
	}
	bin := command(t)
	if out, err := exec.Command(strace, "-f", "-o", "/dev/null", bin, "version").CombinedOutput(); err != nil {
		skipWithout(t, "strace", fmt.Sprintf("%v: %s", err, out))
	}
	base := t.TempDir()
	holdThenDie(t, filepath.Join(base, "memory.db"))
	// A crash during a checkpoint leaves a temporary file. The next open removes it.
	if err := os.WriteFile(filepath.Join(base, ".memory.db4711"), []byte("CRMEM"), 0o600); err != nil {
		t.Fatal(err)
	}

	times := rounds(1, 12)
	runs, injected, acked := 0, make(map[string]int), 0
	codes := make(map[int]int)
	for _, call := range faultCalls {
		for _, kind := range faultKinds {
			for when := 1; when <= times; when++ {
				for _, existing := range []bool{true, false} {
					f := fault{call, kind, when, existing}
					r := f.run(t, strace, bin, base)
					runs++
					codes[r.code]++
					if r.hit {
						injected[call]++
					}
					if r.code == 0 {
						acked++
					}
					f.check(t, r)
				}
			}
		}
	}
	total := 0
	for _, call := range faultCalls {
		if injected[call] == 0 {
			t.Errorf("no fault hit %s: the matrix does not test it", call)
		}
		total += injected[call]
	}
	t.Logf("system call faults: %d runs, %d faults hit %v, %d acknowledged, 0 lost; exit codes %v (-1 = killed)", runs, total, injected, acked, codes)
}

// holdThenDie creates a store whose writer was killed, so that the next open
// recovers it.
func holdThenDie(t *testing.T, path string) {
	t.Helper()
	cmd := child("hold", path)
	line, err := firstLine(cmd)
	if err != nil || line != "ready\n" {
		t.Fatalf("the child printed %q: %v", line, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
}

// fault is a fault to inject into a system call.
type fault struct {
	call, kind string
	when       int  // number of the call, from 1
	existing   bool // whether the store exists, with an entry in its log
}

func (f fault) String() string {
	s := fmt.Sprintf("%s %s at call %d", f.call, f.kind, f.when)
	if f.existing {
		return s + " with a store"
	}
	return s + " without a store"
}

// faultRun is the result of a run under strace.
type faultRun struct {
	path   string
	code   int  // exit code; -1 if the process was killed
	hit    bool // whether strace injected the fault
	stderr string
}

// run runs crabmem remember with the fault. base is the folder of the existing
// store.
func (f fault) run(t *testing.T, strace, bin, base string) faultRun {
	t.Helper()
	dir := t.TempDir()
	r := faultRun{path: filepath.Join(dir, "home", "memory.db")}
	if f.existing {
		if err := os.CopyFS(filepath.Dir(r.path), os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(dir, "strace.log")
	cmd := exec.Command(strace, "-f", "--seccomp-bpf", "-o", log, "-e", "trace="+f.call,
		"-e", fmt.Sprintf("inject=%s:%s:when=%d", f.call, f.kind, f.when),
		bin, "--db", r.path, "remember", "new", "written under strace")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", f, err)
	}
	r.code, r.stderr = cmd.ProcessState.ExitCode(), stderr.String()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.code = -1
	}
	trace, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	r.hit = bytes.Contains(trace, []byte("(INJECTED)")) || bytes.Contains(trace, []byte("+++ killed by SIGKILL"))
	return r
}

// notApplied matches the error of a write that was not applied. A warning that contains the
// words is about the checkpoint after the write: strace counts the calls of each thread, so
// a second fault may hit it.
var notApplied = regexp.MustCompile(`(?m)^error: .*not applied`)

// check checks the result of a run and the store against the contract of exit
// codes.
func (f fault) check(t *testing.T, r faultRun) {
	t.Helper()
	killed := strings.HasPrefix(f.kind, "signal")
	if !slices.Contains([]int{0, 1, 6}, r.code) && (r.code != -1 || !killed) {
		t.Errorf("%s: exit code %d: %s", f, r.code, r.stderr)
	}
	if r.code > 0 && r.stderr == "" && f.call != "write" { // the fault may have hit the error message
		t.Errorf("%s: exit code %d without an error message", f, r.code)
	}
	if strings.Contains(r.stderr, "goroutine ") {
		t.Errorf("%s: crabmem panicked: %s", f, r.stderr)
	}
	got, err := entriesAfter(r.path)
	if err != nil {
		t.Errorf("%s (exit %d, %s): %v", f, r.code, r.stderr, err)
		return
	}
	if f.existing && got["held"] != "by the child" {
		t.Errorf("%s (exit %d): the old entry is lost", f, r.code)
	}
	text, written := got["new"]
	switch {
	case written && text != "written under strace":
		t.Errorf("%s (exit %d): the entry contains %q", f, r.code, text)
	case r.code == 0 && !written:
		t.Errorf("%s: the acknowledged entry is lost", f)
	case r.code == 1 && notApplied.MatchString(r.stderr) && written:
		t.Errorf("%s: reported %q, but the entry was written", f, r.stderr)
	}
	checkHealthy(t, r.path)
}

// entriesAfter returns the contents of the entries, by name. A missing file is an
// empty store.
func entriesAfter(path string) (map[string]string, error) {
	m := make(map[string]string)
	err := readStore(path, func(s *crmem.Store) error {
		for e := range s.All() {
			m[e.Name] = e.Content
		}
		return nil
	})
	return m, err
}
