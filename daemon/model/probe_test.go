package model_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"crabmem/daemon/model"
)

// TestProbe checks that a probe sends no request that costs money, and sends
// the key to no other host.
func TestProbe(t *testing.T) {
	away := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer away.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.ContentLength > 0 {
			t.Errorf("asked for %s %s", r.Method, r.URL)
		}
		switch {
		case r.URL.Path == "/moved/models":
			http.Redirect(w, r, away.URL, http.StatusFound)
		case r.URL.Path == "/broken/models":
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Path == "/none/models":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Path == "/public/models":
			fmt.Fprint(w, `{"object":"list","data":[]}`)
		case r.Header.Get("Authorization") != "Bearer sk-right":
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/odd/models":
			fmt.Fprint(w, "<html>")
		default:
			fmt.Fprint(w, `{"object":"list","data":[{"id":"a:7b"},{"id":"b:latest"}]}`)
		}
	}))
	defer server.Close()
	closed := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return "http://" + l.Addr().String()
	}()
	for _, test := range []struct {
		what, kind, path, key string
		models                string
		address, want         string // "" = no error
		checked               string // end of the text
	}{
		{"a list", "openai-compatible", "/v1", "sk-right", "x", "/v1/models", "", "models: 200 OK; the key from the variable KEY was accepted"},
		{"the path of a request", "openai-compatible", "/v1/chat/completions", "sk-right", "x", "/v1/models", "", "was accepted"},
		{"a wrong key", "openai-compatible", "/v1", "sk-wrong", "x", "/v1/models", "the provider rejected the API key", ""},
		{"no key", "openai-compatible", "/v1", "", "x", "/v1/models", "the provider rejected the API key", ""},
		{"a public list", "openai-compatible", "/public", "sk-wrong", "x", "/public/models", "", "the key from the variable KEY was not checked: the list is public"},
		{"a public list without a key", "openai-compatible", "/public", "", "x", "/public/models", "", "no key is set"},
		{"no list", "openai-compatible", "/none", "sk-right", "x", "/none/models", "", "404 Not Found; the key from the variable KEY was not checked"},
		{"another place", "openai-compatible", "/moved", "sk-right", "x", "/moved/models", "", "302 Found; the key from the variable KEY was not checked"},
		{"a broken server", "openai-compatible", "/broken", "sk-right", "x", "/broken/models", "the server returned 502 Bad Gateway", ""},
		{"the models of ollama", "ollama", "/v1", "sk-right", "a:7b,b", "/v1/models", "", "was accepted"},
		{"a model that ollama has not", "ollama", "/v1", "sk-right", "a:7b,a", "/v1/models", "the server has no model a", "was accepted"},
		{"what is no list", "ollama", "/odd", "sk-right", "a", "/odd/models", "", "was accepted"},
		{"azure is connected to", "azure", "", "sk-right", "x", "", "", "the key from the variable KEY was not checked: kind azure has no free check"},
	} {
		p := model.Provider{Name: "far", Kind: test.kind, BaseURL: server.URL + test.path, APIKey: test.key, KeySource: "the variable KEY", Models: strings.Split(test.models, ",")}
		address, checked, err := p.Probe(t.Context())
		if !strings.HasSuffix(checked, test.checked) || (checked == "") != (test.checked == "") {
			t.Errorf("%s: checked %q, want %q", test.what, checked, test.checked)
		}
		if got := fmt.Sprint(err); test.want != "" && got != test.want || test.want == "" && err != nil {
			t.Errorf("%s: %v, want %q", test.what, err, test.want)
		}
		if want := server.URL + test.address; address != want && test.address != "" {
			t.Errorf("%s: asked %s, want %s", test.what, address, want)
		}
	}
	for _, kind := range []string{"openai-compatible", "azure"} {
		p := model.Provider{Name: "far", Kind: kind, BaseURL: closed, APIKey: "sk-right", Models: []string{"x"}}
		if _, _, err := p.Probe(t.Context()); err == nil || strings.Contains(err.Error(), "sk-right") {
			t.Errorf("%s without a listener: %v", kind, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := p.Probe(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", kind, err)
		}
	}
	if address, _, err := (model.Provider{Name: "far"}).Probe(t.Context()); err == nil || address != "" {
		t.Errorf("a provider without models: %q, %v", address, err)
	}
}
