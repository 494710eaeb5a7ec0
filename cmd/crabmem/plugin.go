package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"path/filepath"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/mcpclient"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"

	"github.com/spf13/cobra"
)

// pluginSkill teaches an agent when to remember and to recall.
//
//go:embed plugin_skill.md
var pluginSkill []byte

// pluginManifest is the file plugin.json. Its name identifies a bundle of this program.
type pluginManifest struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
}

const (
	claudeManifest = ".claude-plugin/plugin.json"
	codexManifest  = ".codex-plugin/plugin.json"
	maxManifest    = 64 << 10
)

// plugin is the result of crabmem plugin.
type plugin struct {
	Dir   string   `json:"dir"`
	Files []string `json:"files"`
}

func pluginCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "plugin DIR",
		GroupID: groupAgents,
		Short:   "write a plugin for coding agents",
		Long: `Write a plugin to the directory DIR: the hooks of crabmem hooks install, the MCP
server of crabmem mcp install, and a skill that teaches an agent when to
remember and to recall. Claude Code reads ` + claudeManifest + `, as
Cursor does with third-party plugins enabled, and Codex reads
` + codexManifest + `. Use the plugin instead of these two commands,
not in addition.

The plugin starts this program with an absolute path, and contains --home and
--db unless they are the defaults. DIR is missing or empty, or contains a plugin
that crabmem wrote, which plugin replaces; otherwise it exits with 4. To try it,
run claude --plugin-dir DIR.`,
		Example: `  crabmem plugin ./crabmem-plugin
  crabmem plugin ./crabmem-plugin --json`,
		Args: exactly(1, "DIR"),
	}, func(_ context.Context, args []string) (plugin, error) { return c.writePlugin(args[0]) }, func(p plugin) {
		for _, name := range p.Files {
			c.Say("wrote %s", display.Printable(filepath.Join(p.Dir, name)))
		}
		c.Say("next: claude --plugin-dir %s", errtable.ShellWord(p.Dir))
	})
}

// writePlugin writes a plugin's files.
func (c *app) writePlugin(dir string) (p plugin, err error) {
	if err := c.checkPluginDir(dir); err != nil {
		return p, err
	}
	e, err := c.mcpEntry(false)
	if err != nil {
		return p, err
	}
	command, err := c.hookCommandLine()
	if err != nil {
		return p, err
	}
	list, _, err := c.selectClients(mcpclient.HookClients(), []string{"claude-code"})
	if err != nil {
		return p, err
	}
	hooks, err := list[0].SetHooks(nil, command)
	if err != nil {
		return p, err
	}
	server, err := list[0].Set(nil, serviceName, e)
	if err != nil {
		return p, err
	}
	v, _ := buildVersion()
	manifest, err := json.MarshalIndent(pluginManifest{serviceName, v, "Memory for coding agents: the context of a project at the start of a session, recall, and sessions."}, "", "  ")
	if err != nil {
		return p, err
	}
	manifest = append(manifest, '\n')
	p.Dir = absPath(dir)
	for _, f := range []struct {
		name string
		text []byte
	}{{".mcp.json", server}, {"hooks/hooks.json", hooks}, {"skills/memory/SKILL.md", pluginSkill}, {codexManifest, manifest}, {claudeManifest, manifest}} {
		path := filepath.Join(p.Dir, filepath.FromSlash(f.name))
		if err := vfs.MkdirAll(c.fs, filepath.Dir(path), 0o755); err != nil {
			return p, err
		}
		if err := vfs.WriteFile(c.fs, path, 0o644, f.text); err != nil {
			return p, err
		}
		p.Files = append(p.Files, f.name)
	}
	return p, nil
}

// checkPluginDir refuses a directory with files that are no plugin of this program.
func (c *app) checkPluginDir(dir string) error {
	list, err := c.fs.ReadDir(dir)
	if missing(err) || err == nil && len(list) == 0 {
		return nil
	} else if err != nil {
		return err
	}
	var m pluginManifest
	b, err := vfs.ReadFile(c.fs, filepath.Join(dir, filepath.FromSlash(claudeManifest)), maxManifest)
	if err == nil && json.Unmarshal(b, &m) == nil && m.Name == serviceName {
		return nil
	}
	return &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Path: dir, Message: "write plugin to " + dir + ": the directory has other files", Remedy: "name a new directory"}
}
