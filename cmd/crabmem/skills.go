package main

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sort"
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
Installed skills are in .crabmem/managed/skills of the home directory. If two
skills have the same name, the daemon uses the one in the folder skills, else
the one in a listed folder, else the installed one, else that of crabmem itself.
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

// loadSkills loads the skills of the home, of the configured folders, and of the trusted
// workspace in or above the working directory. A missing home or folder has no skills. If the
// configuration is invalid, loadSkills loads only the skills of the home.
func (c *app) loadSkills(warn func(error)) (*skill.Set, error) {
	path := c.skillsPath()
	if err := c.skillsFolder(path); err != nil && !missing(err) {
		return nil, err
	}
	dirs := []skill.Dir{{Path: path, Tier: skill.Workspace, Links: true}}
	if conf, err := config.LoadStructure(c.fs, filepath.Dir(path), c.Getenv); err == nil {
		dirs = append(dirs, daemon.SkillDirs(conf)[1:]...)
		if root := c.trustedWorkspace(); root != "" {
			dirs = daemon.SkillDirsIn(root, conf)
		}
	} else {
		dirs = append(dirs, skill.Installed(filepath.Dir(path)), skill.BundledDir)
		if warn != nil {
			warn(errors.New("ignored skills.dirs: config.toml has problems; run crabmem config check"))
		}
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
list only skills whose name or description contains TEXT, ignoring case. FROM
is workspace for your skills and those of a trusted workspace in or above the
working directory, managed for installed ones, and bundled for those that come
with crabmem.

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
		sort.Slice(found, func(i, j int) bool { return found[i].Name < found[j].Name })
		list := make([]listedSkill, len(found))
		for i := range found {
			list[i] = asListed(&found[i])
		}
		return list, nil
	}, func(list []listedSkill) {
		rows := [][]string{{"NAME", "FROM", "DESCRIPTION"}}
		for _, s := range list {
			rows = append(rows, []string{display.Label(s.Name), s.Tier, display.Printable(s.Description)})
		}
		c.fitTable(rows, "", "no skills")
	})
}

func asListed(s *skill.Skill) listedSkill {
	return listedSkill{s.Name, s.Description, s.AllowedTools, append([]string{}, s.Triggers...), s.Tier.String(), s.File, append([]string{}, s.Tags...)}
}

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
		if old, err := set.Get(tool.Unbounded(), s.Name); err == nil && old.Tier != skill.Bundled {
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
