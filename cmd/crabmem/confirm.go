package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"

	"github.com/spf13/cobra"
)

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
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
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

func yesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask on a terminal")
}
