package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/approval"
	"crabmem/daemon/sandbox"
)

// BashOptions is how commands are run. The zero value is the defaults.
type BashOptions struct {
	Timeout    time.Duration // default time limit of a command; 0 is 30 seconds
	MaxTimeout time.Duration // largest time limit of a command; 0 is 10 minutes
	MaxOutput  int           // bytes of standard output, and of standard error; 0 is 32 KiB

	// Env is added to the environment of commands.
	Env map[string]string

	// Approve returns an error for a command that must not run. It returns a line
	// for a command that runs without a shell, and else bash runs the command. env
	// are the variables that the call sets. The call has an absolute directory. A
	// nil Approve permits every command.
	Approve func(ctx context.Context, c Call, command string, env map[string]string) (approval.Line, error)

	// Leaves returns an error for a command or a variable that contains a secret: a
	// command may send it anywhere. It may be nil.
	Leaves func(text string) error

	// Hidden are the directories and files that a confined agent's commands
	// must not see: the data directory, keys, sockets elsewhere. One that is
	// missing when a command begins is not hidden from it.
	Hidden []string
}

const (
	bashTimeout    = 30 * time.Second
	bashMaxTimeout = 10 * time.Minute
	bashMaxOutput  = 32 << 10

	// bashDelay limits the wait for output that a process outside the command's
	// group still has open.
	bashDelay = 500 * time.Millisecond
)

// inherited lists the variables that commands inherit, in addition to LC_*. They
// do not inherit other variables, such as API keys.
var inherited = []string{"HOME", "LANG", "PATH", "SHELL", "SYSTEMROOT", "TERM", "TMPDIR", "TZ", "USER"}

type bashArgs struct {
	Command string            `json:"command" jsonschema:"the command, as bash -c takes it"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"variables to add to its environment"`
	Timeout int               `json:"timeout_secs,omitempty" jsonschema:"seconds after which the command is killed"`
}

type bash struct{ o BashOptions }

// NewBash returns the tool that runs commands. Each command has its own session
// and process group, no terminal, and empty input. When it exits or its time
// limit expires, the remaining processes of the group are killed. The
// environment is a few inherited variables, then the configured ones, then
// those of the call. A call may set any variable, because the command could set
// it itself.
//
// Commands of an agent with a confined scope run where Hidden paths do not
// exist (see [sandbox.Main]), or not at all.
func NewBash(o BashOptions) Tool {
	if o.Timeout <= 0 {
		o.Timeout = bashTimeout
	}
	if o.MaxTimeout <= 0 {
		o.MaxTimeout = bashMaxTimeout
	}
	o.MaxTimeout = max(o.MaxTimeout, o.Timeout)
	if o.MaxOutput <= 0 {
		o.MaxOutput = bashMaxOutput
	}
	b := bash{o}
	return New(Bash, fmt.Sprintf("Runs a bash command in the session's directory and returns a JSON object with exit_code, stderr, and stdout. "+
		"The command is killed after %s unless timeout_secs sets another limit. Its background processes are killed when it exits.", seconds(o.Timeout)), b.run)
}

var errTimedOut = errors.New("timed out")

func (b bash) run(ctx context.Context, c Call, args bashArgs) (string, error) {
	if strings.TrimSpace(args.Command) == "" {
		return "", errors.New("bash failed: command is empty")
	}
	timeout := b.o.Timeout
	switch {
	case args.Timeout < 0, args.Timeout > int(b.o.MaxTimeout/time.Second):
		return "", fmt.Errorf("bash failed: timeout_secs is %d, want 1 to %d", args.Timeout, b.o.MaxTimeout/time.Second)
	case args.Timeout > 0:
		timeout = time.Duration(args.Timeout) * time.Second
	}
	env, err := b.environ(args.Env)
	if err != nil {
		return "", fmt.Errorf("bash failed: %w", err)
	}
	dir, err := workingDir(c.Dir)
	if err != nil {
		return "", fmt.Errorf("bash failed: %w", err)
	}
	if b.o.Leaves != nil {
		if err := b.o.Leaves(string(c.Arguments)); err != nil {
			return "", err
		}
	}
	c.Dir = dir
	var line approval.Line
	if b.o.Approve != nil {
		if line, err = b.o.Approve(ctx, c, args.Command, args.Env); err != nil {
			return "", fmt.Errorf("bash failed: %w", err)
		}
	}
	stdout, stderr := NewCapture(b.o.MaxOutput), NewCapture(b.o.MaxOutput)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimedOut)
	defer cancel()
	var code int
	if line != nil {
		code, err = RunLine(ctx, line, LineOptions{
			Dir: dir, Env: env, Hidden: b.o.Hidden, Confined: c.Scope.Confined, Stdout: stdout, Stderr: stderr,
		})
	} else {
		code, err = b.shell(ctx, c, &sandbox.Command{
			Args: []string{"bash", "-c", args.Command}, Env: env, Dir: dir, Hidden: b.o.Hidden, Stdout: stdout, Stderr: stderr,
		})
	}
	if cause := context.Cause(ctx); err == nil && cause != nil && code == -1 {
		if errors.Is(cause, errTimedOut) {
			err = fmt.Errorf("bash timed out after %s", seconds(timeout))
		} else {
			err = fmt.Errorf("bash canceled: %w", cause)
		}
		if stdout.n+stderr.n == 0 {
			return "", err
		}
	} else if err != nil {
		if _, ok := errors.AsType[*sandbox.Error](err); ok {
			return "", err
		}
		return "", fmt.Errorf("bash failed: %w", err)
	}
	return bashResult(code, stdout, stderr), err
}

// shell runs a command in bash.
func (b bash) shell(ctx context.Context, c Call, cmd *sandbox.Command) (code int, err error) {
	if cmd.Path, err = exec.LookPath("bash"); err != nil {
		return 0, err
	}
	if c.Scope.Confined {
		return sandbox.Run(ctx, cmd)
	}
	return runPlain(ctx, cmd)
}

// workingDir returns the real path of a directory that exists; "" is the daemon's
// own. A link that changes later has no effect.
func workingDir(name string) (string, error) {
	dir, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	real, err := vfs.OS{}.Resolve(dir)
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	if fi, err := (vfs.OS{}).Lstat(real); err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	} else if !fi.IsDir() {
		return "", fmt.Errorf("working directory: %s: not a directory", dir)
	}
	return real, nil
}

// seconds formats a duration for the tool's texts.
func seconds(d time.Duration) string {
	switch {
	case d%time.Second != 0:
		return d.String()
	case d == time.Second:
		return "1 second"
	}
	return fmt.Sprintf("%d seconds", d/time.Second)
}

// environ returns the environment of a command.
func (b bash) environ(call map[string]string) ([]string, error) {
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		if slices.Contains(inherited, name) || strings.HasPrefix(name, "LC_") {
			env[name] = value
		}
	}
	maps.Copy(env, b.o.Env)
	maps.Copy(env, call)
	list := make([]string, 0, len(env))
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return nil, fmt.Errorf("env: %q is not a valid variable", clipName(name))
		}
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list, nil
}

// runPlain runs a command and returns its exit code, -1 when a signal ended it.
func runPlain(ctx context.Context, c *sandbox.Command) (int, error) {
	cmd := exec.CommandContext(ctx, c.Path)
	cmd.Args, cmd.Env, cmd.Dir = c.Args, c.Env, c.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.WaitDelay = bashDelay
	g := NewGroup(cmd)
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return -1, nil
		}
		return exitCode(cmd, err)
	}
	return exitCode(cmd, g.Wait())
}

// exitCode splits the error of Start or Wait. It returns no error if the command
// failed, was stopped, or if another process kept its output open.
func exitCode(cmd *exec.Cmd, err error) (code int, _ error) {
	if cmd.ProcessState == nil {
		return code, err
	}
	return cmd.ProcessState.ExitCode(), nil
}
