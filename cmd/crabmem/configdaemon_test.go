package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/cmd/crabmem/internal/doctor"
	"crabmem/daemon"
)

// serveWith serves the home with an environment of its own.
func (p *patient) serveWith(env map[string]string) {
	p.Helper()
	version, _ := buildVersion()
	stop, err := serveHome(daemon.Options{Home: p.home, Version: version, Getenv: func(name string) string { return env[name] }})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := stop(); err != nil {
			p.Error(err)
		}
	})
}

// command runs a command without --json.
func (p *patient) command(args ...string) (output string, code int) {
	var out bytes.Buffer
	c := p.cli(&out)
	code = c.report(c.execute(context.Background(), append([]string{"--home", p.home}, args...)))
	return out.String(), code
}

// TestDaemonEnvironment checks that the daemon's environment decides whether a
// key is set, while a daemon runs, and that no output contains a key.
func TestDaemonEnvironment(t *testing.T) {
	p := newPatient(t)
	p.key = "" // of the commands
	p.serveWith(map[string]string{"FAR_KEY": "sk-right"})
	out, code := p.command("config", "check")
	if code != 0 || !strings.HasSuffix(out, "2 agents, 1 provider, model large; checked by the daemon\n") {
		t.Errorf("config check: exit code %d: %s", code, out)
	}
	if out, code := p.command("config", "set", "provider.far.weight", "2"); code != 0 {
		t.Errorf("config set: exit code %d: %s", code, out)
	}
	a, wrong := p.examine()
	want := doctor.Finding{Name: "provider far", State: doctor.OK,
		What: "GET " + p.provider + "/models: 200 OK; the key from the variable FAR_KEY was accepted; checked by the daemon"}
	if len(wrong) > 0 || !slices.Contains(a.Checks, want) {
		t.Errorf("doctor: %+v of %+v, want %+v", wrong, a.Checks, want)
	}
}

// TestDaemonEnvironmentLacksKey checks the messages if only the command has the
// key, and if the daemon has a wrong one.
func TestDaemonEnvironmentLacksKey(t *testing.T) {
	const unset = "provider.far.api_key: the environment variable FAR_KEY is not set"
	p := newPatient(t)
	config := p.config()
	p.write("config.toml", "")
	p.serveWith(map[string]string{"WRONG_KEY": "sk-wrong"})
	p.write("config.toml", config)
	for i, args := range [][]string{{"config", "set", "provider.far.weight", "2"}, {"config", "check"}} {
		out, code := p.command(args...)
		if code != i || !strings.Contains(out, unset) || !strings.Contains(out, "the daemon reads variables from its own environment") {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
	_, wrong := p.examine()
	if len(wrong) != 1 || wrong[0].Name != "config" || !strings.Contains(wrong[0].What, unset) || !strings.Contains(wrong[0].Remedy, "restart the daemon") {
		t.Errorf("doctor: %+v", wrong)
	}
	if err := os.WriteFile(filepath.Join(p.home, "config.toml"), []byte(strings.Replace(config, "FAR_KEY", "WRONG_KEY", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	a, _ := p.examine()
	i := slices.IndexFunc(a.Checks, func(f doctor.Finding) bool { return f.Name == "provider far" })
	if i < 0 || a.Checks[i].State != doctor.Fail || a.Checks[i].What != p.provider+"/models rejects the key from the variable WRONG_KEY; checked by the daemon" {
		t.Errorf("doctor: %+v", a.Checks)
	}
	for _, c := range a.Checks {
		if strings.Contains(c.What+c.Remedy, "sk-") {
			t.Errorf("the finding contains a key: %+v", c)
		}
	}
}
