package config_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/fusion"
	"crabmem/daemon/config"
	"crabmem/daemon/trust"

	"github.com/google/go-cmp/cmp"
)

func TestTemplate(t *testing.T) {
	plain := load(t, map[string]string{"config.toml": string(config.Template(false))})
	withoutOrigins(plain)
	if d := cmp.Diff(load(t, nil), plain); d != "" {
		t.Errorf("the template is not the default (-default +template):\n%s", d)
	}

	variables["OPENAI_API_KEY"] = "sk-planted"
	defer delete(variables, "OPENAI_API_KEY")
	text := string(config.Template(true))
	if !strings.Contains(text, `"${OPENAI_API_KEY}"`) || strings.Contains(text, "sk-planted") {
		t.Errorf("the key in the template:\n%s", text)
	}
	c := load(t, map[string]string{"config.toml": text})
	if len(c.Providers) != 1 || c.Providers[0].APIKey != "sk-planted" || c.Model != "gpt-4o-mini" {
		t.Errorf("providers %+v, model %s", c.Providers, c.Model)
	}
}

func TestChosen(t *testing.T) {
	text := string(config.Chosen(&config.Provider{Name: "ollama", Kind: "ollama", Models: []string{"a:7b", "b\\\"\x01"}}, ""))
	c := load(t, map[string]string{"config.toml": strings.ReplaceAll(text, `b\\\"\u0001`, "b")})
	if len(c.Providers) != 1 || c.Providers[0].Kind != "ollama" || cmp.Diff(c.Providers[0].Models, []string{"a:7b", "b"}) != "" {
		t.Errorf("providers %+v", c.Providers)
	}
	if !strings.Contains(text, `"a:7b", "b\\\"\u0001"`) {
		t.Errorf("a strange name: %s", text)
	}
}

// TestTemplateExamples removes the '#' of every example: all of them are valid
// keys with valid values, and the defaults are correct.
func TestTemplateExamples(t *testing.T) {
	for _, v := range []string{"OPENAI_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "FILES_TOKEN", "CODER_TOKEN"} {
		variables[v] = "x"
		defer delete(variables, v)
	}
	example := regexp.MustCompile(`(?m)^#([^ \n])`)
	text := example.ReplaceAllString(string(config.Template(false)), "$1")
	m := newHome(t, map[string]string{"config.toml": text, "keys/example": "k", "keys/tcp": "t", "compact.md": "c", "flush.md": "f"})
	storeSecrets(t, m, "office", "o", "remote", "r")
	got, err := config.Load(m, "/h", getenv)
	if err != nil {
		t.Fatal(err)
	}
	want := load(t, nil)
	if len(got.Providers) != 5 || len(got.MCPs) != 2 || len(got.Workers) != 1 || len(got.Agents) != 3 || len(got.Env) != 1 {
		t.Errorf("%d providers, %d servers, %d workers, %d agents, %d variables", len(got.Providers), len(got.MCPs), len(got.Workers), len(got.Agents), len(got.Env))
	}
	if d := cmp.Diff([]string{"/h/keys/example", "/h/keys/tcp"}, got.SecretFiles); d != "" {
		t.Errorf("files with secrets (-want +got):\n%s", d)
	}
	if len(got.Hooks.Exclude) != 1 {
		t.Errorf("hooks exclude %q", got.Hooks.Exclude)
	}
	got.Hooks.Exclude, got.Hooks.Only = nil, nil
	got.SecretFiles, got.SkillDirs, got.Warnings = nil, nil, nil // the example directory is missing
	crab, _ := got.Agent("crab")
	if d := cmp.Diff([]string{"main", "team"}, crab.Spaces()); d != "" {
		t.Errorf("spaces (-want +got):\n%s", d)
	}
	if crab.ToolChoice != "required" {
		t.Errorf("tool choice %q", crab.ToolChoice)
	}
	crab.ReadSpaces, crab.ToolChoice, crab.Inject, crab.Role, crab.Context, crab.EditInstructions = nil, "", "", "", "", false
	crab.TokensPerDay, crab.RunsPerMinute, crab.CompactModel, crab.Flush, crab.FlushPrompt = 0, 0, "", false, ""
	crab.Model, crab.Members, crab.Skills, crab.SkillTags, crab.MCPs, crab.Tools, crab.CompactPrompt, crab.CompactTokens = "offline", nil, nil, nil, nil, nil, "", 0
	got.Agents = []config.Agent{crab}
	withoutOrigins(got)
	withoutOrigins(want)
	if len(got.Origins) != 1 || got.Origins[0].Level != trust.Trusted {
		t.Errorf("origins %+v", got.Origins)
	}
	got.Origins = nil
	if e := got.Embedder; e == nil || e.Model == "" || e.Dimensions == 0 || e.Weight != fusion.DefaultWeight || e.Fusion != fusion.Convex || e.Send || e.QueryPrefix+e.PassagePrefix != "" {
		t.Errorf("embedder %+v", got.Embedder)
	}
	got.Embedder = nil
	if len(got.HubSources) != 1 || got.HubSources[0] != (config.HubSource{Name: "example", Repo: "example/hub"}) {
		t.Errorf("sources %v", got.HubSources)
	}
	got.HubSources = nil
	if w := got.Workers[0]; w.Dir != "/h/work/shop" || w.Protocol != config.Exec || w.Permissions != "deny" || w.Timeout != 0 || w.IdleTimeout != 30*time.Minute {
		t.Errorf("worker %+v", w)
	}
	got.Workers = nil
	all := config.RoleModels{Channel: "offline", Branch: "offline", Worker: "offline", Compactor: "offline", Cortex: "offline"}
	if got.Roles.Models != all || got.Roles.TaskModels["coding"] != "offline" || len(got.Fallbacks["offline"]) != 1 {
		t.Errorf("models of roles %+v, of tasks %v, fallbacks %v", got.Roles.Models, got.Roles.TaskModels, got.Fallbacks)
	}
	got.Roles.Models, got.Roles.TaskModels, got.Roles.ModelOrigins, got.Fallbacks = want.Roles.Models, want.Roles.TaskModels, want.Roles.ModelOrigins, want.Fallbacks
	got.Providers, got.MCPs, got.Env, got.TCP, got.Metrics, got.Model = want.Providers, want.MCPs, want.Env, want.TCP, want.Metrics, want.Model
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the template has a wrong default (-default +template):\n%s", d)
	}
}
