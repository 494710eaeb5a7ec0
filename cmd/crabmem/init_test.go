package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/config"
	"crabmem/daemon/model/modeltest"

	"github.com/google/go-cmp/cmp"
)

// providerServer is a scripted model that lists two models and accepts one key.
func providerServer(t *testing.T) string {
	script := modeltest.New(t)
	script.Func(func(modeltest.Request) modeltest.Reply { return modeltest.Say("ok") })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case key != "" && key != "sk-right":
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"error":{"message":"invalid key"}}`)
		case strings.HasSuffix(r.URL.Path, "/models"):
			io.WriteString(w, `{"object":"list","data":[{"id":"small"},{"id":"claude-sonnet-4-5"}]}`)
		default:
			script.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// typist types lines, which the terminal shows.
type typist struct {
	text   string
	screen io.Writer
}

func (t *typist) Read(b []byte) (int, error) {
	line, rest, ok := strings.Cut(t.text, "\n")
	if !ok {
		return 0, io.EOF
	}
	t.text = rest
	_, err := io.WriteString(t.screen, line+"\n")
	return copy(b, line+"\n"), err
}

// TestInitRecordings compares what init prints and writes with testdata/init; run with
// -update to write that.
func TestInitRecordings(t *testing.T) {
	const noServer = "127.0.0.1:1"
	all := config.Providers
	defer func() { config.Providers = all }()
	config.Providers = slices.Clone(all)
	for i, k := range all {
		if len(k.KeyVars) == 0 { // this machine may have a server
			config.Providers[i].BaseURL = "http://" + noServer
		}
	}
	for _, c := range []struct {
		name, answers string // "-": no terminal
		env           map[string]string
		f             initFlags
		file          string // in config.toml
	}{
		{"nothing", "\n", nil, initFlags{}, "# No provider"},
		{"anthropic", "1\n\nY\n", map[string]string{"ANTHROPIC_API_KEY": "sk-right", "ANTHROPIC_BASE_URL": "SERVER/v1"}, initFlags{}, `api_key = "secret:anthropic"`},
		{"local", "\nsmall\n", map[string]string{"OLLAMA_HOST": "SERVER"}, initFlags{}, `kind = "ollama"`},
		{"wrong-key", "1\n\nno\n", map[string]string{"OPENAI_API_KEY": "sk-wrong", "OPENAI_BASE_URL": "SERVER/v1"}, initFlags{}, `api_key = "${OPENAI_API_KEY}"`},
		{"no-terminal", "-", map[string]string{"GROQ_API_KEY": "sk-right", "GROQ_BASE_URL": "SERVER/v1"}, initFlags{}, `api_key = "${GROQ_API_KEY}"`},
		{"flags", "-", map[string]string{"LAB_KEY": "sk-right"}, initFlags{baseURL: "SERVER/v1", keyEnv: "LAB_KEY", yes: true}, `api_key = "${LAB_KEY}"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := providerServer(t)
			home := filepath.Join(t.TempDir(), "home")
			var out bytes.Buffer
			a := newApp(strings.NewReader(""), &out, &out)
			a.home = home
			env := map[string]string{"OLLAMA_HOST": noServer, "CRABMEM_KEYRING": "off"}
			for name, value := range c.env {
				env[name] = strings.ReplaceAll(value, "SERVER", server)
			}
			a.Getenv = func(name string) string { return env[name] }
			if c.answers != "-" {
				c.f.in = bufio.NewReader(&typist{c.answers, &out})
			}
			c.f.baseURL = strings.ReplaceAll(c.f.baseURL, "SERVER", server)
			answer, err := a.init(t.Context(), &c.f)
			if err != nil {
				t.Fatal(err)
			}
			a.sayInit(answer)
			a.Out.Flush()
			text, err := os.ReadFile(answer.Path)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "\n--- config.toml\n%s", text)
			got := strings.NewReplacer(server, "http://SERVER", home, "HOME").Replace(out.String())
			if strings.Contains(got, "sk-") || !strings.Contains(got, c.file) {
				t.Errorf("a key, or no %s, in\n%s", c.file, got)
			}
			file := filepath.Join("testdata", "init", c.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if d := cmp.Diff(string(want), got); err != nil || d != "" {
				t.Errorf("%s, %v:\n%s", file, err, d)
			}
			conf, err := config.Load(a.fs, home, a.Getenv)
			if err != nil || len(conf.Broken) > 0 || conf.Model != answer.Model {
				t.Errorf("the file is not valid: %v", err)
			}
		})
	}
}

// TestKnownProviders checks that each known provider has a kind that config.toml knows.
func TestKnownProviders(t *testing.T) {
	for _, k := range config.Providers {
		p := config.Provider{Name: k.Name, Kind: k.Kind, BaseURL: k.BaseURL, APIKey: "k", Models: []string{"m"}}
		if k.Kind == "azure" {
			p.BaseURL = "https://office.example.com"
		}
		if err := p.Model().Check(); err != nil || (len(k.KeyVars) == 0) == (k.Model != "" || k.Kind == "azure") {
			t.Errorf("%+v: %v", k, err)
		}
	}
}

func TestBaseURL(t *testing.T) {
	for _, c := range []struct {
		text   string
		ollama bool
		want   string
	}{
		{"http://example.com/v1", false, "http://example.com/v1"}, {"example.com/v1", false, "https://example.com/v1"},
		{"http://0.0.0.0:1", true, "http://localhost:1"}, {"127.0.0.1:1", true, "http://127.0.0.1:1"},
		{"0.0.0.0", true, "http://localhost:11434"}, {"0.0.0.0:80", true, "http://localhost:80"},
		{"example.com", true, "http://example.com:11434"}, {"::1", true, "http://[::1]:11434"},
	} {
		if got := baseURL(c.text, c.ollama); got != c.want {
			t.Errorf("%q, %v: %q, want %q", c.text, c.ollama, got, c.want)
		}
	}
}
