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

	"golang.org/x/sys/unix"
)

// How a confined command is run. The daemon starts its own program again, in
// new user, mount, pid and ipc namespaces. There, as process 1, it covers what
// is hidden (mounts_linux.go), lets go of every privilege
// (drop_linux.go), starts bash and waits for it. With process 1 every
// other of the namespace ends, wherever it put itself.
//
// What the command then has: the user's files less what is hidden, wherever
// else that is mounted; a /proc of its own processes; a /dev of the harmless
// devices; the network. It cannot gain privileges, make Unix sockets (neither
// the daemon's, nor a session bus or a terminal multiplexer that would run
// something outside for it), signal or trace anything outside.
//
// What it does not keep away: hard links to hidden files that are already
// elsewhere; a link on the way to what is hidden, which the command may point
// elsewhere for those who come after (hide real paths); what the user runs later from a file the command wrote, such as
// ~/.bashrc; what the network gives to the user's own keys. A user namespace
// does not change the user: a daemon that listens on TCP takes the command
// for its own user, unless it asks for a token, which is hidden.

const confineRemedy = "allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, " +
	"kernel.apparmor_restrict_unprivileged_userns=0; in a container also its seccomp profile), or " + confineNever

// confinedName is what this program is called, in its arguments, as process 1
// of a confined command.
const confinedName = "crabmem: confined"

// Descriptors of process 1.
const (
	fdJob    descriptor = 3 // the job comes from here; it ends when the daemon has
	fdReport descriptor = 4 // the report goes here
)

type descriptor int

func (d descriptor) Read(b []byte) (int, error) {
	for {
		switch n, err := syscall.Read(int(d), b); {
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

// confinable is set once this process has called ConfinedMain: then the program
// does so when it is started for a confined command, too.
var confinable atomic.Bool

// waitDelay is how long Run waits for output after process 1 ended.
const waitDelay = 500 * time.Millisecond

// job is the part of a Command that process 1 receives.
type job struct {
	Path      string
	Args, Env []string
	Dir       string
	Hidden    []string // absolute, without links
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

// report is what process 1 tells the daemon, at its end.
type report struct {
	Setup string // why nothing was run
	Spawn string // why bash was not started
	Code  int    // of bash; -1 when a signal ended it
}

// Run runs a command as runPlain does, where c.Hidden is not seen. A
// command without a path does nothing.
func Run(ctx context.Context, c *Command) (int, error) {
	if !confinable.Load() {
		return 0, &ConfineError{errors.New("this program does not call sandbox.ConfinedMain")}
	}
	hidden, err := resolved(c.Hidden)
	if err != nil {
		return 0, &ConfineError{err}
	}
	j := job{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, Hidden: hidden}
	var config bytes.Buffer
	if err := gob.NewEncoder(&config).Encode(j); err != nil { // JSON would not keep names that are no UTF-8
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
	stderr := &start{next: c.Stderr}
	cmd.Stdout, cmd.Stderr = c.Stdout, stderr
	cmd.ExtraFiles = []*os.File{fdJob - 3: in, fdReport - 3: out}
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:      true,
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SETPCAP, unix.CAP_SYS_ADMIN}, // in its namespaces, until drop
	}
	err = cmd.Start()
	in.Close()
	out.Close()
	if err != nil {
		toChild.Close()
		if ctx.Err() != nil {
			return -1, nil
		}
		return 0, &ConfineError{err}
	}
	var feed sync.WaitGroup
	feed.Go(func() { toChild.Write(config.Bytes()) }) // ends when process 1 has it, or has ended
	err = cmd.Wait()
	feed.Wait()
	toChild.Close() // until then process 1 knows that we are there
	if cmd.ProcessState == nil {
		return 0, err
	}
	var r report
	text, err := io.ReadAll(io.LimitReader(fromChild, 64<<10)) // nobody else has its other end
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	switch {
	case len(text) == 0:
		if ctx.Err() != nil || c.Path != "" && cmd.ProcessState.ExitCode() == -1 {
			return -1, nil // killed
		}
		return 0, &ConfineError{fmt.Errorf("process 1 ended: %v: %s", cmd.ProcessState, stderr.text)}
	case err != nil:
		return 0, &ConfineError{fmt.Errorf("process 1 ended with %q: %w", text, err)}
	case r.Setup != "":
		return 0, &ConfineError{errors.New(r.Setup)}
	case r.Spawn != "":
		return 0, errors.New(r.Spawn)
	}
	return r.Code, nil
}

// ConfinedMain is to be called first of all by the main of a program that runs
// confined commands, and by its TestMain: the program is started again, by
// itself, to be process 1 of each. Then it does not return.
func ConfinedMain() {
	if len(os.Args) != 1 || os.Args[0] != confinedName {
		confinable.Store(true)
		return
	}
	// Namespaces are the process's; privileges and filters are the thread's,
	// and bash is started by this one.
	runtime.LockOSThread()
	syscall.CloseOnExec(int(fdJob))
	syscall.CloseOnExec(int(fdReport))
	signal.Notify(make(chan os.Signal, 1)) // of the command: it may end itself, and not us
	var r report
	var j job
	if err := gob.NewDecoder(fdJob).Decode(&j); err != nil {
		r.Setup = fmt.Sprintf("the command did not come through: %v", err)
	} else if err := confine(j.Hidden); err != nil {
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

// oversee starts bash and waits for it, as the parent of every orphan.
func oversee(j *job) (int, error) {
	if err := syscall.Chdir(j.Dir); err != nil {
		return 0, &os.PathError{Op: "chdir", Path: j.Dir, Err: err}
	}
	pid, err := syscall.ForkExec(j.Path, j.Args, &syscall.ProcAttr{
		Env: j.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("fork/exec %s: %w", j.Path, err)
	}
	go func() { // for as long as this process is
		io.Copy(io.Discard, fdJob)
		syscall.Exit(3) // whoever it is run for is no more
	}()
	for {
		var status syscall.WaitStatus
		switch ended, err := syscall.Wait4(-1, &status, 0, nil); {
		case err == syscall.EINTR:
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case ended == pid:
			return status.ExitStatus(), nil // -1 when a signal ended it
		}
	}
}
