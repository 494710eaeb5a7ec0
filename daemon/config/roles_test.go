package config_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestRoleModels: the model of a role is that of its key, else the agent's; a branch has
// the channel's, and a task the worker's. Each has the place of the key that sets it.
func TestRoleModels(t *testing.T) {
	home := `[provider.p]
base_url = "http://h/v1"
models = ["a", "b", "c", "d", "e"]
[system.crab]
role = "channel"
[agents.cortex]
role = "cortex"
model = "b"
compact_model = "c"
`
	for _, c := range []struct{ keys, crab, cortex string }{
		{"", "channel a -, branch a -, worker a -, compactor a -", "cortex b 8, worker b 8, compactor c 9"},
		{"[roles.models]\nchannel = 'd'\ncompactor = 'e'\ncortex = 'e'\nworker = ''\n", "channel d 11, branch d 11, worker a -, compactor e 12", "cortex e 13, worker b 8, compactor c 9"},
		{"[roles.models]\nbranch = 'd'\nworker = 'e'\n[roles.task_models]\nread = 'c'\n", "channel a -, branch d 11, worker e 12, task read c 14, compactor a -",
			"cortex b 8, worker e 12, task read c 14, compactor c 9"},
	} {
		conf := load(t, map[string]string{"config.toml": home + c.keys})
		for name, want := range map[string]string{"crab": c.crab, "cortex": c.cortex} {
			a, _ := conf.Agent(name)
			var got []string
			for _, m := range conf.RoleModels(&a) {
				line := "-"
				if m.Origin != nil {
					line = fmt.Sprint(m.Origin.Line)
				}
				got = append(got, fmt.Sprint(m.Role, " ", m.Model, " ", line))
			}
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("%s with %q: %s, want %s", name, c.keys, text, want)
			}
		}
	}
}
