package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/mcpserver/compat/memgraph"
	"crabmem/daemon/mcpserver/mcptest"
	"crabmem/daemon/op"
	"crabmem/sessionlog"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var updateMCP = flag.Bool("mcp.update", false, "write the tools of the server to testdata/mcp")

// serve serves the home dir to the client that it returns.
func serve(t *testing.T, dir string, change ...func(*Options)) *mcp.ClientSession {
	t.Helper()
	askR, askW := io.Pipe()
	answerR, answerW := io.Pipe()
	diag := &mcptest.Buffer{}
	s := newTestServer(t, dir, append(change, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(diag, nil)) })...)
	ended := make(chan error, 1)
	go func() {
		err := s.ServeStdio(context.Background(), askR, answerW)
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
			t.Errorf("the server ended with %v\n%s", err, diag)
		}
	})
	return session
}

func readOnly(o *Options) { o.ReadOnly = true }

func compat(name string) func(*Options) {
	return func(o *Options) { o.Compat = name }
}

// must calls a tool that is to work and decodes the structure of its answer.
func must[Out any](t *testing.T, s *mcp.ClientSession, tool string, args any) (out Out, text string) {
	t.Helper()
	res, text := mcptest.Call(t, s, tool, args)
	if res.IsError {
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

type dict = map[string]any

// exercise calls tools and reads every kind of resource.
func exercise(t *testing.T, s *mcp.ClientSession) {
	w, text := must[op.Written](t, s, "remember", dict{"name": "deploy-steps", "content": "build, tag, push\nthen watch the canary", "aliases": []string{"ship"}})
	if !w.Created || w.Name != "deploy-steps" || !slices.Equal(w.Aliases, []string{"ship"}) || !strings.HasPrefix(text, "remembered the new note deploy-steps") {
		t.Errorf("remember: %+v %q", w, text)
	}
	w, text = must[op.Written](t, s, "remember", dict{"name": "Deploy steps", "content": "other"})
	if !w.Created || !slices.Equal(w.Similar, []string{"deploy-steps"}) || dataIn(t, text)[0] != "deploy-steps" {
		t.Errorf("a near duplicate: %+v %q", w, text)
	}
	if w, _ = must[op.Written](t, s, "remember", dict{"name": "Deploy steps", "content": "tea"}); w.Created || len(w.Similar) > 0 {
		t.Errorf("a replacement: %+v", w)
	}
	hist, text := must[op.EntryHistory](t, s, "memory_history", dict{"name": "Deploy steps"})
	if hist.Total != 2 || len(hist.Changes) != 2 || hist.Changes[0].Type != "update" || hist.Changes[1].Type != "add" || hist.Content != nil ||
		!strings.HasPrefix(text, "2 of 2 versions\n") {
		t.Errorf("history: %+v %q", hist, text)
	}
	old := hist.Changes[1].Change
	if hist, text = must[op.EntryHistory](t, s, "memory_history", dict{"name": "Deploy steps", "change": old, "limit": 1}); hist.Content == nil || *hist.Content != "other" ||
		len(hist.Changes) != 1 || hist.Total != 2 || !strings.Contains(dataIn(t, text)[0], "Deploy steps") {
		t.Errorf("an old version: %+v %q", hist, text)
	}
	mcptest.Refused(t, s, "remember", dict{"name": "Deploy steps", "content": "lost", "if_version": old}, "is not as expected: its version is .* Try: read the entry again")
	if w, _ = must[op.Written](t, s, "remember", dict{"name": "Deploy steps", "content": "tea", "if_version": hist.Changes[0].Change}); w.Created {
		t.Errorf("a replacement of a version: %+v", w)
	}
	typed, _ := must[op.Written](t, s, "remember", dict{"name": "typed", "content": "rope", "type": "goal", "tags": []string{"a", "b"}, "importance": 1, "part_of": []string{"tea"}})
	must[op.Written](t, s, "remember", dict{"name": "typed", "content": "tide"})
	if g, _ := must[op.EntryPart](t, s, "get_memory", dict{"name": "typed"}); !typed.Created || *g.Content != "---\ntype: goal\ntags: [a, b]\nimportance: 1\npart_of: \"[[tea]]\"\ncrabmem: 1\n---\ntide" {
		t.Errorf("metadata: %+v", g)
	}
	must[op.Written](t, s, "remember", dict{"name": "typed", "content": "tide", "type": "", "tags": []string{}, "part_of": []string{}})
	if g, _ := must[op.EntryPart](t, s, "get_memory", dict{"name": "typed"}); *g.Content != "---\nimportance: 1\ncrabmem: 1\n---\ntide" {
		t.Errorf("removed metadata: %+v", g)
	}
	mcptest.Refused(t, s, "remember", dict{"name": "typed", "content": "x", "expires": "soon"}, `expires "soon": want a day`)
	must[op.Removed](t, s, "forget", dict{"name": "typed"})
	mcptest.Refused(t, s, "memory_history", dict{"name": "Deploy steps", "change": 1 << 30}, "the entry has no version .* Try: call memory_history without change")
	mcptest.Refused(t, s, "memory_history", dict{"name": "none"}, `no entry "none"`)
	r, text := must[op.EntriesFound](t, s, "recall", dict{"query": "how do we ship the canary"})
	if len(r.Hits) != 1 || r.Hits[0].Name != "deploy-steps" || !r.Hits[0].Whole || r.Total != 1 || !strings.Contains(text, "deploy-steps  (note, ") {
		t.Errorf("recall: %+v\n%s", r, text)
	}
	g, text := must[op.EntryPart](t, s, "get_memory", dict{"name": "ship"})
	if g.Name != "deploy-steps" || *g.Content != "build, tag, push\nthen watch the canary" || g.Next != 0 || !strings.Contains(text, *g.Content) {
		t.Errorf("get_memory: %+v\n%s", g, text)
	}
	l, _ := must[op.NamePage](t, s, "list_memories", dict{})
	if len(l.Items) != 2 || l.Total != 2 || l.Next != "" {
		t.Errorf("list_memories: %+v", l)
	}
	ss, text := must[op.MessagesFound](t, s, "session_search", dict{"query": "which port"})
	if len(ss.Hits) != 3 || ss.Hits[0].Session != "crab_user_1" || !strings.Contains(text, "> user: which port does it listen on?") {
		t.Errorf("session_search: %+v\n%s", ss, text)
	}
	list, err := s.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 3 || list.Resources[0].URI != "crabmem://context" || list.Resources[2].URI != "crabmem://note/Deploy%20steps" {
		t.Fatalf("resources: %+v %v", list, err)
	}
	read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: list.Resources[2].URI})
	if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != "tea" {
		t.Errorf("a resource: %+v %v", read, err)
	}
	templates, err := s.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) != 2 {
		t.Errorf("templates: %+v %v", templates, err)
	}
	if f, _ := must[op.Removed](t, s, "forget", dict{"name": "Deploy steps"}); f.Forgot != "Deploy steps" {
		t.Errorf("forget: %+v", f)
	}
	mcptest.Refused(t, s, "forget", dict{"name": "Deploy steps"}, `no entry "Deploy steps". Try: use list_memories`)
	mcptest.Refused(t, s, "forget", dict{"name": "ship"}, `^no note "ship"; it is an alias of an entry. Try: (.|\n)*\ndeploy-steps\n>>> memory`)
	if g, _ := must[op.EntryPart](t, s, "get_memory", dict{"name": "deploy-steps"}); g.ID != 1 {
		t.Errorf("after forget by an alias: %+v", g)
	}
	mcptest.Refused(t, s, "get_memory", dict{"name": "Deploy steps"}, `no entry "Deploy steps". Try: use list_memories`)
}

func TestServeStdio(t *testing.T) {
	dir := t.TempDir()
	addSession(t, dir, exampleFile, exampleSession)
	exercise(t, serve(t, dir))
}

func TestServeHTTP(t *testing.T) {
	dir := t.TempDir()
	addSession(t, dir, exampleFile, exampleSession)
	url := "http://" + listenWith(t, dir, "127.0.0.1", defaultHTTPLimits()) + mcpPath
	s, err := mcptest.Client().Connect(t.Context(), mcptest.HTTP(url, testToken), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	exercise(t, s)
}

// TestNeverStale writes through a server and through the store, and checks that
// each read sees the writes before it.
func TestNeverStale(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	for i := range 40 {
		name := fmt.Sprintf("n%d", i)
		if i%2 == 0 {
			must[op.Written](t, s, "remember", dict{"name": name, "content": "word" + name})
		} else {
			addNote(t, dir, name, "word"+name)
		}
		if r, _ := must[op.EntriesFound](t, s, "recall", dict{"query": "word" + name}); len(r.Hits) == 0 || r.Hits[0].Name != name {
			t.Fatalf("after write %d recall finds %+v", i, r)
		}
		// The same length: only time and place of the files tell.
		text := fmt.Sprintf("%06d", i)
		addNote(t, dir, "same", text)
		if g, _ := must[op.EntryPart](t, s, "get_memory", dict{"name": "same"}); *g.Content != text {
			t.Fatalf("it reads %q, want %q", *g.Content, text)
		}
	}
}

// TestAtOnce calls from many goroutines at once.
func TestAtOnce(t *testing.T) {
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
	if l, _ := must[op.NamePage](t, s, "list_memories", nil); l.Total != 0 {
		t.Errorf("left: %+v", l)
	}
}

// TestTools compares what the compatible servers offer with testdata/mcp. The other servers
// offer operations, which package daemon records: each, or each that only reads.
func TestTools(t *testing.T) {
	dir := t.TempDir()
	addNote(t, dir, "a", "b")
	for name, change := range map[string]func(*Options){
		"tools": func(*Options) {}, "read-only": readOnly, "reference": compat(CompatReference), "anthropic": compat(CompatAnthropic),
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, dir, change)
			res, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range res.Tools {
				names = append(names, tool.Name)
				if tool.Annotations == nil || tool.Annotations.OpenWorldHint == nil || *tool.Annotations.OpenWorldHint || len(tool.Description) < 20 {
					t.Errorf("%s: %+v", tool.Name, tool.Annotations)
				}
				if name == "read-only" && !tool.Annotations.ReadOnlyHint {
					t.Errorf("a server that only reads offers %s", tool.Name)
				}
			}
			if name == "tools" || name == "read-only" {
				var want []string
				for _, r := range op.All() {
					if r.Tool != nil && (name == "tools" || r.Effect == op.Reads) {
						want = append(want, r.Tool.Name)
					}
				}
				slices.Sort(want)
				if !slices.Equal(names, want) {
					t.Errorf("the tools %q, want %q", names, want)
				}
				return
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
	name = filepath.Join("../..", "testdata", "mcp", name)
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
func newTestServer(t *testing.T, dir string, change ...func(*Options)) *Server {
	t.Helper()
	o := Options{Path: filepath.Join(dir, "memory.db"), FS: vfs.OS{}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	o.Write = func(ctx context.Context, f func(op.Memory) error) error {
		s, err := client.OpenStore(ctx, client.StoreOptions{Access: client.Access{LockWait: time.Minute}, Path: o.Path, Guard: op.Guard{AllowEmpty: o.Compat != ""}})
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
	s, err := New(t.Context(), o)
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

// entriesIn returns the entries of a store's files.
func entriesIn(t *testing.T, path string) []crmem.Entry {
	t.Helper()
	s, err := crmem.Open(path, &crmem.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return slices.Collect(s.All())
}

// content returns the text of the entry with a name or an alias, in the store of a
// home.
func content(t *testing.T, dir, name string) string {
	t.Helper()
	for _, e := range entriesIn(t, filepath.Join(dir, "memory.db")) {
		if e.Name == name || slices.Contains(e.Aliases, name) {
			return e.Content
		}
	}
	t.Errorf("no entry %q", name)
	return ""
}

// The session of most tests.
const (
	exampleFile    = "crab_user_1_which-port.jsonl"
	exampleSession = `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00","title":"","uptime_secs":0}
{"role":"user","content":"which port does it listen on?"}
{"role":"assistant","content":"6688, on loopback."}
{"compact":"The daemon listens on 127.0.0.1:6688."}
{"meta":{"title":"Which port","uptime_secs":12}}
{"role":"user","content":"and over a socket?"}
`
)

// addSession writes the file of a session of a home.
func addSession(t *testing.T, dir, name, lines string) {
	t.Helper()
	folder := filepath.Join(dir, "sessions")
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name), []byte(lines), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFirstWrite: a store that is not there has no lock, so that another
// process may make it while a change is planned.
func TestFirstWrite(t *testing.T) {
	dir := t.TempDir()
	plans := 0
	err := newTestServer(t, dir).store.Change(t.Context(), func(s *crmem.Store) ([]crmem.Op, error) {
		if plans++; plans == 1 {
			addNote(t, dir, "Ada", "**Entity:** person\n")
		}
		g := memgraph.ReadGraph(s)
		_, err := g.CreateRelations([]memgraph.Relation{{From: "Ada", To: "engine", RelationType: "wrote_for"}})
		return g.Ops(), err
	})
	if err != nil || plans != 2 {
		t.Errorf("%d plans, %v", plans, err)
	}
	if text := content(t, dir, "Ada"); text != "**Entity:** person\n\n**Relations:**\n\n- wrote_for → engine\n" {
		t.Errorf("the note is %q", text)
	}
}
