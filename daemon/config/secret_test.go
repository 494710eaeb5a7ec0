package config_test

import (
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/config"
	"crabmem/daemon/secret"

	"github.com/google/go-cmp/cmp"
)

// storeSecrets sets secrets in the home /h, with a key file.
func storeSecrets(t *testing.T, m *faultfs.Mem, pairs ...string) {
	t.Helper()
	s := &secret.Store{FS: m, Home: "/h"}
	for i := 0; i < len(pairs); i += 2 {
		if _, _, err := s.Set(pairs[i], pairs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
}

const withSecrets = `[provider.a]
models = ['x']
api_key = 'secret:openai'
[provider.b]
kind = 'bedrock'
region = 'eu'
access_key = 'secret:access'
secret_key = 'k-${secret:openai}-${KEY}'
models = ['y']
[env]
SHARED = 'secret:openai'
TEXT = 'not secret:openai'
ESCAPED = '$${secret:openai}'
[mcps.local]
command = 'x'
args = ['--token', 'secret:openai', '--key=${secret:access}']
[mcps.local.env]
PEM = 'secret:pem'
[mcps.remote]
url = 'https://h/mcp'
token = 'secret:access'
`

func TestSecrets(t *testing.T) {
	m := newHome(t, map[string]string{"config.toml": withSecrets})
	storeSecrets(t, m, "openai", "sk-one", "access", "two", "pem", "line\nline\n")
	c, err := config.Load(m, "/h", getenv)
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Providers[0], c.Providers[1]
	if a.APIKey != "sk-one" || a.KeySource != "the secret openai" || b.AccessKey != "two" || b.KeySource != "the secret access" || b.SecretKey != "k-sk-one-sk-from-the-environment" {
		t.Errorf("keys %q %q %q, sources %q, %q", string(a.APIKey), string(b.AccessKey), string(b.SecretKey), a.KeySource, b.KeySource)
	}
	if d := cmp.Diff(map[string]config.Secret{"SHARED": "sk-one", "TEXT": "not secret:openai", "ESCAPED": "${secret:openai}"}, c.Env); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]config.Secret{"--token", "sk-one", "--key=two"}, c.MCPs[0].Args); d != "" {
		t.Error(d)
	}
	if pem := c.MCPs[0].Env["PEM"]; pem != "line\nline\n" || c.MCPs[1].Token != "two" {
		t.Errorf("%q, %q", string(pem), string(c.MCPs[1].Token))
	}
	js := get(t, m)
	for _, value := range []string{"sk-one", "two", "line"} {
		if strings.Contains(js, value) {
			t.Errorf("Get returns %q: %s", value, js)
		}
	}
	if !strings.Contains(js, `["--token","secret:openai","--key=${secret:access}"]`) {
		t.Errorf("Get hides the names: %s", js)
	}
	if change, err := config.Set(m, "/h", []byte(js), getenv); err != nil || change.Written {
		t.Errorf("set as it was shown: %+v, %v", change, err)
	}
	// Without the store.
	s, err := config.LoadStructure(newHome(t, map[string]string{"config.toml": withSecrets}), "/h", getenv)
	if err != nil || len(s.Providers) != 2 {
		t.Errorf("LoadStructure: %v", err)
	}
}

func TestSecretProblems(t *testing.T) {
	provider := "[provider.a]\nmodels = ['x']\n"
	for _, c := range []struct{ name, text, want, fix string }{
		{"missing", provider + "api_key = 'secret:opneai'\n", "config.toml:3: provider.a.api_key: the secret opneai is not set: run crabmem secret set opneai", "run crabmem secret set opneai"},
		{"missing in a list", "[mcps.a]\ncommand = 'x'\nargs = [\n'a',\n'secret:b']\n", "config.toml:5: mcps.a.args: the secret b is not set: run crabmem secret set b", "run crabmem secret set b"},
		{"missing in a text", "[env]\nA = 'x${secret:b}'\n", "config.toml:2: env.A: the secret b is not set: run crabmem secret set b", "run crabmem secret set b"},
		{"name", provider + "api_key = 'secret:../key'\n", "config.toml:3: provider.a.api_key: the text after secret: is not the name of a secret", ""},
		{"empty name", provider + "api_key = 'secret:'\n", "config.toml:3: provider.a.api_key: the text after secret: is not the name of a secret", ""},
		{"address", provider + "base_url = 'https://${secret:openai}/v1'\n",
			"config.toml:3: provider.a.base_url: this key cannot use a secret of the store, because clients can see its value", ""},
		{"file", provider + "api_key_file = '${secret:openai}'\n",
			"config.toml:3: provider.a.api_key_file: this key cannot use a secret of the store, because clients can see its value", ""},
		{"lines", provider + "api_key = 'secret:lines'\n", "config.toml:3: provider.a.api_key: it has a control character, such as a line end", ""},
		{"NUL", "[env]\nA = 'secret:nul'\n", "config.toml:2: env.A: a name or value contains a NUL byte, or a name contains =", ""},
		{"both tokens", "[mcps.a]\nurl = 'https://h'\ntoken = 'secret:openai'\ntoken_file = 'keys/k'\n", "config.toml:4: MCP server 'a' has both token and token_file: remove one", ""},
		{"token without url", "[mcps.a]\ncommand = 'x'\ntoken = 'secret:openai'\n", "config.toml:3: mcps.a.token: a token requires url: set url, or remove token", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newHome(t, map[string]string{"config.toml": c.text, "keys/k": "token"})
			storeSecrets(t, m, "openai", "sk-hidden", "lines", "sk-hidden\nx", "nul", "sk-hidden\x00")
			ps := problems(config.Load(m, "/h", getenv))
			if len(ps) == 0 {
				t.Fatal("no problem")
			}
			if got := strings.TrimPrefix(ps[0].String(), "/h/"); got != c.want || ps[0].Fix != c.fix || (c.fix != "") != (ps[0].Secret != "") {
				t.Errorf("%s, fix %q, secret %q\nwant %s", got, ps[0].Fix, ps[0].Secret, c.want)
			}
			if strings.Contains(ps.Error(), "sk-hidden") {
				t.Errorf("the problem contains the value: %v", ps)
			}
		})
	}
}

// TestSecretStoreFails checks the problem of a store that cannot be read. A
// configuration that uses no secret ignores the store.
func TestSecretStoreFails(t *testing.T) {
	m := newHome(t, map[string]string{"config.toml": withSecrets})
	storeSecrets(t, m, "openai", "sk-one")
	m.WriteFile("/h/secrets.json", []byte("sk-hidden"), 0o600)
	ps := problems(config.Load(m, "/h", getenv))
	const want = "/h/config.toml:3: provider.a.api_key: the secret openai cannot be read: /h/secrets.json: not a store of secrets, or truncated"
	if len(ps) == 0 || ps[0].String() != want || ps[0].Fix == "" {
		t.Errorf("%v", ps)
	}
	m.WriteFile("/h/config.toml", []byte("[provider.a]\nmodels = ['x']\napi_key = 'k'\n"), 0o600)
	if _, err := config.Load(m, "/h", getenv); err != nil {
		t.Error(err)
	}
}
