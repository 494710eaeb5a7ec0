package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"crabmem/bench/gate"
	"crabmem/daemon/config"
	"crabmem/daemon/op"
)

// TestConcurrentConfigChanges sets keys from several clients while users permit commands.
// The configuration in use must have every change, also one that a person made in the
// file before.
func TestConcurrentConfigChanges(t *testing.T) {
	s := serve(t, home(t), "[tools.bash]\nallow = [\"ls\"]\n")
	file := filepath.Join(s.home, "config.toml")
	// A person edits the list. The daemon has not loaded it when a command is permitted.
	if err := os.WriteFile(file, []byte("[tools.bash]\nallow = [\"ls\", \"by hand\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.allow([]string{"make 0"}); err != nil {
		t.Fatal(err)
	}
	const n = 8
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			key := fmt.Sprintf("env.V%d", i)
			in := op.ConfigChange{Keys: []config.Pair{{Key: key, Value: fmt.Sprintf(`"%d"`, i)}}, Wait: gate.Hang}
			if _, err := op.SetConfig.Do(t.Context(), s.client(), in); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if err := s.allow([]string{fmt.Sprintf("make %d", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c := s.setup().config
	for i := range n {
		if c.Env[fmt.Sprintf("V%d", i)] == "" || !slices.Contains(c.Bash.Allow, fmt.Sprintf("make %d", i)) {
			t.Errorf("change %d is missing: %v", i, c.Bash.Allow)
		}
	}
	if !slices.Contains(c.Bash.Allow, "by hand") || !slices.Contains(c.Bash.Allow, "ls") {
		t.Errorf("the edit of a person is missing: %v", c.Bash.Allow)
	}
	_, err := op.SetConfig.Do(t.Context(), s.client(), op.ConfigChange{Keys: []config.Pair{{Key: "env.V1.x", Value: "1"}}})
	if err == nil || !strings.Contains(err.Error(), "env.V1 is not a table") {
		t.Error(err)
	}
}
