// Package approval compares what a text of the tool bash shows with what it starts.
//
// Random texts that run by themselves run under strace, which sees the processes of the
// whole tree. The system calls are the oracle: each execve is a command of the text, word
// by word; no file is opened for writing; no file outside the working directory and the
// system's programs is opened; there is no socket.
//
//	CRABMEM_APPROVAL=200000 go test -v -timeout 12h ./fuzz/approval
package approval

import (
	"bytes"
	"cmp"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	rules "crabmem/daemon/approval"
	"crabmem/daemon/tool"
	"crabmem/fuzz/seed"
)

// secret is a text that no command may print.
const secret = "a-text-outside-the-working-directory"

// machine is a working directory, and files outside it that a text may name.
type machine struct{ dir, home, user string }

func newMachine(t testing.TB) *machine {
	t.Helper()
	top := t.TempDir()
	m := &machine{filepath.Join(top, "user/work"), filepath.Join(top, "user/HOME"), filepath.Join(top, "user")}
	file := func(path, text string, mode os.FileMode) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"a": "one\ntwo\n", "b": "three\n", "dir/c": "four\n", "dir/sub/d": "five\n", ".hidden": "six\n", "a b": "seven\n", "list": "a\x00b\x00",
	} {
		file(filepath.Join(m.dir, name), text, 0o644)
	}
	for _, name := range []string{"ls", "x.sh", "ls.sh", "dir/ls", "10/ls", "cat", "touch"} {
		file(filepath.Join(m.dir, name), "#!/bin/sh\ntouch x\n", 0o755)
	}
	file(filepath.Join(top, "user/secret"), secret, 0o644)
	file(filepath.Join(top, "away/secret"), secret, 0o644)
	file(filepath.Join(m.home, "secrets.key"), secret, 0o600)
	for name, target := range map[string]string{
		"link": "a", "away": "../../away", "dir/up": "..", "gone": "nothing", "key": "../HOME/secrets.key", "dir/away": "../../../away",
	} {
		if err := os.Symlink(target, filepath.Join(m.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// files returns the names and contents of all files, to find a change.
func (m *machine) files(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", "cd "+filepath.Dir(m.user)+" && find . -printf '%p %y %s %T@ %l\\n' | sort").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// rules returns the rules of a text in the directory.
func (m *machine) rules(profile bool, allow ...string) rules.Rules {
	return rules.Rules{
		Dir: m.dir, Home: m.home, Users: []string{m.user}, Allow: slices.Concat(rules.Default, allow), Profile: func() bool { return profile },
	}
}

// batchSize is the number of commands of one process under strace.
const batchSize = 250

// permitted returns the number of commands to check.
func permitted(t testing.TB) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("CRABMEM_APPROVAL"), "100"))
	if err != nil {
		t.Fatalf("CRABMEM_APPROVAL: %v", err)
	}
	return n
}

// TestApprovalDifferential checks random texts that run by themselves: with the read-only
// profile, without it, and with prefixes that a person allowed.
func TestApprovalDifferential(t *testing.T) {
	need(t)
	n, start := permitted(t), seed.Of(t)
	for _, c := range []struct {
		name    string
		n       int
		profile bool
		allow   []string
	}{
		{"profile", n, true, nil},
		{"without the profile", n / 10, false, nil},
		{"prefixes", n / 10, false, []string{"/usr/bin/od", "seq", "tac", "id -u", "/usr/bin/basename"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var texts, commands, started atomic.Int64
			t.Run("batches", func(t *testing.T) {
				for i := 0; i*batchSize < c.n; i++ {
					t.Run(strconv.Itoa(i), func(t *testing.T) {
						t.Parallel()
						m := newMachine(t)
						d := drawer{rand.New(rand.NewPCG(start, uint64(i)))}
						b := batch{Dir: m.dir, Home: m.home}
						for len(b.Items) < min(batchSize, c.n-i*batchSize) {
							text := d.command()
							texts.Add(1)
							if line := rules.Classify(text, m.rules(c.profile, c.allow...)).Line; line != nil {
								b.Items = append(b.Items, item{text, line})
							}
						}
						commands.Add(int64(len(b.Items)))
						started.Add(int64(m.check(t, &b, c.profile)))
					})
				}
			})
			if t.Failed() {
				t.Errorf("seed %d", start)
				return
			}
			t.Logf("%d texts, %d run by themselves and checked, %d programs started, 0 violations (seed %d)", texts.Load(), commands.Load(), started.Load(), start)
		})
	}
}

// check runs a batch and reports what its commands did beyond their words. It returns the
// number of programs that they started.
func (m *machine) check(t *testing.T, b *batch, confined bool) (started int) {
	t.Helper()
	before := m.files(t)
	traces, outcomes := b.traced(t)
	for i, it := range b.Items {
		l := limits{shown: shown(it.Line), dir: m.dir, confined: confined}
		started += len(traces[i].programs)
		for _, v := range l.violations(traces[i]) {
			t.Errorf("%s: %s", describe(it.Text), v)
		}
		if confined && bytes.Contains(outcomes[i].Output, []byte(secret)) { // a person's prefix may read it
			t.Errorf("%s: printed a secret", describe(it.Text))
		}
		if outcomes[i].Err != "" {
			t.Errorf("%s: %s", describe(it.Text), outcomes[i].Err)
		}
	}
	if after := m.files(t); after != before {
		t.Errorf("files before:\n%safter:\n%s", before, after)
	}
	return started
}

// need skips or fails the test without strace and the profile.
func need(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("strace")
	for what, err := range map[string]error{"strace": err, "userns": canView()} {
		if err == nil {
			continue
		}
		if slices.Contains(strings.Split(os.Getenv("CRABMEM_REQUIRE"), ","), what) {
			t.Fatalf("%s is required: %v", what, err)
		}
		t.Skipf("SKIPPED: the test needs %s: %v", what, err)
	}
}

func canView() error {
	if !tool.CanView() {
		return errors.New("this machine cannot run programs in the read-only profile")
	}
	return nil
}
