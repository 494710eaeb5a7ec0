package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"crabmem/daemon/display"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"

	"github.com/spf13/cobra"
)

// shownSkill is the output of skills show --json.
type shownSkill struct {
	listedSkill
	License       string            `json:"license"`
	Compatibility string            `json:"compatibility"`
	Metadata      map[string]string `json:"metadata"`
	Dir           string            `json:"dir"`
	Body          string            `json:"body"`
}

func skillsShowCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "print a skill",
		Long: `Print the front matter of a skill, a blank line, and the text for the agent.
NAME is the name of a skill. If no skill has that name, show prints the skill in
the directory NAME. NAME is never a path.`,
		Example: `  crabmem skills show deploy
  crabmem skills show deploy --json`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: completeSkills(c),
	}
	return resultCommand(c, cmd, func(_ context.Context, args []string) (a shownSkill, err error) {
		set, err := c.loadSkills(nil)
		if err != nil {
			return a, err
		}
		s, err := set.Get(tool.Unbounded(), args[0])
		if errors.Is(err, skill.ErrInvalid) {
			return a, wrongArgs(cmd, "%v", err)
		}
		if err != nil {
			return a, aboutSkill(args[0], err)
		}
		return shownSkill{asListed(s), s.License, s.Compatibility, s.Metadata, s.Dir, s.Body}, nil
	}, c.showSkill)
}

func (c *app) showSkill(s shownSkill) {
	line := func(key, value string) {
		if value != "" {
			c.Out.WriteString(c.Dim(key+":") + " " + display.Printable(value) + "\n")
		}
	}
	c.Out.WriteString(c.Bold(display.Label(s.Name)) + "\n")
	line("description", s.Description)
	line("file", s.File)
	line("license", s.License)
	line("compatibility", s.Compatibility)
	if s.AllowedTools != nil {
		tools := strings.Join(s.AllowedTools, " ")
		if tools == "" {
			tools = "none"
		}
		line("allowed tools", tools)
	}
	line("triggers", strings.Join(s.Triggers, ", "))
	line("tags", strings.Join(s.Tags, ", "))
	for _, k := range slices.Sorted(maps.Keys(s.Metadata)) {
		if k != "triggers" && k != "tags" {
			line(display.Printable(k), s.Metadata[k])
		}
	}
	if s.Body != "" {
		c.Out.WriteString("\n" + c.Text(s.Body) + "\n")
	}
}
