package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"

	"github.com/spf13/cobra"
)

// external returns the program on the PATH for a first argument that is not a
// command: crabmem-NAME or crabtalk-NAME. It returns "" if there is no program.
func external(root *cobra.Command, args []string) string {
	if len(args) == 0 || !externalName(args[0]) {
		return ""
	}
	root.InitDefaultHelpCmd()
	if cmd, _, err := root.Find(args[:1]); err == nil && cmd != root {
		return ""
	}
	for _, prefix := range []string{"crabmem-", "crabtalk-"} {
		if path, err := exec.LookPath(prefix + args[0]); err == nil {
			return path
		}
	}
	return ""
}

// externalName reports whether there may be a program for a name: a word of
// letters, digits, - and _ that is no flag.
func externalName(name string) bool {
	return name != "" && name[0] != '-' && !strings.HasPrefix(name, "__") && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}

// runExternal runs another program with the streams and signals of this one,
// and exits with its code.
func (c *app) runExternal(ctx context.Context, path string, args []string) error {
	c.serving.Store(true) // a signal is passed on, and the program ends when it likes
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.Cancel = func() error {
		stop, ok := errors.AsType[*interrupted](context.Cause(ctx))
		if !ok || stop.sig == os.Interrupt && c.IsTerminal(c.Stdin) {
			return nil // the terminal has sent it the signal
		}
		return cmd.Process.Signal(stop.sig)
	}
	cmd.WaitDelay = time.Hour
	err := cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		if code := e.ExitCode(); code > 0 {
			return cli.SilentError(code)
		}
		return &cli.Failure{Code: cli.ExitFailure, Kind: "failed", Message: path + ": " + e.Error(), Path: path, Err: err}
	}
	if cmd.Process == nil && ctx.Err() != nil {
		return &cli.Failure{Code: cli.ExitFailure, Kind: "failed", Message: fmt.Sprintf("%s: not started: signal: %v", path, context.Cause(ctx)), Path: path, Err: err}
	}
	if err != nil && ctx.Err() == nil {
		return &cli.Failure{Code: cli.ExitFailure, Kind: "failed", Message: err.Error(), Path: path, Err: err}
	}
	return nil
}
