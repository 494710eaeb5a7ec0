package main

import (
	"fmt"
	"math"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"

	"github.com/spf13/cobra"
)

// noArgs, exactly, between, atLeast, and atMost check the arguments of a command.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrongArgs(cmd, "unexpected argument %q", args[0])
	}
	return nil
}

func exactly(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return wrongArgs(cmd, "too many arguments: want %s; quote an argument that has spaces", names)
		}
		return atLeast(n, names)(cmd, args)
	}
}

func between(least, most int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return wrongArgs(cmd, "missing argument: want %s", names)
		case len(args) > most:
			return wrongArgs(cmd, "too many arguments: want %s", names)
		}
		return nil
	}
}

func atLeast(n int, names string) cobra.PositionalArgs { return between(n, math.MaxInt, names) }
func atMost(n int, names string) cobra.PositionalArgs  { return between(0, n, names) }

func wrongArgs(cmd *cobra.Command, format string, args ...any) error {
	return &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: fmt.Sprintf(format, args...), Remedy: cmd.CommandPath() + " --help"}
}

// atMostOne refuses flags that exclude each other.
func atMostOne(cmd *cobra.Command, names ...string) error {
	var given []string
	for _, n := range names {
		if cmd.Flags().Changed(n) {
			given = append(given, "--"+n)
		}
	}
	if len(given) > 1 {
		return wrongArgs(cmd, "%s are mutually exclusive", strings.Join(given, " and "))
	}
	return nil
}
