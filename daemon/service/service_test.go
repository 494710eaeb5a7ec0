package service

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// system records the commands for the system.
type system struct {
	commands []string
	fail     string // a command that does not work
}

func (s *system) run(_ context.Context, name string, args ...string) error {
	line := strings.Join(append([]string{name}, args...), " ")
	s.commands = append(s.commands, line)
	if s.fail != "" && strings.Contains(line, s.fail) {
		return errors.New("exit status 1")
	}
	return nil
}

// testPath is the part of the PATH of the installing shell that services get.
const testPath = `/home/crab/.local/bin:/usr/bin:/opt/100% "x" & \y`

// installed is a service of a machine in memory.
func installed(t *testing.T, goos string) (*Service, *faultfs.Mem, *system) {
	t.Helper()
	t.Setenv("HOME", "/home/crab")
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("PATH", testPath+":bin::.:/usr/bin:/with\nline")
	m, sys := faultfs.NewMem(), &system{}
	s := &Service{
		Name: "search", Description: `finds 100% of <pages> & "more"`, Program: `/opt/my tools/crabmem-search`, Args: []string{"run", "--deep", "it's", "$5"},
		Home: "/home/crab/my $crabtalk", FS: m, System: sys.run, goos: goos,
	}
	return s, m, sys
}

// TestTemplates compares the installed files of each system with golden files.
func TestTemplates(t *testing.T) {
	for goos, want := range map[string]struct{ golden, file string }{
		"linux":   {"search.service", "/home/crab/.config/systemd/user/ai.crabtalk.search.service"},
		"darwin":  {"search.plist", "/home/crab/Library/LaunchAgents/ai.crabtalk.search.plist"},
		"windows": {"search.xml", "/home/crab/my $crabtalk/run/ai.crabtalk.search.xml"},
	} {
		s, _, _ := installed(t, goos)
		d, err := s.definition()
		if err != nil {
			t.Fatal(err)
		}
		if goos == "windows" {
			d.User = `HOST\crab`
		}
		file, text, err := s.render(d)
		if err != nil || filepath.ToSlash(file) != want.file {
			t.Errorf("%s: %s, %v", goos, file, err)
		}
		golden := filepath.Join("testdata", want.golden)
		if *update {
			os.WriteFile(golden, text, 0o600)
		}
		b, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(b), string(text)); d != "" {
			t.Errorf("%s (-golden +rendered):\n%s", goos, d)
		}
		if goos != "linux" {
			dec := xml.NewDecoder(strings.NewReader(strings.Replace(string(text), "UTF-16", "UTF-8", 1)))
			for err == nil {
				_, err = dec.Token()
			}
			if err != io.EOF {
				t.Errorf("%s is not XML: %v", want.golden, err)
			}
		}
	}
	s, _, _ := installed(t, "plan9")
	if _, _, err := s.Render(); err == nil {
		t.Error("a system that is not known has a template")
	}
}

// TestServicePath wants the PATH of the installing shell in the definitions, and read back
// from the installed file. A service of Windows has the PATH of its user.
func TestServicePath(t *testing.T) {
	for goos, want := range map[string]string{"linux": testPath, "darwin": testPath, "windows": ""} {
		s, _, _ := installed(t, goos)
		if _, err := s.InstalledEnv("PATH"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: not installed: %v", goos, err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", "/elsewhere")
		if got, err := s.InstalledEnv("PATH"); got != want || err != nil {
			t.Errorf("%s: PATH %q, %v; want %q", goos, got, err, want)
		}
		home := s.Home
		if goos == "windows" {
			home = ""
		}
		if got, err := s.InstalledEnv("CRABTALK_HOME"); got != home || err != nil {
			t.Errorf("%s: home %q, %v; want %q", goos, got, err, home)
		}
		if got, err := s.InstalledEnv("OTHER"); got != "" || err != nil {
			t.Errorf("%s: another variable: %q, %v", goos, got, err)
		}
	}
}

// TestValuesKeepDefinitions checks that no value changes the lines around it or is
// altered.
func TestValuesKeepDefinitions(t *testing.T) {
	s, _, _ := installed(t, "linux")
	s.Description = `keeps what is in C:\`
	if _, text, err := s.Render(); err != nil || !strings.Contains(string(text), "Description=keeps what is in C:\nAfter=") {
		t.Errorf("%v\n%s", err, text)
	}
	s, _, _ = installed(t, "windows")
	s.Home = "/home/%PATH%/x"
	if d, err := s.definition(); err == nil {
		if _, text, err := s.render(d); err == nil {
			t.Errorf("a variable is in\n%s", text)
		}
	}
}

// TestUnitIsOne has systemd read the unit, where there is one.
func TestUnitIsOne(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: no systemd-analyze")
	}
	name := filepath.Join(t.TempDir(), "ai.crabtalk.search.service")
	b, err := os.ReadFile("testdata/search.service")
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.ReplaceAll(b, []byte("/opt/my tools/crabmem-search"), []byte("/bin/true"))
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(verify, "--user", "verify", name)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte(name)) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestStartStop: start installs and launches, stop uninstalls and removes the
// port file, on each system by its own commands.
func TestStartStop(t *testing.T) {
	for goos, want := range map[string]struct{ start, stop []string }{
		"linux": {
			[]string{"systemctl --user daemon-reload", "systemctl --user enable ai.crabtalk.search.service", "systemctl --user restart ai.crabtalk.search.service"},
			[]string{"systemctl --user disable --now ai.crabtalk.search.service", "systemctl --user daemon-reload"},
		},
		"darwin": {
			[]string{"launchctl bootout gui/U/ai.crabtalk.search", "launchctl bootstrap gui/U /home/crab/Library/LaunchAgents/ai.crabtalk.search.plist"},
			[]string{"launchctl bootout gui/U/ai.crabtalk.search"},
		},
		"windows": {
			[]string{"schtasks /End /TN ai.crabtalk.search", "schtasks /Create /F /TN ai.crabtalk.search /XML /home/crab/my $crabtalk/run/ai.crabtalk.search.xml", "schtasks /Run /TN ai.crabtalk.search"},
			[]string{"schtasks /End /TN ai.crabtalk.search", "schtasks /Delete /F /TN ai.crabtalk.search"},
		},
	} {
		t.Run(goos, func(t *testing.T) {
			s, m, sys := installed(t, goos)
			commands := func() []string {
				var list []string
				for _, line := range sys.commands {
					fields := strings.Fields(line)
					for i, f := range fields {
						if rest, ok := strings.CutPrefix(f, "gui/"); ok {
							_, label, found := strings.Cut(rest, "/")
							fields[i] = "gui/U"
							if found {
								fields[i] += "/" + label
							}
						}
					}
					list = append(list, strings.Join(fields, " "))
				}
				sys.commands = nil
				return list
			}
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want.start, commands()); d != "" {
				t.Errorf("start (-want +got):\n%s", d)
			}
			file, text, err := s.Render()
			if err != nil {
				t.Fatal(err)
			}
			b, err := vfs.ReadFile(m, file, 1<<20)
			if goos == "windows" {
				if !bytes.HasPrefix(b, []byte{0xff, 0xfe, '<', 0, '?', 0}) {
					t.Errorf("not UTF-16: % x", b[:min(8, len(b))])
				}
			} else if err != nil || !bytes.Equal(b, text) {
				t.Errorf("installed %q, %v", b, err)
			}
			if fi, err := m.Lstat("/home/crab/my $crabtalk/logs"); err != nil || fi.Mode().Perm() != 0o700 {
				t.Errorf("logs: %v, %v", fi, err)
			}
			m.WriteFile("/home/crab/my $crabtalk/run/search.port", []byte("1234"), 0o600)
			if err := s.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want.stop, commands()); d != "" {
				t.Errorf("stop (-want +got):\n%s", d)
			}
			for _, name := range []string{file, "/home/crab/my $crabtalk/run/search.port"} {
				if _, err := m.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s exists: %v", name, err)
				}
			}
			if err := s.Stop(t.Context()); err != nil || len(commands()) > 0 {
				t.Errorf("stop of a missing service: %v", err)
			}
		})
	}
}

// TestStartFails checks that the user receives the system's message.
func TestStartFails(t *testing.T) {
	s, _, sys := installed(t, "linux")
	sys.fail = "restart"
	if err := s.Start(t.Context()); err == nil || err.Error() != "systemctl --user restart ai.crabtalk.search.service: exit status 1" {
		t.Error(err)
	}
	s, _, sys = installed(t, "darwin")
	sys.fail = "bootout" // it was not there
	if err := s.Start(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"", "crabtalk", ".hidden", "../x", "a b", "a__b", "x\n", strings.Repeat("x", 65)} {
		s := &Service{Name: name, Home: t.TempDir()}
		for what, do := range map[string]func() error{
			"start": func() error { return s.Start(t.Context()) }, "stop": func() error { return s.Stop(t.Context()) },
			"print": func() error { return s.Print(io.Discard) },
			"logs":  func() error { return s.Logs(t.Context(), io.Discard, 1, false) },
		} {
			if err := do(); err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s of %q: %v", what, name, err)
			}
		}
	}
	s, _, _ := installed(t, "linux")
	s.Description = "x\nExecStart=/bin/evil"
	if err := s.Print(io.Discard); err == nil {
		t.Error("a description of two lines is printed")
	}
}

// TestLogs: the last lines, and those that are added.
func TestLogs(t *testing.T) {
	home := t.TempDir()
	s := &Service{Name: "search", Home: home}
	if err := s.Logs(t.Context(), io.Discard, 2, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a log: %v", err)
	}
	name := filepath.Join(home, "logs", "search.log")
	os.MkdirAll(filepath.Dir(name), 0o700)
	os.WriteFile(name, []byte("one\ntwo\nthree\n"), 0o600)
	for n, want := range map[int]string{0: "", 1: "three\n", 2: "two\nthree\n", 3: "one\ntwo\nthree\n", 9: "one\ntwo\nthree\n"} {
		var b bytes.Buffer
		if err := s.Logs(t.Context(), &b, n, false); err != nil || b.String() != want {
			t.Errorf("%d lines: %q, %v", n, b.String(), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(s.Logs(ctx, w, 1, true), w.Close()) }()
	read := func(want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(r, b); err != nil || string(b) != want {
			t.Errorf("%q, %v, want %q", b, err, want)
		}
	}
	read("three\n")
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("four\n")
	f.Close()
	read("four\n")
	os.WriteFile(name, []byte("5\n"), 0o600)
	read("5\n")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
