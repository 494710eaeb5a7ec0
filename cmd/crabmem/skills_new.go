package main

import (
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
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := c.skillsPath()
		if err != nil {
			return err
		}
		if err := c.tighten(filepath.Dir(path), path); err != nil {
			return err
		}
		set, err := c.loadSkills(nil)
		if err != nil {
			return err
		}
		if s, err := set.Get(tool.Unbounded(), args[0]); err == nil {
			return skillExists(args[0], s.File, fs.ErrExist)
		}
		file, err := skill.New(c.fs, path, args[0], description)
		if errors.Is(err, skill.ErrInvalid) {
			return wrongArgs(cmd, "%v", err)
		}
		if p, ok := errors.AsType[*skill.Problem](err); ok {
			return wrongArgs(cmd, "--description: %s", p.Text)
		}
		if errors.Is(err, fs.ErrExist) {
			return skillExists(args[0], filepath.Join(path, args[0]), err)
		}
		if err != nil {
			return err
		}
		if c.JSON {
			return c.PrintJSON(begunSkill{args[0], file})
		}
		c.Say("created: write the instructions into %s", display.Printable(file))
		return nil
	}
	return cmd
}

func skillExists(name, file string, err error) error {
	return &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Message: "skill " + display.Quoted(name) + " already exists: " + file, Path: file, Err: err,
		Remedy: "edit that file, or choose another name"}
}
