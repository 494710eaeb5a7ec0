package main

import (
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/memtool"

	"github.com/spf13/cobra"
)

func (c *app) checkpointCommand() *cobra.Command {
	var logVersion int
	cmd := &cobra.Command{
		Use:     "checkpoint",
		GroupID: groupCare,
		Short:   "write the log into the store's file",
		Long: `Write all operations of the log into the store's file. Then the file alone
contains every entry, and any program that supports CRMEM v1 can read it. You
need this only before you copy the file: operations in the log are on disk, and
crabmem checkpoints long logs automatically.

--log-version 1 also starts a log in the format of older crabmem versions; stop
the daemon first. The next write of this version starts a version 2 log again.`,
		Example: `  crabmem checkpoint
  crabmem checkpoint --json
  crabmem checkpoint --log-version 1`,
	}
	cmd.Flags().IntVar(&logVersion, "log-version", 2, "start a log of this `VERSION`, 1 or 2")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var did memtool.Checkpointed
		var err error
		switch logVersion {
		case 1:
			did, err = c.downgrade(cmd)
		case 2:
			err = c.write(cmd.Context(), "checkpoint", false, func(s memtool.Store) error {
				return c.Busy("writing the store", func() (err error) {
					did, err = s.Checkpoint(cmd.Context())
					return err
				})
			})
		default:
			return cli.Usagef("--log-version %d: want 1 or 2", logVersion)
		}
		if err != nil {
			f := classify(err)
			if f.Kind == "failed" {
				f.Remedy = "check the disk, then run crabmem verify and retry"
			}
			return f
		}
		if c.JSON {
			return c.PrintJSON(did)
		}
		c.Say("checkpointed %s; the file contains %s in %s", display.Plural(did.Folded, "operation", "operations"),
			display.Plural(did.Entries, "entry", "entries"), display.Size(did.Snapshot))
		return nil
	}
	return cmd
}

// downgrade checkpoints and begins a version 1 log.
func (c *app) downgrade(cmd *cobra.Command) (did memtool.Checkpointed, err error) {
	err = c.exclusive(cmd.Context(), "checkpoint", &crmem.Options{LogVersion: 1}, func(s *crmem.Store) error {
		before := s.Stats()
		if err := s.Checkpoint(); err != nil {
			return err
		}
		after := s.Stats()
		did = memtool.Checkpointed{Folded: before.LogOps, Entries: after.Entries, Snapshot: after.SnapshotBytes}
		return nil
	})
	return did, err
}
