package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"

	"github.com/spf13/cobra"
)

const newDescription = "What it does, and when to use it."

// begunSkill is the answer of skills new --json.
type begunSkill struct {
	Name string `json:"name"`
	File string `json:"file"`
}

func skillsNewCommand(c *app) *cobra.Command {
	var description string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "create a skill",
		Long: `Create a skill: a directory NAME with a SKILL.md in the folder skills of the
home directory. NAME consists of lowercase letters, digits, and single hyphens
between them. Agents choose skills by description.

If a skill NAME exists, new changes nothing and exits with 4.`,
		Example: `  crabmem skills new deploy --description "How we ship"
  crabmem skills new check-feeds --json`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&description, "description", newDescription, "set the description to this `text`: the task, and when to use the skill")
	return resultCommand(c, cmd, func(_ context.Context, args []string) (s begunSkill, err error) {
		s.Name = args[0]
		path := c.skillsPath()
		if err := c.tighten(filepath.Dir(path), path); err != nil {
			return s, err
		}
		set, err := c.loadSkills(nil)
		if err != nil {
			return s, err
		}
		if old, err := set.Get(tool.Unbounded(), s.Name); err == nil {
			return s, skillExists(s.Name, old.File, fs.ErrExist)
		}
		s.File, err = skill.New(c.fs, path, s.Name, description)
		var p *skill.Problem
		switch {
		case errors.Is(err, skill.ErrInvalid):
			err = wrongArgs(cmd, "%v", err)
		case errors.As(err, &p):
			err = wrongArgs(cmd, "--description: %s", p.Text)
		case errors.Is(err, fs.ErrExist):
			err = skillExists(s.Name, filepath.Join(path, s.Name), err)
		}
		return s, err
	}, func(s begunSkill) { c.Say("created: write the instructions into %s", display.Printable(s.File)) })
}

func skillExists(name, file string, err error) error {
	return &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Message: "skill " + display.Quoted(name) + " already exists: " + file, Path: file, Err: err,
		Remedy: "edit that file, or choose another name"}
}
