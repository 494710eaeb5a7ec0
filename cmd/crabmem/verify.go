package main

import (
	"context"
	"fmt"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
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
		path := c.storePath()
		r, err := c.check(path)
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
