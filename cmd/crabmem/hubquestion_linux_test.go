package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHubAsks installs and upgrades a skill on a terminal: each shows what it permits, asks, and
// changes no file without a yes.
func TestHubAsks(t *testing.T) {
	t.Parallel()
	file, env := program(t)
	dir := t.TempDir()
	env = append(env, "HOME="+dir, "CRABTALK_HOME="+filepath.Join(dir, "home"))
	shellIn := exampleShell(t)
	shell := func(line string) { shellIn(t, dir, line) }
	exampleHub(t, dir, shell) // the copy has version 1, the repository version 2
	skill := filepath.Join(dir, "home/.crabmem/managed/skills/deploy/SKILL.md")
	run := func(answer, ask, want string, code int, args ...string) {
		t.Helper()
		p := openTerminal(t, env, file, args...)
		p.await("skill deploy: all tools of the agent")
		p.await(ask)
		p.typed(answer)
		if want != "" {
			p.await(want)
		}
		p.end(code)
	}
	for _, answer := range []string{"\r", "n\r"} {
		run(answer, "/home, the home? [y/N]", "", 1, "hub", "install", "deploy")
		if _, err := os.Lstat(skill); err == nil {
			t.Fatal("installed without a yes")
		}
	}
	run("y\r", "/home, the home? [y/N]", "installed deploy 1", 0, "hub", "install", "deploy")
	shell(`crabmem hub update`)
	run("n\r", "upgrade these resources? [y/N]", "", 1, "hub", "upgrade")
	run("y\r", "upgrade these resources? [y/N]", "upgraded deploy 2", 0, "hub", "upgrade")
	if _, err := os.Lstat(skill); err != nil {
		t.Error(err)
	}
}
