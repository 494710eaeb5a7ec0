package config_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/daemon/config"
)

// TestSetKeys checks that SetKeys changes one key, and writes nothing if it fails.
func TestSetKeys(t *testing.T) {
	m := newHome(t, map[string]string{"config.toml": "# text\n[env]\nA = \"1\" # one\n[system.crab]\nmodel = \"offline\"\n"})
	for _, c := range [][3]string{ // key, value, error
		{"env.B", `"2"`, ""},
		{"env.A.b", `1`, "env.A is not a table and has no key 'b'"},
		{"system.crab.max_iterations", `"x"`, "system.crab.max_iterations: got a string"},
		{"env.B", `{`, "invalid JSON of env.B"},
		{"env.B", `[null]`, "null in a list"},
		{"", `1`, "unknown key ''"},
		{"env.B", `null`, ""},
	} {
		before := file(t, m)
		_, err := config.SetKeys(m, "/h", []config.Pair{{Key: c[0], Value: c[1]}}, getenv)
		if c[2] == "" && (err != nil || strings.Contains(file(t, m), "B = ") != (c[1] != "null")) || c[2] != "" && file(t, m) != before {
			t.Errorf("%v: %v\n%s", c, err, file(t, m))
		}
		if c[2] != "" && !strings.Contains(fmt.Sprint(err), c[2]) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if text := file(t, m); !strings.HasPrefix(text, "# text\n[env]\nA = \"1\" # one\n[system") {
		t.Errorf("other lines changed:\n%s", text)
	}
}

// TestConcurrentKeys sets keys concurrently under the lock. The file must have all.
func TestConcurrentKeys(t *testing.T) {
	m := newHome(t, nil)
	const n = 20
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			err := config.Locked(m, "/h", time.Minute, func() error {
				_, err := config.SetKeys(m, "/h", []config.Pair{{Key: fmt.Sprintf("env.V%d", i), Value: fmt.Sprintf(`"%d"`, i)}}, getenv)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if c, err := config.Load(m, "/h", getenv); err != nil || len(c.Env) != n {
		t.Errorf("%v\n%s", err, file(t, m))
	}
}
