package main

import (
	"context"

	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func checkpointCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "checkpoint",
		GroupID: groupCare,
		Short:   "write the log into the store's file",
		Long: `Write all operations of the log into the store's file. Then the file alone
contains every entry, and any program that supports CRMEM v1 can read it. You
need this only before you copy the file: operations in the log are on disk, and
crabmem checkpoints long logs automatically.`,
		Example: `  crabmem checkpoint
  crabmem checkpoint --json`,
	}, func(ctx context.Context, _ []string) (did op.Checkpointed, err error) {
		err = c.write(ctx, "checkpoint", false, func(s op.Memory) error {
			return c.Busy("writing the store", func() (err error) {
				did, err = op.Checkpoint.Do(ctx, s, op.None{})
				return err
			})
		})
		if err == nil {
			return did, nil
		}
		f := classify(err)
		if f.Kind == "failed" {
			f.Remedy = "check the disk, then run crabmem verify and retry"
		}
		return did, f
	}, func(did op.Checkpointed) {
		c.Say("checkpointed %s; the file contains %s in %s", display.Plural(did.Folded, "operation", "operations"),
			display.Plural(did.Entries, "entry", "entries"), display.Size(did.Snapshot))
	})
}
