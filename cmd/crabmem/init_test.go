package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInitOllama asks a server that answers as Ollama does, and ones that do not.
func TestInitOllama(t *testing.T) {
	for body, want := range map[string]string{
		`{"models":[{"name":"llama3.2:latest"},{"name":"qwen3"},{"name":"qwen3"}]}`: `models = ["llama3.2:latest", "qwen3"]`,
		`{"models":[]}`: `#models = ["llama3.2"]`,
		`<html>`:        `#models = ["llama3.2"]`,
		`{"models":[{"name":"` + strings.Repeat("x", 2<<20) + `"}]}`: `#models = ["llama3.2"]`,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/tags" {
				http.NotFound(w, r)
			}
			io.WriteString(w, body)
		}))
		home := filepath.Join(t.TempDir(), "home")
		c := newApp(strings.NewReader(""), io.Discard, io.Discard)
		c.home = home
		c.Getenv = func(name string) string {
			if name == "OLLAMA_HOST" {
				return s.URL
			}
			return ""
		}
		if _, err := c.init(t.Context(), false); err != nil {
			t.Error(err)
		}
		s.Close()
		b, err := os.ReadFile(filepath.Join(home, "config.toml"))
		if err != nil || !strings.Contains(string(b), "\n"+want+"\n") {
			t.Errorf("%.80s: no %s in\n%.300s, %v", body, want, b, err)
		}
	}
}
