package model_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
)

// echo answers with the name of the model that was asked.
type echo struct{}

func (echo) Send(_ context.Context, q model.Request) (*model.Response, error) {
	var r model.Response
	r.Message.Content = "I am " + q.Model
	return &r, nil
}

func (echo) Stream(_ context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		if yield(model.Chunk{Content: "I am " + q.Model}, nil) {
			yield(model.Chunk{Finish: "stop"}, nil)
		}
	}
}

func TestRegistry(t *testing.T) {
	one := model.Provider{Name: "one", APIKey: "k", Models: []string{"gpt-4o", "own"}, ContextLimits: map[string]int{"own": 5000}}
	r, err := model.NewRegistry(model.Network{}, []model.Provider{one, {Name: "two", Kind: "ollama", Models: []string{"qwen-7"}}}, "own")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AddBackend("offline", 1000, echo{}); err != nil {
		t.Fatal(err)
	}
	want := []model.Info{
		{Name: "gpt-4o", Provider: "one", Kind: "openai-compatible", ContextLimit: 128_000},
		{Name: "offline", ContextLimit: 1000},
		{Name: "own", Provider: "one", Kind: "openai-compatible", ContextLimit: 5000, Active: true},
		{Name: "qwen-7", Provider: "two", Kind: "ollama", ContextLimit: 4096},
	}
	if d := cmp.Diff(want, r.Models()); d != "" {
		t.Error(d)
	}
	refused := func(err error, text string) {
		t.Helper()
		if err == nil || err.Error() != text {
			t.Errorf("%v, want %s", err, text)
		}
	}
	refused(r.Add(model.Provider{Name: "three", APIKey: "k", Models: []string{"new", "own"}}), "duplicate model name 'own' across providers")
	refused(r.AddBackend("own", 1, echo{}), "duplicate model name 'own' across providers")
	refused(r.Remove("own"), "cannot remove the active model 'own': switch to another first")
	refused(r.Remove("new"), "model 'new' not found in registry") // no model of the refused provider was added
	refused(r.Switch("new"), "model 'new' not found in registry")
	q := ask("?")
	q.Model = "new"
	_, err = r.Send(t.Context(), q)
	refused(err, "model 'new' not found in registry")
	if !errors.Is(err, model.ErrUnknownModel) {
		t.Errorf("%v is no ErrUnknownModel", err)
	}
	if _, err := collect(t, r, q); !errors.Is(err, model.ErrUnknownModel) {
		t.Errorf("streamed: %v", err)
	}
	if err := errors.Join(r.Switch("offline"), r.Remove("own"), r.Remove("gpt-4o"), r.Add(one)); err != nil {
		t.Fatal(err)
	}
	if r.Active() != "offline" || r.ContextLimit("") != 1000 || r.ContextLimit("own") != 5000 || r.ContextLimit("unknown") != 32768 {
		t.Errorf("active %s, limits %d %d %d", r.Active(), r.ContextLimit(""), r.ContextLimit("own"), r.ContextLimit("unknown"))
	}
	for _, name := range []string{"", "offline"} {
		q.Model = name
		res, err := r.Send(t.Context(), q)
		if err != nil || res.Message.Content != "I am offline" || res.Model != "" {
			t.Errorf("%+v, %v", res, err)
		}
	}
	_, err = model.NewRegistry(model.Network{}, []model.Provider{one, one, {Name: "x", Kind: "odd"}}, "")
	refused(err, "duplicate model name 'gpt-4o' across providers\nduplicate model name 'own' across providers\n"+
		"provider 'x' has unknown kind 'odd': want one of openai, openai-compatible, anthropic, google, azure, bedrock, ollama, llama.cpp\n"+
		"provider 'x' has no models")
	_, err = model.NewRegistry(model.Network{}, []model.Provider{one}, "none")
	refused(err, "model 'none' not found in registry")
	empty, err := model.NewRegistry(model.Network{}, nil, "")
	if err != nil || empty.Active() != "" {
		t.Fatal(err)
	}
	_, err = empty.Send(t.Context(), ask("?"))
	refused(err, "model '' not found in registry")
}

// TestChangeDuringCall changes models while a call is active. The call
// completes after its model was removed.
func TestChangeDuringCall(t *testing.T) {
	for _, stream := range []bool{false, true} {
		s := modeltest.New(t, modeltest.Stall().Text("at last"))
		arrived := make(chan struct{})
		s.Log = func(modeltest.Request) { close(arrived) }
		r := registry(t, model.Provider{BaseURL: s.URL})
		var wg sync.WaitGroup
		wg.Go(func() {
			answered := func() (*model.Response, error) { return r.Send(t.Context(), ask("?")) }
			if stream {
				answered = func() (*model.Response, error) { return collect(t, r, ask("?")) }
			}
			if res, err := answered(); err != nil || res.Message.Content != "at last" {
				t.Errorf("%+v, %v", res, err)
			}
		})
		<-arrived
		err := errors.Join(r.AddBackend("other", 0, echo{}), r.Switch("other"), r.Remove("m1"),
			r.Add(model.Provider{Name: "new", APIKey: "k", Models: []string{"m1"}}))
		if err != nil || r.Active() != "other" || len(r.Models()) != 2 {
			t.Error(err, r.Models())
		}
		if res, err := r.Send(t.Context(), ask("?")); err != nil || res.Message.Content != "I am other" {
			t.Error(res, err)
		}
		s.Release()
		wg.Wait()
	}
}

func TestFallback(t *testing.T) {
	for _, c := range []struct {
		name  string
		first modeltest.Reply
		falls bool
	}{
		{"overloaded", modeltest.Status(503, "busy"), true},
		{"limited", modeltest.Status(429, "slow down").Header("Retry-After", "1000"), true},
		{"cut at once", modeltest.Reply{}.Cut(), true},
		{"refused", modeltest.Status(400, "bad"), false},
		{"too long", modeltest.Status(400, "this model's maximum context length is 5"), false},
	} {
		for _, stream := range []bool{false, true} {
			s := modeltest.New(t)
			s.Func(func(q modeltest.Request) modeltest.Reply {
				if q.Model == "first" {
					return c.first
				}
				return modeltest.Say("I am ", q.Model)
			})
			none := 0
			r, err := model.NewRegistry(model.Network{}, []model.Provider{
				{Name: "a", BaseURL: s.URL, Models: []string{"first"}, MaxRetries: &none, Fallback: []string{"gone", "first", "second"}},
				{Name: "b", BaseURL: s.URL, Models: []string{"gone", "second"}},
			}, "")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(r.Close)
			if err := r.Remove("gone"); err != nil {
				t.Fatal(err)
			}
			for model, want := range map[string]string{"first": "second", "second": "second", "": "second", "gone": "gone"} {
				if got := r.Fallback(model); got != want {
					t.Errorf("the fallback of %q is %q, want %q", model, got, want)
				}
			}
			res, err := r.Send(t.Context(), ask("?"))
			if stream {
				res, err = collect(t, r, ask("?"))
			}
			if c.falls && (err != nil || res.Model != "second" || res.Message.Content != "I am second") {
				t.Errorf("%s, stream %v: %+v, %v", c.name, stream, res, err)
			}
			if e, ok := errors.AsType[*model.Error](err); !c.falls && (!ok || e.Model != "first") {
				t.Errorf("%s, stream %v: %v", c.name, stream, err)
			}
		}
	}
}

// TestFallbackFails checks that the error is that of the first model, not of
// the last.
func TestFallbackFails(t *testing.T) {
	s := modeltest.New(t)
	s.Func(func(q modeltest.Request) modeltest.Reply {
		if q.Model == "a" {
			return modeltest.Status(503, "a is busy")
		}
		return modeltest.Say("never").Cut()
	})
	none := 0
	r, err := model.NewRegistry(model.Network{}, []model.Provider{{Name: "p", BaseURL: s.URL, Models: []string{"a", "b"}, MaxRetries: &none, Fallback: []string{"b"}}}, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Send(t.Context(), ask("?")); err == nil || !strings.Contains(err.Error(), "a is busy") {
		t.Error(err)
	}
	// A stream that broke after another model began is that one's failure.
	res, err := collect(t, r, ask("?"))
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Model != "b" || res.Message.Content != "never" {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestCheck(t *testing.T) {
	minus := -1
	for _, c := range []struct {
		p    model.Provider
		want string
	}{
		{model.Provider{Name: "p", APIKey: "k", Models: []string{"m"}}, ""},
		{model.Provider{Name: "p", Kind: "ollama", Models: []string{"m"}}, ""},
		{model.Provider{Name: "p", APIKey: "k"}, "provider 'p' has no models"},
		{model.Provider{Name: "p", Models: []string{"m"}}, "provider 'p' requires api_key or base_url"},
		{model.Provider{Name: "p", Kind: "bedrock", AccessKey: "a", SecretKey: "s", Models: []string{"m"}}, "provider 'p' (bedrock) requires region"},
		{model.Provider{Name: "p", Kind: "bedrock", Region: "r", AccessKey: "a", Models: []string{"m"}}, "provider 'p' (bedrock) requires access_key and secret_key, or api_key"},
		{model.Provider{Name: "p", Kind: "azure", APIKey: "k", Models: []string{"m"}}, "provider 'p' (azure) requires base_url"},
		{model.Provider{Name: "p", Kind: "gpt", APIKey: "k", Models: []string{"m", "m", ""}}, "provider 'p' has unknown kind 'gpt': want one of " + strings.Join(model.Kinds(), ", ") +
			"\nprovider 'p' has the model 'm' twice\nprovider 'p' has a model without a name"},
		{model.Provider{APIKey: "k", Models: []string{"m"}}, "a provider has no name"},
		{model.Provider{Name: "p", BaseURL: "file:///etc/passwd", Models: []string{"m"}}, "provider 'p': base_url is not an http or https URL"},
		{model.Provider{Name: "p", BaseURL: "localhost:80", Models: []string{"m"}}, "provider 'p': base_url is not an http or https URL"},
		{model.Provider{Name: "p", BaseURL: "http://u:hunter2@h/v1", Models: []string{"m"}}, "provider 'p': base_url has a password in it: put the key in api_key"},
		{model.Provider{Name: "p", BaseURL: "http://h/v1?key=hunter2", Models: []string{"m"}}, "provider 'p': base_url has a query or a fragment"},
		{model.Provider{Name: "p", BaseURL: "http://h\x7f/hunter2", Models: []string{"m"}}, "provider 'p': base_url is not an http or https URL"},
		{model.Provider{Name: "p", APIKey: "hunter2\n", Models: []string{"m"}}, "provider 'p': api_key has a space or a line end in it"},
		{model.Provider{Name: "p", APIKey: "k", Models: []string{"m"}, MaxRetries: &minus, Timeout: -1, ContextLimits: map[string]int{"m": -5}},
			"provider 'p': max_retries is -1, want 0 to 10\nprovider 'p': a timeout is negative\nprovider 'p': the context limit of 'm' is -5, want 1 or more"},
		{model.Provider{Name: "p", APIKey: "k", Models: []string{"m"}, ContextLimits: map[string]int{"n": 5}}, "provider 'p': context_limits names 'n', which is not one of its models"},
	} {
		got := ""
		if err := c.p.Check(); err != nil {
			got = err.Error()
		}
		if got != c.want || strings.Contains(got, "hunter2") {
			t.Errorf("got\n%s, want\n%s", got, c.want)
		}
	}
}

func TestContextLimits(t *testing.T) {
	r, err := model.NewRegistry(model.Network{}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"claude-3-opus": 200_000, "gpt-4o-mini": 128_000, "gpt-4-turbo-2024": 128_000, "gpt-4": 8_192, "gpt-4-0613": 8_192, "gpt-3.5-turbo": 16_385,
		"o1": 200_000, "o3-mini": 200_000, "o4-mini": 200_000, "grok-4": 131_072, "qwen-max": 32_768, "qwq-32b": 32_768, "kimi-k2": 128_000,
		"moonshot-v1": 128_000, "anything": 32_768, "anthropic/claude-3": 200_000, "us.anthropic.claude-3-5-sonnet": 200_000, "": 32_768, "a.b/": 32_768,
	} {
		if got := r.ContextLimit(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
