package config_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/approval"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/tool"

	"github.com/google/go-cmp/cmp"
)

var variables = map[string]string{"KEY": "sk-from-the-environment", "HOME": "/user", "NOTHING": ""}

func getenv(name string) string { return variables[name] }

// newHome makes a home of files; a name that ends in ! has mode 0640.
func newHome(t testing.TB, files map[string]string) *faultfs.Mem {
	t.Helper()
	m := faultfs.NewMem()
	for _, dir := range []string{"/h/agents", "/h/keys"} {
		if err := vfs.MkdirAll(m, dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if open, ok := strings.CutSuffix(name, "!"); ok {
			m.WriteFile("/h/"+open, []byte(text), 0o640)
		} else {
			m.WriteFile("/h/"+name, []byte(text), 0o600)
		}
	}
	return m
}

func load(t testing.TB, files map[string]string) *config.Config {
	t.Helper()
	c, err := config.Load(newHome(t, files), "/h", getenv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// problems returns the problems that Load found.
func problems(c *config.Config, err error) config.Problems {
	if ps, ok := errors.AsType[config.Problems](err); ok {
		return ps
	}
	if err != nil {
		return nil
	}
	return c.Broken
}

func TestNoFiles(t *testing.T) {
	m := faultfs.NewMem()
	c, err := config.Load(m, "/h", getenv)
	if err != nil {
		t.Fatal(err)
	}
	empty := load(t, map[string]string{"config.toml": ""})
	if d := cmp.Diff(c, empty); d != "" {
		t.Errorf("no home and an empty file differ (-no home +empty):\n%s", d)
	}
	want := []config.Agent{{
		Name: "crab", Prompt: config.DefaultPrompt, Model: "offline", FollowsActive: true, MaxIterations: 16, CompactThreshold: 100_000, Memory: true,
	}}
	if d := cmp.Diff(want, c.Agents); d != "" {
		t.Errorf("agents (-want +got):\n%s", d)
	}
	if c.Model != "offline" || !c.Memory || c.Bash.Access != "base" || c.TCP.Listen != "" {
		t.Errorf("defaults: %+v", c)
	}
}

const reference = `# as the reference's template has it
[provider.openai]
standard = "openai_compat"
api_key = "${KEY}"
models = ["gpt-4o"]
weight = 2
max_retries = 3
timeout = 45

[provider.claude]
kind = "openai"
api_key = "sk-$literal$${KEY}"
base_url = "https://api.anthropic.com/v1"
models = ["claude-x"]

[provider.local]
kind = "llama_cpp"
models = ["tiny"]
model_path = "/models/tiny.gguf"
n_gpu_layers = 1
n_ctx = 2048
n_threads = 4

[provider.cloud]
kind = "bedrock"
region = "eu"
access_key = "a"
secret_key = "b"
models = ["nova"]
api_version = "x"

[system.crab]
model = "gpt-4o"
description = "the one"
max_iterations = 20
thinking = true
members = ["dev"]
skills = ["s"]
mcps = []
compact_threshold = 0

[system.tasks]
max_concurrent = 2
viewable_window = 8
task_timeout = 100

[system.memory]
recall_limit = 7
soul_editable = false

[env]
A = "${KEY}"

[mcps.files]
command = "mcp-files"
args = ["-k", "${KEY}"]
auto_restart = false
[mcps.files.env]
B = "b"

[agents.ops]
description = "operates"
prompt = "You operate."
model = "claude-x"
`

func TestReferenceLayout(t *testing.T) {
	got := load(t, map[string]string{
		"config.toml":   reference,
		"Crab.md":       "You are mine.\n",
		"agents/dev.md": "---\r\nname: dev\r\ndescription: \"writes: code\"\r\nmembers: [ops]\r\nmemory: false\r\ncompact_prompt: short.md\r\ntools:\r\n  - bash\r\n---\r\n\r\nYou write.\r\n",
		"agents/bare.md": `Only a prompt.
---
and a rule`,
		"agents/ops.md":       "---\ndescription: from the file\nthinking: true\n---\nNot this prompt.",
		"agents/.hidden.md":   "---\nx: [",
		"agents/readme.txt":   "no agent",
		"agents/ops.md~":      "no agent",
		"short.md":            "Be short.",
		"sessions-irrelevant": "",
	})
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	agent := config.Agent{MaxIterations: 16, CompactThreshold: 100_000, Memory: true, Model: "gpt-4o", FollowsActive: true}
	bare, crab, dev, ops := agent, agent, agent, agent
	bare.Name, bare.Prompt, bare.File = "bare", "Only a prompt.\n---\nand a rule", "/h/agents/bare.md"
	crab.Name, crab.Prompt, crab.File, crab.Description = "crab", "You are mine.\n", "/h/Crab.md", "the one"
	crab.MaxIterations, crab.Thinking, crab.CompactThreshold = 20, true, 0
	crab.Members, crab.Skills, crab.MCPs = []string{"dev"}, []string{"s"}, []string{}
	dev.Name, dev.Prompt, dev.File, dev.Description = "dev", "You write.", "/h/agents/dev.md", "writes: code"
	dev.Members, dev.Memory, dev.Tools, dev.CompactPrompt = []string{"ops"}, false, []string{"bash"}, "Be short."
	ops.Name, ops.Prompt, ops.File, ops.Description = "ops", "You operate.", "/h/config.toml", "operates"
	ops.Model, ops.FollowsActive, ops.Thinking = "claude-x", false, true
	provider := config.Provider{Weight: 1, MaxRetries: 5, Timeout: seconds(600), IdleTimeout: time.Minute}
	openai, claude, local, cloud := provider, provider, provider, provider
	openai.Name, openai.Kind, openai.APIKey, openai.Models = "openai", "openai", "sk-from-the-environment", []string{"gpt-4o"}
	openai.Weight, openai.MaxRetries, openai.Timeout = 2, 3, seconds(45)
	claude.Name, claude.Kind, claude.APIKey, claude.Models = "claude", "anthropic", "sk-$literal${KEY}", []string{"claude-x"}
	claude.BaseURL = "https://api.anthropic.com/v1"
	local.Name, local.Kind, local.Models = "local", "llama.cpp", []string{"tiny"}
	cloud.Name, cloud.Kind, cloud.Models, cloud.Region, cloud.APIVersion = "cloud", "bedrock", []string{"nova"}, "eu", "x"
	cloud.AccessKey, cloud.SecretKey = "a", "b"
	openai.KeySource, claude.KeySource, cloud.KeySource = "the variable KEY", "api_key", "access_key"
	want := load(t, nil)
	want.Model = "gpt-4o"
	want.Agents = []config.Agent{bare, crab, dev, ops}
	want.Providers = []config.Provider{openai, claude, local, cloud}
	want.MCPs = []config.MCP{{Name: "files", Command: "mcp-files", Args: []config.Secret{"-k", "sk-from-the-environment"}, Secrets: "refuse", Env: map[string]config.Secret{"B": "b"}}}
	want.Env = map[string]config.Secret{"A": "sk-from-the-environment"}
	want.Tasks = config.Tasks{MaxConcurrent: 2, Timeout: seconds(100)}
	want.RecallLimit = 7
	want.Identity = []config.Identity{{Path: "/h/Crab.md", Bytes: 14}}
	want.Warnings = got.Warnings // TestUnusedKeys
	withoutOrigins(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("config (-want +got):\n%s", d)
	}
	if a, ok := got.Agent("dev"); !ok || a.Name != "dev" {
		t.Errorf("agent dev: %+v, %v", a, ok)
	}
	if a, ok := got.Agent("none"); ok {
		t.Errorf("agent none: %+v", a)
	}
}

func withoutOrigins(c *config.Config) {
	for i := range c.Agents {
		c.Agents[i].Origins = nil
	}
}

// TestOrigins checks that an agent has the place of each of its keys, also if a
// file and a table describe it.
func TestOrigins(t *testing.T) {
	c := load(t, map[string]string{
		"agents/dev.md": "---\nmembers:\n  - crab\ntools: [bash]\n---\nYou write.",
		"config.toml":   "[system.crab]\nthinking = true\n\n[agents.dev]\ntools = [\"recall\"]\n",
	})
	want := map[string]map[string]config.Origin{
		"crab": {"thinking": {"/h/config.toml", 2}},
		"dev":  {"members": {"/h/agents/dev.md", 2}, "tools": {"/h/config.toml", 5}},
	}
	for _, a := range c.Agents {
		if d := cmp.Diff(want[a.Name], a.Origins); d != "" {
			t.Errorf("origins of %s (-want +got):\n%s", a.Name, d)
		}
	}
}

// TestUnmatchedTools checks that patterns without a tool are found with their line,
// and that those of MCP servers are not, unless the agent may not use the server.
func TestUnmatchedTools(t *testing.T) {
	c := load(t, map[string]string{
		"agents/dev.md": "---\ndescription: writes\ntools: [bash, mcp_files, reacll, \"rec*\", \"web*\"]\n---\nYou write.",
		"config.toml": "[system.crab]\ntools = [\"mcp\", \"mcp_*\", \"*\",\n  \"grep\"]\n[agents.none]\ntools = []\n" +
			"[agents.servers]\ntools = [\"srv/get-*\", \"other/get\", \"srv/\", \"get\", \"reacll\"]\nmcps = [\"s*\"]\n[agents.skilled]\ntools = [\"srv/get\"]\nskills = [\"x\"]\n",
	})
	want := config.Problems{
		{Path: "/h/agents/dev.md", Line: 3, Message: "agent 'dev': 'reacll' in tools matches no tool; did you mean 'recall'?"},
		{Path: "/h/agents/dev.md", Line: 3, Message: "agent 'dev': 'web*' in tools matches no tool; for a tool of an MCP server, write SERVER/web*"},
		{Path: "/h/config.toml", Line: 2, Message: "agent 'crab': 'grep' in tools matches no tool; for a tool of an MCP server, write SERVER/grep"},
		{Path: "/h/config.toml", Line: 7, Message: "agent 'servers': 'srv/' in tools matches no tool"},
		{Path: "/h/config.toml", Line: 7, Message: "agent 'servers': 'reacll' in tools matches no tool; did you mean 'recall'?"},
		{Path: "/h/config.toml", Line: 7, Message: "agent 'servers': 'other/get' in tools has no effect; add 'other' to mcps"},
		{Path: "/h/config.toml", Line: 10, Message: "agent 'skilled': 'srv/get' in tools has no effect; add 'srv' to mcps"},
	}
	if d := cmp.Diff(want, c.UnmatchedTools(tool.Unmatched, tool.BuiltIn())); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
	c.MCPs = []config.MCP{{Name: "srv"}} // a server of every agent without lists
	if d := cmp.Diff(slices.Concat(want[:1], want[2:]), c.UnmatchedTools(tool.Unmatched, tool.BuiltIn())); d != "" {
		t.Errorf("warnings with a server (-want +got):\n%s", d)
	}
}

// TestEmptyTools checks that a list of tools without items differs from an absent one,
// in each form of an agent. nil does not bound.
func TestEmptyTools(t *testing.T) {
	c := load(t, map[string]string{
		"agents/empty.md":   "---\ntools: []\n---\nx",
		"agents/nothing.md": "---\ntools:\n---\nx",
		"agents/null.md":    "---\ntools: null # none\n---\nx",
		"agents/absent.md":  "---\nskills:\n---\nx",
		"agents/both.md":    "---\ntools: [bash]\n---\nx",
		"config.toml":       "[system.crab]\ntools = []\n[agents.table]\ntools = [\n]\n[agents.open]\nskills = []\n[agents.both]\ntools = []\n",
	})
	want := map[string]bool{"crab": true, "empty": true, "nothing": true, "null": true, "absent": false, "table": true, "open": false, "both": true}
	for _, a := range c.Agents {
		if got := a.Tools != nil; got != want[a.Name] || len(a.Tools) > 0 {
			t.Errorf("agent %s has the tools %#v", a.Name, a.Tools)
		}
		if err := tool.For(tool.Grant{Tools: a.Tools}).Tool(tool.Recall); (err != nil) != want[a.Name] {
			t.Errorf("agent %s calls recall: %v", a.Name, err)
		}
	}
	if len(c.Agents) != len(want) {
		t.Errorf("%d agents, want %d", len(c.Agents), len(want))
	}
}

// TestSkillDirs checks the folders of skills, with their bound.
func TestSkillDirs(t *testing.T) {
	c := load(t, map[string]string{"config.toml": "skills.dirs = ['agents', '/h/keys', '/h/agents/', 'missing', 'skills/.']\n"})
	if d := cmp.Diff([]string{"/h/agents", "/h/keys", "/h/missing"}, c.SkillDirs); d != "" {
		t.Errorf("folders (-want +got):\n%s", d)
	}
	if n := len(c.Warnings); n != 3 {
		t.Errorf("%d warnings, want 3: %v", n, c.Warnings)
	}
	var many []string
	for i := range 33 {
		many = append(many, fmt.Sprintf("'d%d'", i))
	}
	for text, want := range map[string]string{
		strings.Join(many, ","): "skills.dirs: more than 32 directories",
		"''":                    "skills.dirs: name is empty",
		"3":                     "skills.dirs: list contains an integer, want only strings",
	} {
		_, err := config.Load(newHome(t, map[string]string{"config.toml": "skills.dirs = [" + text + "]\n"}), "/h", getenv)
		if err == nil || err.Error() != "/h/config.toml:1: "+want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestUnusedKeys checks that keys of the reference without a meaning here load with
// a warning, and that their values are checked as before.
func TestUnusedKeys(t *testing.T) {
	const text = "[system.memory]\nsoul_editable = false\n[system.tasks]\nviewable_window = 8\n"
	want := config.Problems{
		{Path: "/h/config.toml", Line: 2, Message: "system.memory.soul_editable has no effect: remove it"},
		{Path: "/h/config.toml", Line: 4, Message: "system.tasks.viewable_window has no effect: remove it"},
	}
	if d := cmp.Diff(want, load(t, map[string]string{"config.toml": text}).Warnings); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
	if c := load(t, map[string]string{"config.toml": string(config.Template(false))}); len(c.Warnings) > 0 {
		t.Errorf("the template has warnings: %v", c.Warnings)
	}
	_, err := config.Load(newHome(t, map[string]string{"config.toml": strings.Replace(text, "false", "8", 1)}), "/h", getenv)
	if err == nil || err.Error() != "/h/config.toml:2: system.memory.soul_editable: got an integer, want true or false" {
		t.Errorf("error %v", err)
	}
}

func TestAdditionalKeys(t *testing.T) {
	got := load(t, map[string]string{
		"keys/a":     "  sk-of-a-file\n",
		"keys/tcp":   "token",
		"compact.md": "Shorten.",
		"config.toml": `
provider.a = {models = ["x", "y"], api_key_file = "keys/a", idle_timeout = "1m30s", timeout = "250ms", fallback = ["y", "offline"], context_limits = {x = 100, y = 200}}
provider.b = {kind = "ollama", models = ["z"], weight = 9, base_url = "http://localhost:1"}
memory.enabled = false
tools.bash = {access = "listed", timeout = 900, max_output = 2048}
tools.ask_user.timeout = "1h"
tools.delegate = {max_depth = 1, max_tasks = 2}
tcp = {listen = "0.0.0.0:6688", token_file = "keys/tcp"}
sessions.titles = "first-line"
limits = {connections = 1, subscribers = 2, sessions = 3, in_flight = 33554432, send_queue = 16, frame_timeout = 6, progress = 7, drain = 0, cooldown = "90s", tokens_per_day = 8, runs_per_minute = 9, untrusted_runs_per_minute = 0, trusted_runs_per_minute = 1000}
[agents.cheap]
tokens_per_day = 0
[system.crab]
compact_prompt = "compact.md"
compact_tokens = 500
runs_per_minute = 10
tools = ["read", "mcp_*"]
memory = true
`})
	p := got.Providers[0]
	if p.APIKey != "sk-of-a-file" || p.IdleTimeout != 90*time.Second || p.Timeout != 250*time.Millisecond ||
		cmp.Diff(p.Fallback, []string{"y", "offline"}) != "" || cmp.Diff(p.ContextLimits, map[string]int{"x": 100, "y": 200}) != "" {
		t.Errorf("provider %+v", p)
	}
	if got.Model != "z" {
		t.Errorf("active model %s: not the first of the greatest weight", got.Model)
	}
	a, _ := got.Agent("crab")
	if a.CompactPrompt != "Shorten." || a.CompactTokens != 500 || cmp.Diff(a.Tools, []string{"read", "mcp_*"}) != "" || a.Model != "z" {
		t.Errorf("crab %+v", a)
	}
	if b, _ := got.Agent("cheap"); a.TokensPerDay != 8 || a.RunsPerMinute != 10 || b.TokensPerDay != 0 || b.RunsPerMinute != 9 {
		t.Errorf("limits of agents: %+v, %+v", a, b)
	}
	if a.Memory || got.Memory {
		t.Error("an agent switched memory on that is off for all")
	}
	if want := (config.Bash{Access: "listed", Timeout: 15 * time.Minute, MaxTimeout: 15 * time.Minute, MaxOutput: 2048, Approve: "ask", Allow: approval.Default}); cmp.Diff(want, got.Bash) != "" {
		t.Errorf("bash %+v", got.Bash)
	}
	if got.Ask.Timeout != time.Hour || got.Delegate != (config.Delegate{MaxDepth: 1, MaxTasks: 2}) {
		t.Errorf("tools %+v %+v", got.Ask, got.Delegate)
	}
	if got.TCP != (config.TCP{Listen: "0.0.0.0:6688", Token: "token"}) {
		t.Errorf("tcp %s %q", got.TCP.Listen, string(got.TCP.Token))
	}
	if got.Sessions != (config.Sessions{Titles: "first-line"}) {
		t.Errorf("sessions %+v", got.Sessions)
	}
	want := config.Limits{Connections: 1, Subscribers: 2, Sessions: 3, InFlight: 32 << 20, SendQueue: 16, FrameTimeout: 6 * time.Second, Progress: 7 * time.Second,
		Cooldown: 90 * time.Second, TokensPerDay: 8, RunsPerMinute: 9, TrustedRuns: 1000}
	if got.Limits != want {
		t.Errorf("limits %+v", got.Limits)
	}
}

func TestKinds(t *testing.T) {
	for kind, want := range map[string]string{
		"": "openai-compatible", "openai": "openai-compatible", "openai_compat": "openai-compatible", "openai-compatible": "openai-compatible",
		"anthropic": "anthropic", "google": "google", "azure": "azure", "ollama": "ollama", "llama_cpp": "llama.cpp", "llama.cpp": "llama.cpp",
	} {
		text := "[provider.a]\nmodels = ['m']\nbase_url = 'http://localhost:1'\n"
		if kind != "" {
			text += "kind = '" + kind + "'\n"
		}
		if got := load(t, map[string]string{"config.toml": text}).Providers[0].Kind; got != want {
			t.Errorf("kind %q is %s, want %s", kind, got, want)
		}
	}
}

// TestProblems has each message once, with its line.
func TestProblems(t *testing.T) {
	ok := "[provider.a]\nmodels = ['x']\napi_key = 'k'\n" // 3 lines
	many := map[string]string{}
	for i := range 1001 {
		many[fmt.Sprintf("agents/a%04d.md", i)] = "x"
	}
	var tables strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&tables, "[agents.a%d]\n", i)
	}
	for _, c := range []struct {
		name, text string
		files      map[string]string
		want       string // without /h/
	}{
		{"syntax", "a = 1\nb =\n", nil, "config.toml:2: unexpected character U+000A at start of value"},
		{"twice", "[env]\na = ''\na = ''\n", nil, "config.toml:3: key a is already defined"},
		{"not UTF-8", "a = '\xff'", nil, "config.toml:1: invalid UTF-8 character in literal string"},
		{"unknown table", "\n\n[provder.a]\n", nil, "config.toml:3: unknown key 'provder'; did you mean 'provider'?"},
		{"unknown key", ok + "bse_url = ''\n", nil, "config.toml:4: unknown key 'bse_url' in provider.a; did you mean 'base_url'?"},
		{"unknown key, dotted", ok + "[system]\ncrab.modle = 'x'", nil, "config.toml:5: unknown key 'modle' in system.crab; did you mean 'model'?"},
		{"unknown key, inline", ok + "[system]\ncrab = {\nmodle = 'x' }", nil, "config.toml:6: unknown key 'modle' in system.crab; did you mean 'model'?"},
		{"unknown, nothing like it", "[tcp]\nzzzzzz = 1", nil, "config.toml:2: unknown key 'zzzzzz' in tcp"},
		{"array of tables", "[[provider]]\nmodels = []", nil, "config.toml:1: provider: got a list, want a table"},
		{"not a table", "provider.a = 1\ntcp = 'x'", nil, "config.toml:1: provider.a: got an integer, want a table\nconfig.toml:2: tcp: got a string, want a table"},
		{"no models", "\n[provider.a]\napi_key = 'k'\n", nil, "config.toml:2: provider 'a' has no models"},
		{"empty models", "[provider.a]\napi_key = 'k'\nmodels = []\n", nil, "config.toml:3: provider 'a' has no models"},
		{"models, wrong", "[provider.a]\napi_key = 'k'\nmodels = ['x',\n 7,\n '']\n", nil,
			"config.toml:4: provider.a.models: list contains an integer, want only strings\nconfig.toml:5: provider 'a': the name of a model is empty"},
		{"models, no list", "[provider.a]\napi_key = 'k'\nmodels = 'x'\n", nil,
			"config.toml:3: provider.a.models: got a string, want a list of strings\nconfig.toml:3: provider 'a' has no models"},
		{"duplicate model", ok + "[provider.b]\napi_key = 'k'\nmodels = ['y',\n'x']\n", nil, "config.toml:7: duplicate model name 'x' across providers"},
		{"model twice", "[provider.a]\napi_key = 'k'\nmodels = ['x', 'x']\n", nil, "config.toml:3: provider 'a' names the model 'x' twice"},
		{"offline", "[provider.a]\napi_key = 'k'\nmodels = ['offline']\n", nil, "config.toml:3: model name 'offline' is reserved: it is the built-in model without a provider"},
		{"neither key nor address", "[provider.a]\nmodels = ['x']\n", nil, "config.toml:1: provider 'a' requires api_key or base_url"},
		{"empty key", "[provider.a]\nmodels = ['x']\napi_key = ''\n", nil, "config.toml:3: provider 'a' requires api_key or base_url"},
		{"bedrock", "[provider.a]\nkind = 'bedrock'\nmodels = ['x']\nregion = ''\n", nil,
			"config.toml:1: provider 'a' (bedrock) requires access_key\nconfig.toml:1: provider 'a' (bedrock) requires secret_key\nconfig.toml:4: provider 'a' (bedrock) requires region"},
		{"azure", "[provider.a]\nkind = 'azure'\nmodels = ['x']\napi_key = 'k'\n", nil, "config.toml:1: provider 'a' (azure) requires base_url"},
		{"kind", ok + "kind = 'opnai'\n", nil,
			"config.toml:4: provider.a.kind: unknown value 'opnai': want one of openai, openai-compatible, openai_compat, anthropic, google, azure, bedrock, ollama, llama.cpp, llama_cpp; did you mean 'openai'?"},
		{"kind twice", ok + "kind = 'openai'\nstandard = 'openai'\n", nil, "config.toml:5: provider 'a' has both kind and standard, the old name of kind: remove standard"},
		{"address", ok + "base_url = 'localhost:1/?password'\n", nil, "config.toml:4: provider 'a': base_url is not an http or https URL"},
		{"address with user info", ok + "base_url = 'https://me:secret@h/v1'\n", nil, "config.toml:4: provider 'a': base_url has a password in it: put the key in api_key"},
		{"address with a query", ok + "base_url = 'https://h/v1?key=secret'\n", nil, "config.toml:4: provider 'a': base_url has a query or a fragment"},
		{"address with a fragment", ok + "base_url = 'https://h/v1#secret'\n", nil, "config.toml:4: provider 'a': base_url has a query or a fragment"},
		{"azure address with a key in the query", ok + "kind = 'azure'\nbase_url = 'https://h/?api-version=1&key=secret'\n", nil,
			"config.toml:5: provider 'a': base_url has a query or a fragment"},
		{"more retries than a provider accepts", ok + "max_retries = 11\n", nil, "config.toml:4: provider 'a': max_retries is 11, want 0 to 10"},
		{"space in a key", "[provider.a]\nmodels = ['x']\napi_key = 'a b'\n", nil, "config.toml:3: provider 'a': api_key has a space or a line end in it"},
		{"numbers", ok + "weight = -1\nmax_retries = 1.5\ntimeout = 'soon'\nidle_timeout = '25h'\n", nil,
			"config.toml:4: provider.a.weight: -1 is not between 0 and 2147483647\nconfig.toml:5: provider.a.max_retries: got a number, want an integer\n" +
				"config.toml:6: provider.a.timeout: it must be seconds, or a text like \"90s\" or \"5m\"\nconfig.toml:7: provider.a.idle_timeout: 25h0m0s is not between 1ms and 24h0m0s"},
		{"context limits", ok + "[provider.a.context_limits]\nx = 0\ny = 10\n", nil,
			"config.toml:5: provider.a.context_limits.x: 0 is not between 1 and 1073741824\nconfig.toml:6: provider.a.context_limits: provider 'a' has no model 'y'"},
		{"titles", "[sessions]\ntitles = 'modl'\ntitle = 'off'\n", nil,
			"config.toml:2: sessions.titles: unknown value 'modl': want one of model, first-line, off; did you mean 'model'?\nconfig.toml:3: unknown key 'title' in sessions; did you mean 'titles'?"},
		{"history", ok + "[memory]\nhistory = 'offf'\n", nil,
			"config.toml:5: memory.history: unknown value 'offf': want on, off, or an age from 1h on, such as 90d, 12w, 1y, or 36h; did you mean 'off'?"},
		{"short history", ok + "[memory]\nhistory = '59m'\n", nil,
			"config.toml:5: memory.history: unknown value '59m': want on, off, or an age from 1h on, such as 90d, 12w, 1y, or 36h"},
		{"history, no text", ok + "[memory]\nhistory = 90\n", nil, "config.toml:5: memory.history: got an integer, want a string"},
		{"importance", ok + "[recall]\nimportance_weight = 1.5\nhalf_life = '59m'\n", nil,
			"config.toml:5: recall.importance_weight: 1.5 is not between 0 and 1\nconfig.toml:6: recall.half_life: \"59m\": want a time from 1h on, such as 30d, 12w, 1y, or 36h"},
		{"importance, no number", ok + "[recall]\nimportance_weight = 'high'\nhalf_life = 30\nweight = 1\n", nil,
			"config.toml:5: recall.importance_weight: got a string, want a number\nconfig.toml:6: recall.half_life: got an integer, want a string\nconfig.toml:7: unknown key 'weight' in recall"},
		{"importance, not a number", ok + "[recall]\nimportance_weight = nan\n", nil, "config.toml:5: recall.importance_weight: NaN is not between 0 and 1"},
		{"embedder", ok + "[embedder]\nweight = 0.2\nfusion = 'sum'\n", nil,
			"config.toml:4: embedder has neither static nor model: set static to a model of crabmem model list, or set model, base_url, and dimensions\n" +
				"config.toml:6: embedder.fusion: unknown value 'sum': want one of convex, reciprocal_rank"},
		{"embedder, endpoint", ok + "[embedder]\nmodel = 'm'\nbase_url = 'ftp://x'\napi_key = 'k'\n", nil,
			"config.toml:4: embedder.dimensions is missing: set it to the number of components of a vector of m\n" +
				"config.toml:6: embedder.base_url is not an address such as https://api.openai.com/v1"},
		{"embedder, both", ok + "[embedder]\nstatic = '../m'\nmodel = 'm'\ndimensions = 5000\n", nil,
			"config.toml:5: embedder.static: \"../m\" is not the name of a model: want letters, digits, '-', '_', and '.', not first\n" +
				"config.toml:6: embedder.model: it is for an endpoint, and static selects a model in a file: remove one\n" +
				"config.toml:7: embedder.dimensions: 5000 is not between 1 and 4096\n" +
				"config.toml:7: embedder.dimensions: it is for an endpoint, and static selects a model in a file: remove one"},
		{"fallback", ok + "fallback = [\n'x',\n'large']\n", nil, "config.toml:6: fallback: no provider has the model 'large'"},
		{"unset", "[provider.a]\nmodels = ['x']\napi_key = 'a${UNSET}b${NOTHING}'\n[env]\nX = '${'\nY = '${1}'", nil,
			"config.toml:3: provider.a.api_key: the environment variable UNSET is not set\nconfig.toml:3: provider.a.api_key: the environment variable NOTHING is not set\n" +
				"config.toml:5: env.X: ${ without }\nconfig.toml:6: env.Y: the text between ${ and } is not a variable name"},
		{"control in a key", "[provider.a]\nmodels = ['x']\napi_key = \"a\\nb\"\n", nil, "config.toml:3: provider.a.api_key: it has a control character, such as a line end"},
		{"key of a wrong type", "[provider.a]\nmodels = ['x']\napi_key = 7\n", nil, "config.toml:3: provider.a.api_key: got an integer, want a string"},
		{"both keys", ok + "api_key_file = 'keys/k'\n", map[string]string{"keys/k": "k"}, "config.toml:4: provider 'a' has both api_key and api_key_file: remove one"},
		{"key file missing", "[provider.a]\nmodels = ['x']\napi_key_file = 'keys/k'\n", nil, "config.toml:3: provider.a.api_key_file: keys/k: no such file"},
		{"key file open", "[provider.a]\nmodels = ['x']\napi_key_file = 'keys/k'\n", map[string]string{"keys/k!": "k"},
			"config.toml:3: provider.a.api_key_file: other users may read keys/k (mode 0640): run chmod 600 keys/k"},
		{"key file of lines", "[provider.a]\nmodels = ['x']\napi_key_file = 'keys/k'\n", map[string]string{"keys/k": "a\nb"},
			"config.toml:3: provider.a.api_key_file: keys/k is not one line of text"},
		{"key file large", "[provider.a]\nmodels = ['x']\napi_key_file = 'keys/k'\n", map[string]string{"keys/k": strings.Repeat("k", 16385)},
			"config.toml:3: provider.a.api_key_file: keys/k: 16385 bytes, more than the limit of 16384"},
		{"key file elsewhere", "[provider.a]\nmodels = ['x']\napi_key_file = '../../h/keys/k'\n", map[string]string{"keys/k": "k"},
			"config.toml:3: provider.a.api_key_file: ../../h/keys/k: path escapes from parent"},
		{"crab", "[system.crab]\nmodel = 'gpt'\nmax_iterations = 0\nthinking = 'yes'\nmembers = ['no']\ncompact_threshold = -1\n", nil,
			"config.toml:2: agent 'crab': no provider has the model 'gpt'\nconfig.toml:3: system.crab.max_iterations: 0 is not between 1 and 1000\n" +
				"config.toml:4: system.crab.thinking: got a string, want true or false\nconfig.toml:5: agent 'crab': unknown agent 'no' in members\n" +
				"config.toml:6: system.crab.compact_threshold: -1 is not between 0 and 1073741824"},
		{"models of roles", ok + "[roles.models]\nchannel = 'lrge'\nworker = ''\nchanel = 'x'\n[roles.task_models]\ncoding = 'gone'\nother = 1\n[agents.a]\ncompact_model = 'gone'\n", nil,
			"config.toml:5: roles.models.channel: no provider has the model 'lrge'\nconfig.toml:7: unknown key 'chanel' in roles.models; did you mean 'channel'?\n" +
				"config.toml:9: roles.task_models.coding: no provider has the model 'gone'\nconfig.toml:10: roles.task_models.other: got an integer, want a string\n" +
				"config.toml:12: agent 'a': compact_model: no provider has the model 'gone'"},
		{"fallbacks", ok + "[fallbacks]\ny = ['x']\nx = [\n'gone',\n'offline', 'x', 'x']\n", nil,
			"config.toml:5: fallbacks: no provider has the model 'y'\nconfig.toml:6: fallbacks.x: 4 models, more than the limit of 3\nconfig.toml:7: fallbacks.x: no provider has the model 'gone'"},
		{"model, nearly", ok + "[system.crab]\nmodel = 'ofline'\n", nil, "config.toml:5: agent 'crab': no provider has the model 'ofline'; did you mean 'offline'?"},
		{"skills", "[system.crab]\nskills = [\n'',\n\"a\\u0000\"]\n", nil,
			"config.toml:3: system.crab.skills: name is empty\nconfig.toml:4: system.crab.skills: name has a control character: \"a\\x00\""},
		{"compact prompt", "[system.crab]\ncompact_prompt = 'no.md'\n[agents.a]\ncompact_prompt = '../no.md'\n", nil,
			"config.toml:2: system.crab.compact_prompt: no.md: no such file\nconfig.toml:4: agents.a.compact_prompt: ../no.md is not in the home directory"},
		{"reserved", "\n[agents.crab]\n", map[string]string{"agents/crab.md": "x"},
			"agents/crab.md:1: agent name 'crab' is reserved: its prompt is Crab.md in the home\nconfig.toml:2: agent name 'crab' is reserved: it is configured by [system.crab]"},
		{"agent names", "[agents.'a b']\n[agents.-x]\n[agents.'" + strings.Repeat("x", 65) + "']\n[agents.'']\n", nil,
			"config.toml:1: agent name 'a b' must consist of letters, digits, '-', '_', and '.', and begin with a letter, a digit, or '_'\n" +
				"config.toml:2: agent name '-x' must consist of letters, digits, '-', '_', and '.', and begin with a letter, a digit, or '_'\n" +
				"config.toml:3: agent name '" + strings.Repeat("x", 65) + "' has 65 bytes, more than the limit of 64\nconfig.toml:4: agents: name is empty"},
		{"same name", "", map[string]string{"agents/a.md": "x", "agents/b.md": "---\ndescription: d\nname: a\n---\n"}, "agents/b.md:3: agent name 'a' is taken: see /h/agents/a.md"},
		{"front matter", "", map[string]string{
			"agents/a.md": "---\nname: a\ndescription: b: c\n---\n", "agents/b.md": "---\nnmae: b\n---\n", "agents/c.md": "---\nname: c\n", "agents/d.md": "---\n- d\n---\n",
			"agents/e.md": "---\nskills: &x [a]\nmcps: *x\n---\n", "agents/f.md": "---\nmodel: m\ntools: t\nmodel: m\n---\n",
			"agents/g.md": "---\ndescription: d\nskills:\n  - a\n  - 7\nthinking: maybe\n---\n", "agents/h.md": "\xff", "agents/i.md": "---\n# none\n---\n",
			"agents/j.md": "---\n? [a]\n: b\n---\n", "agents/k.md": "---\nname: 2026-01-01\n---\n", "agents/l.md": "---\n" + strings.Repeat("# x\n", 20000),
		},
			"agents/a.md:3: mapping values are not allowed in this context; put a value with a colon in quotes\nagents/b.md:2: unknown key 'nmae'; did you mean 'name'?\n" +
				"agents/c.md:1: the front matter has no closing ---\nagents/d.md:2: the front matter: got a list, want a table of keys\n" +
				"agents/e.md:2: the front matter must not contain YAML anchors or aliases\nagents/f.md:4: duplicate key 'model'\n" +
				"agents/g.md:5: skills: list contains an integer, want only strings\nagents/g.md:6: thinking: got a string, want true or false\n" +
				"agents/h.md: it is not UTF-8\nagents/j.md:2: a key of the front matter is not a word\nagents/k.md:2: name: got a date or time, want a string\n" +
				"agents/l.md:1: the front matter has more than 65536 bytes, or no closing ---"},
		{"agents", "", many, "agents: there are more than 1000 agents"},
		{"tables of agents", tables.String(), nil, "config.toml: 1001 agents besides crab exceed the limit of 1000"},
		{"large", strings.Repeat("#", 1<<20+1), nil, "config.toml: 1048577 bytes, more than the limit of 1048576"},
		{"large prompt", "", map[string]string{"Crab.md": strings.Repeat("#", 1<<20+1)}, "Crab.md: 1048577 bytes, more than the limit of 1048576"},
		{"MCP", "[mcps.a]\n[mcps.b]\ncommand = 'x'\nurl = 'http://h'\n[mcps.c]\nurl = 'h'\n[mcps.d]\nname = 'e'\ncommand = 'x'\nenv = {'x=' = ''}\nargs = ['${UNSET}']", nil,
			"config.toml:1: MCP server 'a' has neither command nor url\nconfig.toml:4: MCP server 'b' has both command and url: remove one\n" +
				"config.toml:6: mcps.c.url: it must be an address that begins with http:// or https://\nconfig.toml:8: mcps.d.name: it differs from the name of the table: remove it\n" +
				"config.toml:10: mcps.d.env.x=: a name or value contains a NUL byte, or a name contains =\nconfig.toml:11: mcps.d.args: the environment variable UNSET is not set"},
		{"tools", "[tools.bash]\naccess = 'always'\ntimeout = 700\nmax_timeout = 600\nmax_output = 10\n[tools.ask_user]\ntimeout = 0\n[tools.delegate]\nmax_depth = 17\n[tools.read]\n", nil,
			"config.toml:2: tools.bash.access: unknown value 'always': want one of base, listed, never\nconfig.toml:3: tools.bash.timeout: 11m40s is more than max_timeout, which is 10m0s\n" +
				"config.toml:5: tools.bash.max_output: 10 is not between 1024 and 8388608\nconfig.toml:7: tools.ask_user.timeout: 0s is not between 1s and 24h0m0s\n" +
				"config.toml:9: tools.delegate.max_depth: 17 is not between 1 and 16\nconfig.toml:10: unknown key 'read' in tools"},
		{"tcp", "[tcp]\nlisten = ':6688'\n", nil, "config.toml:2: tcp.listen: other machines can reach ':6688': set tcp.token_file to a file that contains a token"},
		{"metrics", "[metrics]\nlisten = '0.0.0.0:9688'\n", nil, "config.toml:2: metrics.listen: other machines can reach '0.0.0.0:9688': listen on 127.0.0.1"},
		{"metrics port", "[metrics]\nlisten = 'localhost'\n", nil, "config.toml:2: metrics.listen: 'localhost' is not an address like 127.0.0.1:9688"},
		{"log", "[log]\nmax_size = 1\n", nil, "config.toml:2: log.max_size: 1 is not between 65536 and 1073741824"},
		{"tcp port", "[tcp]\nlisten = '127.0.0.1:65536'\n", nil, "config.toml:2: tcp.listen: the port of '127.0.0.1:65536' is not a number up to 65535"},
		{"tcp address", "[tcp]\nlisten = '6688'\ntoken_file = 'keys/none'", nil,
			"config.toml:2: tcp.listen: '6688' is not an address like 127.0.0.1:6688\nconfig.toml:3: tcp.token_file: keys/none: no such file"},
		{"nested", "[env]\na" + strings.Repeat(".a", 40) + " = 1\n", nil, "config.toml:2: it is nested too deeply"},
		{"a long list", "\n[system.crab]\nskills = [" + strings.Repeat("'x',", 1001) + "]\n", nil, "config.toml:3: system.crab.skills: 1001 values, more than the limit of 1000"},
		{"dates", "[system.crab]\nmodel = 2026-01-01\n", nil, "config.toml:2: system.crab.model: got a date or time, want a string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{"config.toml": c.text}
			for name, text := range c.files {
				files[name] = text
			}
			got, err := config.Load(newHome(t, files), "/h", getenv)
			var lines []string
			for _, p := range problems(got, err) {
				lines = append(lines, strings.TrimPrefix(p.String(), "/h/"))
				if err != nil && !strings.Contains(err.Error(), p.String()) {
					t.Errorf("not in the error: %s", p)
				}
			}
			if d := cmp.Diff(strings.Split(c.want, "\n"), lines); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
		})
	}
}

// TestBrokenMembers: an agent whose members all have invalid files keeps them, because an
// agent without members may delegate to all.
func TestBrokenMembers(t *testing.T) {
	c := load(t, map[string]string{"config.toml": "[system.crab]\nmembers = ['bad']\n", "agents/bad.md": "---\nx: [\n---\n"})
	if d := cmp.Diff([]string{"bad"}, c.Agents[0].Members); d != "" {
		t.Errorf("members: %s", d)
	}
}

// TestBroken checks that a missing key, and an invalid agent, leave out that part only.
func TestBroken(t *testing.T) {
	c := load(t, map[string]string{
		"config.toml": "[provider.a]\nmodels = ['x']\napi_key = '${UNSET}'\n[provider.b]\nbase_url = '${UNSET}/v1'\nmodels = ['y']\n" +
			"[provider.c]\nmodels = ['z']\napi_key = 'k'\n[mcps.a]\ncommand = 'x'\nargs = ['${UNSET}']\n[mcps.b]\ncommand = 'x'\n" +
			"[env]\nA = '${UNSET}'\nB = 'b'\n[tcp]\nlisten = '0.0.0.0:1'\ntoken_file = 'none'\n[system.crab]\nmembers = ['bad', 'lost', 'good']\n" +
			"[embedder]\nmodel = 'm'\nbase_url = 'http://h'\ndimensions = 1\napi_key = 'secret:none'\n[agents.bad]\nthinking = true\n",
		"agents/bad.md":  "---\nname: bad\nx: [\n---\n",
		"agents/lost.md": "---\nmodel: none\n---\n",
		"agents/good.md": "prompt",
	})
	names := func() (list []string) {
		for _, a := range c.Agents {
			list = append(list, a.Name)
		}
		return list
	}()
	if d := cmp.Diff([]string{"crab", "good"}, names); d != "" {
		t.Errorf("agents: %s", d)
	}
	if d := cmp.Diff([]string{"good"}, c.Agents[0].Members); d != "" {
		t.Errorf("members: %s", d)
	}
	if len(c.MCPs) != 1 || len(c.Env) != 1 || c.TCP.Listen != "" || c.Embedder != nil || c.Model != "x" {
		t.Errorf("%+v", c)
	}
	models := c.Models()
	if len(models) != 3 || models[0].Broken == nil || models[1].Broken == nil || models[2].Broken != nil {
		t.Fatalf("providers %+v", models)
	}
	const want = "run export UNSET=VALUE, or store the value: crabmem secret set unset && crabmem config set provider.a.api_key secret:unset"
	if e, ok := errors.AsType[*errtable.Error](models[0].Broken); !ok || e.Fix != want || !strings.Contains(e.Message, "/h/config.toml:3: ") {
		t.Errorf("%v", models[0].Broken)
	}
	var fixes []string
	for _, p := range c.Broken {
		fixes = append(fixes, p.Repair())
	}
	if len(fixes) != 8 || !slices.Contains(fixes, "correct /h/agents/bad.md, line 3, then run crabmem config check") {
		t.Errorf("%d fixes: %q", len(fixes), fixes)
	}
}

func TestLinks(t *testing.T) {
	m := newHome(t, map[string]string{"real.md": "x"})
	m.WriteFile("/outside", []byte("[env]\nSECRET = 'x'\n"), 0o600)
	m.Symlink("/outside", "/h/config.toml")
	m.Symlink("../real.md", "/h/agents/inside.md")
	m.Symlink("/outside", "/h/Crab.md")
	_, err := config.Load(m, "/h", getenv)
	want := "3 problems in the configuration"
	for _, name := range []string{"Crab.md", "agents/inside.md", "config.toml"} {
		want += "\n  /h/" + name + ": not a regular file (links are not followed): replace it with a regular file"
	}
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if _, err := config.Set(m, "/h", []byte("{}"), getenv); err == nil {
		t.Error("a link was replaced")
	}

	m = newHome(t, map[string]string{"config.toml": "[env]\nA = 'x'\n"})
	m.Symlink("/h", "/home")
	if c, err := config.Load(m, "/home", getenv); err != nil || c.Env["A"] != "x" || c.Home != "/h" {
		t.Errorf("a home that is a link: %v, %v", c, err)
	}
	m = newHome(t, nil)
	if err := vfs.MkdirAll(m, "/elsewhere", 0o700); err != nil {
		t.Fatal(err)
	}
	m.WriteFile("/elsewhere/x.md", []byte("x"), 0o600)
	if err := m.Remove("/h/agents"); err != nil {
		t.Fatal(err)
	}
	m.Symlink("/elsewhere", "/h/agents")
	if c, err := config.Load(m, "/h", getenv); err != nil || len(c.Agents) != 1 || len(c.Broken) != 1 {
		t.Errorf("agents from outside of the home: %+v, %v", c, err)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	c := load(t, map[string]string{"config.toml": reference, "agents/dev.md": "x"})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X"} {
		for _, v := range []any{*c, c.Providers[0], c.MCPs[0], c.Env} {
			text := fmt.Sprintf(verb, v)
			for _, part := range []string{"sk-", "736b2d", "736B2D"} {
				if strings.Contains(text, part) {
					t.Errorf("%s of %T shows a secret: %s", verb, v, text)
				}
			}
			if !strings.Contains(text, "[secret]") {
				t.Errorf("%s of %T does not say that there is one: %s", verb, v, text)
			}
		}
	}
	var b strings.Builder
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "key", c.Providers[0].APIKey, "config", c)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "key", c.Providers[0].APIKey, "config", c)
	if strings.Contains(b.String(), "sk-") || strings.Count(b.String(), "[secret]") < 4 {
		t.Errorf("logged: %s", b.String())
	}
}

// TestRecallSettings reads the table recall.
func TestRecallSettings(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for text, want := range map[string]struct {
		weight   float64
		halfLife time.Duration
	}{"": {0, month}, "[recall]": {0, month}, "[recall]\nimportance_weight = 0.3": {0.3, month}, "[recall]\nimportance_weight = 1": {1, month},
		"[recall]\nhalf_life = '36h'": {0, 36 * time.Hour}, "recall = { importance_weight = 0.1, half_life = '1w' }": {0.1, 7 * 24 * time.Hour}} {
		c := load(t, map[string]string{"config.toml": text + "\n"})
		if c.ImportanceWeight != want.weight || c.HalfLife != want.halfLife {
			t.Errorf("%q: %v, %v, want %v", text, c.ImportanceWeight, c.HalfLife, want)
		}
	}
}

// TestHistorySetting reads every form of [memory] history.
func TestHistorySetting(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "history = 'on'": 0, "history = 'off'": -1,
		"history = '1h'": time.Hour, "history = '90d'": 90 * 24 * time.Hour, "history = '2w'": 14 * 24 * time.Hour} {
		c := load(t, map[string]string{"config.toml": "[memory]\n" + text + "\n"})
		got := c.HistoryLimit
		if c.History == crmem.HistoryOff {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestTimeout checks that the default time limit is that of the provider's kind.
func TestTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "timeout = 600\n": 0, "timeout = 30\n": 30 * time.Second} {
		c := load(t, map[string]string{"config.toml": "[provider.a]\nkind = 'ollama'\nmodels = ['m']\n" + text})
		if got := c.Models()[0].Timeout; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
