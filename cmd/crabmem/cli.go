package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/wire/pb"

	"golang.org/x/term"
)

// app is one run of the program: its streams, its global flags.
type app struct {
	stdin  io.Reader
	out    *bufio.Writer // flushed once, at the end of a command that worked
	stdout io.Writer
	stderr io.Writer
	fs     vfs.FS
	now    func() time.Time
	getenv func(string) string
	// machine is asked by doctor.
	machine machine
	// hello is (*client.Client).Hello, except in tests.
	hello func(context.Context, *client.Client) (*pb.HelloReply, error)

	db, home string
	lockWait time.Duration
	json     bool
	quiet    bool
	noColor  bool

	warnLog *slog.Logger // where warnings go while a server runs; nil: to standard error

	warnMu   sync.Mutex // a signal may read them while the command runs
	warnings []string

	// waiting is true while the command only waits, for its input, a lock or
	// an editor: it can be ended at once.
	waiting atomic.Bool
	// editing is true while an editor has the terminal: an interrupt is its own.
	editing atomic.Bool
	// serving is true while others are served: a signal is how that ends.
	serving atomic.Bool
	// raw is the terminal while a chat has it.
	raw atomic.Pointer[raw]
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{
		stdin: stdin, stdout: stdout, stderr: stderr,
		out:    bufio.NewWriterSize(answers{stdout}, 1<<16),
		fs:     vfs.OS{},
		now:    time.Now,
		getenv: os.Getenv,

		machine: thisMachine,
		hello:   func(ctx context.Context, d *client.Client) (*pb.HelloReply, error) { return d.Hello(ctx) },
	}
}

// answers writes to standard output. An error there says nothing of the
// store: what the command changed is kept.
type answers struct{ w io.Writer }

func (a answers) Write(p []byte) (int, error) {
	n, err := a.w.Write(p)
	if err != nil {
		f := &cli.Failure{Code: cli.ExitFailure, Kind: "output", Message: err.Error(), Err: err,
			Remedy: "send standard output to where there is room; what the command changed is kept"}
		locate(f, err)
		err = f
	}
	return n, err
}

// execute runs the command that args name.
func (c *app) execute(ctx context.Context, args []string) error {
	root := c.root()
	if path := external(root, args); path != "" {
		return c.runExternal(ctx, path, args[1:])
	}
	// Before cobra reads the flags, so that its errors have the right shape.
	for _, a := range args {
		if a == "--" {
			break
		}
		if a == "--json" || a == "--json=true" {
			c.json = true
		}
	}
	for i, a := range args {
		if !utf8.ValidString(a) {
			return cli.Usagef("argument %d is not valid UTF-8: %q", i+1, a)
		}
	}
	root.SetArgs(args)
	root.SetIn(c.stdin)
	root.SetOut(c.out)
	root.SetErr(c.stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		if !c.json {
			c.out.Flush() // what was said before the error
		}
		return err
	}
	return c.out.Flush()
}

// wait runs f, which only waits and may be abandoned when a signal comes.
func (c *app) wait(ctx context.Context, f func() error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.waiting.Store(true)
	defer c.waiting.Store(false)
	return f()
}

// readInput reads standard input to its end. More than max bytes is an error.
func (c *app) readInput(ctx context.Context, max int64) (string, error) {
	var b []byte
	err := c.wait(ctx, func() error {
		c.prompt()
		var err error
		b, err = io.ReadAll(io.LimitReader(c.stdin, max+1))
		return err
	})
	if err == nil && int64(len(b)) > max {
		err = cli.Usagef("standard input has more than the %s that are allowed", cli.Size(max))
	}
	return string(b), err
}

// prompt says that the command waits for a person.
func (c *app) prompt() {
	if c.isTerminal(c.stdin) {
		c.note("reading from the terminal; end with Ctrl-D")
	}
}

// isTerminal reports whether a stream is a terminal.
func (c *app) isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// color reports whether human output may be coloured.
func (c *app) color() bool {
	return !c.noColor && c.getenv("NO_COLOR") == "" && c.getenv("TERM") != "dumb" && c.isTerminal(c.stdout)
}

func (c *app) bold(s string) string { return c.sgr("1", s) }
func (c *app) dim(s string) string  { return c.sgr("2", s) }

func (c *app) sgr(code, s string) string {
	if !c.color() || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// width returns the columns of the terminal; 0 when standard output is none.
func (c *app) width() int {
	f, ok := c.stdout.(*os.File)
	if !ok {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// note writes one line of diagnostics that --quiet leaves out.
func (c *app) note(s string) {
	if !c.quiet && !c.json {
		io.WriteString(c.stderr, strings.TrimRight(s, "\n")+"\n")
	}
}

// warn writes one line that is never left out: something was not as it should
// be, and the command went on. Under --json an error is the only line on
// standard error: then the warnings before it are in it.
func (c *app) warn(s string) {
	s = strings.TrimRight(s, "\n")
	if c.warnLog != nil {
		c.warnLog.Warn(s)
		return
	}
	if c.json {
		c.warnMu.Lock()
		defer c.warnMu.Unlock()
		c.warnings = append(c.warnings, s)
		return
	}
	io.WriteString(c.stderr, "warning: "+cli.Printable(s)+"\n")
}

// takeWarnings returns the warnings that were held back.
func (c *app) takeWarnings() []string {
	c.warnMu.Lock()
	defer c.warnMu.Unlock()
	w := c.warnings
	c.warnings = nil
	return w
}
