package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
)

// TestHistoryLimit checks that commands without a daemon use the setting [memory]
// history.
func TestHistoryLimit(t *testing.T) {
	for setting, want := range map[string]int{"on": 2, "90d": 1, "20w": 2} {
		p := newPlace(t, false)
		p.write("config.toml", "[memory]\nhistory = '"+setting+"'\n")
		old, err := crmem.Open(filepath.Join(p.home, "memory.db"), &crmem.Options{Now: func() time.Time { return fixedNow.Add(-120 * 24 * time.Hour) }})
		if err == nil {
			err = old.Apply(crmem.Add{Name: "old"})
		}
		if err == nil {
			err = old.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := p.runs("remember", "new", "a text"); code != 0 || stderr != "" {
			t.Fatalf("%s: exit code %d: %s", setting, code, stderr)
		}
		out, _, _ := p.runs("log", "--json")
		if n := strings.Count(out, `"change":`); n != want {
			t.Errorf("%s: %d changes, want %d: %s", setting, n, want, out)
		}
	}
}
