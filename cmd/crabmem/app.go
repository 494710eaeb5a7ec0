package main

import (
	"cmp"
	"context"
	"io"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"crabmem/cmd/crabmem/internal/chat"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/doctor"
	"crabmem/crmem/embed"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/remote"
	"crabmem/daemon/sandbox"

	"github.com/spf13/cobra"
)

// app is one run of the program: its streams and its global flags.
type app struct {
	*cli.Streams
	fs  vfs.FS
	now func() time.Time
	// machine is the system that doctor checks.
	machine doctor.Machine
	// hello is (*client.Client).Hello, except in tests.
	hello func(context.Context, *client.Client) (client.Daemon, error)

	db, space, home, gateway string
	// remote is the gateway that carries out the operations; nil: this machine does. local is
	// set if the command line may use the store of this machine.
	remote *remote.Client
	local  bool
	side   string // commands of service manage this process; empty: the daemon
	// inWorkspace is set if the command uses the store of a workspace. dir is the directory in
	// or above which the workspace is; empty: the working directory. store is set once.
	inWorkspace bool
	dir         string
	ofWorkspace sync.Once
	store       string
	// embed is the embedding model of stores that are opened later; nil: none.
	embed    *embed.Model
	lockWait time.Duration

	// types are the types of each command's JSON output; see outputs.
	types map[*cobra.Command]types

	// editing is set while an editor has the terminal: an interrupt is for the
	// editor.
	editing atomic.Bool
	// serving is true while others are served: a signal is how that ends.
	serving atomic.Bool
	// terminal is set while a chat uses the terminal.
	terminal atomic.Pointer[chat.Terminal]
	// hiddenInput restores the terminal while it does not show the input.
	hiddenInput atomic.Pointer[func()]
}

// zone returns the time zone of output for people. JSON has UTC.
func (c *app) zone() *time.Location { return c.now().Location() }

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{
		Streams: cli.NewStreams(stdin, stdout, stderr),
		fs:      vfs.OS{},
		now:     time.Now,
		types:   make(map[*cobra.Command]types),
		machine: doctor.Machine{Free: vfs.OS{}.Free, Confinable: sandbox.Check},
		hello:   func(ctx context.Context, d *client.Client) (client.Daemon, error) { return d.Hello(ctx) },
	}
}

// execute runs the command that args name.
func (c *app) execute(ctx context.Context, args []string) error {
	root := rootCommand(c, args...)
	if path := external(root, args); path != "" {
		return c.runExternal(ctx, path, args[1:])
	}
	// Before cobra reads the flags, so that its errors have the right shape.
	for _, a := range args {
		if a == "--" {
			break
		}
		if a == "--json" || a == "--json=true" {
			c.JSON = true
		}
	}
	for i, a := range args {
		if !utf8.ValidString(a) {
			return cli.Usagef("argument %d is not valid UTF-8: %q", i+1, a)
		}
	}
	root.SetArgs(spelledOut(root, args))
	root.SetIn(c.Stdin)
	root.SetOut(c.Out)
	root.SetErr(c.Stderr)
	if cmd, err := root.ExecuteContextC(ctx); err != nil {
		if isHook(cmd, args) && context.Cause(ctx) == nil {
			c.hookFailed(args, err)
			return nil
		}
		if !c.JSON {
			c.Out.Flush() // print the output before the error
		}
		return err
	}
	return c.Out.Flush()
}

// types are the types of a command's JSON output. If the output has several lines, each
// line has one of the types.
type types = []reflect.Type

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

// outputs records the types of a command's JSON output for crabmem schema.
func (c *app) outputs(cmd *cobra.Command, list ...reflect.Type) *cobra.Command {
	c.types[cmd] = append(c.types[cmd], list...)
	return cmd
}

// resultCommand makes cmd print the result of run: as JSON with --json, or else with text.
func resultCommand[T any](c *app, cmd *cobra.Command, run func(context.Context, []string) (T, error), text func(T)) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := run(cmd.Context(), args)
		if err != nil {
			return err
		}
		return c.printResult(v, func() { text(v) })
	}
	return c.outputs(cmd, of[T]())
}

// printResult prints v as JSON with --json, or else calls text.
func (c *app) printResult(v any, text func()) error {
	if c.JSON {
		return c.PrintJSON(v)
	}
	text()
	return nil
}

// printFailing is printResult for a command that ends with 1 if failed is set.
func (c *app) printFailing(v any, failed bool, text func()) error {
	if err := c.printResult(v, text); err != nil || !failed {
		return err
	}
	return cmp.Or(c.Out.Flush(), error(cli.SilentError(cli.ExitFailure)))
}

// onDry returns the words for what a command would do, on a dry run, or else for what it
// did.
func onDry(dry bool, would, did string) string {
	if dry {
		return would
	}
	return did
}

// resultOf returns the result of f. with opens something and calls f with it.
func resultOf[S, T any](with func(func(S) error) error, f func(S) (T, error)) (v T, err error) {
	err = with(func(s S) (err error) {
		v, err = f(s)
		return err
	})
	return v, err
}

// busy is [cli.Streams.Busy] for a function with a result.
func busy[T any](c *app, what string, f func() (T, error)) (v T, err error) {
	err = c.Busy(what, func() (err error) {
		v, err = f()
		return err
	})
	return v, err
}

// waited is [cli.Streams.Wait] for a function with a result.
func waited[T any](ctx context.Context, c *app, f func() (T, error)) (v T, err error) {
	err = c.Wait(ctx, func() (err error) {
		v, err = f()
		return err
	})
	return v, err
}

// ask makes the home's daemon carry out an operation.
func ask[I, O any](ctx context.Context, c *app, row *op.Action[I, O], in I) (O, error) {
	if c.remote != nil {
		return row.Do(ctx, c.remote, in)
	}
	with := func(f func(*client.Client) error) error { return c.withDaemon(ctx, f) }
	return resultOf(with, func(d *client.Client) (O, error) { return row.Do(ctx, d, in) })
}

// writeStore carries out an operation on a store that exists.
func writeStore[I, O any](ctx context.Context, c *app, command string, row *op.Action[I, O], in I) (O, error) {
	with := func(f func(op.Memory) error) error { return c.write(ctx, command, false, f) }
	return resultOf(with, func(s op.Memory) (O, error) { return row.Do(ctx, s, in) })
}
