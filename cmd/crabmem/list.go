package main

import (
	"strconv"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"

	"github.com/spf13/cobra"
)

// listed is an element of list --json. It has no content unless the flags
// request it.
type listed struct {
	ID        uint64     `json:"id"`
	Name      string     `json:"name"`
	Kind      crmem.Kind `json:"kind"`
	CreatedAt uint64     `json:"created_at"`
	Content   *string    `json:"content,omitempty"`
	Bytes     int        `json:"bytes"`
	Aliases   []string   `json:"aliases"`
}

func (c *app) listCommand() *cobra.Command {
	var kind string
	var content bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		GroupID: groupUse,
		Short:   "list the entries of the store",
		Long: `List the entries by ID, each with its ID, kind, creation day, bytes, name, and
aliases. --json prints an array of entries with "bytes" instead of content;
--content adds the content.`,
		Example: `  crabmem list
  crabmem list --kind archive
  crabmem list --json --content`,
	}
	cmd.Flags().StringVar(&kind, "kind", "", "list only this `kind`: note or archive")
	completeWords(cmd, "kind", "note", "archive")
	cmd.Flags().BoolVar(&content, "content", false, "include the content")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kinds, err := parseKinds(kind)
		if err != nil {
			return err
		}
		return c.read(func(s *crmem.Store) error {
			var entries []crmem.Entry
			for e := range s.All() {
				if kinds == nil || kinds[0] == e.Kind {
					entries = append(entries, e)
				}
			}
			if c.JSON {
				return c.listJSON(entries, content)
			}
			c.listText(entries, content)
			return nil
		})
	}
	return cmd
}

// parseKinds reads the value of --kind; nil is every kind.
func parseKinds(s string) ([]crmem.Kind, error) {
	if s == "" {
		return nil, nil
	}
	var k crmem.Kind
	if err := k.UnmarshalText([]byte(s)); err != nil {
		return nil, cli.Usagef("--kind: %v", err)
	}
	return []crmem.Kind{k}, nil
}

func (c *app) listJSON(entries []crmem.Entry, content bool) error {
	list := make([]listed, len(entries))
	for i, e := range entries {
		list[i] = listed{e.ID, e.Name, e.Kind, e.CreatedAt, nil, len(e.Content), e.Aliases}
		if list[i].Aliases == nil {
			list[i].Aliases = []string{}
		}
		if content {
			list[i].Content = &e.Content
		}
	}
	return c.PrintJSON(list)
}

func (c *app) listText(entries []crmem.Entry, content bool) {
	if len(entries) == 0 {
		c.Say("no entries")
		return
	}
	if content {
		for i, e := range entries {
			if i > 0 {
				c.Out.WriteString("\n")
			}
			c.Out.WriteString(c.heading(e) + "\n")
			c.Out.WriteString(strings.TrimRight(c.Text(e.Content), "\n") + "\n")
		}
		return
	}
	rows := [][]string{{"ID", "KIND", "CREATED", "BYTES", "NAME"}}
	for _, e := range entries {
		name := display.Label(e.Name)
		if len(e.Aliases) > 0 {
			name += " (" + display.Printable(strings.Join(e.Aliases, ", ")) + ")"
		}
		rows = append(rows, []string{
			strconv.FormatUint(e.ID, 10), e.Kind.String(), display.Day(e.CreatedAt), strconv.Itoa(len(e.Content)), name,
		})
	}
	c.fitTable(rows, "03")
}
