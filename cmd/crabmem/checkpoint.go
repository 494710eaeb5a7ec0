package main

import (
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
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var did checkpointed
		err := c.write(cmd.Context(), "checkpoint", false, func(s *writer) error {
			return c.busy("writing the store", func() (err error) {
				did, err = s.Checkpoint()
				return err
			})
		})
		if err != nil {
			f := classify(err)
			if f.Kind == "failed" {
				f.Remedy = "nothing is lost, the log still has everything: check the disk and do it again"
			}
			return f
		}
		if c.json {
			return c.printJSON(did)
		}
		c.say("folded %s; the file holds %s in %s", plural(did.Folded, "operation", "operations"),
			plural(did.Entries, "entry", "entries"), sizeOf(did.Snapshot))
		return nil
	}
	return cmd
}
