package main

import (
	"context"
	"fmt"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/errtable"

	"github.com/spf13/cobra"
)

func (c *app) exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "export",
		GroupID: groupMove,
		Short:   "write each entry as a JSON line",
		Long: `Write each entry as one JSON line to standard output, in order of ID:
{"id":…,"name":…,"kind":"note"|"archive","created_at":…,"content":…,
"aliases":[…]}. The output is a consistent copy, even during writes. crabmem
import reads it back.`,
		Example: `  crabmem export > memory.jsonl
  crabmem export | grep -c '"kind":"archive"'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] != "-" {
				return &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: fmt.Sprintf("unexpected argument %q", args[0]),
					Remedy: "crabmem export > " + errtable.ShellWord(args[0])}
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.read(func(s *crmem.Store) error {
			for e := range s.All() {
				if err := context.Cause(cmd.Context()); err != nil {
					return err
				}
				if err := c.PrintJSON(e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}
