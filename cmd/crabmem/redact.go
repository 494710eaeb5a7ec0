package main

import (
	"context"
	"fmt"
	"strconv"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

// redactedText is the output of forget --purge --at --json.
type redactedText struct {
	Name    string   `json:"name" jsonschema:"of the entry after the change"`
	ID      uint64   `json:"id"`
	Change  uint64   `json:"change"`
	DryRun  bool     `json:"dry_run"`
	Deleted []string `json:"deleted" jsonschema:"files that may have contained the text"`
}

// redact implements forget --purge --at: it removes the text that the entry of a name had
// after a change, and keeps the entry.
func (c *app) redact(ctx context.Context, name, at string, dry, yes bool) error {
	seq, err := strconv.ParseUint(at, 10, 64)
	if err != nil || seq == 0 {
		return cli.Usagef("--at %q: want the number of a change, see crabmem log %s", at, errtable.ShellWord(name))
	}
	r := redactedText{Change: seq, DryRun: dry, Deleted: []string{}}
	err = c.read(func(s *crmem.Store) error {
		t := c.timelineOf(s.ChangesOf(name), name, seq)
		id, err := t.idOf(s, name)
		switch ch := &t.change; {
		case err != nil:
			return err
		case ch.Type == "" || ch.After.ID != id:
			return missingFrom(s, errNoPoint, fmt.Sprintf("the history has no change %d that set a text of %s", seq, display.Quoted(name)), "run crabmem log "+errtable.ShellWord(name)+" to list the changes")
		default:
			r.Name, r.ID = ch.After.Name, id
			if now := entryByID(s, id); now.ID != 0 && now.Content == ch.After.Content && ch.AfterRedacted.IsZero() {
				return &cli.Failure{Code: cli.ExitConflict, Kind: "current", Path: s.Path(), Err: crmem.ErrCurrent, Message: "purge text of " + display.Quoted(name) + ": " + crmem.ErrCurrent.Error(),
					Remedy: "change the entry first, or run crabmem forget --purge " + errtable.ShellWord(name) + " to purge it"}
			}
			return nil
		}
	})
	if err == nil && !dry {
		if err := c.confirmPurge("purge "+r.label(), yes); err != nil {
			return err
		}
		var did op.Deleted
		did, err = writeStore(ctx, c, "forget", op.Redact, op.Version{ID: r.ID, Seq: seq})
		r.Deleted = append(r.Deleted, did.Deleted...)
	}
	if err != nil {
		return err
	}
	return c.printResult(r, func() {
		if dry {
			c.Say("would purge %s", r.label())
			return
		}
		c.Say("purged %s; undo is not possible", r.label())
		for _, f := range r.Deleted {
			c.Say("deleted %s, which may have contained the text", display.Printable(f))
		}
	})
}

func (r *redactedText) label() string {
	return fmt.Sprintf("the text of %s after change %d", display.Label(r.Name), r.Change)
}
