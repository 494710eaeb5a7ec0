// Package older tests the current program on the files of earlier revisions, and
// an earlier revision on the files of the current program.
package older

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// revision is the last revision that supports only version 1 of the log.
const revision = "7728f242e9b01d7ea51f32ff37bee374ea76c9a5"

// program is a binary and the home for its commands.
type program struct {
	t          *testing.T
	path, home string
}

// run runs a command, checks its exit code, and returns its output.
func (p program) run(code int, args ...string) string {
	p.t.Helper()
	cmd := exec.Command(p.path, append(args, "--home", p.home)...)
	cmd.Env = append(os.Environ(), "CRABMEM_DB=")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("%s %q: exit code %d, want %d\n%s", filepath.Base(p.path), args, got, code, out.String())
	}
	return out.String()
}

func (p program) names() []string {
	p.t.Helper()
	var list []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal([]byte(p.run(0, "list", "--json")), &list); err != nil {
		p.t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names
}

func (p program) want(names ...string) {
	p.t.Helper()
	if got := p.names(); !slices.Equal(got, names) {
		p.t.Errorf("%s lists %q, want %q", filepath.Base(p.path), got, names)
	}
}

// build compiles both programs.
func build(t *testing.T) (older, newer string) {
	if os.Getenv("CRABMEM_OLDER") == "" {
		t.Skip("SKIPPED: CRABMEM_OLDER=1 is not set; the test builds and runs an earlier revision")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	command := func(in, name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Dir = in
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	top := filepath.Join("..", "..")
	if err := exec.Command("git", "cat-file", "-e", revision+"^{commit}").Run(); err != nil {
		t.Skipf("SKIPPED: this clone does not contain the revision %.7s", revision)
	}
	command(".", "git", "clone", "--quiet", "--shared", "--no-checkout", top, source)
	command(source, "git", "checkout", "--quiet", revision)
	older, newer = filepath.Join(dir, "older"), filepath.Join(dir, "newer")
	command(source, "go", "build", "-o", older, "./cmd/crabmem")
	command(top, "go", "build", "-o", newer, "./cmd/crabmem")
	return older, newer
}

// rememberInLog writes entries whose operations stay in the log. It makes the store
// so large that commands do not checkpoint at exit.
func rememberInLog(p program, names ...string) {
	p.t.Helper()
	big := filepath.Join(p.t.TempDir(), "big")
	if err := os.WriteFile(big, bytes.Repeat([]byte("a"), 1_600_000), 0o600); err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `exec "$0" remember big - --home "$1" <"$2"`, p.path, p.home, big)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%v\n%s", err, out)
	}
	p.run(0, "checkpoint")
	for _, n := range names {
		p.run(0, "remember", n, "text of "+n)
	}
}

// TestOlderProgram runs both programs on one home.
func TestOlderProgram(t *testing.T) {
	olderPath, newerPath := build(t)
	both := func(t *testing.T) (o, n program) {
		home := filepath.Join(t.TempDir(), "home")
		return program{t, olderPath, home}, program{t, newerPath, home}
	}

	t.Run("older repair quarantines a version 2 log, rejoin restores it", func(t *testing.T) {
		o, n := both(t)
		rememberInLog(n, "one", "two")
		if out := o.run(5, "remember", "three", "x"); !strings.Contains(out, "version 2") {
			t.Errorf("the older program does not name the version:\n%s", out)
		}
		o.run(5, "verify")
		n.want("big", "one", "two") // the older program did not change files

		o.run(0, "repair") // quarantines the complete log
		o.want("big")
		o.run(0, "remember", "later", "by the older program")
		if out := n.run(5, "remember", "x", "y"); !strings.Contains(out, "crabmem repair") {
			t.Errorf("the error does not name the fix:\n%s", out)
		}
		n.run(0, "repair", "--rejoin")
		n.want("big", "later", "one", "two")
		n.run(0, "remember", "x", "y")
		n.run(0, "verify")
	})

	t.Run("a version 1 log continues until a checkpoint", func(t *testing.T) {
		o, n := both(t)
		rememberInLog(o, "one")
		n.run(0, "remember", "two", "in the same log")
		o.want("big", "one", "two")
		o.run(0, "remember", "three", "by the older program")
		n.run(0, "checkpoint")
		n.run(0, "remember", "four", "in a version 2 log")
		o.run(5, "list")
		n.want("big", "four", "one", "three", "two")
	})

	t.Run("a checkpoint with --log-version 1 allows a downgrade", func(t *testing.T) {
		o, n := both(t)
		rememberInLog(n, "one")
		n.run(0, "checkpoint", "--log-version", "1")
		o.run(0, "remember", "two", "by the older program")
		o.run(0, "checkpoint")
		o.run(0, "remember", "three", "by the older program")
		n.run(0, "remember", "four", "by this one")
		n.want("big", "four", "one", "three", "two")
		n.run(0, "verify")
	})
}
