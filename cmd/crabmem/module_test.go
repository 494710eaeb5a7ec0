package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplace builds a program of another module that uses the packages of this one, as the
// guide describes it.
func TestReplace(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	dir := t.TempDir()
	source, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	path, err := exec.Command("go", "list", "-m").Output()
	if err != nil {
		t.Skipf("SKIPPED: no go command: %v", err)
	}
	module := strings.TrimSpace(string(path))
	program := "package main\n\nimport _ \"" + module + "/crmem\"\n\nfunc main() {}\n"
	sums, err := os.ReadFile(filepath.Join(top, "go.sum")) // instead of go mod tidy, which needs the network
	for name, text := range map[string]string{"main.go": program, "go.mod": "module notes\n", "go.sum": string(sums)} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"go mod edit -require=crabmem@v0.0.0 -replace=crabmem=../crabmem",
		"go build -mod=mod -o notes",
	} {
		line = strings.NewReplacer("=../crabmem", "="+source, "=crabmem", "="+module).Replace(line)
		cmd := exec.Command("go", strings.Fields(line)[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}
