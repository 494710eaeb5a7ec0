package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

// undone is the output of undo --json.
type undone struct {
	Change uint64           `json:"change" jsonschema:"number of the change"`
	Type   crmem.ChangeType `json:"type"`
	Before *crmem.Entry     `json:"before" jsonschema:"null: undo restored a removed entry"`
	After  *crmem.Entry     `json:"after" jsonschema:"null: undo removed the entry"`
}

func undoCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "undo [SEQ|NAME]",
		GroupID: groupUse,
		Short:   "undo a change of an entry",
		Long: `Restore an entry to its state before a change, with its ID and creation time.
SEQ is the number of a change in crabmem log. With NAME, undo undoes the newest
change of that entry; NAME may be an alias, or the name of a removed entry.
Without an argument, undo undoes the newest change of the store. To undo an undo
is to redo the change. A number is always SEQ.

undo changes one entry, also if the change was part of a load or an import. Only
a rename is undone together with the links that it changed. If the entry changed
since, or if another entry has its name, undo changes nothing and exits with 4.
If there is no such change, undo exits with 3.`,
		Example: `  crabmem undo
  crabmem undo deploy
  crabmem undo deploy --json`,
		Args:              atMost(1, "SEQ or NAME"),
		ValidArgsFunction: c.completeNames(1),
	}, func(ctx context.Context, args []string) (u undone, err error) {
		ch, did, err := c.undo(ctx, "undo", func(s *crmem.Store) (crmem.Change, *timeline, error) { return c.changeToUndo(s, args) })
		if did.Before.ID != 0 && did.After.ID != 0 && did.Before.Name != did.After.Name {
			ch.Type = crmem.ChangeRename // also if ch is one of the links
		}
		return undone{ch.Seq, ch.Type, existing(did.Before), existing(did.After)}, err
	}, func(u undone) {
		what := ""
		switch u.Type {
		case crmem.ChangeAdd:
			what = fmt.Sprintf("removed %s (%s %d)", display.Label(u.Before.Name), u.Before.Kind, u.Before.ID)
		case crmem.ChangeRename:
			what = fmt.Sprintf("renamed %s back to %s", display.Label(u.Before.Name), display.Label(u.After.Name))
		case crmem.ChangeAlias:
			what = "restored the aliases of " + display.Label(u.After.Name)
		default:
			what = restoredLabel(*u.After)
		}
		c.Say("undid change %d: %s", u.Change, what)
	})
}

// changeToUndo returns the change that the arguments of undo select.
func (c *app) changeToUndo(s *crmem.Store, args []string) (ch crmem.Change, t *timeline, err error) {
	var name string
	var seq uint64
	if len(args) > 0 {
		if seq, err = strconv.ParseUint(args[0], 10, 64); err != nil {
			name, seq = args[0], 0
		}
	}
	if name != "" {
		t = c.timelineOf(s.ChangesOf(name), name, 0)
	} else {
		t = c.timeline(s, "", seq)
	}
	switch {
	case len(args) == 0:
		if ch = t.newest; ch.Type == "" {
			err = missingFrom(s, crmem.ErrNotFound, "the history has no change", "run crabmem log to list the changes")
		}
	case name == "":
		if ch = t.change; ch.Type == "" {
			err = noChange(s, seq)
		}
	default:
		var id uint64
		if id, err = t.idOf(s, name); err == nil {
			if ch = t.last[id]; ch.Type == "" {
				err = noHistory(s, name)
			}
		}
	}
	return ch, t, err
}

// undo undoes the change that choose returns.
func (c *app) undo(ctx context.Context, command string, choose func(*crmem.Store) (crmem.Change, *timeline, error)) (ch crmem.Change, did op.Undone, err error) {
	var t *timeline
	err = c.read(func(s *crmem.Store) (err error) {
		ch, t, err = choose(s)
		return err
	})
	if err != nil {
		return ch, did, err
	}
	if ch.Seq == 0 {
		e := ch.Entry()
		return ch, did, &cli.Failure{Code: cli.ExitConflict, Kind: "other_program",
			Message: "undo the newest change of " + display.Quoted(e.Name) + ": another program made it, and the history has no operation for it",
			Remedy:  "run crabmem diff " + errtable.ShellWord(e.Name) + " to print the change"}
	}
	err = c.write(ctx, command, false, func(s op.Memory) (err error) {
		did, err = op.Undo.Do(ctx, s, op.ChangeNumber{Seq: ch.Seq})
		if errors.Is(err, crmem.ErrStale) || errors.Is(err, crmem.ErrExists) {
			return undoConflict(s, &ch, t, err)
		}
		return err
	})
	return ch, did, err
}

// undoConflict returns the failure for a change that cannot be undone.
func undoConflict(s op.Memory, ch *crmem.Change, t *timeline, cause error) error {
	e := ch.Entry()
	word := errtable.ShellWord(e.Name)
	f := &cli.Failure{Code: cli.ExitConflict, Kind: "changed", Path: s.Path(), Err: cause}
	last := t.last[e.ID]
	if last.Seq != ch.Seq {
		newest := "of another program"
		if last.Seq > 0 {
			newest = strconv.FormatUint(last.Seq, 10)
		}
		f.Message = fmt.Sprintf("undo change %d of %s: the entry has later changes, the newest is %s", ch.Seq, display.Quoted(e.Name), newest)
		f.Remedy = fmt.Sprintf("run crabmem log %s to list the changes, and crabmem diff %s %d to compare; to undo the newest, run crabmem undo %s", word, word, ch.Seq, word)
		return f
	}
	var holder crmem.Entry // of the name to restore
	err := s.Read(func(s *crmem.Store) error {
		if got, err := s.Get(ch.Before.Name); err == nil && got.Name == ch.Before.Name && ch.Before.ID != 0 && got.ID != e.ID {
			holder = got
		}
		return nil
	})
	if err == nil && holder.ID != 0 {
		f.Kind = "exists"
		f.Message = fmt.Sprintf("undo change %d: entry %d has the name %s now", ch.Seq, holder.ID, display.Quoted(holder.Name))
		f.Remedy = "run crabmem rename " + errtable.ShellWord(holder.Name) + " NEW, then retry"
		return f
	}
	f.Message = fmt.Sprintf("undo change %d of %s: the entry has changed since", ch.Seq, display.Quoted(e.Name))
	f.Remedy = "run crabmem log " + word + " to list the changes, then retry"
	return f
}

func restoredLabel(e crmem.Entry) string {
	return fmt.Sprintf("restored %s (%s %d, %s)", display.Label(e.Name), e.Kind, e.ID, display.Size(int64(len(e.Content))))
}

func restoreCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "restore NAME",
		GroupID: groupUse,
		Short:   "restore a removed entry",
		Long: `Restore the entry that had the name NAME when it was removed, with its ID,
creation time, text, and aliases. If several removed entries had the name,
restore restores the newest one; crabmem undo SEQ restores another. crabmem list
--deleted lists the removed entries.

If an entry has the name now, restore changes nothing and exits with 4. If no
removed entry had the name, restore exits with 3.`,
		Example: `  crabmem forget deploy && crabmem restore deploy
  crabmem forget deploy && crabmem restore deploy --json`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: completeRemoved(c),
	}, func(ctx context.Context, args []string) (crmem.Entry, error) {
		_, did, err := c.undo(ctx, "restore", func(s *crmem.Store) (crmem.Change, *timeline, error) {
			t := c.timeline(s, args[0], 0)
			ch, err := removalToUndo(s, t, args[0])
			return ch, t, err
		})
		return did.After, err
	}, func(e crmem.Entry) { c.Say("%s", restoredLabel(e)) })
}

// removalToUndo returns the newest change that removed an entry with a name, which
// no entry of the store has.
func removalToUndo(s *crmem.Store, t *timeline, name string) (crmem.Change, error) {
	if e, err := s.Get(name); err == nil && e.Name == name {
		return crmem.Change{}, &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Path: s.Path(), Err: crmem.ErrExists,
			Message: fmt.Sprintf("restore %s: entry %d has the name", display.Quoted(name), e.ID),
			Remedy:  "run crabmem rename " + errtable.ShellWord(name) + " NEW, then retry"}
	}
	list := t.removed()
	for _, same := range []func(a, b string) bool{sameBytes, crmem.SameName} {
		for _, ch := range list {
			if same(ch.Before.Name, name) {
				return ch, nil
			}
		}
	}
	fix := "run crabmem list --deleted to list the removed entries"
	if len(list) == 0 {
		fix = "run crabmem log to list the changes"
	}
	return crmem.Change{}, missingFrom(s, crmem.ErrNotFound, "no removed entry "+display.Quoted(name), fix)
}

// removed returns the changes that removed the entries that are still missing, newest
// first.
func (t *timeline) removed() []crmem.Change {
	var list []crmem.Change
	for _, ch := range t.last {
		if ch.Type == crmem.ChangeRemove {
			list = append(list, ch)
		}
	}
	sort.Slice(list, func(i, j int) bool { return t.order[list[j].Before.ID] < t.order[list[i].Before.ID] })
	return list
}

// completeRemoved completes the name of a removed entry.
func completeRemoved(c *app) cobra.CompletionFunc {
	return completeWith(1, func(_ context.Context, found *candidates) {
		_ = c.read(func(s *crmem.Store) error { // without a store, no names
			for ch, err := range s.Changes() {
				switch e := ch.Entry(); {
				case err != nil:
					return err
				case ch.Type == crmem.ChangeRemove:
					found.add(e.Name)
				default:
					found.list = slices.DeleteFunc(found.list, func(n string) bool { return n == e.Name })
				}
			}
			return nil
		})
	})
}
