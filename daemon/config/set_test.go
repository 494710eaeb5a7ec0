package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/config"

	"github.com/google/go-cmp/cmp"
)

// daemonConfig is the reference's type, as its clients decode it.
type daemonConfig struct {
	Provider map[string]struct {
		Kind       string   `json:"kind"`
		APIKey     *string  `json:"api_key"`
		BaseURL    *string  `json:"base_url"`
		Models     []string `json:"models"`
		Weight     *uint16  `json:"weight"`
		MaxRetries *uint32  `json:"max_retries"`
		Timeout    *uint64  `json:"timeout"`
		APIVersion *string  `json:"api_version"`
		Region     *string  `json:"region"`
		AccessKey  *string  `json:"access_key"`
	} `json:"provider"`
	MCPs map[string]struct {
		Name        string            `json:"name"`
		Command     string            `json:"command"`
		Args        []string          `json:"args"`
		Env         map[string]string `json:"env"`
		AutoRestart bool              `json:"auto_restart"`
		URL         *string           `json:"url"`
	} `json:"mcps"`
	System struct {
		Crab  agentConfig `json:"crab"`
		Tasks struct {
			MaxConcurrent  uint `json:"max_concurrent"`
			ViewableWindow uint `json:"viewable_window"`
			TaskTimeout    uint `json:"task_timeout"`
		} `json:"tasks"`
		Memory struct {
			RecallLimit  uint `json:"recall_limit"`
			SoulEditable bool `json:"soul_editable"`
		} `json:"memory"`
	} `json:"system"`
	Agents map[string]agentConfig `json:"agents"`
	Env    map[string]string      `json:"env"`
}

type agentConfig struct {
	Description      string   `json:"description"`
	Model            *string  `json:"model,omitempty"`
	MaxIterations    uint     `json:"max_iterations"`
	Thinking         bool     `json:"thinking"`
	Members          []string `json:"members"`
	Skills           []string `json:"skills"`
	MCPs             []string `json:"mcps"`
	CompactThreshold uint     `json:"compact_threshold"`
}

func get(t testing.TB, m *faultfs.Mem) string {
	t.Helper()
	js, err := config.Get(m, "/h")
	if err != nil {
		t.Fatal(err)
	}
	return string(js)
}

func file(t testing.TB, m *faultfs.Mem) string {
	t.Helper()
	b, err := vfs.ReadFile(m, "/h/config.toml", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestGetConfig is row 19 of the interop checklist: get_config returns a
// DaemonConfig.
func TestGetConfig(t *testing.T) {
	const empty = `{"agents":{},"env":{},"mcps":{},"provider":{},"system":{` +
		`"crab":{"compact_threshold":100000,"description":"","max_iterations":16,"mcps":[],"members":[],"model":"offline","skills":[],"thinking":false},` +
		`"memory":{"recall_limit":5,"soul_editable":true},"tasks":{"max_concurrent":4,"task_timeout":300,"viewable_window":16}}}`
	for _, m := range []*faultfs.Mem{newHome(t, nil), faultfs.NewMem()} {
		var got, want map[string]any
		if err := errors.Join(json.Unmarshal([]byte(get(t, m)), &got), json.Unmarshal([]byte(empty), &want)); err != nil {
			t.Fatal(err)
		}
		for key := range want {
			if d := cmp.Diff(want[key], got[key]); d != "" {
				t.Errorf("%s (-want +got):\n%s", key, d)
			}
		}
	}
	m := newHome(t, map[string]string{"config.toml": strings.ReplaceAll(reference, "timeout = 45", "timeout = '44.5s'"), "agents/dev.md": "x"})
	js := get(t, m)
	var c daemonConfig
	if err := json.Unmarshal([]byte(js), &c); err != nil {
		t.Fatal(err)
	}
	if p := c.Provider["openai"]; p.Kind != "openai_compat" || *p.Timeout != 45 || *p.Weight != 2 || *p.APIKey != "" {
		t.Errorf("openai: %+v", p)
	}
	if p := c.Provider["local"]; p.Kind != "llama_cpp" || *p.Timeout != 600 || *p.MaxRetries != 5 || p.APIKey != nil {
		t.Errorf("local: %+v", p)
	}
	if len(c.Provider) != 4 || len(c.MCPs) != 1 || len(c.Agents) != 1 || *c.System.Crab.Model != "gpt-4o" || c.System.Crab.MaxIterations != 20 {
		t.Errorf("%+v", c)
	}
	for _, secret := range []string{"KEY}", "sk-", `"a"`, `"b"`} {
		if strings.Contains(strings.ReplaceAll(js, `["-k","${KEY}"]`, ""), secret) {
			t.Errorf("%s in %s", secret, js)
		}
	}
}

func TestRoundTripChangesNothing(t *testing.T) {
	for name, text := range map[string]string{
		"reference": reference,
		"empty":     "",
		"ours": "# comment\n[provider.a]\nkind = 'openai-compatible'\nmodels = ['x']\nbase_url = 'https://h/v1'\n" +
			"idle_timeout = '5s'\ntimeout = '1500ms'\n[mcps.far]\nurl = 'https://me:secret@h/mcp?key=secret'\n[tools]\nbash.access = 'never'\n",
		"template": string(config.Template(false)),
	} {
		t.Run(name, func(t *testing.T) {
			m := newHome(t, map[string]string{"config.toml": text, "agents/dev.md": "x"})
			js := get(t, m)
			if strings.Contains(js, "secret@") || strings.Contains(js, "=secret") {
				t.Errorf("an address shows its secrets: %s", js)
			}
			calls := m.Calls()
			change, err := config.Set(m, "/h", []byte(js), getenv)
			if err != nil {
				t.Fatal(err)
			}
			if change.Written || file(t, m) != text {
				t.Errorf("%d calls, %+v:\n%s", m.Calls()-calls, change, file(t, m))
			}
			if want := load(t, map[string]string{"config.toml": text, "agents/dev.md": "x"}); cmp.Diff(want, change.Config) != "" {
				t.Errorf("the configuration changed: %s", cmp.Diff(want, change.Config))
			}
		})
	}
}

// TestReferenceClient sends back a client's configuration after one change. The
// client drops all keys that the reference does not have.
func TestReferenceClient(t *testing.T) {
	text := reference + "[provider.ours]\nmodels = ['m']\napi_key_file = 'keys/k'\nidle_timeout = '7s'\n[memory]\nenabled = false\n[tools.bash]\naccess = 'never'\n"
	files := map[string]string{"config.toml": text, "agents/dev.md": "x", "keys/k": "sk-file"}
	m := newHome(t, files)
	var c daemonConfig
	if err := json.Unmarshal([]byte(get(t, m)), &c); err != nil {
		t.Fatal(err)
	}
	c.System.Crab.MaxIterations = 21
	js, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	js = []byte(strings.ReplaceAll(string(js), "null", `""`)) // a missing one may be sent as an empty one
	js = []byte(strings.NewReplacer(`,"weight":""`, "", `,"base_url":""`, "", `,"url":""`, "").Replace(string(js)))
	change, err := config.Set(m, "/h", js, getenv)
	if err != nil {
		t.Fatal(err)
	}
	if !change.Written {
		t.Errorf("%+v", change)
	}
	want := load(t, files)
	for i, a := range want.Agents {
		if a.Name == "crab" {
			want.Agents[i].MaxIterations = 21
		}
	}
	got, err := config.Load(m, "/h", getenv)
	if err != nil {
		t.Fatal(err)
	}
	byName := func(list []config.Provider) map[string]config.Provider {
		m := make(map[string]config.Provider)
		for _, p := range list {
			m[p.Name] = p
		}
		return m
	}
	if d := cmp.Diff(byName(want.Providers), byName(got.Providers)); d != "" {
		t.Errorf("providers (-want +got):\n%s", d)
	}
	got.Providers, got.Warnings = want.Providers, want.Warnings // whose lines moved
	withoutOrigins(want)
	withoutOrigins(got)
	for i := range got.Agents { // an empty list for one that was not there
		for j := range want.Agents {
			if got.Agents[i].Name == want.Agents[j].Name && want.Agents[j].Name == "ops" {
				want.Agents[j].Members, want.Agents[j].Skills, want.Agents[j].MCPs = got.Agents[i].Members, got.Agents[i].Skills, got.Agents[i].MCPs
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("configuration (-want +got):\n%s", d)
	}
	if fi, err := m.Lstat("/h/config.toml"); err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

func TestSet(t *testing.T) {
	const before = `[provider.a]
api_key = "sk-a"
models = ["x"]
weight = 3
idle_timeout = 5

[provider.b]
models = ["y"]
kind = "ollama"

[env]
A = "1"
B = "2"

[memory]
enabled = false
`
	for _, c := range []struct{ name, js, want string }{
		{"nothing", `{}`, before},
		{"sections left out", `{"provider":{"a":{"models":["x"],"weight":3},"b":{"models":["y"],"kind":"ollama"}}}`, before},
		{"a key of the reference left out", `{"provider":{"a":{"models":["x"]},"b":{"models":["y"],"kind":"ollama"}}}`, strings.Replace(before, "weight = 3\n", "", 1)},
		{"a provider left out", `{"provider":{"a":{"models":["x"],"weight":3,"api_key":""}}}`, strings.Replace(before, "[provider.b]\nmodels = [\"y\"]\nkind = \"ollama\"\n\n", "", 1)},
		{"all providers", `{"provider":{}}`, "[provider]\n[env]\nA='1'\nB='2'\n[memory]\nenabled=false\n"},
		{"a new key", `{"provider":{"a":{"models":["x"],"weight":3,"api_key":"sk-new"},"b":{"models":["y"],"kind":"ollama"}}}`, strings.Replace(before, "sk-a", "sk-new", 1)},
		{"null of a key of ours", `{"provider":{"a":{"models":["x"],"weight":3,"idle_timeout":null},"b":{"models":["y"],"kind":"ollama"}}}`, strings.Replace(before, "idle_timeout = 5\n", "", 1)},
		{"null of a secret", `{"provider":{"a":{"models":["x"],"weight":3,"api_key":null,"base_url":"http://h"},"b":{"models":["y"],"kind":"ollama"}}}`, strings.Replace(before, `api_key = "sk-a"`, `base_url = "http://h"`, 1)},
		{"variables", `{"env":{"A":"","C":"3","D":""}}`, strings.Replace(before, "B = \"2\"\n", "C = \"3\"\nD = \"\"\n", 1)},
		{"null of a table", `{"memory":null,"env":null}`, before[:strings.Index(before, "[env]")]},
		{"ours", `{"memory":{"enabled":true},"tools":{"bash":{"access":"listed","timeout":"3m"}},"tcp":{}}`, strings.Replace(before, "enabled = false", "enabled = true\n[tools.bash]\naccess = 'listed'\ntimeout = '3m'", 1)},
		{"crab", `{"system":{"crab":{"max_iterations":5,"thinking":false,"model":"x"}}}`, before + "[system.crab]\nmax_iterations = 5\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newHome(t, map[string]string{"config.toml": before})
			change, err := config.Set(m, "/h", []byte(c.js), getenv)
			if err != nil {
				t.Fatal(err)
			}
			if change.Written != (c.want != before) || !change.Written && file(t, m) != before {
				t.Errorf("written: %v", change.Written)
			}
			want := newHome(t, map[string]string{"config.toml": c.want})
			if d := cmp.Diff(get(t, want), get(t, m)); d != "" {
				t.Errorf("get (-want +got):\n%s", d)
			}
			w, err := config.Load(want, "/h", getenv)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := config.Load(m, "/h", getenv); err != nil || cmp.Diff(change.Config, got) != "" {
				t.Errorf("the result of Set is not in the file: %v\n%s", err, file(t, m))
			}
			withoutOrigins(w) // comments move the lines
			withoutOrigins(change.Config)
			if d := cmp.Diff(w, change.Config); d != "" {
				t.Errorf("config (-want +got):\n%s", d)
			}
		})
	}
}

func TestSetWithoutHome(t *testing.T) {
	m := faultfs.NewMem()
	change, err := config.Set(m, "/some/home", []byte(`{"env":{"A":"b"}}`), getenv)
	if err != nil || change.Config.Env["A"] != "b" {
		t.Fatalf("%+v, %v", change, err)
	}
	m = m.Crash()
	for name, mode := range map[string]string{"/some": "drwx------", "/some/home": "drwx------", "/some/home/config.toml": "-rw-------"} {
		if fi, err := m.Lstat(name); err != nil || fi.Mode().String() != mode {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
}

// TestComments checks that Set changes only the lines of changed keys.
func TestComments(t *testing.T) {
	for _, c := range []struct{ text, set, want string }{
		{"# c\n", `{"memory":{"enabled":false}}`, "# c\n\n[memory]\nenabled = false\n"},
		{"# c", `{"memory":{"enabled":false}}`, "# c\n\n[memory]\nenabled = false\n"},
		{"[memory] # c\nenabled = true # d\n# e\n", `{"memory":{"enabled":false}}`, "[memory] # c\nenabled = false # d\n# e\n"},
		{"\ufeff[memory]\r\n# c\r\n[env]\r\n", `{"memory":{"enabled":false}}`, "\ufeff[memory]\r\nenabled = false\r\n# c\r\n[env]\r\n"},
		{"[memory]\n# An example:\n#enabled = true # yes\n\n[env]\n", `{"memory":{"enabled":false}}`, "[memory]\n# An example:\n#enabled = true # yes\nenabled = false\n\n[env]\n"},
		{"[memory]\n#[memory.x]\n#enabled = true\n", `{"memory":{"enabled":false}}`, "[memory]\nenabled = false\n#[memory.x]\n#enabled = true\n"},
		{"memory.enabled = true # c\n", `{"memory":{"enabled":false}}`, "memory.enabled = false # c\n"},
		{"memory = { enabled = true } # c\n", `{"memory":{"enabled":false}}`, "memory = {enabled = false} # c\n"},
		{"# A\n[env]\n# B\nA = 'x' # C\nB = 'y'\n# D\n", `{"env":{"B":"z","C":""}}`, "# A\n[env]\n# B\nB = 'z'\nC = ''\n# D\n"},
		{"[env]\nA = \"\"\"\n# no comment\n\"\"\" # c\n", `{"env":{"A":"x"}}`, "[env]\nA = 'x' # c\n"},
		{"[provider.a] # a\nkind = 'ollama'\nmodels = [ # c\n'x', # d\n]\n# b\n[provider.b]\nkind = 'ollama'\nmodels = ['y']\n# e\n[env]\n",
			`{"provider":{"b":{"kind":"ollama","models":["y"]},"c":{"kind":"ollama","models":["z"]}}}`,
			"# b\n[provider.b]\nkind = 'ollama'\nmodels = ['y']\n\n[provider.c]\nkind = 'ollama'\nmodels = ['z']\n# e\n[env]\n"},
	} {
		m := newHome(t, map[string]string{"config.toml": c.text})
		change, err := config.Set(m, "/h", []byte(c.set), getenv)
		if err != nil || !change.Written {
			t.Errorf("%q: %+v, %v", c.text, change, err)
		}
		if got := file(t, m); got != c.want {
			t.Errorf("set %s in %q:\n got %q\nwant %q", c.set, c.text, got, c.want)
		}
	}
}

// TestSetInvalid has the reference's texts, and its errors: an invalid
// configuration leaves the file unchanged.
func TestSetInvalid(t *testing.T) {
	for _, c := range []struct{ js, want string }{
		{``, "invalid DaemonConfig JSON: EOF"},
		{`{`, "invalid DaemonConfig JSON: unexpected EOF"},
		{`[]`, "invalid DaemonConfig JSON: not an object"},
		{`{} {}`, "invalid DaemonConfig JSON: data after the object"},
		{`{"env":{"A":[null]}}`, "invalid DaemonConfig JSON: null in a list"},
		{`{"x":1e999}`, "invalid DaemonConfig JSON: strconv.ParseFloat: parsing \"1e999\": value out of range"},
		{strings.Repeat(" ", 1<<20+1), "invalid DaemonConfig JSON: 1048577 bytes, more than the limit of 1048576"},
		{`{"provider":{"a":{"models":[],"api_key":"k"}}}`, "/h/config.toml: provider 'a' has no models"},
		{`{"provider":{"a":{"models":["x"],"api_key":"k"},"b":{"models":["x"],"api_key":"k"}}}`, "/h/config.toml: duplicate model name 'x' across providers"},
		{`{"provider":{"a":{"models":["x"],"kind":"bedrock","access_key":"k","secret_key":"k"}}}`, "/h/config.toml: provider 'a' (bedrock) requires region"},
		{`{"provider":{"a":{"models":["x"],"api_kye":"sk-planted"}}}`,
			"2 problems in the configuration\n  /h/config.toml: provider 'a' requires api_key or base_url\n  /h/config.toml: unknown key 'api_kye' in provider.a; did you mean 'api_key'?"},
		{`{"provider":"x"}`, "/h/config.toml: provider: got a string, want a table"},
		{`{"system":{"crab":{"model":"none"}}}`, "/h/config.toml: agent 'crab': no provider has the model 'none'"},
		{`{"system":{"crab":7}}`, "/h/config.toml: system.crab: got an integer, want a table"},
		{`{"system":7,"agents":[],"env":true,"mcps":1.5}`, "4 problems in the configuration\n  /h/config.toml: agents: got a list, want a table\n" +
			"  /h/config.toml: env: got a boolean, want a table\n  /h/config.toml: mcps: got a number, want a table\n  /h/config.toml: system: got an integer, want a table"},
	} {
		const before = "# kept\n[env]\nA = 'sk-planted'\n"
		m := newHome(t, map[string]string{"config.toml": before})
		hash := m.Hash()
		_, err := config.Set(m, "/h", []byte(c.js), getenv)
		if err == nil || err.Error() != c.want {
			t.Errorf("%.60s:\ngot  %v\nwant %s", c.js, err, c.want)
		}
		if m.Hash() != hash || file(t, m) != before {
			t.Errorf("%.60s: the file changed to\n%s", c.js, file(t, m))
		}
	}
	const broken = "[env\n"
	m := newHome(t, map[string]string{"config.toml": broken})
	if _, err := config.Set(m, "/h", []byte(`{}`), getenv); err == nil || !strings.HasPrefix(err.Error(), "/h/config.toml:1: ") || file(t, m) != broken {
		t.Errorf("a broken file: %v\n%s", err, file(t, m))
	}
	if _, err := config.Get(m, "/h"); err == nil || !strings.HasPrefix(err.Error(), "/h/config.toml:1: ") {
		t.Errorf("get of a broken file: %v", err)
	}
	m = newHome(t, map[string]string{"agents/a.md": "---\nx: 1\n---\n"})
	if done, err := config.Set(m, "/h", []byte(`{"env":{"A":"1"}}`), getenv); err != nil || done.Problems.Error() != "/h/agents/a.md:2: unknown key 'x'" {
		t.Errorf("a broken agent: %+v, %v", done, err)
	}
}

// TestSetRepairs repairs one of several problems. A change that introduces a problem is
// refused, and a missing key or an invalid agent refuses none.
func TestSetRepairs(t *testing.T) {
	const text = "[memory]\nsecrets = 'no'\n[log]\nkeep = -1\n[provider.a]\nmodels = ['x']\napi_key = '${UNSET}'\n"
	m := newHome(t, map[string]string{"config.toml": text, "agents/bad.md": "---\n[\n---\n"})
	set := func(pairs ...config.Pair) (*config.Change, error) { return config.SetKeys(m, "/h", pairs, getenv) }
	done, err := set(config.Pair{Key: "log.keep", Value: "1"}, config.Pair{Key: "env.A", Value: `"1"`})
	if err != nil || done.Config != nil || len(done.Problems) != 3 || !strings.Contains(file(t, m), "keep = 1") {
		t.Fatalf("%+v, %v\n%s", done, err, file(t, m))
	}
	before := file(t, m)
	if _, err := set(config.Pair{Key: "log.keep", Value: "-2"}); err == nil || strings.Contains(err.Error(), "memory") || file(t, m) != before {
		t.Errorf("a new problem: %v\n%s", err, file(t, m))
	}
	if done, err = config.Replace(m, "/h", []byte(before), []byte(before+"# more\n"), getenv); err != nil || done.Config != nil || len(done.Problems) != 3 {
		t.Errorf("an edit that repairs nothing: %+v, %v", done, err)
	}
	if done, err = set(config.Pair{Key: "memory.secrets", Value: "null"}); err != nil || done.Config == nil || len(done.Problems) != 2 {
		t.Errorf("the last repair: %+v, %v", done, err)
	}
	if done, err = set(config.Pair{Key: "provider.a.api_key", Value: `"k"`}); err != nil || len(done.Problems) != 1 {
		t.Errorf("the key: %+v, %v", done, err)
	}
	if _, err = set(config.Pair{Key: "provider.b.kind", Value: `"openai"`}); !strings.Contains(fmt.Sprint(err), "requires") || !strings.Contains(problems(nil, err)[0].Fix, "crabmem config set provider.b '{") {
		t.Errorf("a part of a provider: %v", err)
	}
	if done, err = set(config.Pair{Key: "provider.b.base_url", Value: `"http://h"`}, config.Pair{Key: "provider.b.models", Value: `["m"]`}); err != nil || len(done.Config.Providers) != 2 {
		t.Errorf("a provider: %+v, %v", done, err)
	}
}

// TestSetCrash cuts the power at every call of Set, and fails every call: the
// file then has the old configuration or the new one.
func TestSetCrash(t *testing.T) {
	const before = "# old\n[env]\nA = 'old'\n"
	js := []byte(`{"env":{"A":"new","B":"` + strings.Repeat("long", 3000) + `"}}`)
	scene := func() *faultfs.Mem {
		m := newHome(t, map[string]string{"config.toml": before})
		return m
	}
	m := scene()
	first := m.Calls()
	if _, err := config.Set(m, "/h", js, getenv); err != nil {
		t.Fatal(err)
	}
	last, after := m.Calls(), file(t, m)
	crashed, old, renewed := errors.New("crashed"), 0, 0
	judge := func(m *faultfs.Mem, what string, mustBeNew bool) {
		t.Helper()
		switch got := file(t, m); {
		case got == after:
			renewed++
		case got == before && !mustBeNew:
			old++
		default:
			t.Errorf("%s: %d bytes: %.60q", what, len(got), got)
		}
		if _, err := config.Load(m, "/h", getenv); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := first + 1; n <= last+1; n++ {
		m := scene()
		m.Hook = func(c faultfs.Call) error {
			if c.N >= n {
				return crashed
			}
			return nil
		}
		_, err := config.Set(m, "/h", js, getenv)
		if (err == nil) != (n > last) {
			t.Errorf("call %d of %d: %v", n, last, err)
		}
		m.Hook = nil
		changes := m.Unsynced()
		for _, outcome := range []faultfs.Outcome{faultfs.Lost, faultfs.Kept, faultfs.Zeroed, faultfs.Garbage} {
			outcomes := make([]faultfs.Outcome, len(changes))
			for i := range outcomes {
				outcomes[i] = outcome
				judge(m.Crash(outcomes...), fmt.Sprintf("call %d, outcome %d of %d changes", n, outcome, i), err == nil)
			}
			judge(m.Crash(outcomes...), fmt.Sprintf("call %d, outcome %d", n, outcome), err == nil)
		}
		judge(m, fmt.Sprintf("call %d", n), err == nil)

		m = scene()
		m.Hook = func(c faultfs.Call) error {
			if c.N == n {
				return crashed
			}
			return nil
		}
		if _, err = config.Set(m, "/h", js, getenv); err != nil && !strings.Contains(err.Error(), "crashed") {
			t.Errorf("call %d: %v", n, err)
		}
		m.Hook = nil
		judge(m, fmt.Sprintf("call %d failed", n), err == nil)
	}
	if old < 20 || renewed < 5 {
		t.Errorf("%d states were old, %d new: no cut took effect", old, renewed)
	}
}

// TestGetMisplaced gets an invalid file: the daemon keeps the previous
// configuration, but returns this file.
func TestGetMisplaced(t *testing.T) {
	for _, text := range []string{
		"[[provider]]\nname = 'x'\napi_key = 'sk-Plain1'\n",
		"[providers.x]\napi_key = 'Plain1'\n",
		"[provider]\napi_key = 'Plain1'\n",
		"[provider.x]\napikey = 'sk-Plain1'\nmodels = ['m']\n",
		"[provider.x]\nAPI_KEY = 'Plain1'\nmodels = ['m']\n",
		"[provider.x.extra]\napi_key = 'Plain1'\n",
		"[provider.x]\nopenai = 'sk-Plain1'\n",
		"openai_api_key = 'Plain1'\n",
		"[tcp]\ntoken = 'Plain1'\n",
		"[tcp]\ntokens = ['Plain1']\n",
		"[mcps.a]\ncommand = 'x'\ntoken = 'Plain1'\n",
		"[mcps.a]\ncommand = 'x --key sk-Plain1'\n",
		"[mcps.a.headers]\nX-Any = 'Plain1'\n",
		"[[mcps]]\nname = 'a'\n[mcps.env]\nK = 'Plain1'\n",
		"[mcp.a.env]\nK = 'Plain1'\n",
		"[mcp.a]\nurl = 'https://me:Plain1@host/mcp'\n",
		"[provider.a]\nkind = 'https://me:Plain1@host/v1'\n",
		"[system.tasks]\ntask_timeout = 'https://me:Plain1@host/v1'\n",
		"[tools.bash.env]\nK = 'Plain1'\n",
		"[agents.a]\nenv = {K = 'Plain1'}\n",
		"[headers]\nK = 'Plain1'\n",
	} {
		m := newHome(t, map[string]string{"config.toml": text, "agents/dev.md": "x"})
		if js := get(t, m); strings.Contains(js, "Plain1") {
			t.Errorf("%q is shown: %s", text, js)
		}
	}
	// Values that are not secrets are shown.
	text := "[provider.x]\nmodels = ['basic m']\napi_key_file = 'keys/x'\n[tcp]\ntoken_file = 'keys/t'\n[agents.a]\ndescription = 'Answers basic questions about sk-'\n"
	js := get(t, newHome(t, map[string]string{"config.toml": text}))
	for _, part := range []string{`["basic m"]`, "keys/x", "keys/t", "Answers basic questions about sk-"} {
		if !strings.Contains(js, part) {
			t.Errorf("%q is not in %s", part, js)
		}
	}
}
