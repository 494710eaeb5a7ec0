package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/mcpserver/mcptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCPInspector has the command line of the MCP inspector, of npm, list and
// call every tool over standard input and output, and over HTTP. Unless
// CRABMEM_REQUIRE names "inspector" it calls one tool only.
func TestMCPInspector(t *testing.T) {
	t.Parallel()
	inspector := mcptest.Npx(t, "inspector", "@modelcontextprotocol/inspector@2.12.0")
	file, env := program(t)
	base := t.TempDir()
	home := filepath.Join(base, "home")
	exampleSessions(t, base)
	inspect := func(t *testing.T, target []string, args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), inspector.Path, slices.Concat(inspector.Args[1:], []string{"--cli"}, target, args)...)
		cmd.Env = append(env, "MCP_CATALOG_PATH="+filepath.Join(base, "catalog.json"))
		var out, diag bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &diag
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, out.String(), diag.String())
		}
		return out.Bytes()
	}
	steps := toolCalls
	full := mcptest.Required("inspector")
	if !full {
		steps = steps[:1]
	}
	run := func(t *testing.T, target []string) {
		var tools mcp.ListToolsResult
		if err := json.Unmarshal(inspect(t, target, "--method", "tools/list", "--strict"), &tools); err != nil || len(tools.Tools) < len(toolCalls)-1 {
			t.Fatalf("%d tools, %v", len(tools.Tools), err)
		}
		for _, s := range steps {
			args := []string{"--method", "tools/call", "--tool-name", s.tool}
			for name, value := range s.args {
				args = append(args, "--tool-arg", fmt.Sprintf("%s=%v", name, value))
			}
			out := inspect(t, target, args...)
			var res mcp.CallToolResult
			if err := json.Unmarshal(out, &res); err != nil || res.IsError || !strings.Contains(mcptest.Text(t, &res), s.want) {
				t.Errorf("%s: %v, %s", s.tool, err, out)
			}
		}
		if full {
			if out := inspect(t, target, "--method", "resources/templates/list"); !bytes.Contains(out, []byte("crabmem://archive/{name}")) {
				t.Errorf("templates: %s", out)
			}
		}
	}
	t.Run("stdio", func(t *testing.T) {
		run(t, []string{file, "mcp", "--db", filepath.Join(base, "stdio.db"), "--home", home, "-e", runMain + "=1"})
	})
	t.Run("http", func(t *testing.T) {
		cmd := exec.Command(file, "mcp", "--http", "127.0.0.1:0", "--home", home)
		const token = "0123456789abcdef0123456789abcdef"
		cmd.Env = append(env, "CRABMEM_TOKEN="+token)
		diag := &mcptest.Buffer{}
		cmd.Stderr = diag
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		run(t, []string{listening(t, diag), "--transport", "http", "--header", "Authorization: Bearer " + token})
	})
}
