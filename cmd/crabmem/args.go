package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/op"

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

// confirm asks the user to confirm an action. Without a terminal it returns an error.
func (c *app) confirm(action string) (bool, error) {
	if !c.IsTerminal(c.Stdin) || c.JSON {
		return false, &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: action + ": standard input is not a terminal", Remedy: "use --yes to skip the question"}
	}
	if err := c.Out.Flush(); err != nil {
		return false, err
	}
	fmt.Fprintf(c.Stderr, "%s? [y/N] ", action)
	line, err := bufio.NewReader(io.LimitReader(c.Stdin, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return isYes(line), nil
}

func isYes(answer string) bool {
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// confirmPurge asks the user on a terminal to confirm an action that cannot be undone,
// unless yes is set. After a no, it reports that nothing was changed, and returns an error
// that ends the command with 0.
func (c *app) confirmPurge(action string, yes bool) error {
	if yes || !c.IsTerminal(c.Stdin) {
		return nil
	}
	ok, err := c.confirm(action + "; undo is not possible")
	if err == nil && !ok {
		c.Say("nothing was changed")
		err = cli.SilentError(0)
	}
	return err
}

// accept shows what a command is about to do, and asks. It returns nil if the user agrees, or with
// --yes.
func (c *app) accept(yes bool, action string, show func()) error {
	if yes {
		return nil
	}
	if c.JSON || !c.IsTerminal(c.Stdin) {
		return cli.Usagef("%s: want --yes without a terminal", action)
	}
	show()
	if ok, err := c.confirm(action); err != nil || !ok {
		return errors.Join(err, cli.SilentError(cli.ExitFailure))
	}
	return nil
}

func yesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask on a terminal")
}

// filterFlags are the flags that select entries.
type filterFlags struct {
	op.FilterArgs
	others []string
}

// add adds the flags to a command. verb is the first word of their usage.
func (f *filterFlags) add(cmd *cobra.Command, verb string) {
	fl := cmd.Flags()
	fl.StringVar(&f.Kind, "kind", "", verb+" only this `kind`: note or archive")
	fl.StringVar(&f.Type, "type", "", verb+" only entries of this metadata `type`, such as decision")
	fl.StringArrayVar(&f.Tags, "tag", nil, verb+" only entries with this `tag`; may be repeated")
	fl.StringArrayVar(&f.others, "meta", nil, verb+" only entries with the metadata `key=value`; may be repeated")
	fl.StringVar(&f.Project, "project", "", verb+" only entries of the project `NAME`")
	fl.StringVar(&f.After, "after", "", verb+" only entries created at or after this `time`")
	fl.StringVar(&f.Before, "before", "", verb+" only entries created before this `time`")
	completeWords(cmd, "kind", "note", "archive")
	completeWords(cmd, "type", metadata.TypeNames()...)
}

// apply sets the kinds and the filter of a query.
func (f *filterFlags) apply(q *crmem.Query, now time.Time) (err error) {
	if err := f.FilterArgs.Apply(q, now); err != nil {
		return cli.Usagef("--%v", err)
	}
	fields, err := keyValues(f.others)
	q.Filter.Fields = append(q.Filter.Fields, fields...)
	return err
}

// filterHelp is the part of a command's help that describes these flags.
const filterHelp = `--type, --tag, --project, and --meta select entries by metadata; case does not
count. An entry must have all given tags and values. --after and --before select
entries by creation time. Their values are a day (2026-04-14, today, yesterday),
a month (2026-04), a year (2026), a time (2026-04-14T10:00:00Z), or an age (2d,
12h). Days, months, and years are in the local time zone.`
