package model_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
	"crabmem/sessionlog"
)

var update = flag.Bool("update", false, "write the golden requests")

// detour takes every request to a scripted model, whatever host it is for.
type detour struct {
	to string

	mu   sync.Mutex
	seen []seen
}

type seen struct {
	URL    string
	Header http.Header
	Body   string
}

func (d *detour) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.seen = append(d.seen, seen{r.URL.String(), r.Header.Clone(), string(body)})
	d.mu.Unlock()
	to, err := url.Parse(d.to)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = to.Scheme, to.Host, ""
	r.Body = io.NopCloser(bytes.NewReader(body))
	// One connection per request, so that none stays open.
	t := &http.Transport{DisableKeepAlives: true}
	return t.RoundTrip(r)
}

// providers returns one provider of each kind, with only the required keys.
func providers() []model.Provider {
	return []model.Provider{
		{Kind: "openai", APIKey: "sk-openai", Models: []string{"gpt-4o"}},
		{Kind: "openai-compatible", BaseURL: "http://gpu.lan:8000/v1", Models: []string{"org/some-model"}},
		{Kind: "anthropic", APIKey: "sk-ant", Models: []string{"claude-sonnet-4-5"}},
		{Kind: "google", APIKey: "AIza", Models: []string{"gemini-2.5-pro"}},
		{Kind: "azure", BaseURL: "https://mine.openai.azure.com/", APIKey: "azkey", Models: []string{"my deployment"}},
		{Kind: "bedrock", Region: "eu-west-1", AccessKey: "AKIDEXAMPLE", SecretKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", Models: []string{"openai.gpt-oss-120b-1:0"}},
		{Kind: "ollama", Models: []string{"llama3.2"}},
		{Kind: "llama.cpp", Models: []string{"local"}},
	}
}

// conversation has every shape of message.
func conversation() model.Request {
	return model.Request{
		Thinking: true, MaxTokens: 500,
		Tools: []model.Tool{
			{Name: "bash", Description: "runs a command", Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string","maxLength":12345678901234567890}},"required":["command"]}`)},
			{Name: "now"},
		},
		Messages: []sessionlog.Message{
			{Role: "system", Content: "You are <crab> & \"co\"."},
			{Role: "user", Content: "list\nthe files 😀", Sender: "alice"},
			{Role: "assistant", ReasoningContent: "I should look.", ToolCalls: []sessionlog.ToolCall{
				{ID: "c1", Function: sessionlog.Function{Name: "bash", Arguments: `{"command":"ls"}`}},
				{ID: "c2", Type: "function", Function: sessionlog.Function{Name: "now"}},
				{ID: "c3", Function: sessionlog.Function{Name: "bash", Arguments: `{"comm`}},
			}},
			{Role: "tool", Content: "a b", ToolCallID: "c1"},
			{Role: "tool", ToolCallID: "c2"},
			{Role: "tool", Content: "bad \xff byte", ToolCallID: "c3"},
			{Role: "assistant", Content: "Two files.", ReasoningContent: "Done."},
			{Role: "user", Content: "remember: it is late", Injected: true},
			{Role: "assistant"},
			{Role: "critic", Content: "so?"},
		},
	}
}

// call calls one provider once, and returns the request and the response.
func call(t *testing.T, p model.Provider, q model.Request, stream bool) (seen, *model.Response) {
	t.Helper()
	s := modeltest.New(t, modeltest.Reply{}.Think("so").Text("he", "llo").Call("bash", `{"command":"ls"}`).Usage(3, 4))
	d := &detour{to: s.URL}
	p.Name = "p"
	r, err := model.NewRegistry(model.Network{Transport: d}, []model.Provider{p}, "")
	if err != nil {
		t.Fatal(err)
	}
	var res *model.Response
	if stream {
		res, err = collect(t, r, q)
	} else {
		res, err = r.Send(t.Context(), q)
	}
	if err != nil || len(d.seen) != 1 {
		t.Fatalf("kind %s: %d requests, %v", p.Kind, len(d.seen), err)
	}
	return d.seen[0], res
}

// golden formats a request, without the parts that change from run to run,
// which TestBedrockSignature checks.
func (s seen) golden(w *strings.Builder) {
	fmt.Fprintf(w, "POST %s\n", s.URL)
	for _, name := range slices.Sorted(maps.Keys(s.Header)) {
		value := strings.Join(s.Header[name], ", ")
		if name == "X-Amz-Date" {
			value = "DATE"
		}
		if before, _, ok := strings.Cut(value, "Signature="); ok {
			value = regexp.MustCompile(`/\d{8}/`).ReplaceAllString(before, "/DAY/") + "Signature=HEX"
		}
		fmt.Fprintf(w, "%s: %s\n", name, value)
	}
	var body bytes.Buffer
	if err := json.Indent(&body, []byte(s.Body), "", " "); err != nil {
		body.WriteString(s.Body)
	}
	fmt.Fprintf(w, "\n%s\n", &body)
}

// TestGoldenRequests compares the request of each kind with
// testdata/requests.txt, and decodes the response, streamed and unstreamed.
func TestGoldenRequests(t *testing.T) {
	want := &model.Response{Finish: "tool_calls", Usage: &model.Usage{Prompt: 3, Completion: 4, Total: 7}, Message: sessionlog.Message{
		Role: "assistant", Content: "hello", ReasoningContent: "so", ToolCalls: []sessionlog.ToolCall{
			{ID: "call_1", Type: "function", Function: sessionlog.Function{Name: "bash", Arguments: `{"command":"ls"}`}}}}}
	var got strings.Builder
	for i, p := range providers() {
		// The complete conversation only once, because its form is the same for
		// all kinds.
		q := ask("hi")
		q.MaxTokens = 50
		if i == 0 {
			q = conversation()
		}
		for _, stream := range []bool{true, false} {
			fmt.Fprintf(&got, "== %s, stream %v\n", p.Kind, stream)
			sent, res := call(t, p, q, stream)
			sent.golden(&got)
			if d := cmp.Diff(want, res); d != "" {
				t.Errorf("kind %s, stream %v: %s", p.Kind, stream, d)
			}
		}
	}
	const name = "testdata/requests.txt"
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(b), got.String()); d != "" {
		t.Errorf("-want +got; -update writes it\n%s", d)
	}
	if n := strings.Count(got.String(), "== "); n != 2*len(model.Kinds()) || n != 16 {
		t.Errorf("%d requests for %d kinds", n, len(model.Kinds()))
	}
}

// TestBaseURLs gives each kind its base URL in every way that it comes.
func TestBaseURLs(t *testing.T) {
	bases := map[string]string{
		"openai": "https://api.openai.com/v1", "openai-compatible": "http://gpu.lan:8000/v1", "anthropic": "https://api.anthropic.com/v1",
		"google": "https://generativelanguage.googleapis.com/v1beta/openai", "azure": "https://mine.openai.azure.com",
		"bedrock": "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1",
		"ollama":  "http://localhost:11434/v1", "llama.cpp": "http://localhost:8080/v1",
	}
	for _, p := range providers() {
		want, _ := call(t, p, ask("hi"), true)
		for _, suffix := range []string{"", "/", "//", "/chat/completions", "/chat/completions/", "/messages", "/embeddings"} {
			p.BaseURL = bases[p.Kind] + suffix
			got, _ := call(t, p, ask("hi"), true)
			if got.URL != want.URL || got.Body != want.Body {
				t.Errorf("kind %s with %s: %s, want %s", p.Kind, p.BaseURL, got.URL, want.URL)
			}
		}
		// An origin without a path gets the kind's path. openai-compatible has
		// no default path.
		if p.Kind == "openai-compatible" {
			continue
		}
		u, err := url.Parse(bases[p.Kind])
		if err != nil {
			t.Fatal(err)
		}
		for _, suffix := range []string{"", "/", "/chat/completions", "/messages"} {
			p.BaseURL = u.Scheme + "://" + u.Host + suffix
			if got, _ := call(t, p, ask("hi"), true); got.URL != want.URL {
				t.Errorf("kind %s with %s: %s, want %s", p.Kind, p.BaseURL, got.URL, want.URL)
			}
		}
	}
}

func TestAzure(t *testing.T) {
	for _, c := range []struct{ base, version, want string }{
		{"https://m.openai.azure.com", "", "https://m.openai.azure.com/openai/deployments/gpt%2F4/chat/completions?api-version=2024-10-21"},
		{"https://m.openai.azure.com/openai", "2025-01-01-preview", "https://m.openai.azure.com/openai/deployments/gpt%2F4/chat/completions?api-version=2025-01-01-preview"},
		{"https://m.openai.azure.com/openai/deployments/gpt-4/chat/completions?api-version=2024-06-01", "", "https://m.openai.azure.com/openai/deployments/gpt%2F4/chat/completions?api-version=2024-06-01"},
		{"https://m.openai.azure.com/openai/v1/", "", "https://m.openai.azure.com/openai/v1/chat/completions"},
		{"https://m.openai.azure.com/openai/v1", "preview", "https://m.openai.azure.com/openai/v1/chat/completions?api-version=preview"},
		{"https://gate.lan/team/openai", "", "https://gate.lan/team/openai/deployments/gpt%2F4/chat/completions?api-version=2024-10-21"},
	} {
		p := model.Provider{Kind: "azure", BaseURL: c.base, APIVersion: c.version, APIKey: "k", Models: []string{"gpt/4"}}
		got, _ := call(t, p, ask("hi"), false)
		if got.URL != c.want {
			t.Errorf("%s: %s, want %s", c.base, got.URL, c.want)
		}
	}
}

func TestAliases(t *testing.T) {
	for alias, kind := range map[string]string{
		"": "openai-compatible", "openai_compat": "openai-compatible", "standard": "openai-compatible", "llama_cpp": "llama.cpp",
	} {
		r, err := model.NewRegistry(model.Network{}, []model.Provider{{Name: "p", Kind: alias, APIKey: "k", Models: []string{"m"}}}, "")
		if err != nil || r.Models()[0].Kind != kind {
			t.Errorf("%q: %v, %v", alias, r, err)
		}
	}
}

// TestKeepReasoning sends reasoning back only where it is refused without it.
func TestKeepReasoning(t *testing.T) {
	for base, want := range map[string]int{
		"https://api.deepseek.com": 1, "https://api.moonshot.ai/v1": 1, "https://api.openai.com/v1": 0, "https://deepseek.com.evil.example": 0,
	} {
		sent, _ := call(t, model.Provider{BaseURL: base, Models: []string{"m"}}, conversation(), true)
		if n := strings.Count(sent.Body, "reasoning_content"); n != want || want > 0 && !strings.Contains(sent.Body, `"I should look."`) {
			t.Errorf("%s: reasoning of %d messages, want %d", base, n, want)
		}
	}
}

// TestUnsigned checks that Gemini from version 3 on gets the marker for missing
// signatures, once per message.
func TestUnsigned(t *testing.T) {
	for name, want := range map[string]int{"gemini-3-pro": 1, "gemini-4-argon": 1, "gemini-flash-latest": 1, "gemini-2.5-pro": 0, "models/gemini-2.0-flash": 0} {
		sent, _ := call(t, model.Provider{Kind: "google", APIKey: "k", Models: []string{name}}, conversation(), true)
		if n := strings.Count(sent.Body, `"extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}`); n != want {
			t.Errorf("%s: %d markers, want %d: %s", name, n, want, sent.Body)
		}
	}
}

// TestCallsOfOtherModels sends calls of another endpoint's model: a session may
// continue with any model, and one refused call would make the complete history
// unusable.
func TestCallsOfOtherModels(t *testing.T) {
	long := "call_" + strings.Repeat("0123456789", 5)
	q := model.Request{Tools: []model.Tool{{Name: "now.then"}}, Messages: []sessionlog.Message{{Role: "user", Content: "?"}}}
	names := []string{"now.then", "functions.bash<|x|>", "", strings.Repeat("é", 90)}
	ids := []string{"call_1", long, "functions.bash:0", "D681PevKs"}
	var calls []sessionlog.ToolCall
	for i, id := range ids {
		calls = append(calls, sessionlog.ToolCall{ID: id, Function: sessionlog.Function{Name: names[i], Arguments: "{}"}})
	}
	q.Messages = append(q.Messages, sessionlog.Message{Role: "assistant", ToolCalls: calls})
	for _, id := range ids {
		q.Messages = append(q.Messages, sessionlog.Message{Role: "tool", Content: "x", ToolCallID: id})
	}
	for _, c := range []struct {
		p     model.Provider
		kept  []bool
		takes string
	}{
		{model.Provider{Kind: "openai", APIKey: "k"}, []bool{true, false, true, true}, "^.{1,40}$"},
		{model.Provider{Kind: "azure", BaseURL: "https://mine.openai.azure.com/"}, []bool{true, false, true, true}, "^.{1,40}$"},
		{model.Provider{APIKey: "k"}, []bool{true, false, true, true}, "^.{1,40}$"},
		{model.Provider{Kind: "anthropic", APIKey: "k"}, []bool{true, true, false, true}, "^[a-zA-Z0-9_-]+$"},
		{model.Provider{BaseURL: "https://api.mistral.ai/v1"}, []bool{false, false, false, true}, "^[a-zA-Z0-9]{9}$"},
		{model.Provider{BaseURL: "https://api.moonshot.ai/v1"}, []bool{true, true, true, true}, "."},
	} {
		c.p.Models = []string{"m"}
		sent, _ := call(t, c.p, q, true)
		var body struct {
			Messages []struct {
				ToolCallID string `json:"tool_call_id"`
				ToolCalls  []struct {
					ID       string
					Function struct{ Name string }
				} `json:"tool_calls"`
			}
		}
		if err := json.Unmarshal([]byte(sent.Body), &body); err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]bool)
		for i, got := range body.Messages[1].ToolCalls {
			if (got.ID == ids[i]) != c.kept[i] || !regexp.MustCompile(c.takes).MatchString(got.ID) || seen[got.ID] {
				t.Errorf("%s %s: the id %q is sent as %q", c.p.Kind, c.p.BaseURL, ids[i], got.ID)
			}
			if result := body.Messages[2+i].ToolCallID; result != got.ID {
				t.Errorf("the result of %q is of %q", got.ID, result)
			}
			seen[got.ID] = true
			if i == 0 && got.Function.Name != names[0] || i > 0 && !regexp.MustCompile("^[a-zA-Z0-9_-]{1,64}$").MatchString(got.Function.Name) {
				t.Errorf("the name %q is sent as %q", names[i], got.Function.Name)
			}
		}
	}
}

// TestProgress checks that the kind llama.cpp requests reports of the prompt, in a stream,
// and that the caller receives the percentages. The events are those of
// https://github.com/ggml-org/llama.cpp/pull/15827 (2025-09-06).
func TestProgress(t *testing.T) {
	s := modeltest.New(t)
	part := func(processed, total int) string {
		return fmt.Sprintf(`data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"object":"chat.completion.chunk","prompt_progress":{"total":%d,"cache":0,"processed":%d,"time_ms":181}}`+"\n\n", total, processed)
	}
	for _, kind := range []string{"llama.cpp", "openai-compatible"} {
		s.Queue(modeltest.Reply{}.Raw(part(0, 237)+part(128, 237)+part(237, 237)+part(5, 0)+part(-1, 1)+part(9, 1)+`data: {"choices":[{"delta":{"content":"yes"},"finish_reason":"stop"}]}`+"\n\n"), modeltest.Say("yes"))
		r := registry(t, model.Provider{Kind: kind, BaseURL: s.URL})
		q := ask("?")
		var got []int
		q.OnProgress = func(percent int) { got = append(got, percent) }
		res, err := collect(t, r, q)
		if err != nil || res.Message.Content != "yes" || !slices.Equal(got, []int{54, 100, 100}) {
			t.Errorf("%s: %v, %v, %v", kind, got, res, err)
		}
		if _, err := r.Send(t.Context(), q); err != nil {
			t.Error(err)
		}
		list := s.Requests()
		for i, sent := range list[len(list)-2:] {
			if has := bytes.Contains(sent.Body, []byte(`"return_progress":true`)); has != (kind == "llama.cpp" && i == 0) {
				t.Errorf("%s: %s", kind, sent.Body)
			}
		}
	}
}
