package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHooksInstallAsks asks on a terminal for the projects, and once.
func TestHooksInstallAsks(t *testing.T) {
	t.Parallel()
	file, env := program(t)
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"work/shop", "work/page"} {
		if err := os.MkdirAll(filepath.Join(home, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env = append(env, "HOME="+home, "CRABTALK_HOME="+home)
	only := func() string {
		b, _ := os.ReadFile(filepath.Join(home, "config.toml"))
		_, value, _ := strings.Cut(string(b), "only = ")
		value, _, _ = strings.Cut(value, "\n")
		return value
	}
	const question = "projects: directories with commas between them, or all [all]: "
	for _, q := range []struct {
		args         []string
		answer, want string
	}{
		{nil, "~/work/shop, " + home + "/work/page\r", "['" + home + "/work/shop', '" + home + "/work/page']"},
		{[]string{"--yes"}, "", "['" + home + "/work/shop', '" + home + "/work/page']"},
		{[]string{"--project", home + "/work/page"}, "", "['" + home + "/work/page']"},
		{nil, "\r", ""},
		{[]string{"--project", home + "/work/page"}, "", "['" + home + "/work/page']"},
		{[]string{"--all"}, "", ""},
	} {
		p := openTerminal(t, env, file, append([]string{"hooks", "install", "codex"}, q.args...)...)
		if q.answer != "" {
			p.await(question)
			p.typed(q.answer)
		}
		if len(q.args) == 0 || q.args[0] != "--yes" {
			if _, err := os.Stat(filepath.Join(home, ".codex/hooks.json")); err != nil {
				p.await("hooks.json? [y/N]")
				p.typed("y\r")
			}
		}
		p.await("Codex: ")
		p.end(0)
		if got := only(); got != q.want {
			t.Errorf("%q, answer %q: only = %s, want %s", q.args, q.answer, got, q.want)
		}
	}
}
