package skill

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/daemon/tool"
)

// TestBundled: the skill of the program is listed and loaded, no prompt has it, and a skill of the
// user with its name hides it.
func TestBundled(t *testing.T) {
	dir := t.TempDir()
	set := Load(vfs.OS{}, []Dir{{Path: dir, Tier: Workspace}, BundledDir}, nil)
	all := tool.Unbounded()
	if got := set.Resources(all); got != "" {
		t.Errorf("the prompt has %q", got)
	}
	if list := set.Skills(all); len(list) != 1 || list[0].Name != "memory" || list[0].Tier != Bundled || list[0].Body != "" || list[0].Dir != "" {
		t.Errorf("skills: %+v", list)
	}
	sk, err := set.Get(all, "memory")
	if err != nil || !strings.Contains(sk.Body, "One subject per note") || len(sk.problems) > 0 {
		t.Errorf("memory: %+v, %v", sk, err)
	}
	if text, _, err := set.Preprocess(all, "/memory keep it"); err != nil || !strings.Contains(text, "One subject per note") {
		t.Errorf("/memory: %q, %v", text, err)
	}
	if _, err := set.Get(only("other"), "memory"); err == nil {
		t.Error("a scope does not bound the skill")
	}
	if err := os.MkdirAll(filepath.Join(dir, "memory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "memory", filename), []byte("---\nname: memory\ndescription: mine\n---\nMine.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if sk, err := set.Get(all, "memory"); err != nil || sk.Body != "Mine." || len(set.Skills(all)) != 1 {
		t.Errorf("the user's skill: %+v, %v", sk, err)
	}
}
