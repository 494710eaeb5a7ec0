package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/config"
	"crabmem/daemon/gateway"
	"crabmem/daemon/service"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files of services and of JSON output")

// fakeSystem writes replacements of systemd's and launchd's programs into a
// directory: they start and stop a daemon, and record their arguments in the
// user's home.
func fakeSystem(dir string) error {
	const text = `#!/bin/sh
echo "${0##*/} $*" >>"$HOME/.system.log"
case " $* " in
*" fails "*) exit 1 ;;
*" restart "* | *" start "* | *" bootstrap "*) exec crabmem daemon start -q ;;
*" stop "* | *" disable "* | *" bootout "*) crabmem daemon stop -q || true ;;
esac
`
	err := os.MkdirAll(dir, 0o700)
	for _, name := range []string{"systemctl", "launchctl"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	return err
}

// TestServiceGolden compares the installed files of each system with golden
// files.
func TestServiceGolden(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: paths are others here")
	}
	t.Setenv("HOME", "/home/crab")
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("PATH", "/home/crab/.local/bin:/usr/bin")
	c := newApp(strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer))
	c.home, c.db = "/home/crab/.crabtalk", "/srv/memory of all.db"
	s := c.daemonService()
	s.Program = "/usr/local/bin/crabmem"
	for goos, want := range map[string]struct{ golden, file string }{
		"linux":   {"crabmem.service", "/home/crab/.config/systemd/user/ai.crabtalk.crabmem.service"},
		"darwin":  {"crabmem.plist", "/home/crab/Library/LaunchAgents/ai.crabtalk.crabmem.plist"},
		"windows": {"crabmem.xml", "/home/crab/.crabtalk/run/ai.crabtalk.crabmem.xml"},
	} {
		file, text, err := s.For(goos).Render()
		if err != nil || file != want.file {
			t.Errorf("%s: %s, %v", goos, file, err)
		}
		if goos == "windows" {
			// The user is whoever runs the test.
			_, rest, _ := bytes.Cut(text, []byte("<UserId>"))
			user, _, _ := bytes.Cut(rest, []byte("</UserId>"))
			text = bytes.ReplaceAll(text, append([]byte("<UserId>"), user...), []byte("<UserId>crab"))
		}
		golden := filepath.Join(top, "testdata", "golden", want.golden)
		if *update {
			if err := os.WriteFile(golden, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(b), string(text)); d != "" {
			t.Errorf("%s (-golden +rendered):\n%s", goos, d)
		}
	}
}

// TestServiceEnvironment checks the warning for variables that only the shell
// has.
func TestServiceEnvironment(t *testing.T) {
	home := t.TempDir()
	text := "[provider.far]\nbase_url = \"https://far.example/v1\"\napi_key = \"${FAR_KEY}\"\nmodels = [\"large\"]\n"
	if err := os.WriteFile(filepath.Join(home, config.File), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var diag bytes.Buffer
	c := newApp(strings.NewReader(""), new(bytes.Buffer), &diag)
	variables := map[string]string{"FAR_KEY": "sk-planted"}
	c.Getenv = func(name string) string { return variables[name] }
	c.warnEnvironment(home)
	if s := diag.String(); !strings.Contains(s, "the environment variable FAR_KEY is not set: the service does not inherit your shell environment: put the value into a file") || strings.Contains(s, "sk-planted") {
		t.Errorf("warned %q", s)
	}
	diag.Reset()
	delete(variables, "FAR_KEY")
	c.warnEnvironment(home)
	if diag.Len() > 0 {
		t.Errorf("warnings for other problems: %q", diag.String())
	}
}

// TestServiceGateway: with --gateway, the service is crabmem gateway, and it runs if the
// address of its configuration answers.
func TestServiceGateway(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	c := newApp(strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer))
	c.home, c.side = t.TempDir(), "gateway"
	s := c.service()
	if s.Label() != "ai.crabtalk.crabmem-gateway" || !slices.Equal(s.Args, []string{"gateway", "--home", c.home}) {
		t.Fatalf("service %+v", s)
	}
	l := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"ok","version":"1","home":"`+gateway.HomeID(c.fs, c.home)+`"}`)
	}))
	defer l.Close()
	file := filepath.Join(c.home, gateway.File)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		text := "[server]\nport = " + l.URL[strings.LastIndexByte(l.URL, ':')+1:] + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := c.serviceState(t.Context(), s)
		if err != nil || st.Running != want || st.Installed || st.Log != filepath.Join(c.home, "logs", "crabmem-gateway.log") {
			t.Errorf("running %v: %+v, %v", want, st, err)
		}
		l.Close()
	}
	if err := os.WriteFile(file, []byte("[serve]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.serviceState(t.Context(), s); err == nil {
		t.Error("no error for an invalid configuration")
	}
}

func TestAboutService(t *testing.T) {
	c := newApp(strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer))
	s := &service.Service{Name: serviceName, Home: t.TempDir()}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	if f := classify(c.aboutService(s.End(t.Context()))); f.Code != cli.ExitNotFound || f.Remedy != "crabmem service install" {
		t.Errorf("%+v", f)
	}
	t.Setenv("PATH", t.TempDir())
	if err := s.Start(t.Context()); err == nil {
		t.Fatal("it started without a system")
	} else if f := classify(c.aboutService(err)); f.Code != cli.ExitFailure || !strings.Contains(f.Remedy, "crabmem daemon start") {
		t.Errorf("%+v", f)
	}
}
