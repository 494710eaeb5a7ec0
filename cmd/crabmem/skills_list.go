package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

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
	return resultCommand(c, &cobra.Command{
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
		Args:              atMost(1, "one TEXT, or none for all"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}, func(_ context.Context, args []string) ([]listedSkill, error) {
		set, err := c.loadSkills(func(err error) { c.Warn(err.Error()) })
		if err != nil {
			return nil, err
		}
		found := set.Find(tool.Unbounded(), strings.Join(args, ""))
		slices.SortFunc(found, func(a, b skill.Skill) int { return cmp.Compare(a.Name, b.Name) })
		list := make([]listedSkill, len(found))
		for i := range found {
			list[i] = asListed(&found[i])
		}
		return list, nil
	}, func(list []listedSkill) {
		rows := [][]string{{"NAME", "DESCRIPTION"}}
		for _, s := range list {
			rows = append(rows, []string{display.Label(s.Name), display.Printable(s.Description)})
		}
		c.fitTable(rows, "", "no skills")
	})
}

func asListed(s *skill.Skill) listedSkill {
	return listedSkill{s.Name, s.Description, s.AllowedTools, append([]string{}, s.Triggers...), s.Tier.String(), s.File, append([]string{}, s.Tags...)}
}
