package main

import (
	"cmp"
	"slices"

	"crabmem/daemon/display"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"

	"github.com/spf13/cobra"
)

// listedSkill is a skill of skills list --json.
type listedSkill struct {
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	AllowedTools []string `json:"allowed_tools" op:"null" jsonschema:"null: all tools"`
	Triggers     []string `json:"triggers"`
	Tier         string   `json:"tier" op:"words=bundled|managed|workspace"`
	File         string   `json:"file"`
	Tags         []string `json:"tags"`
}

func skillsListCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [TEXT]",
		Aliases: []string{"ls"},
		Short:   "list the skills",
		Long: `List the skills of the home directory by name, with descriptions. With TEXT,
list only skills whose name or description contains TEXT, ignoring case.

list prints a warning for each omission: a SKILL.md without name or description,
a duplicate name, or a link. --json prints an array; "allowed_tools" is null if
the skill does not set it.`,
		Example: `  crabmem skills list
  crabmem skills list ship --json`,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return wrongArgs(cmd, "too many arguments: want one TEXT, or none for all")
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set, err := c.loadSkills(c.warnSkill)
		if err != nil {
			return err
		}
		text := ""
		if len(args) == 1 {
			text = args[0]
		}
		list := set.Find(tool.Unbounded(), text)
		slices.SortFunc(list, func(a, b skill.Skill) int { return cmp.Compare(a.Name, b.Name) })
		if c.JSON {
			out := make([]listedSkill, len(list))
			for i := range list {
				out[i] = asListed(&list[i])
			}
			return c.PrintJSON(out)
		}
		if len(list) == 0 {
			c.Say("no skills")
			return nil
		}
		rows := [][]string{{"NAME", "DESCRIPTION"}}
		for _, s := range list {
			rows = append(rows, []string{display.Label(s.Name), display.Printable(s.Description)})
		}
		c.fitTable(rows, "")
		return nil
	}
	return cmd
}

func asListed(s *skill.Skill) listedSkill {
	return listedSkill{s.Name, s.Description, s.AllowedTools, append([]string{}, s.Triggers...), s.Tier.String(), s.File, append([]string{}, s.Tags...)}
}
