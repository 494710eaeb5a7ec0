package main

import (
	"context"
	"strconv"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func tagsCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tags",
		GroupID: groupUse,
		Short:   "list the tags of entries",
		Long: `List the tags in the metadata of entries, and how many entries have each: the
most used first. Case does not count. crabmem list --tag TAG lists the entries
of a tag.`,
		Example: `  crabmem tags
  crabmem tags --json`,
	}
	return resultCommand(c, cmd, func(ctx context.Context, _ []string) (op.TagCounts, error) {
		return readStore(ctx, c, crmem.Options{}, op.ListTags, op.None{})
	}, func(t op.TagCounts) {
		rows := [][]string{{"ENTRIES", "TAG"}}
		for _, tag := range t.Tags {
			rows = append(rows, []string{strconv.Itoa(tag.Entries), display.Label(tag.Tag)})
		}
		c.fitTable(rows, "0", "no tags")
	})
}

func tagCommand(c *app) *cobra.Command {
	var in op.TagChange
	cmd := &cobra.Command{
		Use:     "tag NAME [+TAG|-TAG...]",
		GroupID: groupUse,
		Short:   "show, add, or remove tags of a note",
		Long: `Add tags to the metadata of the note NAME, or remove some. +TAG and TAG add a
tag; -TAG and --remove TAG remove one. Use --remove for the tags q and h, whose
forms -q and -h are flags. Without tags, tag prints those of the note, one per
line.

All other bytes of the note stay the same. Case does not count. crabmem undo
NAME undoes the change. If the note does not exist, tag exits with 3; for an
archive it exits with 4.`,
		Example: `  crabmem tag deploy +infra +release -draft
  crabmem tag deploy
  crabmem tag deploy --remove infra --json`,
		Args:              atLeast(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().StringArrayVar(&in.Remove, "remove", nil, "remove this `tag`; may be repeated")
	show := false
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (op.Tagged, error) {
		in.Name = args[0]
		for _, tag := range args[1:] {
			in.Add = append(in.Add, strings.TrimPrefix(tag, "+"))
		}
		for _, tag := range append(in.Add, in.Remove...) {
			if strings.TrimSpace(strings.TrimPrefix(tag, "#")) == "" {
				return op.Tagged{}, cli.Usagef("a tag is empty")
			}
		}
		if show = len(in.Add)+len(in.Remove) == 0; show {
			return readStore(ctx, c, crmem.Options{}, op.TagNote, in)
		}
		return writeStore(ctx, c, "tag", op.TagNote, in)
	}, func(t op.Tagged) { c.wordsText(t.Name, "tags", t.Tags, show) })
}

// tagFlags returns the arguments of crabmem tag, with --remove=TAG in place of -TAG.
func tagFlags(args []string) []string {
	list := make([]string, len(args))
	for i, a := range args {
		if a == "--" {
			copy(list[i:], args[i:])
			break
		}
		if tag, ok := strings.CutPrefix(a, "-"); ok && tag != "" && tag != "q" && tag != "h" && tag[0] != '-' {
			a = "--remove=" + tag
		}
		list[i] = a
	}
	return list
}
