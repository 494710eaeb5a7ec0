package model_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"crabmem/daemon/model"
	"crabmem/fuzz/race"
)

// sourced is an answer of a provider, as its source shows it.
type sourced struct {
	provider, kind string
	want           string
	body           string
}

// isStream reports whether the answer is a stream of events.
func (s *sourced) isStream() bool {
	return slices.Contains([]string{"chat", "tool", "reasoning", "filter"}, s.kind)
}

// answersOf returns the answers of testdata/providers.txt.
func answersOf(t *testing.T) (list []sourced) {
	t.Helper()
	b, err := os.ReadFile("testdata/providers.txt")
	if err != nil {
		t.Fatal(err)
	}
	head := regexp.MustCompile(`^(\S+) (\w+) 20\d\d-\d\d-\d\d https://\S+(?: = (.*))?$`)
	for block := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n\n") {
		first, body, _ := strings.Cut(block, "\n")
		if strings.HasPrefix(block, "#") {
			continue
		}
		m := head.FindStringSubmatch(first)
		if m == nil || body == "" {
			t.Fatalf("providers.txt: %s", block)
		}
		s := sourced{m[1], m[2], m[3], body}
		if s.isStream() {
			s.body = strings.ReplaceAll(body, "\n", "\n\n") + "\n\n"
		}
		list = append(list, s)
	}
	return list
}

// configured are the providers as a configuration has them, with the model of the answer
// about the context.
var configured = map[string]model.Provider{
	"OpenAI":     {Kind: "openai", APIKey: "k", Models: []string{"gpt-4o"}},
	"Anthropic":  {Kind: "anthropic", APIKey: "k", Models: []string{"claude-opus-4-8"}},
	"Gemini":     {Kind: "google", APIKey: "k", Models: []string{"gemini-3.1-flash-lite-preview"}},
	"Azure":      {Kind: "azure", BaseURL: "https://mine.openai.azure.com", APIKey: "k", Models: []string{"gpt-35-turbo-16k"}},
	"Bedrock":    {Kind: "bedrock", Region: "eu-west-1", APIKey: "k", Models: []string{"openai.gpt-oss-120b-1:0"}},
	"OpenRouter": {BaseURL: "https://openrouter.ai/api/v1", APIKey: "k", Models: []string{"xiaomi/mimo-v2.5"}},
	"Groq":       {BaseURL: "https://api.groq.com/openai/v1", APIKey: "k", Models: []string{"llama-3.1-8b-instant"}},
	"Mistral":    {BaseURL: "https://api.mistral.ai/v1", APIKey: "k", Models: []string{"mistral-tiny-latest"}},
	"DeepSeek":   {BaseURL: "https://api.deepseek.com", APIKey: "k", Models: []string{"deepseek-chat"}},
	"xAI":        {BaseURL: "https://api.x.ai/v1", APIKey: "k", Models: []string{"grok-4"}},
	"Ollama":     {Kind: "ollama", Models: []string{"mistral"}},
	"LMStudio":   {BaseURL: "http://localhost:1234/v1", Models: []string{"gemma-3-4b-it"}},
	"llama.cpp":  {Kind: "llama.cpp", Models: []string{"unsloth/gemma-4-31B-it-GGUF:IQ4_XS"}},
	"vLLM":       {BaseURL: "http://localhost:8000/v1", Models: []string{"meta-llama/Meta-Llama-3.1-8B-Instruct"}},
	"LiteLLM":    {BaseURL: "http://localhost:4000/v1", APIKey: "k", Models: []string{"azure-gpt-4o-mini"}},
}

// replying is a transport that returns responses without a network.
type replying func(*http.Request) (status int, body io.Reader)

func (f replying) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Body != nil {
		q.Body.Close()
	}
	status, body := f(q)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body), Request: q}, nil
}

// onlyModel returns a registry of one provider, whose requests get the responses of reply.
func onlyModel(t *testing.T, p model.Provider, reply replying) *model.Registry {
	t.Helper()
	none := 0
	p.Name, p.MaxRetries = "p", &none
	r, err := model.NewRegistry(model.Network{Transport: reply}, []model.Provider{p}, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// read formats a response as the lines = of providers.txt do.
func read(res *model.Response) string {
	var list []string
	for _, c := range res.Message.ToolCalls {
		list = append(list, c.Function.Name+" "+c.Function.Arguments)
	}
	text := res.Message.Content + strings.Join(list, " ")
	if res.Message.ReasoningContent != "" {
		text = res.Message.ReasoningContent + "|" + text
	}
	return text
}

// TestProviders sends the answers of providers: a first chat, a call of a tool, reasoning,
// the context of the model, an overflow, a rate limit, and a used-up quota.
func TestProviders(t *testing.T) {
	causes := map[string]error{"overflow": model.ErrOverflow, "limit": model.ErrRateLimit, "quota": model.ErrQuota}
	unseen := make(map[string]bool)
	for name := range configured {
		unseen[name] = true
	}
	for _, a := range answersOf(t) {
		p, ok := configured[a.provider]
		if !ok {
			t.Fatalf("no provider %s", a.provider)
		}
		delete(unseen, a.provider)
		status, body := 200, a.body
		if causes[a.kind] != nil {
			var err error
			first, rest, _ := strings.Cut(a.body, " ")
			if status, err = strconv.Atoi(first); err != nil {
				t.Fatal(err)
			}
			body = rest
		}
		r := onlyModel(t, p, func(q *http.Request) (int, io.Reader) {
			if a.kind == "context" && q.Method == http.MethodPost {
				return 200, strings.NewReader(`{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}`)
			}
			return status, strings.NewReader(body)
		})
		q := ask("?")
		if a.kind == "context" {
			q = ask(strings.Repeat("x", 17_000))
		}
		res, err := collect(t, r, q)
		got := read(res)
		if a.kind == "context" {
			got = fmt.Sprint(r.ContextLimit(""))
		}
		switch cause := causes[a.kind]; {
		case cause != nil && !errors.Is(err, cause), cause == nil && (err != nil || got != a.want):
			t.Errorf("%s, %s: %q, %v, want %q", a.provider, a.kind, got, err, a.want)
		case cause != nil && err.(*model.Error).Status != status:
			t.Errorf("%s, %s: %#v", a.provider, a.kind, err)
		}
	}
	if len(unseen) > 0 {
		t.Errorf("without an answer: %v", unseen)
	}
}

// TestCutAtEveryByte reads each stream of a provider byte by byte, with a comment after each
// line, and without its end, from every byte on. The response is the same. Without the end,
// it may be an error that names the cause, and has no call.
func TestCutAtEveryByte(t *testing.T) {
	race.Skip(t)
	for _, a := range answersOf(t) {
		if !a.isStream() {
			continue
		}
		var body io.Reader
		r := onlyModel(t, configured[a.provider], func(*http.Request) (int, io.Reader) { return 200, body })
		same := func(what string, at int) {
			if res, err := collect(t, r, ask("?")); err != nil || read(res) != a.want {
				t.Fatalf("%s, %s: %s %d: %q, %v, want %q", a.provider, a.kind, what, at, read(res), err, a.want)
			}
		}
		ended := false // the stream is complete without the rest
		for i := range len(a.body) {
			if i > 0 && a.body[i-1] == '\n' {
				body = strings.NewReader(a.body[:i] + ": comment\n" + a.body[i:])
				same("comment at byte", i)
			}
			body = strings.NewReader(a.body[:i])
			res, err := collect(t, r, ask("?"))
			switch {
			case err == nil && read(res) == a.want:
				ended = true
			case err == nil, !strings.Contains(err.Error(), "cut off"), len(res.Message.ToolCalls) > 0 && res.Message.ToolCalls[0].Function.Arguments != "":
				t.Fatalf("%s, %s: end at byte %d: %q, %v", a.provider, a.kind, i, read(res), err)
			}
		}
		if !ended {
			t.Errorf("%s, %s: no end before [DONE]", a.provider, a.kind)
		}
		body = iotest.OneByteReader(strings.NewReader(a.body))
		same("reads of bytes", 1)
		body = bytes.NewReader(bytes.ReplaceAll([]byte(a.body), []byte("\n"), []byte("\r\n")))
		same("CRLF", 0)
	}
}
