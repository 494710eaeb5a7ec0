package sessionlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
)

// TestProjectOf names the directory with .git, or else the working directory.
func TestProjectOf(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "ship", "cmd", "tool")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := ProjectOf(vfs.OS{}, deep); got != "tool" {
		t.Errorf("without .git: %q", got)
	}
	if err := os.WriteFile(filepath.Join(root, "ship", ".git"), nil, 0o600); err != nil { // as in a worktree
		t.Fatal(err)
	}
	if got := ProjectOf(vfs.OS{}, deep); got != "ship" {
		t.Errorf("with .git: %q", got)
	}
	if got := ProjectOf(vfs.OS{}, ""); got != "" {
		t.Errorf("without a directory: %q", got)
	}
	for dir, want := range map[string]string{
		"": "", "/": "", "/a/b/": "b", `C:\src\ship`: "ship", "relative": "relative", "/a/\xffb": "b",
		"/" + strings.Repeat("x", 300): strings.Repeat("x", 256),
	} {
		if got := ProjectOf(nil, dir); got != want {
			t.Errorf("%q: %q, want %q", dir, got, want)
		}
	}
}
