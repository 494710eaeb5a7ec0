//lint:file-ignore SA1019 clients of protocol versions before 2026-07-28 have roots

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/mcpserver"
	"crabmem/daemon/mcpserver/mcptest"
	"crabmem/daemon/op"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveMCP serves MCP with options, and returns a client that works in some directories.
func serveMCP(t *testing.T, o mcpserver.Options, roots ...*mcp.Root) *mcp.ClientSession {
	t.Helper()
	o.FS, o.Now, o.Log = vfs.OS{}, time.Now, slog.New(slog.DiscardHandler)
	server, err := mcpserver.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c := mcptest.Client()
	c.AddRoots(roots...)
	return mcptest.Serve(t, c, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"}, func(ctx context.Context, in io.Reader, out io.Writer) error {
		return errors.Join(server.ServeStdio(ctx, in, out), server.Close())
	})
}

// volatile are the parts of results that differ: times, the marks of data, counts of reads, and
// the client in the history.
var volatile = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|\b[a-z0-9]{16}\b|"access(ed_at|_count)":[^,]*,|, by http|"by":\{[^}]*\}`)

// TestRemoteMCP calls each tool of an MCP server on a gateway, and the same tools of one on a
// store: the results are the same.
func TestRemoteMCP(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "memory.db")
	local := serveMCP(t, mcpserver.Options{Path: path, Write: func(ctx context.Context, f func(op.Memory) error) error {
		s, err := client.OpenStore(ctx, client.StoreOptions{Path: path, Options: crmem.Options{FS: vfs.OS{}}})
		if err != nil {
			return err
		}
		return errors.Join(f(s), s.Close())
	}})
	remote := serveMCP(t, mcpserver.Options{Remote: r.remote(r.url, "ann")})
	tools, err := remote.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	called := map[string]bool{"session_search": true} // the other server has no sessions
	for _, c := range []struct {
		tool string
		args map[string]any
	}{
		{"remember", map[string]any{"name": "deploy", "content": "build, tag, push", "aliases": []string{"ship"}}},
		{"remember", map[string]any{"name": "tea", "content": "green", "type": "preference"}},
		{"remember", map[string]any{"name": "tea", "content": "black"}},
		{"append", map[string]any{"name": "deploy", "text": "watch the canary"}},
		{"edit", map[string]any{"name": "deploy", "old_text": "tag", "new_text": "sign"}},
		{"recall", map[string]any{"query": "how do we deploy?"}},
		{"get_memory", map[string]any{"name": "ship"}},
		{"list_memories", nil},
		{"memory_history", map[string]any{"name": "tea"}},
		{"memory_history", map[string]any{"name": "tea", "change": 2}},
		{"pin", map[string]any{"names": []string{"tea"}}},
		{"memory_context", nil},
		{"forget", map[string]any{"name": "tea"}},
		{"restore", map[string]any{"name": "tea"}},
		{"task_create", map[string]any{"title": "order tea"}},
		{"task_update", map[string]any{"number": 3, "status": "done"}},
		{"task_list", nil},
		{"forget", map[string]any{"name": "ship"}},
		{"forget", map[string]any{"name": "nobody"}},
	} {
		called[c.tool] = true
		want, wantText := mcptest.Call(t, local, c.tool, c.args)
		got, text := mcptest.Call(t, remote, c.tool, c.args)
		shown := func(text string, v any) string {
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return volatile.ReplaceAllString(text+"\n"+string(b), "")
		}
		if message, _, _ := strings.Cut(wantText, ". Try"); want.IsError && got.IsError && strings.Contains(text, message) {
			continue // the gateway's message is data
		}
		if a, b := shown(wantText, want.StructuredContent), shown(text, got.StructuredContent); a != b || want.IsError != got.IsError {
			t.Errorf("%s %v: a store returns\n%s\nand the gateway\n%s", c.tool, c.args, a, b)
		}
	}
	for _, tool := range tools.Tools {
		if !called[tool.Name] {
			t.Errorf("the tool %s was not called", tool.Name)
		}
	}
	if _, text := mcptest.Call(t, remote, "session_search", map[string]any{"query": "tea"}); !strings.HasPrefix(text, "0 of 0 matches") {
		t.Errorf("session_search: %s", text)
	}
	// A name of another writer is no part of a message that a model trusts.
	mcptest.Call(t, remote, "remember", map[string]any{"name": "green tea", "content": "x", "aliases": []string{"drink"}})
	mcptest.Call(t, remote, "remember", map[string]any{"name": "red tea", "content": "x", "aliases": []string{"drink"}})
	if res, text := mcptest.Call(t, remote, "get_memory", map[string]any{"name": "drink"}); !res.IsError || strings.Contains(strings.Split(text, "\n")[0], "green") || !strings.Contains(text, ">>> memory ") {
		t.Errorf("an ambiguous name: %s", text)
	}
	// The client's project is not sent: only the owner of a memory may choose that of a note.
	inShop := serveMCP(t, mcpserver.Options{Remote: r.remote(r.url, "ann")}, &mcp.Root{URI: "file:///work/shop"})
	if res, text := mcptest.Call(t, inShop, "remember", map[string]any{"name": "port", "content": "6688"}); res.IsError {
		t.Errorf("remember in a project: %s", text)
	}
	var names [2]string
	for i, s := range []*mcp.ClientSession{local, remote} {
		list, err := s.ListResources(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, res := range list.Resources[:4] {
			names[i] += res.URI + " "
		}
		one, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "crabmem://note/deploy"})
		if err != nil {
			t.Fatal(err)
		}
		names[i] += one.Contents[0].Text
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "crabmem://note/ship"}); err == nil {
			t.Error("an alias is a resource")
		}
	}
	if names[0] != names[1] || !strings.Contains(names[0], "crabmem://note/tea") {
		t.Errorf("resources %q, and through the gateway %q", names[0], names[1])
	}
}
