package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"

	"github.com/spf13/cobra"
)

func skillsCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "skills COMMAND",
		GroupID: groupTalk,
		Short:   "list, show, create, and check skills",
		Long: `A skill is a set of instructions for one kind of task. An agent loads a skill
when it needs one; a person loads it with /NAME. A skill is a directory with a
file SKILL.md, as agentskills.io defines it, at any depth of the folder skills
in the home directory, or of a folder that [skills] dirs in config.toml lists.
If two skills have the same name, the daemon uses the one in the home directory.
SKILL.md contains YAML front matter, then the text for the agent:

  ---
  name: deploy
  description: How we ship. Use it to release a version.
  allowed-tools: bash read
  triggers: release, roll back
  tags: ops
  ---
  Build, tag, push, then watch the canary.

name and description are required. allowed-tools limits the rest of the run to
the tools that it lists; a name that ends in * matches a prefix. A message that
contains a word from triggers loads the skill. An agent may also use the skills
with a tag from its skill_tags; changed tags apply after a reload. Other changes
apply from the next message. crabmem does not follow links.`,
		Example: `  crabmem skills new deploy --description "How we ship"
  crabmem skills list
  crabmem skills check`,
	},
		skillsListCommand(c),
		skillsShowCommand(c),
		skillsNewCommand(c),
		skillsCheckCommand(c),
	)
}

// skillsPath returns where the skills are.
func (c *app) skillsPath() string { return filepath.Join(c.homeDir(), "skills") }

// loadSkills loads the skills of the home and of the configured folders. A missing
// home or folder has no skills. If the configuration is invalid, loadSkills loads
// only the skills of the home.
func (c *app) loadSkills(warn func(error)) (*skill.Set, error) {
	path := c.skillsPath()
	if err := c.skillsFolder(path); err != nil && !missing(err) {
		return nil, err
	}
	dirs := []skill.Dir{{Path: path, Tier: skill.Workspace, Links: true}}
	switch conf, err := config.LoadStructure(c.fs, filepath.Dir(path), c.Getenv); {
	case err == nil:
		dirs = append(dirs, daemon.SkillDirs(conf)[1:]...)
	case warn != nil:
		warn(errors.New("ignored skills.dirs: config.toml has problems; run crabmem config check"))
	}
	return skill.Load(c.fs, dirs, warn), nil
}

// skillsFolder returns the error for a path that is not a readable folder.
func (c *app) skillsFolder(path string) error {
	root, err := c.fs.Root(path)
	if err == nil {
		err = root.Close()
	}
	if fi, lerr := c.fs.Lstat(path); lerr == nil && !fi.IsDir() && fi.Mode()&fs.ModeSymlink == 0 || errors.Is(err, syscall.ENOTDIR) {
		return &cli.Failure{Code: cli.ExitCorrupt, Kind: "format", Message: path + ": not a directory", Path: path, Err: err,
			Remedy: "set the home with --home or CRABTALK_HOME"}
	}
	return err
}

// aboutSkill adds the code and the remedy to an error about a skill.
func aboutSkill(name string, err error) error {
	if errors.Is(err, skill.ErrNotFound) {
		return &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Message: "no skill " + display.Quoted(name), Err: err,
			Remedy: "run crabmem skills list to see the names"}
	}
	if p, ok := errors.AsType[*skill.Problem](err); ok {
		return skillFailure(p)
	}
	return err
}

func skillFailure(p *skill.Problem) *cli.Failure {
	f := &cli.Failure{Code: cli.ExitCorrupt, Kind: "format", Message: skillMessage(p), Path: p.File, Remedy: p.Remedy, Err: p}
	if errors.Is(p, fs.ErrPermission) {
		f.Code, f.Kind = cli.ExitPermission, "permission"
	}
	return f
}

// skillMessage returns a problem without its remedy.
func skillMessage(p *skill.Problem) string { return strings.TrimSuffix(p.Error(), "; "+p.Remedy) }

// completeSkills completes the name of a skill.
func completeSkills(c *app) cobra.CompletionFunc {
	return completeWith(1, func(_ context.Context, found *candidates) {
		set, err := c.loadSkills(nil)
		if err != nil {
			return
		}
		for _, s := range set.Skills(tool.Unbounded()) {
			found.describe(s.Name, display.Printable(s.Description))
		}
	})
}
