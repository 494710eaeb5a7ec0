package main

import (
	"errors"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"

	"github.com/spf13/cobra"
)

func (c *cli) repairCommand() *cobra.Command {
	var keepDB, dry bool
	var keepLog string
	cmd := &cobra.Command{
		Use:     "repair",
		GroupID: groupCare,
		Short:   "make a damaged store whole again",
		Long: `Keep every entry that can be read and set aside what cannot, in files beside
the store. No byte is destroyed, and the report accounts for all of them. A
store that is whole is left as it is.

When another program wrote the file and the log belongs to the one before,
there is a choice to make: --keep-db takes the file and sets the log aside,
--keep-log BASE takes the file that the log extends, and the log.`,
		Example: `  crabmem repair --dry-run
  crabmem repair
  crabmem repair --json`,
	}
	cmd.Flags().BoolVar(&keepDB, "keep-db", false, "take the file, set a foreign log aside")
	cmd.Flags().StringVar(&keepLog, "keep-log", "", "take the log, and the file `BASE` that it extends")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what is wrong, and change nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "keep-db", "keep-log"); err != nil {
			return err
		}
		path, err := c.storePath()
		if err != nil {
			return err
		}
		if dry {
			return c.repairDry(path)
		}
		var r *crmem.RepairReport
		repair := func() error {
			return c.wait(cmd.Context(), func() (err error) {
				r, err = crmem.Repair(path, &crmem.RepairOptions{
					FS: c.fs, LockWait: c.lockStep(), Command: "crabmem repair", KeepDB: keepDB, KeepLog: keepLog,
				})
				return err
			})
		}
		err = c.handOver(cmd.Context(), repair, c.servesStore, func(*client.Client) error {
			return &failure{Code: exitConflict, Kind: "locked", Message: "a daemon has " + path, Path: path,
				Remedy: "crabmem daemon stop, then do it again; crabmem verify says meanwhile what is wrong"}
		})
		if err != nil {
			return c.about(path, err)
		}
		if c.json {
			return c.printJSON(r)
		}
		for _, n := range r.Notes {
			c.say("%s", printable(n))
		}
		for _, f := range r.Files {
			c.say("%s: %d bytes: %d recovered, %d set aside", printable(f.File), f.Bytes, f.Recovered, f.Aside)
			if f.Kept != "" {
				c.say("  kept in %s", printable(f.Kept))
			}
		}
		switch {
		case keepLog != "":
			c.say("took %s and the log that extends it", printable(keepLog))
		case len(r.Files) == 0:
			c.say("%s is whole, nothing was changed", printable(r.Path))
		}
		c.say("%s in the store", plural(r.Entries, "entry", "entries"))
		return nil
	}
	return cmd
}

// repairDry says what a repair would have to deal with.
func (c *cli) repairDry(path string) error {
	r, err := c.check(path)
	if err != nil {
		return err
	}
	// What a repair would not even begin with.
	if err := r.Err(); err != nil && (errors.Is(err, crmem.ErrNoStore) || errors.Is(err, vfs.ErrNotRegular)) {
		return c.about(path, err)
	}
	if c.json {
		return c.printJSON(r)
	}
	for _, p := range r.Problems {
		c.say("%s", printable(p.Message))
		c.say("  %s", printable(p.Remedy))
	}
	if len(r.Problems) == 0 {
		c.say("%s is whole, there is nothing to repair", printable(r.Path))
	}
	return nil
}
