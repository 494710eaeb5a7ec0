package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/skill"

	"github.com/spf13/cobra"
)

// checkedSkills is the answer of skills check --json.
type checkedSkills struct {
	Folder   string         `json:"folder"`
	Skills   []string       `json:"skills"` // those that can be used
	Problems []skillProblem `json:"problems"`
}

type skillProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // 0 if it concerns no line
	Warning bool   `json:"warning"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}

func skillsCheckCommand(c *app) *cobra.Command {
	return c.outputs(&cobra.Command{
		Use:   "check [DIR]",
		Short: "check skills",
		Long: `Check every skill of the home directory, or of DIR, which may be the directory
of one skill: front matter, name, description, sizes, duplicate names, and
links. check reports each problem with file, line, and a fix.

The exit code is 5 if agents cannot load a skill, or if a skill breaks a rule of
agentskills.io. Other problems are warnings and exit with 0.`,
		Example: `  crabmem skills new deploy && crabmem skills check
  crabmem skills new ship && crabmem skills check home/skills/ship --json`,
		Args:              atMost(1, "one DIR, or none for the home's skills"),
		ValidArgsFunction: completeFirst(cobra.ShellCompDirectiveFilterDirs),
		RunE: func(_ *cobra.Command, args []string) error {
			path := c.skillsPath()
			if len(args) == 1 {
				path = args[0]
			}
			list, problems, err := c.checkSkills(skill.Dir{Path: path, Tier: skill.Workspace, Links: len(args) == 0})
			if err != nil {
				return err
			}
			return c.checkedSkills(path, list, problems)
		},
	}, of[checkedSkills]())
}

// checkSkills checks the skills in a folder. A missing folder is a failure of
// kind no_skills.
func (c *app) checkSkills(dir skill.Dir) ([]skill.Skill, []*skill.Problem, error) {
	path := dir.Path
	err := c.skillsFolder(path)
	if missing(err) {
		return nil, nil, &cli.Failure{Code: cli.ExitNotFound, Kind: "no_skills", Message: path + ": no skills", Path: path, Err: err,
			Remedy: "run crabmem skills new NAME to create one, or set another place with DIR, --home, or CRABTALK_HOME"}
	}
	if err != nil {
		return nil, nil, err
	}
	return skill.Check(c.fs, dir)
}

// checkedSkills prints the result of a check; problems are an error.
func (c *app) checkedSkills(path string, list []skill.Skill, problems []*skill.Problem) error {
	r := checkedSkills{Folder: path, Skills: []string{}, Problems: []skillProblem{}}
	for i := range list {
		r.Skills = append(r.Skills, list[i].Name)
	}
	for _, p := range problems[:min(len(problems), maxProblems)] {
		r.Problems = append(r.Problems, skillProblem{p.File, p.Line, p.Warning, skillMessage(p), p.Remedy})
	}
	bad := slices.IndexFunc(problems, func(p *skill.Problem) bool { return !p.Warning && !errors.Is(p, fs.ErrPermission) })
	if bad < 0 {
		bad = slices.IndexFunc(problems, func(p *skill.Problem) bool { return !p.Warning })
	}
	if !c.JSON {
		others := slices.Clone(problems)
		if bad >= 0 {
			others = slices.Delete(others, bad, bad+1)
		}
		for _, p := range others[:min(len(others), maxWarnings)] {
			c.Warn(p.Error())
		}
		if more := len(others) - maxWarnings; more > 0 {
			c.Warn(fmt.Sprintf("and %s", display.Plural(more, "more problem", "more problems")))
		}
	}
	if bad >= 0 {
		f := skillFailure(problems[bad])
		f.More = r
		return f
	}
	return c.printResult(r, func() {
		c.Say("%s: %s, no problems", display.Printable(path), display.Plural(len(list), "skill", "skills"))
	})
}
