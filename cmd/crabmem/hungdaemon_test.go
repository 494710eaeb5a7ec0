package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
)

// TestLockWaitBoundsHello checks the time-out that a write passes to the
// daemon's Hello: the rest of --lock-wait, and one second at least.
func TestLockWaitBoundsHello(t *testing.T) {
	for _, test := range []struct {
		lockWait string
		most     time.Duration
	}{
		{"0s", time.Second}, {"1s", time.Second}, {"1500ms", 1500 * time.Millisecond}, {"4s", 4 * time.Second},
	} {
		t.Run(test.lockWait, func(t *testing.T) {
			t.Parallel()
			db := filepath.Join(t.TempDir(), "memory.db")
			l, err := vfs.OS{}.Lock(db + "-lock")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Unlock()
			if err := l.SetText(vfs.LockHolder{PID: 4711, Command: "crabmem daemon", Socket: db + ".sock"}.Text()); err != nil {
				t.Fatal(err)
			}
			var diag bytes.Buffer
			c := newApp(strings.NewReader(""), &bytes.Buffer{}, &diag)
			calls := 0
			c.hello = func(ctx context.Context, _ *client.Client) (client.Daemon, error) {
				calls++
				end, ok := ctx.Deadline()
				if left := time.Until(end); !ok || left > test.most {
					t.Errorf("Hello may take %v, want at most %v", left, test.most)
				}
				<-ctx.Done()
				return client.Daemon{}, ctx.Err()
			}
			code := c.report(c.execute(t.Context(), []string{"remember", "tea", "green", "--db", db, "--lock-wait", test.lockWait}))
			if code != cli.ExitConflict || calls != 1 {
				t.Errorf("exit code %d after %d calls of Hello, want %d after 1: %s", code, calls, cli.ExitConflict, diag.String())
			}
		})
	}
}
