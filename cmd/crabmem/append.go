package main

import (
	"net/http"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func appendCommand(c *app) *cobra.Command {
	allow := false
	cmd := &cobra.Command{
		Use:     "append NAME TEXT|-",
		GroupID: groupUse,
		Short:   "add text at the end of a note",
		Long: `Add TEXT at the end of the note NAME, on a new line, atomically: concurrent
writes lose no text. TEXT "-" reads standard input, byte for byte. NAME is a
name, or an alias of exactly one note. The note keeps its ID, creation time, and
aliases.

append refuses a text without a visible character. It also refuses keys and
passwords of a known form, unless --allow-secrets is set. If the note does not
exist, append exits with 3; for an archive it exits with 4.

` + metadataHelp,
		Example: `  crabmem append deploy "then write the release notes"
  crabmem append deploy "it failed on 2026-04-14" --tag incident --caused-by tea
  date | crabmem append deploy - --json`,
		Args:              exactly(2, "NAME and TEXT (or -)"),
		ValidArgsFunction: c.completeNames(1),
	}
	allowSecretsFlag(cmd, &allow)
	meta := c.addMetadataFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		text := args[1]
		edit, err := meta.edit(cmd)
		if err != nil {
			return err
		}
		if text == "-" {
			if text, err = c.ReadInput(cmd.Context(), crmem.MaxContent); err != nil {
				return err
			}
		}
		if isBlank(text) {
			f := emptyText("the text to append to " + display.Label(args[0]))
			f.Remedy = "check the command that wrote it"
			return f
		}
		var before, e crmem.Entry
		err = c.writeChecked(cmd.Context(), "append", false, allow, func(s op.Memory) error {
			list, err := s.Update(cmd.Context(), func(s *crmem.Store) ([]crmem.Op, error) {
				if before, err = op.FindEntry(s, args[0]); err != nil {
					return nil, err
				}
				if before.Kind != crmem.Note {
					return nil, &errtable.Error{Kind: "kind", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, Path: s.Path(), Err: crmem.ErrKind,
						Message: display.Quoted(before.Name) + " is an archive", Fix: "use crabmem edit to change an archive"}
				}
				o := crmem.Remember{Name: before.Name, Content: appended(before.Content, text), Metadata: edit}
				content, err := o.ContentFor(before.Content)
				return []crmem.Op{crmem.Update{Name: before.Name, Content: content, Aliases: before.Aliases}}, err
			})
			if err == nil {
				e = list[0]
			}
			return err
		})
		if err != nil {
			return err
		}
		return c.printResult(op.Replaced(e, before), func() {
			c.Say("appended %s to %s (%s %d, %s)", display.Size(int64(len(e.Content)-len(before.Content))), display.Label(e.Name), e.Kind, e.ID, display.Size(int64(len(e.Content))))
		})
	}
	return c.outputs(cmd, of[op.Written]())
}

// appended returns text with more as a new line at the end.
func appended(text, more string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + more
}
