//go:build unix

package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
)

// TestHostileFiles puts links out of the workspace, and FIFOs, in the place of each file.
// Load refuses each, names it, and does not wait.
func TestHostileFiles(t *testing.T) {
	outside := filepath.Join(temp(t), "outside")
	write(t, outside, "file", "", "dir/SKILL.md", "x")
	for _, name := range []string{File, "agents/a.toml", "mcp/a.toml", "cron/a.toml", "skills/a/SKILL.md", "skills/a/data", Managed + "/skills/a/data", Managed + "/skills", Managed + "/mcp/a.toml", Managed + "/agents", Managed, ".crabmem", "agents", "mcp", "cron", "skills", "data", "data/memory.db", "run.sh"} {
		for kind, make := range map[string]func(string) error{
			"link to a file":      func(p string) error { return os.Symlink(filepath.Join(outside, "file"), p) },
			"link to a directory": func(p string) error { return os.Symlink(filepath.Join(outside, "dir"), p) },
			"FIFO":                func(p string) error { return syscall.Mkfifo(p, 0o600) },
		} {
			root := temp(t)
			path := filepath.Join(root, name)
			write(t, root, File, "[memory]\nproject = true\n[mcps.own]\ncommand = \"./run.sh\"\n", filepath.Join(filepath.Dir(name), "x"), "")
			os.Remove(path) //nolint:errcheck // only the main file is there
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(vfs.OS{}, filepath.Join(root, File)); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "links are not followed") {
				t.Errorf("%s for %s: got %v", kind, name, err)
			}
		}
	}
}
