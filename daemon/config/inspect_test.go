package config_test

import (
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/config"
)

// TestInspect lists the settings, the place of each, and no secret.
func TestInspect(t *testing.T) {
	fs := faultfs.NewMem()
	if err := vfs.MkdirAll(fs, "/home", 0o700); err != nil {
		t.Fatal(err)
	}
	text := "[provider.p]\napi_key = \"sk-hunter22\"\nmodels = [\"a\"]\n[roles]\nworkers = 7\n[env]\nTOKEN = \"hunter22\"\n"
	if err := vfs.WriteFile(fs, "/home/config.toml", 0o600, []byte(text)); err != nil {
		t.Fatal(err)
	}
	all, err := config.Inspect(fs, "/home", "")
	if err != nil || strings.Contains(all, "hunter22") || !strings.Contains(all, "provider.p.models = [\"a\"] (config.toml:3)") && !strings.Contains(all, "provider.p.models = ['a'] (config.toml:3)") {
		t.Errorf("error %v, settings:\n%s", err, all)
	}
	for section, want := range map[string]string{
		"roles": "roles.branches = 5 (default)|roles.workers = 7 (config.toml:5)", "roles.workers": "roles.workers = 7 (config.toml:5)",
	} {
		got, err := config.Inspect(fs, "/home", section)
		for _, line := range strings.Split(want, "|") {
			if err != nil || !strings.Contains("\n"+got+"\n", "\n"+line+"\n") {
				t.Errorf("%s: error %v, settings:\n%s\nwant %s", section, err, got, line)
			}
		}
		if strings.Contains(got, "provider") {
			t.Errorf("%s: %s", section, got)
		}
	}
	if got, err := config.Inspect(fs, "/home", "role"); err == nil {
		t.Errorf("unknown section: %s", got)
	}
}
