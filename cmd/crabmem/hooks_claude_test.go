package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"crabmem/daemon/mcpserver/mcptest"
)

// TestHooksOfClaudeCode runs Claude Code of npm, without the network, against a scripted
// model: the context is in its request, and the transcript is imported once.
func TestHooksOfClaudeCode(t *testing.T) {
	claude := mcptest.Npx(t, "claude-code", "@anthropic-ai/claude-code@2.1.197")
	file, env := program(t)
	home, shop := t.TempDir(), filepath.Join(t.TempDir(), "shop")
	if err := os.MkdirAll(filepath.Join(shop, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var requests []string
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		requests = append(requests, string(b))
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{
			`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"on 6688"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}`,
			`{"type":"message_stop"}`,
		} {
			var e struct{ Type string }
			_ = json.Unmarshal([]byte(event), &e)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Type, event)
		}
	}))
	defer model.Close()
	env = append(env, "HOME="+home, "ANTHROPIC_BASE_URL="+model.URL, "ANTHROPIC_API_KEY=x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1")
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env, cmd.Dir = env, shop
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out.String())
		}
		return out.String()
	}
	run(file, "remember", "port", "it listens on 6688", "--type", "decision", "--meta", "project=shop")
	run(file, "hooks", "install", "claude-code", "--yes")
	if out := run(claude.Path, append(claude.Args[1:], "-p", "which port?")...); !strings.Contains(out, "on 6688") {
		t.Errorf("Claude Code prints %s", out)
	}
	if all := strings.Join(requests, "\n"); !strings.Contains(all, "- port: it listens on 6688") {
		t.Errorf("no context in the requests: %.2000s", all)
	}
	list := run(file, "sessions", "list", "--json")
	if strings.Count(list, `"session":`) != 1 || !strings.Contains(list, `"project":"shop"`) {
		t.Errorf("sessions %s", list)
	}
	if out := run(file, "doctor", "--quiet"); strings.Contains(out, "hooks") {
		t.Errorf("doctor: %s", out)
	}
}
