package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"crabmem/bench/gate"
	"crabmem/daemon/mcpserver"
	"crabmem/daemon/mcpserver/compat/memgraph"
	"crabmem/daemon/mcpserver/mcptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serve runs the command in this process, on a store under dir, and returns a
// client of it. At the end of the test the command ends with its input.
func serve(t *testing.T, dir string, args ...string) *mcp.ClientSession {
	t.Helper()
	askR, askW := io.Pipe()
	answerR, answerW := io.Pipe()
	diag := &mcptest.Buffer{}
	c := newApp(askR, answerW, diag)
	c.Getenv = func(string) string { return "" }
	ended := make(chan error, 1)
	go func() {
		args := append([]string{"mcp", "--home", dir, "--lock-wait", "60s"}, args...)
		err := c.execute(context.Background(), args)
		answerW.Close()
		ended <- err
	}()
	session, err := mcptest.Client().Connect(t.Context(), &mcp.IOTransport{Reader: answerR, Writer: askW, MaxLineLength: 64 << 20}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, diag)
	}
	t.Cleanup(func() {
		session.Close()
		if err := <-ended; err != nil {
			t.Errorf("crabmem mcp %v ended with %v\n%s", args, err, diag)
		}
	})
	return session
}

// toolCalls are calls of tools, each with a part of its text.
var toolCalls = []struct {
	tool string
	args map[string]any
	want string
}{
	{"remember", map[string]any{"name": "deploy", "content": "build, tag, push"}, "deploy, 16 bytes"},
	{"recall", map[string]any{"query": "push", "limit": 3}, "1 of 1 match"},
	{"get_memory", map[string]any{"name": "deploy"}, "build, tag, push"},
	{"list_memories", map[string]any{}, "1 of 1 entry"},
	{"memory_history", map[string]any{"name": "deploy"}, "1 of 1 version"},
	{"append", map[string]any{"name": "deploy", "text": "watch"}, "deploy, 22 bytes"},
	{"edit", map[string]any{"name": "deploy", "old_text": "push\nwatch", "new_text": "watch"}, "deploy, 17 bytes"},
	{"session_search", map[string]any{"query": "port"}, "6688, on loopback"},
	{"forget", map[string]any{"name": "deploy"}, "forgot deploy"},
	{"restore", map[string]any{"name": "deploy"}, "deploy, 17 bytes"},
	{"forget", map[string]any{"name": "deploy"}, "forgot deploy"},
}

// callTools calls the tools of toolCalls.
func callTools(t *testing.T, s *mcp.ClientSession) {
	t.Helper()
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) < len(toolCalls)-1 {
		t.Fatalf("%d tools, %v", len(tools.Tools), err)
	}
	for _, c := range toolCalls {
		if res, text := mcptest.Call(t, s, c.tool, c.args); res.IsError || !strings.Contains(text, c.want) {
			t.Errorf("%s: error %t, %s", c.tool, res.IsError, text)
		}
	}
}

// TestMCPOverStdio runs the program as clients do.
func TestMCPOverStdio(t *testing.T) {
	t.Parallel()
	file, env := program(t)
	home := filepath.Join(t.TempDir(), "home")
	exampleSessions(t, filepath.Dir(home))
	cmd := exec.Command(file, "mcp", "--home", home)
	cmd.Env = env
	diag := &mcptest.Buffer{}
	cmd.Stderr = diag
	s, err := mcptest.Client().Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, diag)
	}
	callTools(t, s)
	if err := s.Close(); err != nil {
		t.Errorf("it ended with %v\n%s", err, diag)
	}
	if strings.Contains(diag.String(), "WARN") {
		t.Errorf("it warned:\n%s", diag)
	}
}

// TestMCPOverHTTP runs the program as a listener, for two clients.
func TestMCPOverHTTP(t *testing.T) {
	t.Parallel()
	file, env := program(t)
	home := filepath.Join(t.TempDir(), "home")
	exampleSessions(t, filepath.Dir(home))
	cmd := exec.Command(file, "mcp", "--http", "127.0.0.1:0", "--home", home)
	cmd.Env = env
	diag := &mcptest.Buffer{}
	cmd.Stderr = diag
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v\n%s", err, diag)
		}
	})
	url := listening(t, diag)
	token, err := os.ReadFile(filepath.Join(home, "mcp-token"))
	if err != nil || len(strings.TrimSpace(string(token))) != 64 {
		t.Fatalf("token %q, %v", token, err)
	}
	if fi, err := os.Stat(filepath.Join(home, "mcp-token")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v %v", fi.Mode(), err)
	}
	if strings.Contains(diag.String(), strings.TrimSpace(string(token))) {
		t.Error("the token is in the log")
	}
	connect := func(token string) (*mcp.ClientSession, error) {
		return mcptest.Client().Connect(t.Context(), mcptest.HTTP(url, token), nil)
	}
	s, err := connect(strings.TrimSpace(string(token)))
	if err != nil {
		t.Fatalf("%v\n%s", err, diag)
	}
	callTools(t, s)
	other, err := connect(strings.TrimSpace(string(token)))
	if err != nil {
		t.Fatal(err)
	}
	if _, text := mcptest.Call(t, other, "list_memories", nil); text != "0 of 0 entries" {
		t.Errorf("the other client reads %q", text)
	}
	s.Close()
	other.Close()
	if _, err := connect("not the token"); err == nil {
		t.Error("a wrong token is taken")
	}
}

var listeningAt = regexp.MustCompile(`url=(\S+)`)

// listening waits until a server says where it listens.
func listening(t *testing.T, diag *mcptest.Buffer) string {
	t.Helper()
	var found []string
	gate.Until(t, "the server listens", func() bool {
		found = listeningAt.FindStringSubmatch(diag.String())
		return found != nil
	})
	return found[1]
}

// TestMCPManyServers runs 8 servers with a client each on one store, which
// does not exist yet, and wants every write that was acknowledged.
func TestMCPManyServers(t *testing.T) {
	t.Parallel()
	file, env := program(t)
	for _, compat := range []string{"", mcpserver.CompatReference, mcpserver.CompatAnthropic} {
		t.Run("compat "+compat, func(t *testing.T) {
			const servers, writes = 8, 10
			db := filepath.Join(t.TempDir(), "home", "memory.db")
			var all sync.WaitGroup
			for i := range servers {
				cmd := exec.Command(file, "mcp", "--db", db, "--lock-wait", "120s", "--compat="+compat)
				if compat == "" {
					cmd.Args = cmd.Args[:len(cmd.Args)-1]
				}
				cmd.Env = env
				diag := &mcptest.Buffer{}
				cmd.Stderr = diag
				s, err := mcptest.Client().Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
				if err != nil {
					t.Fatalf("%v\n%s", err, diag)
				}
				defer s.Close()
				for j := range writes {
					all.Go(func() {
						name := fmt.Sprintf("server %d write %d", i, j)
						tool, args := "remember", map[string]any{"name": name, "content": "text of " + name}
						switch compat {
						case mcpserver.CompatReference:
							tool = "create_entities"
							args = map[string]any{"entities": []memgraph.Entity{{Name: name, EntityType: "write", Observations: []string{"text of " + name}}}}
						case mcpserver.CompatAnthropic:
							tool, args = "memory", map[string]any{"command": "create", "path": "/memories/" + name, "file_text": "text of " + name}
						}
						res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
						if err != nil || res.IsError {
							t.Errorf("%s: %v %+v\n%s", name, err, res, diag)
						}
					})
				}
			}
			all.Wait()
			out, diag, code := answer("export", "--db", db)
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, diag)
			}
			kept := 0
			for i := range servers {
				for j := range writes {
					kept += strings.Count(out, fmt.Sprintf("server %d write %d\",\"kind\"", i, j))
				}
			}
			if kept != servers*writes || strings.Count(out, "\n") != kept {
				t.Errorf("%d of %d writes kept, %d entries", kept, servers*writes, strings.Count(out, "\n"))
			}
			t.Logf("%d servers, %d writes each: %d of %d kept", servers, writes, kept, servers*writes)
		})
	}
}

// TestMCPBesideDaemon writes while a daemon has the store's lock, and after it
// has gone.
func TestMCPBesideDaemon(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	var all sync.WaitGroup
	servers := []*mcp.ClientSession{serve(t, p.home), serve(t, p.home), serve(t, p.home, "--compat", "reference")}
	for i, s := range servers {
		all.Go(func() {
			for j := range 10 {
				tool, args := "remember", map[string]any{"name": fmt.Sprintf("server %d write %d", i, j), "content": "text"}
				if i == 2 {
					// All of them change one note.
					tool, args = "create_relations", map[string]any{"relations": []memgraph.Relation{{From: "hub", To: fmt.Sprint(j), RelationType: "to"}}}
				}
				res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
				if err != nil || res.IsError {
					t.Errorf("%s %v: %v %+v", tool, args, err, res)
				}
			}
		})
	}
	all.Wait()
	if _, text := mcptest.Call(t, servers[0], "list_memories", nil); !strings.HasPrefix(text, "21 of 21 entries") {
		t.Errorf("entries: %s", text)
	}
	if _, text := mcptest.Call(t, servers[2], "read_graph", nil); strings.Count(text, `"relationType"`) != 10 {
		t.Errorf("relations: %s", text)
	}
	if _, text := mcptest.Call(t, servers[1], "forget", map[string]any{"name": "server 0 write 0"}); !strings.HasPrefix(text, "forgot server 0 write 0\n") {
		t.Errorf("forget: %s", text)
	}
	mcptest.Refused(t, servers[1], "forget", map[string]any{"name": "server 0 write 0"}, "^no entry .* Try: use list_memories")
	p.ends()
	if _, text := mcptest.Call(t, servers[0], "remember", map[string]any{"name": "server 1 write 1", "content": "without the daemon"}); !strings.HasPrefix(text, "replaced the note ") {
		t.Errorf("remember: %s", text)
	}
	if _, text := mcptest.Call(t, servers[1], "get_memory", map[string]any{"name": "server 1 write 1"}); !strings.Contains(text, "\n\nwithout the daemon\n") {
		t.Errorf("get_memory: %s", text)
	}
}

// TestMCPNamespace serves another store, which has neither the entries nor the
// sessions of the home.
func TestMCPNamespace(t *testing.T) {
	base := t.TempDir()
	exampleSessions(t, base)
	dir := filepath.Join(base, "home")
	s, other := serve(t, dir), serve(t, dir, "--namespace", "work.db")
	mcptest.Call(t, s, "remember", map[string]any{"name": "here", "content": "pelican"})
	if _, text := mcptest.Call(t, other, "recall", map[string]any{"query": "pelican"}); text != "0 of 0 matches, 0 entries searched, 0 tokens" {
		t.Errorf("the namespace contains %s", text)
	}
	tools, err := other.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) < len(toolCalls)-2 || slices.ContainsFunc(tools.Tools, func(tool *mcp.Tool) bool { return tool.Name == "session_search" }) {
		t.Errorf("tools %+v, %v", tools, err)
	}
}

// TestTemporaryProgram: no client starts a program that go run or uv removes.
func TestTemporaryProgram(t *testing.T) {
	for path, want := range map[string]string{
		"/tmp/go-build123/b001/exe/crabmem": "go run", "/tmp/go-build123/b001/crabmem.test": "", "/home/exe/crabmem": "", "/usr/bin/crabmem": "",
		"/root/.cache/uv/archive-v0/QdSNmkTCfU2Gvqs-/bin/crabmem": "uv", "/root/.local/share/uv/tools/crabmem/bin/crabmem": "",
	} {
		if got, _ := temporary(filepath.FromSlash(path)); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}
