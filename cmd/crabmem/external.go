package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
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

// otherWords maps names of commands in other programs to commands of crabmem, by
// parent command. The values are complete commands without the word crabmem.
var otherWords = map[string]map[string]string{
	"crabmem": {
		"search": "recall", "find": "recall", "query": "recall", "grep": "recall",
		"add": "remember", "save": "remember", "new": "remember", "set": "remember", "put": "remember", "store": "remember", "write": "remember", "create": "remember",
		"get": "show", "cat": "show", "read": "show", "view": "show", "print": "show",
		"rm": "forget", "del": "forget", "delete": "forget", "remove": "forget",
		"mv": "rename", "move": "rename",
		"history": "log", "changes": "log", "compare": "diff", "revert": "undo", "undelete": "restore", "unforget": "restore", "backlinks": "links",
		"logs": "daemon logs", "status": "daemon status",
		"start": "daemon start", "stop": "daemon stop", "restart": "daemon restart", "reload": "daemon reload", "serve": "daemon", "run": "daemon",
		"backup": "export", "fsck": "verify", "check": "verify", "fix": "repair",
		"setup": "init", "login": "init", "resume": "chat", "ask": "send",
	},
	"crabmem daemon": {
		"log": "daemon logs", "up": "daemon start", "down": "daemon stop", "kill": "daemon stop",
		"info": "daemon status", "ps": "daemon status", "ping": "ping", "install": "service install",
	},
	"crabmem sessions": {
		"get": "sessions show", "cat": "sessions show", "view": "sessions show", "find": "sessions search", "grep": "sessions search", "recall": "sessions search",
		"remove": "sessions delete", "forget": "sessions delete", "rename": "sessions title", "undelete": "sessions restore",
		"logs": "sessions tail", "follow": "sessions tail", "check": "sessions verify", "add": "sessions import", "resume": "chat", "new": "chat",
	},
	"crabmem cron": {
		"new": "cron add", "create": "cron add", "ls": "cron list", "rm": "cron remove", "delete": "cron remove",
	},
	"crabmem skills": {
		"add": "skills new", "create": "skills new", "get": "skills show", "cat": "skills show", "verify": "skills check", "search": "skills list",
	},
	"crabmem models": {
		"new": "models add", "delete": "models remove", "use": "models switch", "set": "models switch",
	},
	"crabmem config": {
		"show": "config get", "list": "config get", "ls": "config get", "verify": "config check", "where": "config path",
	},
}

// accepted are the words of otherWords that run their command.
var accepted = []string{"search", "find", "add", "save", "get", "cat", "rm", "delete", "logs"}

// spelledOut replaces an accepted word by the command that it means, crabmem agents list
// by crabmem agents, and -TAG of crabmem tag by a flag.
func spelledOut(root *cobra.Command, args []string) []string {
	for i := 0; i < len(args); i++ {
		word := args[i]
		if strings.HasPrefix(word, "-") {
			if f := root.PersistentFlags().Lookup(strings.TrimLeft(word, "-")); f != nil && f.NoOptDefVal == "" {
				i++ // the flag's value
			}
			continue
		}
		if slices.Contains(accepted, word) {
			return slices.Concat(args[:i], strings.Fields(otherWords["crabmem"][word]), args[i+1:])
		}
		if word == "tag" {
			return slices.Concat(args[:i+1], tagFlags(args[i+1:]))
		}
		if word == "agents" && i+1 < len(args) && args[i+1] == "list" {
			return slices.Delete(slices.Clone(args), i+1, i+2)
		}
		break
	}
	return args
}

// suggestions returns complete commands for the unknown command name: the equivalent
// of the command that other programs call name, or else commands with similar names.
func suggestions(of *cobra.Command, name string) []string {
	path := of.CommandPath()
	if other := otherWords[path][strings.ToLower(name)]; other != "" {
		return []string{of.Root().Name() + " " + other}
	}
	var list []string
	for _, like := range of.SuggestionsFor(name) {
		list = append(list, path+" "+like)
	}
	return slices.Compact(list)
}
