package external

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"crabmem/daemon/config"
	"crabmem/daemon/mcpserver/mcptest"
)

// TestPublicAgent runs an agent over the library that agents of others use: it gets the
// task, reports what it does, and is denied or granted a permission; it ends its turn, or
// is canceled. CRABMEM_ACP is the directory where npm installed the library.
func TestPublicAgent(t *testing.T) {
	dir := os.Getenv("CRABMEM_ACP")
	if dir == "" {
		mcptest.Skip(t, "acp", "CRABMEM_ACP is not set")
	}
	file, err := filepath.Abs("testdata/agent.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		task, permissions string
		cancel            bool
		status            string
		text              string
	}{
		{"count", "deny", false, "done (outcome)", "count: no, error -32601"},
		{"count", "allow", false, "done (outcome)", "count: yes, error -32601"},
		{"reach the limit", "deny", false, "failed (exhausted)", "reach the limit: no"},
		{"wait", "deny", true, "failed (cancelled)", "wait: no"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		w := &config.ExternalWorker{Name: "w", Protocol: config.ACP, Command: "node", Args: []config.Secret{config.Secret(file), config.Secret(dir)}, Permissions: c.permissions,
			Env: map[string]config.Secret{"PATH": config.Secret(os.Getenv("PATH"))}}
		var statuses []string
		o := Run(ctx, w, Input{Task: c.task, Dir: t.TempDir(), Version: "test"}, Callbacks{Status: func(text string) {
			if statuses = append(statuses, text); c.cancel && text == "waiting" {
				cancel(errors.New("canceled"))
			}
		}})
		want(t, o, c.status, c.text)
		if !slices.Contains(statuses, "run the tests") {
			t.Errorf("%s: statuses %q", c.task, statuses)
		}
		cancel(nil)
	}
}
