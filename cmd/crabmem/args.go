package main

import (
	"context"
	"fmt"
	"math"
	"slices"
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

// once removes repeated words.
func once(words []string) []string {
	kept := words[:0:0]
	for _, w := range words {
		if !slices.Contains(kept, w) {
			kept = append(kept, w)
		}
	}
	return kept
}

// candidates are the completions of an argument.
type candidates struct {
	prefix string // the typed text
	list   []string
}

// matches reports whether a name begins with the typed text. The completion protocol
// cannot represent a name with a line break or a tab.
func (c *candidates) matches(name string) bool {
	return strings.HasPrefix(name, c.prefix) && !strings.ContainsAny(name, "\t\r\n")
}

// add adds the names that match.
func (c *candidates) add(names ...string) {
	for _, name := range names {
		if c.matches(name) {
			c.list = append(c.list, name)
		}
	}
}

// describe adds a name if it matches, with a hint.
func (c *candidates) describe(name, hint string) {
	if c.matches(name) {
		c.list = append(c.list, cobra.CompletionWithDesc(name, cli.Fit(hint, 60)))
	}
}

// completeWith completes the first n arguments, or all if n < 0, with the candidates that
// find adds. Without candidates, find adds none and reports no error.
func completeWith(n int, find func(context.Context, *candidates)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		found := candidates{prefix: toComplete}
		if n < 0 || len(args) < n {
			find(cmd.Context(), &found)
		}
		return found.list, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeWords completes the value of a flag with one of the words.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
