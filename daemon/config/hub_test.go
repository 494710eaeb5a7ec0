package config_test

import (
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"

	"github.com/google/go-cmp/cmp"
)

func TestHubSources(t *testing.T) {
	want := []config.HubSource{{Name: "ours", Repo: "example/hub"}, {Name: "local-2", Repo: "file:///srv/hub.git"}}
	for _, text := range []string{
		"[[hub.sources]]\nname = \"ours\"\nrepo = \"example/hub\"\n[[hub.sources]]\nname = \"local-2\"\nrepo = \"file:///srv/hub.git\"\n",
		"[hub]\nsources = [{name = \"ours\", repo = \"example/hub\"}, {name = \"local-2\", repo = \"file:///srv/hub.git\"}]\n",
	} {
		if d := cmp.Diff(want, load(t, map[string]string{"config.toml": text}).HubSources); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
	for text, want := range map[string]string{
		"sources = 1":   "config.toml:2: hub.sources: want tables [[hub.sources]]",
		"source = []":   "unknown key 'source' in hub",
		"sources = [1]": "hub.sources: item 1: want only name and repo",
		"sources = [\n{name = \"a\", repo = \"a/b\"},\n{name = \"a\", repo = \"a/b\"}]": "config.toml:4: hub.sources: two sources have the name 'a'",
		"sources = [{name = \"a\", repo = \"a/b\", ref = \"c\"}]":                       "item 1: want only name and repo",
		"sources = [{name = \"../a\", repo = \"a/b\"}]":                                 "hub.sources: name '../a': want lowercase letters",
		"sources = [{name = \"a\", repo = \"ext::sh -c x\"}]":                           "hub.sources: repo 'ext::sh -c x': want OWNER/REPO",
		"sources = [{name = \"a\", repo = \"-a/b\"}]":                                   "want OWNER/REPO",
		"sources = [{name = \"a\", repo = \"file://host/b\"}]":                          "want OWNER/REPO",
		"sources = [{name = \"a\", repo = \"a/..\"}]":                                   "want OWNER/REPO",
		"sources = [{name = \"a\", repo = \"a/b/c\"}]":                                  "want OWNER/REPO",
		"sources = [" + strings.Repeat("{name = \"a\", repo = \"a/b\"},", 65) + "]":     "at most 64",
	} {
		_, err := config.Load(newHome(t, map[string]string{"config.toml": "[hub]\n" + text}), "/h", getenv)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestHubSourcesChange changes the sources as hub add-source does: comments stay.
func TestHubSourcesChange(t *testing.T) {
	m := newHome(t, map[string]string{"config.toml": "# mine\n[[hub.sources]]\nname = \"ours\" # first\nrepo = \"a/b\"\n\n[log]\nkeep = 2 # two\n"})
	for i, list := range []string{`[{"name":"ours","repo":"a/b"},{"name":"more","repo":"c/d"}]`, `[{"name":"more","repo":"c/d"}]`, "null"} {
		done, err := config.SetKeys(m, "/h", []config.Pair{{Key: "hub.sources", Value: list}}, getenv)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(done.Config.HubSources), 2-i; got != want || done.Config.Log.Keep != 2 {
			t.Errorf("%s: %d sources, want %d", list, got, want)
		}
	}
	b, err := vfs.ReadFile(m, "/h/config.toml", 1<<20)
	if text := string(b); err != nil || !strings.Contains(text, "# mine\n") || !strings.Contains(text, "keep = 2 # two\n") {
		t.Errorf("got %s", text)
	}
}
