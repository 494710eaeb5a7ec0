//go:build unix

package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/daemon/tool"
)

// TestKeyFiles checks that the file tools refuse the home and its key files: from each
// working directory, by each spelling, and through links in both directions.
func TestKeyFiles(t *testing.T) {
	top, err := filepath.EvalSymlinks(home(t))
	if err != nil {
		t.Fatal(err)
	}
	h, work, dots := top+"/h", top+"/work", top+"/dots"
	for _, dir := range []string{h + "/config", h + "/inner", work, dots} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	// Two are hard links of files elsewhere, as programs that manage such files make them.
	for _, name := range []string{"config.toml", "gateway.toml"} {
		link(os.WriteFile(dots+"/"+name, []byte("# planted\n"), 0o600))
	}
	link(os.Link(dots+"/config.toml", h+"/config.toml"))
	link(os.Link(dots+"/gateway.toml", h+"/config/gateway.toml"))
	for _, name := range []string{"secrets.key", "secrets.json", "mcp-token", "config/gateway-keys.json", "crons.toml", "other"} {
		link(os.WriteFile(h+"/"+name, []byte("# planted\n"), 0o600))
		link(os.Symlink(h+"/"+name, work+"/soft-"+filepath.Base(name)))
		if name != "other" {
			link(os.Link(h+"/"+name, work+"/hard-"+filepath.Base(name)))
		}
	}
	link(os.Symlink(h, work+"/home"))
	link(os.Symlink("../h/config", work+"/configuration"))
	link(os.WriteFile(work+"/plain", []byte("plain\n"), 0o600))
	s := serve(t, h, "")
	read := func(dir, path string) string {
		args, err := json.Marshal(map[string]string{"path": path})
		if err != nil {
			t.Fatal(err)
		}
		texts := ""
		for _, f := range s.files.Tools() {
			out, err := f.Run(t.Context(), tool.Call{Dir: dir, Arguments: args, Scope: tool.Unbounded()})
			if texts += out; err != nil && f.Name == tool.Read {
				texts += err.Error()
			}
		}
		return texts
	}
	if got := read(work, "plain"); !strings.Contains(got, "plain") {
		t.Fatalf("a plain file: %s", got)
	}
	n := 0
	for _, dir := range []string{"/", top, work, h, h + "/config", h + "/inner", dots, work + "/home"} {
		for _, name := range []string{
			"h/secrets.key", "secrets.key", "../secrets.key", "./secrets.key", "work/../h/secrets.key", "../h/secrets.key", h + "/secrets.key", h + "//./secrets.key",
			"h/config/../secrets.json", "home/secrets.key", "work/home/config.toml", "config.toml", "gateway.toml", "dots/config.toml", "dots/gateway.toml", dots + "/config.toml",
			"configuration/gateway-keys.json", "soft-secrets.key", "soft-secrets.json", "soft-mcp-token", "soft-gateway-keys.json", "soft-crons.toml", "soft-other", "hard-secrets.key",
			"hard-secrets.json", "hard-mcp-token", "hard-gateway-keys.json", "hard-crons.toml", "work/hard-secrets.key", "SECRETS.KEY", "h/other", "other",
			strings.TrimPrefix(h, "/") + "/secrets.key", "proc/self/root" + h + "/secrets.key", "/proc/self/cwd/../secrets.key",
		} {
			n++
			if got := read(dir, name); strings.Contains(got, "planted") {
				t.Errorf("%s in %s: %s", name, dir, got)
			}
		}
	}
	t.Logf("%d paths", n)
}
