package main

import (
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/limits"
	"crabmem/daemon/display"
	"crabmem/daemon/memtool"

	"github.com/spf13/cobra"
)

func (c *app) rememberCommand() *cobra.Command {
	var aliases []string
	var noAlias bool
	kind := crmem.Note.String()
	cmd := &cobra.Command{
		Use:     "remember NAME TEXT|-",
		GroupID: groupUse,
		Short:   "create or replace a note",
		Long: `Create a note, or replace the text of the note NAME. The note keeps its ID,
creation time, and aliases. --alias replaces the aliases; --no-alias removes
them. Exit code 0 means that the note is on disk.

TEXT "-" reads standard input, byte for byte. remember never overwrites an
archive; it exits with 4. --kind archive creates an archive with a new name.`,
		Example: `  crabmem remember deploy "build, tag, push, then watch the canary"
  crabmem remember deploy "build, tag, push" --alias ship --alias release
  git log -5 2>/dev/null | crabmem remember last-commits -`,
		Args:              exactly(2, "NAME and TEXT (or -)"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().StringArrayVarP(&aliases, "alias", "a", nil, "set this alias `name`; may be repeated")
	cmd.Flags().BoolVar(&noAlias, "no-alias", false, "remove all aliases")
	cmd.Flags().StringVar(&kind, "kind", kind, "create this `kind`: note or archive")
	completeWords(cmd, "kind", "note", "archive")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "alias", "no-alias"); err != nil {
			return err
		}
		if noAlias {
			aliases = []string{}
		}
		var k crmem.Kind
		err := k.UnmarshalText([]byte(kind))
		if err != nil {
			return cli.Usagef("--kind: %v", err)
		}
		name, text := args[0], args[1]
		if text == "-" {
			if text, err = c.ReadInput(cmd.Context(), limits.Content); err != nil {
				return err
			}
		}
		var e crmem.Entry
		err = c.write(cmd.Context(), "remember", true, func(s memtool.Store) (err error) {
			if k == crmem.Note {
				e, err = s.Remember(cmd.Context(), name, text, once(aliases))
				return err
			}
			list, err := s.Update(cmd.Context(), func(*crmem.Store) ([]crmem.Op, error) {
				return []crmem.Op{crmem.Add{Name: name, Content: text, Aliases: once(aliases), Kind: k}}, nil
			})
			if err == nil {
				e = list[0]
			}
			return err
		})
		if err != nil {
			return err
		}
		if c.JSON {
			return c.PrintJSON(e)
		}
		c.Say("remembered %s (%s %d, %s)", display.Label(e.Name), e.Kind, e.ID, display.Size(int64(len(e.Content))))
		return nil
	}
	return cmd
}
