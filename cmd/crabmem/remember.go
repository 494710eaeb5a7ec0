package main

import (
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"

	"github.com/spf13/cobra"
)

func (c *app) rememberCommand() *cobra.Command {
	var aliases []string
	var noAlias bool
	kind := crmem.Note.String()
	cmd := &cobra.Command{
		Use:     "remember NAME TEXT|-",
		GroupID: groupUse,
		Short:   "write a note, or replace the one of that name",
		Long: `Write a note. A note of that name gets the new text and keeps its id and its
time; it keeps its aliases too, unless --alias gives new ones or --no-alias
takes them away. When the command ends with 0 the note is on the disk.

With - the text is standard input, byte for byte.
An archive is never overwritten: exit code 4. --kind archive adds a new one.`,
		Example: `  crabmem remember deploy "build, tag, push, then watch the canary"
  crabmem remember deploy "build, tag, push" --alias ship --alias release
  git log -5 2>/dev/null | crabmem remember last-commits -`,
		Args:              exactly(2, "NAME and TEXT (or -)"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().StringArrayVarP(&aliases, "alias", "a", nil, "another `name` to find it by; may be repeated")
	cmd.Flags().BoolVar(&noAlias, "no-alias", false, "take all aliases away")
	cmd.Flags().StringVar(&kind, "kind", kind, "its `kind`: note or archive")
	completeWords(cmd, "kind", "note", "archive")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "alias", "no-alias"); err != nil {
			return err
		}
		if noAlias {
			aliases = []string{}
		}
		k, err := crmem.ParseKind(kind)
		if err != nil {
			return cli.Usagef("--kind: %v", err)
		}
		name, text := args[0], args[1]
		if text == "-" {
			if text, err = c.ReadInput(cmd.Context(), crmem.MaxContent); err != nil {
				return err
			}
		}
		var e crmem.Entry
		err = c.write(cmd.Context(), "remember", true, func(s *writer) (err error) {
			if k == crmem.Note {
				e, err = s.Remember(name, text, once(aliases))
				return err
			}
			if err = s.Apply(crmem.Add{Name: name, Content: text, Aliases: once(aliases), Kind: k}); err == nil {
				e, err = s.Get(name)
			}
			return err
		})
		if err != nil {
			return err
		}
		if c.JSON {
			return c.PrintJSON(e)
		}
		c.Say("remembered %s (%s %d, %s)", cli.Label(e.Name), e.Kind, e.ID, cli.Size(int64(len(e.Content))))
		return nil
	}
	return cmd
}
