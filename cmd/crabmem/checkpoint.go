package main

import (
	"crabmem/crmem"

	"github.com/spf13/cobra"
)

func (c *cli) checkpointCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "checkpoint",
		GroupID: groupCare,
		Short:   "fold the log into the file",
		Long: `Write everything that is in the log into the store's file. Afterwards the file
alone holds every entry and any program that knows CRMEM v1 can read it. It is
never needed: what is in the log is safe, and long logs are folded by
themselves.`,
		Example: `  crabmem checkpoint
  crabmem checkpoint --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var before, after crmem.Stats
		err := c.write(cmd.Context(), "checkpoint", false, func(s *crmem.Store) error {
			before = s.Stats()
			if err := c.busy("writing the store", s.Checkpoint); err != nil {
				return err
			}
			after = s.Stats()
			return nil
		})
		if err != nil {
			f := classify(err)
			if f.Kind == "failed" {
				f.Remedy = "nothing is lost, the log still has everything: check the disk and do it again"
			}
			return f
		}
		if c.json {
			return c.printJSON(map[string]any{"folded": before.LogOps, "entries": after.Entries, "snapshot_bytes": after.SnapshotBytes})
		}
		c.say("folded %s; the file holds %s in %s", plural(before.LogOps, "operation", "operations"),
			plural(after.Entries, "entry", "entries"), sizeOf(after.SnapshotBytes))
		return nil
	}
	return cmd
}
