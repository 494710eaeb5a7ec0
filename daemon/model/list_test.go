package model_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/model"
)

// TestAnthropicList checks that each request for Anthropic's list has the key in the form of
// that list. See https://docs.anthropic.com/en/api/models-list.
func TestAnthropicList(t *testing.T) {
	lists := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/models"):
			io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`)
		case r.Header.Get("X-Api-Key") != "k" || r.Header.Get("Anthropic-Version") == "":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			lists++
			io.WriteString(w, `{"data":[{"id":"m","type":"model"}]}`)
		}
	}))
	defer s.Close()
	p := model.Provider{Name: "anthropic", Kind: "anthropic", BaseURL: s.URL + "/v1", APIKey: "k", Models: []string{"m"}}
	if names, err := p.List(t.Context()); err != nil || !slices.Equal(names, []string{"m"}) {
		t.Errorf("List: %q, %v", names, err)
	}
	if _, checked, err := p.Probe(t.Context()); err != nil || !strings.HasSuffix(checked, "the key was accepted") {
		t.Errorf("Probe: %q, %v", checked, err)
	}
	r, err := model.NewRegistry(model.Network{}, []model.Provider{p}, "m")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lists = 0
	if _, err := r.Send(t.Context(), ask(strings.Repeat("word ", 20_000))); err != nil || lists != 1 {
		t.Errorf("a long request: %v, %d lists, want 1", err, lists)
	}
}
