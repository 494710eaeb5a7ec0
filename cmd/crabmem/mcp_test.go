package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/mcpserver/memgraph"
	"crabmem/daemon/memtool"
	"crabmem/sessionlog"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var updateMCP = flag.Bool("mcp.update", false, "write what the MCP server offers to testdata/mcp")

// lockedBuffer is written by a server and read by its test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func testClient() *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
}

// serve runs the command in this process, on a store under dir, and returns a
// client of it. At the end of the test the command ends with its input.
func serve(t *testing.T, dir string, args ...string) *mcp.ClientSession {
	t.Helper()
	askR, askW := io.Pipe()
	answerR, answerW := io.Pipe()
	diag := &lockedBuffer{}
	c := newApp(askR, answerW, diag)
	c.Getenv = func(string) string { return "" }
	ended := make(chan error, 1)
	go func() {
		args := append([]string{"mcp", "--home", dir, "--lock-wait", "60s"}, args...)
		err := c.execute(context.Background(), args)
		answerW.Close()
		ended <- err
	}()
	session, err := testClient().Connect(t.Context(), &mcp.IOTransport{Reader: answerR, Writer: askW, MaxLineLength: 64 << 20}, nil)
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

// call calls a tool and returns the text of its answer, and whether it is an
// error.
func call(t *testing.T, s *mcp.ClientSession, tool string, args any) (string, bool) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	return textOf(t, res), res.IsError
}

func textOf(t *testing.T, res *mcp.CallToolResult) string {
	t.Helper()
	if len(res.Content) != 1 {
		t.Fatalf("%d parts of an answer", len(res.Content))
	}
	text, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("a %T", res.Content[0])
	}
	return text.Text
}

// must calls a tool that is to work and decodes the structure of its answer.
func must[Out any](t *testing.T, s *mcp.ClientSession, tool string, args any) (out Out, text string) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	if text = textOf(t, res); res.IsError {
		t.Fatalf("%s %v: %s", tool, args, text)
	}
	b, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out, text
}

// refused calls a tool that is to refuse in words that match.
func refused(t *testing.T, s *mcp.ClientSession, tool string, args any, want string) {
	t.Helper()
	if text, failed := call(t, s, tool, args); !failed || !regexp.MustCompile(want).MatchString(text) {
		t.Errorf("%s %v: error %t, %q; want %q", tool, args, failed, text, want)
	}
}

type dict = map[string]any

// exercise calls every tool and reads every kind of resource.
func exercise(t *testing.T, s *mcp.ClientSession) {
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	if want := []string{"forget", "get_memory", "list_memories", "recall", "remember", "session_search"}; !slices.Equal(names, want) {
		t.Fatalf("tools %v, want %v", names, want)
	}
	w, text := must[rememberOut](t, s, "remember", dict{"name": "deploy-steps", "content": "build, tag, push\nthen watch the canary", "aliases": []string{"ship"}})
	if !w.Created || w.Name != "deploy-steps" || !slices.Equal(w.Aliases, []string{"ship"}) || !strings.HasPrefix(text, "remembered the new note deploy-steps") {
		t.Errorf("remember: %+v %q", w, text)
	}
	w, text = must[rememberOut](t, s, "remember", dict{"name": "Deploy steps", "content": "other"})
	if !w.Created || !slices.Equal(w.Similar, []string{"deploy-steps"}) || dataIn(t, text)[0] != "deploy-steps" {
		t.Errorf("a near duplicate: %+v %q", w, text)
	}
	if w, _ = must[rememberOut](t, s, "remember", dict{"name": "Deploy steps", "content": "tea"}); w.Created || len(w.Similar) > 0 {
		t.Errorf("a replacement: %+v", w)
	}
	r, text := must[recallOut](t, s, "recall", dict{"query": "how do we ship the canary"})
	if len(r.Hits) != 1 || r.Hits[0].Name != "deploy-steps" || !r.Hits[0].Whole || r.Total != 1 || !strings.Contains(text, "deploy-steps  (note, ") {
		t.Errorf("recall: %+v\n%s", r, text)
	}
	g, text := must[getOut](t, s, "get_memory", dict{"name": "ship"})
	if g.Name != "deploy-steps" || g.Content != "build, tag, push\nthen watch the canary" || g.Next != 0 || !strings.Contains(text, g.Content) {
		t.Errorf("get_memory: %+v\n%s", g, text)
	}
	l, _ := must[listOut](t, s, "list_memories", dict{})
	if len(l.Items) != 2 || l.Total != 2 || l.Next != "" {
		t.Errorf("list_memories: %+v", l)
	}
	ss, text := must[sessionSearchOut](t, s, "session_search", dict{"query": "which port"})
	if len(ss.Hits) != 2 || ss.Hits[0].Session != "crab_user_1" || !strings.Contains(text, "> user: which port does it listen on?") {
		t.Errorf("session_search: %+v\n%s", ss, text)
	}
	list, err := s.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 2 || list.Resources[1].URI != "crabmem://note/Deploy%20steps" {
		t.Fatalf("resources: %+v %v", list, err)
	}
	read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: list.Resources[1].URI})
	if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != "tea" {
		t.Errorf("a resource: %+v %v", read, err)
	}
	templates, err := s.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) != 2 {
		t.Errorf("templates: %+v %v", templates, err)
	}
	if f, _ := must[forgetOut](t, s, "forget", dict{"name": "Deploy steps"}); f.Forgot != "Deploy steps" {
		t.Errorf("forget: %+v", f)
	}
	refused(t, s, "forget", dict{"name": "Deploy steps"}, `no entry "Deploy steps". Try: use list_memories`)
	refused(t, s, "forget", dict{"name": "ship"}, `^no note "ship"; it is an alias of an entry. Try: (.|\n)*\ndeploy-steps\n>>> memory`)
	if g, _ := must[getOut](t, s, "get_memory", dict{"name": "deploy-steps"}); g.ID != 1 {
		t.Errorf("after forget by an alias: %+v", g)
	}
	refused(t, s, "get_memory", dict{"name": "Deploy steps"}, `no entry "Deploy steps". Try: use list_memories`)
}

// TestMCPOverStdio runs the program as clients do.
func TestMCPOverStdio(t *testing.T) {
	t.Parallel()
	file, env := program(t)
	home := filepath.Join(t.TempDir(), "home")
	exampleSessions(t, filepath.Dir(home))
	cmd := exec.Command(file, "mcp", "--home", home)
	cmd.Env = env
	diag := &lockedBuffer{}
	cmd.Stderr = diag
	s, err := testClient().Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, diag)
	}
	exercise(t, s)
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
	diag := &lockedBuffer{}
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
		return testClient().Connect(t.Context(), &mcp.StreamableClientTransport{
			Endpoint: url, HTTPClient: &http.Client{Transport: withToken(token)}, MaxRetries: -1}, nil)
	}
	s, err := connect(strings.TrimSpace(string(token)))
	if err != nil {
		t.Fatalf("%v\n%s", err, diag)
	}
	exercise(t, s)
	other, err := connect(strings.TrimSpace(string(token)))
	if err != nil {
		t.Fatal(err)
	}
	if g, _ := must[getOut](t, other, "get_memory", dict{"name": "deploy-steps"}); g.ID != 1 {
		t.Errorf("the other client reads %+v", g)
	}
	s.Close()
	other.Close()
	if _, err := connect("not the token"); err == nil {
		t.Error("a wrong token is taken")
	}
}

var listeningAt = regexp.MustCompile(`url=(\S+)`)

// listening waits until a server says where it listens.
func listening(t *testing.T, diag *lockedBuffer) string {
	t.Helper()
	for began := time.Now(); time.Since(began) < gate.Hang; {
		if found := listeningAt.FindStringSubmatch(diag.String()); found != nil {
			return found[1]
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("it does not listen:\n%s", diag)
	return ""
}

type withToken string

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}

// TestMCPManyServers runs 8 servers with a client each on one store, which
// does not exist yet, and wants every write that was acknowledged.
func TestMCPManyServers(t *testing.T) {
	t.Parallel()
	file, env := program(t)
	for _, compat := range []string{"", compatReference, compatAnthropic} {
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
				diag := &lockedBuffer{}
				cmd.Stderr = diag
				s, err := testClient().Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
				if err != nil {
					t.Fatalf("%v\n%s", err, diag)
				}
				defer s.Close()
				for j := range writes {
					all.Go(func() {
						name := fmt.Sprintf("server %d write %d", i, j)
						tool, args := "remember", dict{"name": name, "content": "text of " + name}
						switch compat {
						case compatReference:
							tool = "create_entities"
							args = dict{"entities": []memgraph.Entity{{Name: name, EntityType: "write", Observations: []string{"text of " + name}}}}
						case compatAnthropic:
							tool, args = "memory", dict{"command": "create", "path": "/memories/" + name, "file_text": "text of " + name}
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

// TestMCPNeverStale writes through a server and beside it, and wants each read
// after a write to see it.
func TestMCPNeverStale(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	for i := range 40 {
		name := fmt.Sprintf("n%d", i)
		if i%2 == 0 {
			must[rememberOut](t, s, "remember", dict{"name": name, "content": "word" + name})
		} else if _, diag, code := answer("remember", name, "word"+name, "--home", dir); code != 0 {
			t.Fatal(diag)
		}
		if r, _ := must[recallOut](t, s, "recall", dict{"query": "word" + name}); len(r.Hits) == 0 || r.Hits[0].Name != name {
			t.Fatalf("after write %d recall finds %+v", i, r)
		}
		// The same length: only time and place of the files tell.
		text := fmt.Sprintf("%06d", i)
		if _, diag, code := answer("remember", "same", text, "--home", dir); code != 0 {
			t.Fatal(diag)
		}
		if g, _ := must[getOut](t, s, "get_memory", dict{"name": "same"}); g.Content != text {
			t.Fatalf("it reads %q, want %q", g.Content, text)
		}
	}
}

// TestMCPAtOnce calls from many goroutines at once.
func TestMCPAtOnce(t *testing.T) {
	s := serve(t, t.TempDir())
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			name := fmt.Sprintf("n%d", i)
			for _, c := range []struct {
				tool string
				args dict
			}{
				{"remember", dict{"name": name, "content": "text of " + name}},
				{"recall", dict{"query": "text"}},
				{"get_memory", dict{"name": name}},
				{"list_memories", dict{}},
				{"session_search", dict{"query": "text"}},
				{"forget", dict{"name": name}},
			} {
				res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
				if err != nil || res.IsError {
					t.Errorf("%s %v: %v %+v", c.tool, c.args, err, res)
				}
			}
		})
	}
	all.Wait()
	if l, _ := must[listOut](t, s, "list_memories", nil); l.Total != 0 {
		t.Errorf("left: %+v", l)
	}
}

// TestMCPTools compares what each way to serve offers with testdata/mcp.
func TestMCPTools(t *testing.T) {
	dir := t.TempDir()
	if _, diag, code := answer("remember", "a", "b", "--home", dir); code != 0 {
		t.Fatal(diag)
	}
	for name, args := range map[string][]string{
		"tools": nil, "read-only": {"--read-only"}, "reference": {"--compat", "reference"}, "anthropic": {"--compat", "anthropic"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, dir, args...)
			res, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, tool := range res.Tools {
				if tool.Annotations == nil || tool.Annotations.OpenWorldHint == nil || *tool.Annotations.OpenWorldHint || len(tool.Description) < 20 {
					t.Errorf("%s: %+v", tool.Name, tool.Annotations)
				}
				if readOnly := slices.Contains(args, "--read-only"); readOnly && !tool.Annotations.ReadOnlyHint {
					t.Errorf("--read-only offers %s", tool.Name)
				}
			}
			got, err := json.MarshalIndent(res.Tools, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", append(got, '\n'))
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join(top, "testdata", "mcp", name)
	if *updateMCP {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-mcp.update writes it):\n%s", name, d)
	}
}

// newTestServer returns a server on the home dir, without a log.
func newTestServer(t *testing.T, dir string, change ...func(*mcpOptions)) *mcpServer {
	t.Helper()
	o := mcpOptions{Path: filepath.Join(dir, "memory.db"), FS: vfs.OS{}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	o.Write = func(ctx context.Context, f func(memtool.Store) error) error {
		s, err := client.OpenStore(ctx, client.StoreOptions{Access: client.Access{LockWait: time.Minute}, Path: o.Path})
		if err != nil {
			return err
		}
		return errors.Join(f(s), s.Close())
	}
	o.Sessions = func() (*sessionlog.Dir, error) {
		folder := filepath.Join(dir, "sessions")
		if _, err := os.Stat(folder); err != nil {
			return nil, err
		}
		return sessionlog.OpenDir(folder, nil)
	}
	for _, f := range change {
		f(&o)
	}
	s, err := newMCPServer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// addNote creates or replaces a note in the store of a home.
func addNote(t *testing.T, dir, name, text string, aliases ...string) {
	t.Helper()
	s, err := crmem.Open(filepath.Join(dir, "memory.db"), &crmem.Options{LockWait: time.Minute})
	if err == nil {
		_, err = s.Remember(name, text, aliases)
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// content returns the text of an entry in the store of a home.
func content(t *testing.T, dir, name string) string {
	t.Helper()
	s, err := crmem.Open(filepath.Join(dir, "memory.db"), &crmem.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e, err := s.Get(name)
	if err != nil {
		t.Error(err)
	}
	return e.Content
}

// TestMCPFirstWrite: a store that is not there has no lock, so that another
// process may make it while a change is planned.
func TestMCPFirstWrite(t *testing.T) {
	dir := t.TempDir()
	plans := 0
	err := newTestServer(t, dir).store.change(t.Context(), func(s *crmem.Store) ([]crmem.Op, error) {
		if plans++; plans == 1 {
			addNote(t, dir, "Ada", "**Entity:** person\n")
		}
		g := readGraph(s)
		_, err := g.createRelations([]memgraph.Relation{{From: "Ada", To: "engine", RelationType: "wrote_for"}})
		return g.ops(), err
	})
	if err != nil || plans != 2 {
		t.Errorf("%d plans, %v", plans, err)
	}
	if text := content(t, dir, "Ada"); text != "**Entity:** person\n\n**Relations:**\n\n- wrote_for → engine\n" {
		t.Errorf("the note is %q", text)
	}
}

// TestMCPBesideDaemon writes while a daemon has the store's lock, and after it
// has gone.
func TestMCPBesideDaemon(t *testing.T) {
	p := newPlace(t, true)
	var all sync.WaitGroup
	servers := []*mcp.ClientSession{serve(t, p.home), serve(t, p.home), serve(t, p.home, "--compat", "reference")}
	for i, s := range servers {
		all.Go(func() {
			for j := range 10 {
				tool, args := "remember", dict{"name": fmt.Sprintf("server %d write %d", i, j), "content": "text"}
				if i == 2 {
					// All of them change one note.
					tool, args = "create_relations", dict{"relations": []memgraph.Relation{{From: "hub", To: fmt.Sprint(j), RelationType: "to"}}}
				}
				res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
				if err != nil || res.IsError {
					t.Errorf("%s %v: %v %+v", tool, args, err, res)
				}
			}
		})
	}
	all.Wait()
	if l, _ := must[listOut](t, servers[0], "list_memories", nil); l.Total != 21 {
		t.Errorf("%d entries", l.Total)
	}
	if g, _ := must[graphOut](t, servers[2], "read_graph", nil); len(g.Relations) != 10 {
		t.Errorf("%d relations", len(g.Relations))
	}
	if f, _ := must[forgetOut](t, servers[1], "forget", dict{"name": "server 0 write 0"}); f.Forgot == "" {
		t.Errorf("%+v", f)
	}
	refused(t, servers[1], "forget", dict{"name": "server 0 write 0"}, "^no entry .* Try: use list_memories")
	p.ends()
	if w, _ := must[rememberOut](t, servers[0], "remember", dict{"name": "server 1 write 1", "content": "without the daemon"}); w.Created {
		t.Errorf("%+v", w)
	}
	if g, _ := must[getOut](t, servers[1], "get_memory", dict{"name": "server 1 write 1"}); g.Content != "without the daemon" {
		t.Errorf("%+v", g)
	}
}
