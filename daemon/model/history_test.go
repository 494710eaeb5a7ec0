package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"crabmem/daemon/model"
	"crabmem/sessionlog"
)

// runRequest is a request of a run with injected messages, after a failed run.
func runRequest() model.Request {
	return model.Request{
		Tools: []model.Tool{{Name: "bash", Description: "runs a command"}},
		Messages: []sessionlog.Message{
			{Role: "system", Content: "You are a crab."},
			{Role: "user", Content: "hi"},
			{Role: "user", Content: "list the files"},
			{Role: "assistant", Content: "Looking.", ToolCalls: []sessionlog.ToolCall{
				{ID: "c1", Function: sessionlog.Function{Name: "bash", Arguments: `{"command":"ls"}`}},
				{ID: "c2", Function: sessionlog.Function{Name: "bash", Arguments: `{"command":"pwd"}`}},
			}},
			{Role: "tool", Content: "a b", ToolCallID: "c1"},
			{Role: "tool", Content: "/w", ToolCallID: "c2"},
			{Role: "assistant", Content: "Two files."},
			{Role: "assistant"},
			{Role: "user", Content: "<environment>\nworking_directory: /w\n</environment>", Injected: true},
			{Role: "user", Content: "thanks"},
		},
	}
}

// summaryRequest is the request of a summary: it has calls, but no tools.
func summaryRequest() model.Request {
	q := runRequest()
	q.Tools = nil
	q.Messages = append(q.Messages, sessionlog.Message{Role: "user", Content: "Write the summary now."})
	return q
}

// TestGoldenHistories compares the messages that each kind receives of a run and
// of a summary with testdata/histories.txt. It also checks that no summary has
// calls or results, and that roles alternate where a template may require it.
func TestGoldenHistories(t *testing.T) {
	var got strings.Builder
	for _, p := range providers() {
		for _, name := range []string{"run", "summary"} {
			q := runRequest()
			if name == "summary" {
				q = summaryRequest()
			}
			sent, _ := call(t, p, q, false)
			var body struct {
				Messages []json.RawMessage
				Tools    []json.RawMessage
			}
			if err := json.Unmarshal([]byte(sent.Body), &body); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "== %s, %s, %d tools\n", p.Kind, name, len(body.Tools))
			last := ""
			for _, m := range body.Messages {
				fmt.Fprintf(&got, "%s\n", m)
				var head struct{ Role string }
				if err := json.Unmarshal(m, &head); err != nil {
					t.Fatal(err)
				}
				custom := slices.Contains([]string{"openai-compatible", "ollama", "llama.cpp"}, p.Kind)
				if custom && head.Role == last && last != "tool" {
					t.Errorf("%s, %s: two messages of role %s", p.Kind, name, last)
				}
				last = head.Role
			}
			if text := sent.Body; name == "summary" && (strings.Contains(text, "tool_call") || strings.Contains(text, `"role":"tool"`)) {
				t.Errorf("%s: the summary has calls: %s", p.Kind, text)
			}
		}
	}
	const name = "testdata/histories.txt"
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("-want +got; -update writes it\n%s", d)
	}
}

// TestOllamaContext checks that a request that Ollama would cut is refused, and
// that the context of the loaded model is the model's context window.
func TestOllamaContext(t *testing.T) {
	const ps, load, chat = "GET /api/ps", `POST /api/generate {"model":"m","stream":false}`, "POST /v1/chat/completions"
	for _, c := range []struct {
		name       string
		size       int // of the request, in bytes
		configured int
		loaded     string // context_length before the load; "" = not loaded
		after      string // context_length after the load; "" = not loaded
		status     int    // of /api/ps
		requests   []string
		overflow   bool
		window     int
	}{
		{"short", 4000, 0, "4096", "", 200, []string{chat}, false, 4096},
		{"fits", 16_000, 0, "4096", "", 200, []string{ps, chat}, false, 4096},
		{"too long", 17_000, 0, "4096", "", 200, []string{ps}, true, 4096},
		{"fits a larger context", 17_000, 0, "32768", "", 200, []string{ps, chat}, false, 32_768},
		{"not loaded", 17_000, 0, "", "4096", 200, []string{ps, load, ps}, true, 4096},
		{"not loaded, larger", 17_000, 0, "", "8192", 200, []string{ps, load, ps, chat}, false, 8192},
		{"in the cloud", 17_000, 0, "", "", 200, []string{ps, load, ps, chat}, false, 32_768},
		{"configured too large", 17_000, 100_000, "4096", "", 200, []string{ps}, true, 4096},
		{"configured smaller", 17_000, 6000, "32768", "", 200, []string{ps, chat}, false, 6000},
		{"an old server without the context", 17_000, 0, "0", "", 200, []string{ps, chat}, false, 4096},
		{"a server without the question", 17_000, 50_000, "", "", 404, []string{ps, chat}, false, 50_000},
	} {
		var requests []string
		isLoaded := false
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			line := r.Method + " " + r.URL.Path
			if r.URL.Path == "/api/generate" {
				line += " " + string(body)
			}
			requests = append(requests, line)
			switch r.URL.Path {
			case "/api/ps":
				n := c.loaded
				if isLoaded {
					n = c.after
				}
				w.WriteHeader(c.status)
				if n == "" {
					fmt.Fprint(w, `{"models":[{"name":"other:latest","context_length":100}]}`)
				} else {
					fmt.Fprintf(w, `{"models":[{"name":"m:latest","context_length":%s}]}`, n)
				}
			case "/api/generate":
				isLoaded = true
				fmt.Fprint(w, `{"done":true}`)
			default:
				fmt.Fprint(w, wholeHello)
			}
		}))
		p := model.Provider{Name: "p", Kind: "ollama", BaseURL: s.URL, Models: []string{"m"}}
		if c.configured > 0 {
			p.ContextLimits = map[string]int{"m": c.configured}
		}
		r, err := model.NewRegistry(model.Network{}, []model.Provider{p}, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Send(t.Context(), ask(strings.Repeat("x", c.size)))
		if errors.Is(err, model.ErrOverflow) != c.overflow || err != nil && !c.overflow {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.overflow && !strings.Contains(err.Error(), "about 4250 tokens, but the context has 4096, and Ollama would cut the request: set OLLAMA_CONTEXT_LENGTH") {
			t.Errorf("%s: %v", c.name, err)
		}
		if !slices.Equal(requests, c.requests) {
			t.Errorf("%s: requests %q, want %q", c.name, requests, c.requests)
		}
		if got := r.ContextLimit("m"); got != c.window {
			t.Errorf("%s: context of %d tokens, want %d", c.name, got, c.window)
		}
		r.Close()
		s.Close()
	}
}
