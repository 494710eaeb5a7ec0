package config

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/config"
	vault "crabmem/daemon/secret"

	"github.com/google/go-cmp/cmp"
)

// secret is in the environment, and in one of two variants of each configuration.
const secret = "sk-planted-and-never-shown"

func getenv(name string) string {
	if name == "KEY" {
		return secret
	}
	return ""
}

func read(t *testing.T, m *faultfs.Mem) string {
	b, err := vfs.ReadFile(m, "/h/config.toml", 1<<21)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// FuzzConfig calls Load and Get for any config.toml with any agent file, and Set
// with any JSON. Problems must name existing files and lines, and must not contain
// a secret. A failed Set must not change the file. A later Load must return the
// configuration of a successful Set, including the secrets.
func FuzzConfig(f *testing.F) {
	store := map[string][]byte{} // with the secret planted
	m := faultfs.NewMem()
	if err := vfs.MkdirAll(m, "/h", 0o700); err != nil {
		f.Fatal(err)
	}
	if _, _, err := (&vault.Store{FS: m, Home: "/h"}).Set("planted", secret); err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"/h/" + vault.File, "/h/" + vault.KeyFile} {
		b, err := vfs.ReadFile(m, name, 1<<20)
		if err != nil {
			f.Fatal(err)
		}
		store[name] = b
	}
	f.Add([]byte("[mcps.a]\nurl = 'https://h'\ntoken = 'secret:planted'\n[env]\nA = '${secret:planted}${secret:x}'"), []byte("prompt"), []byte(`{"env":{"A":"secret:planted"}}`))
	f.Add([]byte("[provider.a]\nmodels = ['x']\n"), []byte("---\nname: b\n---\nprompt"), []byte(`{"provider":{"a":{"models":["x"]}}}`))
	f.Add([]byte("# c\n[system.crab]\nmembers = ['agent']\n"), []byte("prompt"), []byte(`{"env":{"A":""},"memory":null}`))
	f.Add(config.Template(true), []byte("---\ntools: [a, b*]\ndescription: \"x: y\"\n---\n"), []byte(`{"tools":{"bash":{"access":"never"}}}`))
	f.Add([]byte("[[a]]\nb.c = [{d = 1}, {d = 2}]\n[[a]]\n[a.e]\nf = 1979-05-27"), []byte("---\n&x [*x]\n---"), []byte(`[1e99,{"a":[[{}],null]}]`))
	f.Fuzz(func(t *testing.T, text, agent, js []byte) {
		if len(text)+len(agent)+len(js) > 1<<16 {
			return
		}
		planted := append([]byte("[env]\nPLANTED = '"+secret+"'\nSTORED = 'secret:planted'\n[provider.planted]\nmodels = ['planted']\napi_key = '${KEY}'\naccess_key = '"+secret+"'\n"+
			"[mcps.planted]\ncommand = 'x'\nargs = ['--token="+secret+"', 'secret:planted', '${secret:planted}', '-k', '"+secret+"', 'https://h/?a="+secret+"']\n"), text...)
		for _, text := range [][]byte{text, planted} {
			m := faultfs.NewMem()
			if err := vfs.MkdirAll(m, "/h/agents", 0o700); err != nil {
				t.Fatal(err)
			}
			m.WriteFile("/h/config.toml", text, 0o600)
			m.WriteFile("/h/agents/agent.md", agent, 0o600)
			for name, b := range store {
				m.WriteFile(name, b, 0o600)
			}
			check(t, m, string(text), string(agent), js)
		}
	})
}

func check(t *testing.T, m *faultfs.Mem, text, agent string, js []byte) {
	hides := func(what, message string) {
		if strings.Contains(message, secret) {
			t.Fatalf("%s returns a secret: %s", what, message)
		}
	}
	before, err := config.Load(m, "/h", getenv)
	if err != nil {
		hides("Load", err.Error())
		ps, ok := errors.AsType[config.Problems](err)
		if !ok || len(ps) == 0 {
			t.Fatalf("error %v, want Problems", err)
		}
		for _, p := range ps {
			of := map[string]string{"/h/config.toml": text, "/h/agents/agent.md": agent}[p.Path]
			if p.Line < 0 || p.Line > 1+strings.Count(of, "\n") || p.Message == "" || !utf8.ValidString(p.Message) {
				t.Fatalf("invalid problem %+v", p)
			}
		}
	}
	shown, err := config.Get(m, "/h")
	if err != nil {
		hides("Get", err.Error())
		if before != nil {
			t.Fatalf("Get fails, but Load succeeds: %v", err)
		}
	} else {
		if !json.Valid(shown) {
			t.Fatalf("Get returns invalid JSON: %s", shown)
		}
		hides("Get", string(shown))
	}
	if before != nil {
		change, err := config.Set(m, "/h", shown, getenv)
		if err != nil || change.Written || read(t, m) != text {
			t.Fatalf("Set of the result of Get: %v, %+v\n%s\n%s", err, change, shown, read(t, m))
		}
	}
	change, err := config.Set(m, "/h", js, getenv)
	if err != nil {
		hides("Set", err.Error())
		if got := read(t, m); got != text {
			t.Fatalf("Set failed (%v) but wrote\n%s", err, got)
		}
		return
	}
	after, err := config.Load(m, "/h", getenv)
	if err != nil && before == nil && change.Config == nil {
		return // Set introduced no problem
	}
	if err != nil {
		t.Fatalf("Set succeeded, but Load fails: %v\n%s", err, read(t, m))
	}
	if d := cmp.Diff(change.Config, after); d != "" {
		t.Fatalf("the result of Set differs from the written configuration:\n%s", d)
	}
	if again, err := config.Set(m, "/h", js, getenv); err != nil || again.Written && cmp.Diff(again.Config, after) != "" {
		t.Fatalf("second Set: %v, %+v", err, again)
	}
}
