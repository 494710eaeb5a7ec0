package config_test

import (
	"errors"
	"strings"
	"testing"

	"crabmem/daemon/config"
	"crabmem/daemon/space"
	"crabmem/daemon/trust"

	"github.com/google/go-cmp/cmp"
)

func TestOriginRules(t *testing.T) {
	c := load(t, map[string]string{"config.toml": `
[origins."tg:"]
trust = "trusted"
space = "per_sender"
reads = ["team", "main"]
allow = ["skill:feeds", "mcp"]
[origins."tg:-100"]
trust = "trusted"
space = "group"
reads = ["group", "team"]
[origins."dc:1/2"]
allow = ["recall", "remember"]
[origins."api:ci"]
trust = "admin"
`})
	want := trust.Rules{
		{Prefix: "tg:", Level: trust.Trusted, Reads: []string{"team", "main"}, Allow: []string{"skill:feeds", "mcp"}},
		{Prefix: "tg:-100", Level: trust.Trusted, Space: "group", Reads: []string{"team"}},
		{Prefix: "dc:1/2", Level: trust.Untrusted, Allow: []string{"recall", "remember"}},
		{Prefix: "api:ci", Level: trust.Admin},
	}
	if d := cmp.Diff(want, c.Origins); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestBadOrigins checks that every mistake in a table of origins is a problem.
func TestBadOrigins(t *testing.T) {
	for text, want := range map[string]string{
		"[origins.user]\n":                                         "has no ':'",
		"[origins.\":\"]\n":                                        "does not begin with a letter",
		"[origins.\"delegate-crab:tg:\"]\n":                        "is reserved",
		"[origins.\"tg:\"]\ntrust = \"root\"\n":                    "unknown value 'root'",
		"[origins.\"tg:\"]\nspace = \"main\"\n":                    "cannot use the space main",
		"[origins.\"tg:\"]\nspace = \"../x\"\n":                    "must consist of",
		"[origins.\"tg:\"]\nreads = [\"team\"]\n":                  "only trusted identities",
		"[origins.\"tg:\"]\nallow = [\"bash\"]\n":                  "want recall, remember, or branch",
		"[origins.\"tg:\"]\ntrust=\"trusted\"\nreads=[\"Team\"]\n": "must consist of",
		"[origins.\"tg:\"]\ntrust=\"trusted\"\nallow=[\"read\"]\n": "want skill, mcp, or delegate",
		"[origins.\"tg:\"]\ntrust=\"admin\"\nallow=[\"skill\"]\n":  "remove it",
		"[origins.\"tg:\"]\ntrust=\"admin\"\nspace=\"x\"\n":        "remove it",
		"[origins.\"tg:\"]\nbash = true\n":                         "unknown key 'bash'",
	} {
		m := newHome(t, map[string]string{"config.toml": text})
		_, err := config.Load(m, "/h", getenv)
		ps, ok := errors.AsType[config.Problems](err)
		if !ok || len(ps) != 1 || !strings.Contains(ps[0].Message, want) || ps[0].Line == 0 {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestAgentSpaces reads the spaces of agents.
func TestAgentSpaces(t *testing.T) {
	c := load(t, map[string]string{"config.toml": `
[memory]
max_spaces = 7
[system.crab]
memory = "team"
memory_read = ["main", "team", "notes"]
[agents.bet]
prompt = "x"
memory = false
[agents.gimel]
prompt = "x"
memory_read = ["main", "team", "api:phone"]
[origins."tg:"]
trust = "trusted"
reads = ["api:phone", "team"]
`, "agents/file.md": "---\nmemory: help\nmemory_read: [team]\n---\nYou help.\n"})
	got := make(map[string]string)
	for _, a := range c.Agents {
		got[a.Name] = strings.Join(a.Spaces(), " ")
		if a.Memory != (a.Name != "bet") {
			t.Errorf("%s: memory %v", a.Name, a.Memory)
		}
	}
	want := map[string]string{"crab": "team main notes", "bet": "main", "gimel": "main team " + space.OfSender("api:phone"), "file": "help team"}
	if reads := strings.Join(c.Origins[0].Reads, " "); reads != space.OfSender("api:phone")+" team" {
		t.Errorf("an origin reads %s", reads)
	}
	if d := cmp.Diff(want, got); d != "" || c.MaxSpaces != 7 {
		t.Errorf("max_spaces %d, spaces (-want +got):\n%s", c.MaxSpaces, d)
	}
	for text, want := range map[string]string{
		"[system.crab]\nmemory = \"Team\"\n":            "must consist of",
		"[system.crab]\nmemory = 1\n":                   "want true, false, or the name of a space",
		"[system.crab]\nmemory_read = [\"a/b\"]\n":      "must consist of",
		"[system.crab]\nmemory_read = [\"sender:x\"]\n": "must consist of",
		"[memory]\nmax_spaces = 0\n":                    "is not between",
		"[system.crab]\nmemory_read = \"team\"\n":       "want a list of strings",
		"[agents.x]\nprompt=\"x\"\nmemory = \"nul\"\n":  "is a device",
	} {
		_, err := config.Load(newHome(t, map[string]string{"config.toml": text}), "/h", getenv)
		if ps, ok := errors.AsType[config.Problems](err); !ok || len(ps) != 1 || !strings.Contains(ps[0].Message, want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
