package sandbox

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"crabmem/crmem/vfs"

	"golang.org/x/sys/unix"
)

// Run starts its own program again, in new user, mount, pid, and ipc
// namespaces. That process 1 covers the hidden paths (mounts_linux.go), drops
// every privilege (drop_linux.go), starts the command, and waits for it. When
// process 1 ends, the kernel kills every other process of the namespace.
//
// The command sees the user's files except the hidden ones, also where those
// are mounted a second time; a /proc with its own processes; a /dev with
// harmless devices; and the network. It cannot gain privileges, create Unix
// sockets (to the daemon, a session bus, or a terminal multiplexer that would
// run a program outside), or signal or trace a process outside.
//
// Run does not protect against
//   - hard links to hidden files that exist in other directories,
//   - a symbolic link in a hidden path, which the command may replace for
//     later readers (hide real paths),
//   - programs that the user later runs from a file that the command wrote,
//     such as ~/.bashrc,
//   - services on the network that accept the user's keys.
//
// A user namespace does not change the user. A daemon that listens on TCP
// takes the command for its own user unless it requires a token, which is
// hidden.

const remedy = "allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, " +
	"kernel.apparmor_restrict_unprivileged_userns=0; in a container also its seccomp profile), or " + removeBash

// confinedName is the argument 0 of process 1.
const confinedName = "crabmem: confined"

// Descriptors of process 1.
const (
	fdJob    descriptor = 3 // input: the job, then the end of the file when the daemon ends
	fdReport descriptor = 4 // output: the report
)

type descriptor int

func (d descriptor) Read(b []byte) (int, error) {
	for {
		switch n, err := system.read(int(d), b); {
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// confinable reports whether this process called Main. Its program then also
// calls Main when Run starts it as process 1.
var confinable atomic.Bool

// waitDelay is how long Run waits for output after process 1 has ended.
const waitDelay = 500 * time.Millisecond

// job is the part of a Command that process 1 receives.
type job struct {
	Path      string
	Args, Env []string
	Dir       string
	Hidden    []string // absolute, without links
	View      string   // absolute, without links; "" selects the profile without a view
	User      string   // name of the user in the view
}

// start copies its input to next and keeps the first bytes of it.
type start struct {
	next io.Writer // nil discards
	text []byte    // at most startSize
}

const startSize = 1 << 10

func (s *start) Write(b []byte) (int, error) {
	s.text = append(s.text, b[:min(len(b), startSize-len(s.text))]...)
	if s.next == nil {
		return len(b), nil
	}
	return s.next.Write(b)
}

// report is sent by process 1 to the daemon before it exits.
type report struct {
	Setup string // why the command was not confined
	Spawn string // why the command was not started
	Code  int    // exit code; -1 after a signal
}

// Run runs a command that does not see c.Hidden and returns its exit code, or
// -1 if a signal or the end of ctx killed it. It returns an *Error if it cannot
// confine the command, and then has not started it. Without a path, Run only
// checks that it can confine a command.
func Run(ctx context.Context, c *Command) (int, error) {
	if !confinable.Load() {
		return 0, &Error{errors.New("program does not call sandbox.Main")}
	}
	hidden, err := resolved(vfs.OS{}, c.Hidden)
	if err != nil {
		return 0, &Error{err}
	}
	j := job{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, Hidden: hidden}
	if c.View != "" {
		if err := j.setView(c.View); err != nil {
			return 0, &Error{err}
		}
	}
	var config bytes.Buffer
	if err := gob.NewEncoder(&config).Encode(j); err != nil { // JSON cannot encode names that are not UTF-8
		return 0, err
	}
	in, toChild, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	fromChild, out, err := os.Pipe()
	if err != nil {
		return 0, errors.Join(err, in.Close(), toChild.Close())
	}
	defer fromChild.Close()

	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Env, cmd.Dir = []string{confinedName}, []string{}, "/"
	stderr := new(start)
	cmd.Stdin = c.Stdin
	cmd.Stdout, cmd.Stderr = streams(c, stderr)
	cmd.ExtraFiles = []*os.File{fdJob - 3: in, fdReport - 3: out}
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = processOne()
	if c.View != "" {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	}
	err = cmd.Start()
	in.Close()
	out.Close()
	if err != nil {
		toChild.Close()
		if ctx.Err() != nil {
			return -1, nil
		}
		return 0, &Error{err}
	}
	var feed sync.WaitGroup
	feed.Go(func() { toChild.Write(config.Bytes()) }) // returns when process 1 has read the job or ended
	err = cmd.Wait()
	feed.Wait()
	toChild.Close() // from now on process 1 sees the end of the file
	if cmd.ProcessState == nil {
		return 0, err
	}
	var r report
	text, err := io.ReadAll(io.LimitReader(fromChild, 64<<10)) // process 1 had the only other end
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	switch {
	case len(text) == 0:
		if ctx.Err() != nil || c.Path != "" && cmd.ProcessState.ExitCode() == -1 {
			return -1, nil // killed
		}
		return 0, &Error{fmt.Errorf("process 1 ended: %v: %s", cmd.ProcessState, stderr.text)}
	case err != nil:
		return 0, &Error{fmt.Errorf("process 1 ended with %q: %w", text, err)}
	case r.Setup != "":
		return 0, &Error{errors.New(r.Setup)}
	case r.Spawn != "":
		return 0, errors.New(r.Spawn)
	}
	return r.Code, nil
}

// streams returns the output streams of process 1. Standard error keeps its
// beginning in s, unless a file receives it.
func streams(c *Command, s *start) (stdout, stderr io.Writer) {
	if _, ok := c.Stderr.(*os.File); ok {
		return c.Stdout, c.Stderr
	}
	s.next = c.Stderr
	if c.Stdout == c.Stderr && c.Stdout != nil {
		return s, s
	}
	return c.Stdout, s
}

// processOne returns the attributes of process 1.
func processOne() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setsid:      true,
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SETPCAP, unix.CAP_SYS_ADMIN}, // in its namespaces, until it calls drop
	}
}

// Main must be the first call in main, and in TestMain, of a program that calls
// [Run]. Run starts the program again as process 1 of each command; there, Main
// does not return.
func Main() {
	if len(os.Args) != 1 || os.Args[0] != confinedName {
		confinable.Store(true)
		return
	}
	// Namespaces belong to the process. Privileges and filters belong to the
	// thread, which therefore must start the command.
	runtime.LockOSThread()
	signal.Notify(make(chan os.Signal, 1)) // signals of the command do not end process 1
	var r report
	var j job
	if err := gob.NewDecoder(fdJob).Decode(&j); err != nil {
		r.Setup = fmt.Sprintf("read the command: %v", err)
	} else if err := confine(&j); err != nil {
		r.Setup = err.Error()
	} else if j.Path != "" {
		r.Code, err = oversee(&j)
		if err != nil {
			r.Spawn = err.Error()
		}
	}
	text, err := json.Marshal(r)
	if err == nil {
		_, err = syscall.Write(int(fdReport), text)
	}
	if err != nil {
		syscall.Exit(2)
	}
	syscall.Exit(0)
}

// oversee starts the command and waits for it and, as process 1, for every
// orphan.
func oversee(j *job) (int, error) {
	if err := syscall.Chdir(j.Dir); err != nil {
		return 0, &os.PathError{Op: "chdir", Path: j.Dir, Err: err}
	}
	if j.View != "" {
		if err := limitData(); err != nil {
			return 0, err
		}
	}
	pid, err := syscall.ForkExec(j.Path, j.Args, &syscall.ProcAttr{
		Env: j.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("fork/exec %s: %w", j.Path, err)
	}
	go func() { // until this process ends
		io.Copy(io.Discard, fdJob)
		syscall.Exit(3) // the daemon has ended
	}()
	return waitFor(pid)
}

// waitFor waits for every child until the one with a process ID ends. It returns
// the exit code of that child, or -1 after a signal.
func waitFor(pid int) (int, error) {
	for {
		var status syscall.WaitStatus
		switch ended, err := system.wait4(-1, &status, 0, nil); {
		case err == syscall.EINTR:
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case ended == pid:
			return status.ExitStatus(), nil
		}
	}
}
