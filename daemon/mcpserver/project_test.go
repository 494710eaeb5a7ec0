//lint:file-ignore SA1019 clients of protocol versions before 2026-07-28 have roots

package mcpserver

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/mcpserver/mcptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestProjectOfRoot: a new note has the project of the client's root, and hits of that
// project come first among equals.
func TestProjectOfRoot(t *testing.T) {
	dir := t.TempDir()
	shop := filepath.Join(dir, "my shop")
	if err := os.MkdirAll(filepath.Join(shop, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(shop, "web"), 0o700); err != nil {
		t.Fatal(err)
	}
	root := func(path string) *mcp.Root {
		if runtime.GOOS == "windows" {
			path = "/" + filepath.ToSlash(path)
		}
		return &mcp.Root{URI: "file://" + strings.ReplaceAll(path, " ", "%20")}
	}
	s := newTestServer(t, dir)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session := connectClient(t, s, client, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	content := func(name string) (text string) {
		t.Helper()
		err := s.store.Read(func(st *crmem.Store) error {
			e, err := st.Get(name)
			text = e.Content
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	remember := func(name, text string) string {
		t.Helper()
		if res, text := mcptest.Call(t, session, "remember", map[string]any{"name": name, "content": text}); res.IsError {
			t.Fatal(text)
		}
		return content(name)
	}
	if got := remember("a", "green tea"); got != "green tea" {
		t.Errorf("without a root: %q", got)
	}
	client.AddRoots(root(filepath.Join(shop, "web")))
	// The client has sent the change of its roots before it reads the response.
	if err := session.Ping(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	const front = "---\nproject: my shop\n---\n"
	for name, c := range map[string][2]string{
		"b": {"green tea", front + "green tea"},
		"a": {"green tea!", "green tea!"}, // a note that exists
		"c": {"---\nproject: other\n---\ngreen tea", "---\nproject: other\n---\ngreen tea"},
		"d": {"---\nnested:\n  key: value\n---\ntext", "---\nnested:\n  key: value\n---\ntext"},
	} {
		if got := remember(name, c[0]); got != c[1] {
			t.Errorf("%s: %q, want %q", name, got, c[1])
		}
	}
	if got := remember("b", "milk"); got != "milk" && got != front+"milk" {
		t.Errorf("replaced: %q", got)
	}
	if _, text := mcptest.Call(t, session, "recall", map[string]any{"query": "milk", "project": "MY SHOP"}); !strings.Contains(text, "1 of 1 match") {
		t.Error(text)
	}
	if _, text := mcptest.Call(t, session, "recall", map[string]any{"query": "green tea", "project": "other"}); !strings.Contains(text, "1 of 1 match") {
		t.Error(text)
	}
}

func TestRootDir(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: paths of Windows have another form")
	}
	for uri, want := range map[string]string{
		"file:///home/ada/shop": "/home/ada/shop", "file://localhost/a%20b/": "/a b", "file:///a/../b": "/b", "file:///": "/",
		"file://host/a": "", "http://localhost/a": "", "file:a": "", "a": "", "": "", "file:///a%00b": "", "file:///%zz": "", "file:///" + strings.Repeat("x", maxRoot): "",
	} {
		if got := rootDir(uri); got != want {
			t.Errorf("rootDir(%.40q) = %q, want %q", uri, got, want)
		}
	}
}
