package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestImportance recalls without a daemon: [recall] importance_weight ranks important
// entries first, and --explain shows it.
func TestImportance(t *testing.T) {
	p := newPlace(t, false)
	for _, args := range [][]string{{"remember", "a", "canary release"}, {"remember", "b", "canary release", "--importance", "1"}} {
		if _, stderr, code := p.runs(args...); code != 0 {
			t.Fatal(stderr)
		}
	}
	check := func(want string, args ...string) {
		t.Helper()
		out, stderr, code := p.runs(append([]string{"recall", "canary"}, args...)...)
		if code != 0 || stderr != "" || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q: exit code %d, %s%s; want %s", args, code, out, stderr, want)
		}
	}
	check(`"name":"a".*"name":"b"`, "--json", "--explain")
	if out, _, _ := p.runs("recall", "canary", "--json", "--explain"); strings.Contains(out, `"importance"`) {
		t.Errorf("importance without a weight: %s", out)
	}
	p.write("config.toml", "[recall]\nimportance_weight = 0.5\nhalf_life = '7d'\n")
	check(`"name":"b".*"importance":{"explicit":1,"access":0,"recency":1,"links":0,"value":0.6[0-9]*,"weight":0.5,"factor":1.3[0-9]*}.*"name":"a"`, "--json", "--explain")
	check(`(?s)^ 1  b .*
    importance: explicit 1.00, access 0.00, recency 1.00, links 0.00: 0.600; with weight 0.5: 0\.[0-9]{3} × 1.300 = 0\.[0-9]{3}
.*why not "a": it is match 2 .*
    importance: explicit 0.50, `, "--explain", "--why-not", "a", "--limit", "1")
	if _, err := os.Stat(filepath.Join(p.home, "memory.db-usage")); !os.IsNotExist(err) {
		t.Errorf("a command counted reads: %v", err)
	}
}
