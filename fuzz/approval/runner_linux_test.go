package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	rules "crabmem/daemon/approval"
	"crabmem/daemon/sandbox"
	"crabmem/daemon/tool"

	"golang.org/x/sys/unix"
)

// envRun is the variable with the file of a batch. This program then runs the batch.
const envRun = "CRABMEM_APPROVAL_BATCH"

func TestMain(m *testing.M) {
	sandbox.Main()
	if path := os.Getenv(envRun); path != "" {
		if err := runBatch(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// batch is commands to run under strace.
type batch struct {
	Dir, Home string
	Items     []item
	Control   string // name of a control; "" runs the lines as the daemon does
}

// item is a command that runs by itself.
type item struct {
	Text string
	Line rules.Line
}

// outcome is the output of a command.
type outcome struct {
	Code   int
	Output []byte
	Err    string
}

// timeout ends a command that waits, such as tail -f. It is far above the time of any
// other command.
const timeout = 20 * time.Second

// runBatch runs the commands of a batch, with a mark before and after each, and writes
// the outcomes next to the batch.
func runBatch(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var b batch
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	var list []outcome
	for i, it := range b.Items {
		setMark(fmt.Sprint(i))
		o, err := b.run(it)
		setMark("end")
		if err != nil {
			o.Err = err.Error()
		}
		list = append(list, o)
	}
	if data, err = json.Marshal(list); err != nil {
		return err
	}
	return os.WriteFile(path+".out", data, 0o600)
}

// setMark makes a system call that readTrace recognizes.
func setMark(name string) {
	if fd, err := unix.Openat(unix.AT_FDCWD, mark+name, unix.O_RDONLY, 0); err == nil {
		panic(fmt.Sprintf("%s%s exists: descriptor %d", mark, name, fd))
	}
}

func (b *batch) run(it item) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if control, ok := controls[b.Control]; ok {
		return control.run(ctx, b.Dir, it)
	}
	var out bytes.Buffer
	o.Code, err = tool.RunLine(ctx, it.Line, tool.LineOptions{
		Dir: b.Dir, Env: os.Environ(), Hidden: []string{b.Home}, Stdout: &out, Stderr: &out,
	})
	o.Output = out.Bytes()
	return o, err
}

// strace runs the batch of a file, writes its trace to log, and returns what both print. If
// strace dies, the programs that it traced do not end, so strace kills them.
func strace(own, log, batch string) ([]byte, error) {
	cmd := exec.Command("strace", "-f", "-q", "-v", "-y", "-xx", "-s", "1048576", "--seccomp-bpf", "-o", log, "-e", "trace="+systemCalls, own)
	cmd.Env = append(os.Environ(), envRun+"="+batch)
	cmd.WaitDelay = timeout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	return out, err
}

// traced runs a batch under strace and returns the trace and outcome of each command.
func (b *batch) traced(t testing.TB) ([]*trace, []outcome) {
	t.Helper()
	dir := t.TempDir()
	path, log := filepath.Join(dir, "batch"), filepath.Join(dir, "strace")
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for try := 1; ; try++ {
		out, err := strace(own, log, path)
		if err == nil {
			break
		}
		if ee, ok := errors.AsType[*exec.ExitError](err); try == 3 || !errors.Is(err, exec.ErrWaitDelay) && !(ok && ee.ExitCode() < 0) {
			t.Fatalf("strace: %v: %s", err, out)
		}
		t.Logf("strace died, and the batch runs again: %v: %s", err, out)
	}
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	traces, err := readTrace(f, own)
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []outcome
	if data, err = os.ReadFile(path + ".out"); err == nil {
		err = json.Unmarshal(data, &outcomes)
	}
	if err != nil {
		t.Fatal(err)
	}
	list := make([]*trace, len(b.Items))
	for i := range list {
		if list[i] = traces[fmt.Sprint(i)]; list[i] == nil {
			t.Fatalf("the trace has no mark %d", i)
		}
	}
	if len(outcomes) != len(list) {
		t.Fatalf("%d outcomes of %d commands", len(outcomes), len(list))
	}
	return list, outcomes
}

// shown returns the programs of a line.
func shown(line rules.Line) (list []program) {
	for _, p := range line {
		for _, c := range p.Commands {
			if c.Path != "" {
				list = append(list, program{path: c.Path, argv: c.Words})
			}
		}
	}
	return list
}

// describe returns a text with its invisible characters escaped.
func describe(text string) string { return strings.Trim(fmt.Sprintf("%+q", text), `"`) }
