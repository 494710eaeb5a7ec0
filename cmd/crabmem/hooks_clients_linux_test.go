package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"crabmem/daemon/mcpserver/mcptest"
)

// realClient is an agent of npm with hooks.
type realClient struct {
	id, program string
	env         func(model string) []string
	files       map[string]string // in the user's home; MODEL is the address of the model
	ask, resume []string          // arguments before a prompt: of a new session, and of the last one
	transcripts string            // in the user's home
}

var realClients = []realClient{
	{
		id: "claude-code", program: "claude",
		env: func(model string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}
		},
		ask: []string{"-p"}, resume: []string{"--continue", "-p"},
		transcripts: ".claude/projects",
	},
	{
		id: "codex", program: "codex",
		env: func(string) []string { return nil },
		files: map[string]string{".codex/config.toml": `model = "x"
model_provider = "script"
[model_providers.script]
name = "script"
base_url = "MODEL/v1"
wire_api = "responses"
`},
		ask: []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"}, resume: []string{"exec", "resume", "--last", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"},
		transcripts: ".codex/sessions",
	},
	{
		id: "gemini-cli", program: "gemini",
		env: func(model string) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + model, "GEMINI_API_KEY=x", "GEMINI_CLI_TRUST_WORKSPACE=true"}
		},
		files: map[string]string{".gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}`},
		ask:   []string{"-m", "gemini-2.5-flash", "-p"}, resume: []string{"-m", "gemini-2.5-flash", "--resume", "latest", "-p"},
		transcripts: ".gemini/tmp",
	},
}

// scriptedModel answers the requests of the clients. It does not answer the first one
// that asks it to wait: it closes waits, and the client hangs.
type scriptedModel struct {
	*httptest.Server
	waits chan struct{}

	mu       sync.Mutex
	requests []string
	waited   bool
}

// modelEvents are responses as the APIs stream them, by a part of the path.
var modelEvents = map[string][]string{
	"/v1/messages": {
		`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"on 6688"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}`,
		`{"type":"message_stop"}`,
	},
	"/v1/responses": {
		`{"type":"response.created","response":{"id":"r"}}`,
		`{"type":"response.output_item.done","item":{"type":"message","role":"assistant","id":"m","content":[{"type":"output_text","text":"on 6688"}]}}`,
		`{"type":"response.completed","response":{"id":"r","usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}`,
	},
	":streamGenerateContent": {
		`{"candidates":[{"content":{"role":"model","parts":[{"text":"on 6688"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}`,
	},
}

func newScriptedModel(t *testing.T) *scriptedModel {
	m := &scriptedModel{waits: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		m.mu.Lock()
		m.requests = append(m.requests, string(b))
		hang := strings.Contains(string(b), "wait for me") && !m.waited
		m.waited = m.waited || hang
		m.mu.Unlock()
		if hang {
			close(m.waits)
			<-r.Context().Done()
			return
		}
		for path, events := range modelEvents {
			if !strings.Contains(r.URL.Path, path) {
				continue
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for _, event := range events {
				var e struct{ Type string }
				_ = json.Unmarshal([]byte(event), &e)
				if e.Type != "" {
					fmt.Fprintf(w, "event: %s\n", e.Type)
				}
				fmt.Fprintf(w, "data: %s\n\n", event)
			}
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(m.Close)
	return m
}

// seen returns the requests.
func (m *scriptedModel) seen() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.requests, "\n")
}

// TestHooksOfClients runs agents of npm, without the network, against a scripted model:
// the context is in a request, and the transcript is imported once, even if the agent is
// killed in the middle of a turn. CRABMEM_CLIENTS is the directory with their programs.
func TestHooksOfClients(t *testing.T) {
	for _, cl := range realClients {
		t.Run(cl.id, func(t *testing.T) {
			dir := os.Getenv("CRABMEM_CLIENTS")
			if dir == "" {
				mcptest.Skip(t, cl.id, "CRABMEM_CLIENTS is not set")
			}
			testRealClient(t, cl, filepath.Join(dir, cl.program))
		})
	}
}

// awaitPrompt waits until the agent has written the prompt of the turn to a transcript: it
// may send its request first.
func (cl *realClient) awaitPrompt(t *testing.T, home string) {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		found := false
		_ = filepath.WalkDir(filepath.Join(home, cl.transcripts), func(name string, _ fs.DirEntry, err error) error {
			b, _ := os.ReadFile(name)
			found = found || strings.HasSuffix(name, ".jsonl") && bytes.Contains(b, []byte("wait for me"))
			return err
		})
		if found {
			return
		}
	}
	t.Error("the agent did not write its prompt")
}

func testRealClient(t *testing.T, cl realClient, agent string) {
	model := newScriptedModel(t)
	file, env := program(t)
	home, shop := t.TempDir(), filepath.Join(t.TempDir(), "shop")
	if err := os.MkdirAll(filepath.Join(shop, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range cl.files {
		name = filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(text, "MODEL", model.URL)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Every other address is refused.
	env = append(append(env, "HOME="+home, "HTTPS_PROXY=http://127.0.0.1:9", "HTTP_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1"), cl.env(model.URL)...)
	command := func(name string, args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd, out := exec.CommandContext(t.Context(), name, args...), new(bytes.Buffer)
		cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, shop, out, out
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return cmd, out
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd, out := command(name, args...)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return out.String()
	}
	run(file, "remember", "port", "it listens on 6688", "--type", "decision", "--meta", "project=shop")
	run(file, "hooks", "install", cl.id, "--yes")
	if out := run(agent, append(cl.ask, "which port?")...); !strings.Contains(out, "on 6688") {
		t.Errorf("it prints %s", out)
	}
	if !strings.Contains(model.seen(), "- port: it listens on 6688") {
		t.Errorf("no context in the requests: %.2000s", model.seen())
	}
	killed, out := command(agent, append(cl.resume, "wait for me")...)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- killed.Wait() }()
	select {
	case <-model.waits:
		cl.awaitPrompt(t, home)
		if err := syscall.Kill(-killed.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		<-ended
	case err := <-ended:
		t.Fatalf("it ended: %v\n%s", err, out)
	}
	run(agent, append(cl.resume, "and now?")...)
	list := run(file, "sessions", "list", "--json")
	if strings.Count(list, `"session":`) != 1 || !strings.Contains(list, `"project":"shop"`) {
		t.Errorf("sessions %s", list)
	}
	show := run(file, "sessions", "show", cl.id+"_user_1")
	for _, text := range []string{"which port?", "wait for me", "and now?"} {
		if strings.Count(show, text) != 1 {
			t.Errorf("%q is not once in %s", text, show)
		}
	}
	if out := run(file, "sessions", "import", filepath.Join(home, cl.transcripts), "--json"); !strings.Contains(out, `"imported":0,"updated":0,"unchanged":1`) {
		t.Errorf("a second import: %s", out)
	}
	if out := run(file, "doctor", "--quiet"); strings.Contains(out, "hooks") {
		t.Errorf("doctor: %s", out)
	}
}
