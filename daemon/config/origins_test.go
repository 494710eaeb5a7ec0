package config_test

import (
	"errors"
	"strings"
	"testing"

	"crabmem/daemon/config"
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
		"[origins.\":\"]\n":                                        "is reserved",
		"[origins.\"delegate-crab:tg:\"]\n":                        "is reserved",
		"[origins.\"tg:\"]\ntrust = \"root\"\n":                    "unknown value 'root'",
		"[origins.\"tg:\"]\nspace = \"main\"\n":                    "cannot use the space main",
		"[origins.\"tg:\"]\nspace = \"../x\"\n":                    "must consist of",
		"[origins.\"tg:\"]\nreads = [\"team\"]\n":                  "only trusted identities",
		"[origins.\"tg:\"]\nallow = [\"bash\"]\n":                  "want recall or remember",
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
