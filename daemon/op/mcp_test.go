package op_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
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

// TestRowsOverMCP checks that a server offers a row with a tool: its schemas and
// annotations, the checks of arguments, and the result.
func TestRowsOverMCP(t *testing.T) {
	s := serveMCP(t)
	for name, content := range map[string]string{"a1": "x", "b1": "y"} {
		if res, text := mcptest.Call(t, s, "remember", map[string]any{"name": name, "content": content}); res.IsError {
			t.Fatal(text)
		}
	}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == "count_notes" })
	if i < 0 {
		t.Fatal("no tool count_notes")
	}
	got, err := json.Marshal(list.Tools[i])
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"annotations":{"destructiveHint":false,"idempotentHint":true,"openWorldHint":false,"readOnlyHint":true,"title":"Count notes"},` +
		`"description":"Count the notes.",` +
		`"inputSchema":{"properties":{"prefix":{"description":"only names with this prefix","maxLength":8,"type":"string"}},"type":"object"},` +
		`"name":"count_notes","outputSchema":{"properties":{"argument_notes":{"description":"ignored or changed arguments; absent without such arguments","items":{"type":"string"},"type":"array"},"notes":{"type":"integer"}},"required":["notes"],"type":"object"}}`; string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, c := range []struct {
		args       map[string]any
		text       string // the last line but one, or a part of the error
		structured string
	}{
		{nil, `{"notes":2}`, `{"notes":2}`},
		{map[string]any{"prefix": "a"}, `{"notes":1}`, `{"notes":1}`},
		{map[string]any{"as": "ann"}, "ignored unknown arguments: \"as\"; the arguments are prefix", `{"argument_notes":["ignored unknown arguments: \"as\"; the arguments are prefix"],"notes":2}`},
		{map[string]any{"prefix": "123456789"}, "prefix must have at most 8 characters, and has 9", ""},
	} {
		res, text := mcptest.Call(t, s, "count_notes", c.args)
		b, err := json.Marshal(res.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, c.text) || res.IsError != (c.structured == "") || !res.IsError && (string(b) != c.structured || !strings.Contains(text, "\n>>> memory ")) {
			t.Errorf("%v: %s\n%s", c.args, b, text)
		}
	}
}

// serveMCP serves an empty store.
func serveMCP(t *testing.T) *mcp.ClientSession {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memory.db")
	server, err := mcpserver.New(t.Context(), mcpserver.Options{Path: path, FS: vfs.OS{}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Write: func(_ context.Context, f func(op.Memory) error) error {
			s, err := client.OpenStore(t.Context(), client.StoreOptions{Path: path, Options: crmem.Options{FS: vfs.OS{}}})
			if err != nil {
				return err
			}
			return errors.Join(f(s), s.Close())
		}})
	if err != nil {
		t.Fatal(err)
	}
	return mcptest.Serve(t, mcptest.Client(), nil, func(ctx context.Context, in io.Reader, out io.Writer) error {
		return errors.Join(server.ServeStdio(ctx, in, out), server.Close())
	})
}
