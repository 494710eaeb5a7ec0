package main

import (
	"context"
	"errors"
	"fmt"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"

	"github.com/spf13/cobra"
)

func verifyCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "verify",
		GroupID: groupCare,
		Short:   "check every byte of the store",
		Long: `Check the store and its log: structure, UTF-8, IDs, names, checksums, and
whether the log belongs to the file. verify takes no lock and changes nothing.
It reports each problem with file, offset, and a fix.

The exit code is 5 for corruption. A torn tail of a write that was not
acknowledged is a warning with exit code 0: the next write moves it to a
quarantine file. A purge that is not complete is a warning, too.`,
		Example: `  crabmem verify
  crabmem verify --json`,
	}, func(context.Context, []string) (*crmem.CheckReport, error) {
		r, err := c.check(c.storePath())
		if err != nil {
			return nil, err
		}
		if err := c.damage(r); err != nil {
			return nil, err
		}
		if r.PurgePending {
			c.Warn(purgePending)
		}
		for _, p := range r.Problems {
			c.Warn(p.Message + "; " + p.Remedy)
		}
		return r, nil
	}, func(r *crmem.CheckReport) {
		c.Say("%s is valid: %s; %s, and %s in the log", display.Printable(r.Path), display.Plural(r.Entries, "entry", "entries"),
			display.Size(r.SnapshotBytes), display.Plural(r.LogOps, "operation", "operations"))
	})
}

// purgePending is the message of a store with an unfinished purge or redaction.
const purgePending = "a purge is pending: files may contain the removed texts; the daemon that has the store open, or the next write, continues it"

func (c *app) check(path string) (*crmem.CheckReport, error) {
	r, err := busy(c, "reading "+path, func() (*crmem.CheckReport, error) { return crmem.Check(c.fs, path, 0) })
	return r, c.about(path, err)
}

// damage returns the error for an invalid store, with all problems.
func (c *app) damage(r *crmem.CheckReport) error {
	err := r.Err()
	if err == nil {
		return nil
	}
	f := classify(err)
	first := true
	for _, p := range r.Problems {
		switch {
		case p.IsTorn():
		case first:
			f.Path, f.Remedy, first = p.File, p.Remedy, false
			if p.Kind != "missing" {
				f.Offset = &p.Offset
			}
			continue
		}
		if !c.JSON {
			c.Warn(p.Message + "; " + p.Remedy)
		}
	}
	if f.Code == cli.ExitCorrupt {
		f.More = r
		if r.Entries > 0 && !c.JSON {
			c.Note(fmt.Sprintf("%s can be read", display.Plural(r.Entries, "entry", "entries")))
		}
	}
	return f
}

func repairCommand(c *app) *cobra.Command {
	var keepDB, rejoin, dry, newer bool
	var keepLog string
	cmd := &cobra.Command{
		Use:     "repair",
		GroupID: groupCare,
		Short:   "recover a damaged store",
		Long: `Recover every entry that can be read, and move the rest to quarantine files.
repair keeps every byte, and its report accounts for each. It does not change a
valid store.

If another program replaced or removed the log, repair takes the log with all
operations. If two files contradict each other, choose one:

  --keep-db        take the store's file, and quarantine its log
  --keep-log BASE  take the log, and the file that it extends
  --rejoin         add to the store the operations of a replaced log

repair does not change a file with entries that only a newer program can read.
--quarantine-newer moves these entries to a quarantine file. repair does not
change a log of another version, either: --keep-db quarantines it.

--rejoin loses no text. If both contain an entry with the same name, the store's
entry keeps the name. repair renames the other entry and prints the new name.`,
		Example: `  crabmem repair --dry-run
  crabmem repair
  crabmem repair --json`,
	}
	cmd.Flags().BoolVar(&keepDB, "keep-db", false, "take the file, quarantine its log")
	cmd.Flags().StringVar(&keepLog, "keep-log", "", "take the log, and the file `BASE` that it extends")
	cmd.Flags().BoolVar(&rejoin, "rejoin", false, "add the operations of a replaced log to the store")
	cmd.Flags().BoolVar(&newer, "quarantine-newer", false, "quarantine entries that only a newer program can read")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "report problems, change nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "keep-db", "keep-log", "rejoin"); err != nil {
			return err
		}
		path := c.storePath()
		if dry {
			return c.repairDry(path)
		}
		var r *crmem.RepairResult
		o := crmem.RepairOptions{
			FS: c.fs, LockWait: c.access().Step(), Command: "crabmem repair", KeepDB: keepDB, KeepLog: keepLog, Rejoin: rejoin, QuarantineNewer: newer,
		}
		err := c.withoutDaemon(cmd.Context(), path, func() (err error) {
			r, err = waited(cmd.Context(), c, func() (*crmem.RepairResult, error) { return crmem.Repair(path, &o) })
			return err
		})
		if err != nil {
			return c.about(path, err)
		}
		return c.printResult(r, func() {
			for _, n := range r.Notes {
				c.Say("%s", display.Printable(n))
			}
			for _, f := range r.Files {
				c.Say("%s: %d bytes: %d recovered, %d quarantined", display.Printable(f.File), f.Bytes, f.Recovered, f.Aside)
				if f.Kept != "" {
					c.Say("  kept in %s", display.Printable(f.Kept))
				}
			}
			switch {
			case keepLog != "":
				c.Say("took %s and the log that extends it", display.Printable(keepLog))
			case len(r.Files) == 0:
				c.Say("%s is valid, nothing was changed", display.Printable(r.Path))
			}
			c.Say("%s in the store", display.Plural(r.Entries, "entry", "entries"))
		})
	}
	return c.outputs(cmd, of[crmem.RepairResult](), of[crmem.CheckReport]())
}

// repairDry prints the problems that a repair would handle.
func (c *app) repairDry(path string) error {
	r, err := c.check(path)
	if err != nil {
		return err
	}
	// Errors that prevent a repair.
	if err := r.Err(); err != nil && (errors.Is(err, crmem.ErrNoStore) || errors.Is(err, vfs.ErrNotRegular)) {
		return c.about(path, err)
	}
	return c.printResult(r, func() {
		for _, p := range r.Problems {
			c.Say("%s", display.Printable(p.Message))
			c.Say("  %s", display.Printable(p.Remedy))
		}
		if len(r.Problems) == 0 {
			c.Say("%s is valid, nothing to repair", display.Printable(r.Path))
		}
	})
}
