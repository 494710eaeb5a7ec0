package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestContributingExample builds the program with the example of CONTRIBUTING.md, which adds
// an operation with two files and a line, and runs its command.
func TestContributingExample(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIPPED: no go command")
	}
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(top, ".github", "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```go\n// daemon/op/count.go\n")
	row, rest, found := strings.Cut(rest, "\n// cmd/crabmem/count.go, and ")
	line, rest, _ := strings.Cut(rest, " in root.go\n")
	command, _, _ := strings.Cut(rest, "```")
	const after = `{"stats", statsCommand, needsStore},`
	root, err := os.ReadFile("root.go")
	if err != nil || !found || !strings.Contains(string(root), after) {
		t.Fatalf("no example, or no place for it in root.go: %v", err)
	}
	dir, replace := t.TempDir(), map[string]string{}
	for name, source := range map[string]string{
		"daemon/op/count.go":   "package op\n\nimport (\n\"context\"\n\n\"crabmem/daemon/errtable\"\n)\n" + row,
		"cmd/crabmem/count.go": "package main\n\nimport (\n\"context\"\n\n\"crabmem/crmem\"\n\"crabmem/daemon/op\"\n\n\"github.com/spf13/cobra\"\n)\n" + command,
		"cmd/crabmem/root.go":  strings.Replace(string(root), after, after+"\n"+line+",", 1),
	} {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		at, err := filepath.Abs(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		replace[at] = file
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "crabmem")
	if out, err := exec.Command("go", "build", "-gcflags=-N -l", "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"), "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(want string, args ...string) {
		t.Helper()
		c := exec.Command(exe, append(args, "--home", filepath.Join(dir, "home"))...)
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	run("remembered", "remember", "deploy", "build and tag")
	run(`{"entries":1}`, "count", "--json")
	run("0", "count", "--kind", "archive")
	run(`"entries"`, "schema", "count")
	run("Print the number of entries.", "help", "count")
}
