package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/cortex"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func cortexCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cortex",
		GroupID: groupCare,
		Short:   "propose changes of notes",
		Long: `Propose changes that keep memory small, by rules and without a model: merge near
duplicates, link related notes, and remove stale notes. A note changes only when
you accept a proposal. proposals.jsonl in the folder cortex, next to the store,
keeps the proposals and your answers.`,
		Example: `  crabmem cortex run`,
	}
	return c.outputs(family(cmd, cortexRun(c), cortexProposals(c), cortexAnswer(c, true), cortexAnswer(c, false)), of[op.ProposalList](), of[op.Answered]())
}

// printProposals prints proposals, or a text without one.
func (c *app) printProposals(l op.ProposalList, none string) {
	rows := [][]string{{"NUMBER", "KIND", "NOTES", "WHY"}}
	for _, p := range l.Proposals {
		names := make([]string, len(p.Names))
		for i, name := range p.Names {
			names[i] = display.Label(name)
		}
		rows = append(rows, []string{strconv.Itoa(p.N), p.Kind, strings.Join(names, ", "), p.Why})
	}
	if len(l.Proposals) == 0 {
		c.Say("%s", none)
		return
	}
	c.fitTable(rows, "0", "")
}

func cortexRun(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "run",
		Short: "propose changes of notes",
		Long: `Read up to 2,000 notes, and print up to 100 new proposals. The next run reads
the notes after these. Run it daily, for example with cron. run leaves tasks and
archives alone, and makes each proposal once, unless a note of it changes.

  duplicate  95 % of the sequences of 3 words are in both texts
  related    85 % are
  prune      the note has not changed for 30 days, and its importance is below
             0.1: that of its metadata or type, halved over 10 days without a
             change, more with links and reads; never a pinned note, or one of
             the type identity`,
		Example: `  crabmem cortex run
  crabmem cortex run --json`,
		Args: noArgs,
	}, func(ctx context.Context, _ []string) (op.ProposalList, error) {
		return writeStore(ctx, c, "cortex", op.MakeProposals, op.None{})
	}, func(l op.ProposalList) { c.printProposals(l, "no new proposals") })
}

func cortexProposals(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "proposals",
		Short: "list the open proposals",
		Long: `List the proposals without an answer. proposals omits those whose notes changed
since.`,
		Example: `  crabmem cortex proposals --json`,
		Args:    noArgs,
	}, func(ctx context.Context, _ []string) (op.ProposalList, error) { return c.openProposals(ctx) },
		func(l op.ProposalList) { c.printProposals(l, "no open proposals; crabmem cortex run makes them") })
}

func (c *app) openProposals(ctx context.Context) (op.ProposalList, error) {
	return resultOf(c.read, func(s *crmem.Store) (op.ProposalList, error) {
		return op.ListProposals.Do(ctx, op.Store{Store: s, FS: c.fs}, op.None{})
	})
}

// cortexAnswer is the command that accepts a proposal, or the one that rejects it.
func cortexAnswer(c *app, accept bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reject NUMBER",
		Short: "reject a proposal",
		Long: `Reject a proposal. The notes stay, and run does not propose the change again
unless one of them changes. If there is no such proposal, the exit code is 3; if
it has an answer, 4.`,
		Example: `  crabmem cortex reject 7 || crabmem cortex proposals`,
	}
	if accept {
		cmd.Use, cmd.Short = "accept NUMBER", "apply a proposal"
		cmd.Long = `Apply a proposal in one step. A merge appends the text of the later note to the
earlier one, unless both are the same; the later name becomes an alias. crabmem
undo restores the notes. If there is no such proposal, the exit code is 3; if it
has an answer, or if a note changed since, it is 4, and nothing changes.`
		cmd.Example = `  crabmem cortex accept 7 || crabmem cortex proposals
  crabmem cortex accept 7 --json || crabmem cortex proposals`
	}
	cmd.Args = exactly(1, "NUMBER")
	cmd.ValidArgsFunction = completeWith(1, func(ctx context.Context, found *candidates) {
		l, _ := c.openProposals(ctx)
		for _, p := range l.Proposals {
			found.describe(strconv.Itoa(p.N), display.Printable(p.Kind+" "+strings.Join(p.Names, ", ")))
		}
	})
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (a op.Answered, err error) {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return a, cli.Usagef("NUMBER %q: want a number, as crabmem cortex proposals prints it", args[0])
		}
		return writeStore(ctx, c, "cortex", op.AnswerProposal, op.ProposalAnswer{Number: n, Accept: accept})
	}, func(a op.Answered) {
		if !a.Accepted {
			c.Say("rejected proposal %d", a.N)
			return
		}
		did := map[string]string{cortex.Duplicate: "merged %s", cortex.Related: "linked %s", cortex.Prune: "removed %s"}[a.Kind]
		undo := "crabmem undo " + errtable.ShellWord(a.Names[0])
		if a.Kind == cortex.Duplicate {
			undo += ", then crabmem undo " + errtable.ShellWord(a.Names[1])
		}
		c.Say("%s; to undo it, run %s", fmt.Sprintf(did, display.Label(strings.Join(a.Names, ", "))), display.Printable(undo))
	})
}
