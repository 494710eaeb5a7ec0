package foreign

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
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

// TestProjectOfGemini reads the working directory next to the directory with the chats.
func TestProjectOfGemini(t *testing.T) {
	m := faultfs.NewMem()
	for _, dir := range []string{"/g", "/g/tmp", "/g/tmp/x", "/g/tmp/x/chats"} {
		if err := m.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	text := `{"sessionId":"s","projectHash":"h"}` + "\n" + `{"id":"1","type":"user","content":"hello"}` + "\n"
	m.WriteFile("/g/tmp/x/chats/session-1.jsonl", []byte(text), 0o600)
	for root, want := range map[string]string{"": "", "/work/shop\n": "shop", strings.Repeat("x", maxRoot+1): ""} {
		m.WriteFile("/g/tmp/x/.project_root", []byte(root), 0o600)
		if tr, err := (File{Path: "/g/tmp/x/chats/session-1.jsonl", Kind: gemini}).Read(m); err != nil || tr.Meta.Project != want {
			t.Errorf("%.20q: project %q, %v; want %q", root, tr.Meta.Project, err, want)
		}
	}
}
