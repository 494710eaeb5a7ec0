package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/config"

	"github.com/google/go-cmp/cmp"
)

// TestWorkers reads a worker with each key, and one with the defaults.
func TestWorkers(t *testing.T) {
	m := newHome(t, map[string]string{"config.toml": `
[env]
LANG = "C"
SHARED = "all"
[workers.coder]
description = "writes code"
protocol = "acp"
command = "coder"
args = ["--acp", "--token=${KEY}"]
dir = "shop"
permissions = "allow"
timeout = "2h"
idle_timeout = 0
[workers.coder.env]
SHARED = "own"
TOKEN = "secret:coder"
[workers.another]
command = "/bin/cat"
[agents.lead]
members = ["coder", "crab"]
`})
	storeSecrets(t, m, "coder", "planted")
	c, err := config.Load(m, "/h", getenv)
	if err != nil || len(c.Broken)+len(c.Warnings) > 0 {
		t.Fatal(err, c.Broken, c.Warnings)
	}
	want := []config.ExternalWorker{
		{Name: "another", Protocol: config.Exec, Command: "/bin/cat", Permissions: "deny", IdleTimeout: 30 * time.Minute, Env: map[string]config.Secret{"LANG": "C", "SHARED": "all"}},
		{Name: "coder", Description: "writes code", Protocol: config.ACP, Command: "coder", Args: []config.Secret{"--acp", "--token=sk-from-the-environment"}, Dir: "/h/shop", Permissions: "allow",
			Timeout: 2 * time.Hour, Env: map[string]config.Secret{"LANG": "C", "SHARED": "own", "TOKEN": "planted"}},
	}
	if d := cmp.Diff(want, c.Workers); d != "" {
		t.Errorf("workers (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"LANG=C", "SHARED=own", "TOKEN=planted"}, c.Workers[1].Variables()); d != "" {
		t.Errorf("variables (-want +got):\n%s", d)
	}
	if lead, _ := c.Agent("lead"); cmp.Diff(lead.Members, []string{"coder", "crab"}) != "" {
		t.Errorf("members %q", lead.Members)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v", c, c.Workers), get(t, m)} {
		if strings.Contains(text, "planted") || strings.Contains(text, "sk-from") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
	if js := get(t, m); !strings.Contains(js, `"args":["--acp","--token=${KEY}"]`) {
		t.Error(js)
	} else if change, err := config.Set(m, "/h", []byte(js), getenv); err != nil || change.Written {
		t.Errorf("set as it was shown: %+v, %v", change, err)
	}
}

// TestWorkerSet checks that a masked argument keeps its value, and that a client of the
// reference, which omits workers, changes none.
func TestWorkerSet(t *testing.T) {
	m := newHome(t, map[string]string{"config.toml": "[workers.a]\ncommand = 'x'\nargs = ['--token=one']\n"})
	for _, js := range []string{`{"workers":{"a":{"command":"y","args":["-v","--token=hidden"]}}}`, `{}`} {
		change, err := config.Set(m, "/h", []byte(js), getenv)
		if err != nil {
			t.Fatal(err)
		}
		if w := change.Config.Workers[0]; w.Command != "y" || cmp.Diff([]config.Secret{"-v", "--token=one"}, w.Args) != "" {
			t.Errorf("after %s: %+v", js, w)
		}
	}
}

// TestWorkerProblems checks the messages of invalid workers, and of names that two have.
func TestWorkerProblems(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no command", "[workers.a]\n", "config.toml:1: worker 'a' has no command: set command to a program"},
		{"empty command", "[workers.a]\ncommand = ''\n", "config.toml:2: worker 'a' has no command: set command to a program"},
		{"name", "[workers.'a b']\ncommand = 'x'\n", "config.toml:1: worker name 'a b' must consist of letters, digits, '-', '_', and '.', and begin with a letter, a digit, or '_'"},
		{"built-in agent", "[workers.worker]\ncommand = 'x'\n", "config.toml:1: worker name 'worker' is reserved for the built-in agent: select another name"},
		{"crab", "[workers.crab]\ncommand = 'x'\n", "config.toml:1: worker 'crab' has the name of an agent: rename one"},
		{"agent", "[agents.a]\n[workers.a]\ncommand = 'x'\n", "config.toml:2: worker 'a' has the name of an agent: rename one"},
		{"agent in a file", "[workers.dev]\ncommand = 'x'\n", "config.toml:1: worker 'dev' has the name of an agent: rename one"},
		{"values", "[workers.a]\ncommand = 'x'\nprotocol = 'mcp'\npermissions = 'ask'\ntimeout = '25h'\nargs = 'x'\n",
			"config.toml:3: workers.a.protocol: unknown value 'mcp': want one of acp, exec; did you mean 'acp'?\nconfig.toml:4: workers.a.permissions: unknown value 'ask': want one of deny, allow\n" +
				"config.toml:5: workers.a.timeout: 25h0m0s is not between 0s and 24h0m0s\nconfig.toml:6: workers.a.args: got a string, want a list of strings"},
		{"key", "[workers.a]\ncomand = 'x'\n", "config.toml:1: worker 'a' has no command: set command to a program\nconfig.toml:2: unknown key 'comand' in workers.a; did you mean 'command'?"},
		{"member", "[workers.coder]\ncommand = 'x'\n[system.crab]\nmembers = ['codr']\n", "config.toml:4: agent 'crab': unknown agent 'codr' in members; did you mean 'coder'?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := config.Load(newHome(t, map[string]string{"config.toml": c.text, "agents/dev.md": "You write."}), "/h", getenv)
			var got []string
			for _, p := range problems(nil, err) {
				got = append(got, strings.TrimPrefix(p.String(), "/h/"))
			}
			if d := cmp.Diff(c.want, strings.Join(got, "\n")); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
		})
	}
	c := load(t, map[string]string{"config.toml": "[workers.a]\ncommand = 'x'\n[workers.b]\ncommand = 'x'\nenv = { T = 'secret:none' }\n[system.crab]\nmembers = ['a', 'b']\n"})
	crab, _ := c.Agent("crab")
	if len(c.Workers) != 1 || c.Workers[0].Name != "a" || len(c.Broken) != 1 || c.Broken[0].Secret != "none" || len(crab.Members) != 2 {
		t.Errorf("a missing secret: %+v, broken %v, members %q", c.Workers, c.Broken, crab.Members)
	}
}
