package main

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"crabmem/cmd/crabmem/internal/cli"
)

// TestNoHome runs commands without a home directory: those that need one are refused,
// and write nothing.
func TestNoHome(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: another variable contains the home directory")
	}
	for _, name := range []string{"HOME", "CRABTALK_HOME", "CRABMEM_DB"} {
		t.Setenv(name, "")
	}
	db := filepath.Join(t.TempDir(), "memory.db")
	for line, want := range map[string]int{
		"list": cli.ExitUsage, "sessions list": cli.ExitUsage, "sessions list --db " + db: cli.ExitUsage, "inspect": cli.ExitUsage,
		"remember a b --db " + db: 0, "version": 0, "schema list": 0, "list --home " + t.TempDir(): cli.ExitNotFound,
	} {
		_, diag, code := answer(strings.Fields(line)...)
		if refused := strings.HasPrefix(diag, "error: no home directory: "); code != want || refused != (want == cli.ExitUsage) {
			t.Errorf("%s: exit code %d, want %d: %s", line, code, want, diag)
		}
	}
	for _, line := range []string{"list --db " + db, "inspect " + db} {
		if _, diag, code := answer(strings.Fields(line)...); code != 0 {
			t.Errorf("%s: exit code %d: %s", line, code, diag)
		}
	}
}
