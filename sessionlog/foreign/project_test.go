package foreign

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"crabmem/crmem/vfs"
)

// TestProjectOfTop names the project of a transcript by the directory with .git above the
// working directory, if this machine has it.
func TestProjectOfTop(t *testing.T) {
	top := filepath.Join(t.TempDir(), "shop")
	if err := os.MkdirAll(filepath.Join(top, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{filepath.Join(top, "cmd", "server"): "shop", filepath.Join(top, "..", "page"): "page", `C:\work\ship`: "ship"} {
		name := filepath.Join(t.TempDir(), "t.jsonl")
		text := fmt.Sprintf(`{"type":"user","uuid":"1","sessionId":"s","cwd":%q,"message":{"role":"user","content":"hello"}}`, dir)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if tr, err := (File{Path: name, Kind: claudeCode}).Read(vfs.OS{}); err != nil || tr.Meta.Project != want {
			t.Errorf("%s: project %q, %v; want %q", dir, tr.Meta.Project, err, want)
		}
	}
}
