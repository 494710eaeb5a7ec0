package tool

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/approval"
)

// lines is a home with a session's directory, whose texts run by themselves.
type lines struct {
	home, data, work string
	allow            []string
	profile          bool
}

func newLines(t *testing.T) *lines {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &lines{home: top, data: top + "/data", work: top + "/work", allow: approval.Default, profile: true}
	for _, dir := range []string{l.data, l.work + "/sub"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{l.data + "/secrets.key": "SECRET", l.home + "/notes": "SECRET", l.work + "/key": "SECRET", l.work + "/a": "one\ntwo\n", l.work + "/sub/b": "three\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.link(t)
	return l
}

// link makes the links in the working directory.
func (l *lines) link(t *testing.T) {
	t.Helper()
	for name, to := range map[string]string{"out": "../notes", "data": l.data, "in": "sub/b", "up": "..", "etc": "/etc", "proc": "/proc/self"} {
		if err := errors.Join(os.RemoveAll(l.work+"/"+name), os.Symlink(to, l.work+"/"+name)); err != nil {
			t.Fatal(err)
		}
	}
}

// needsView skips a test on a machine without the read-only profile.
func needsView(t *testing.T) {
	t.Helper()
	if !CanView() {
		if slices.Contains(strings.Split(os.Getenv("CRABMEM_REQUIRE"), ","), "userns") {
			t.Fatal("CRABMEM_REQUIRE=userns, and the read-only profile does not work")
		}
		t.Skip("SKIPPED: no read-only profile")
	}
}

// run runs a text that must not need approval. The links appear after the decision, which
// asks for a path that a link leads out of the directory.
func (l *lines) run(t *testing.T, text string) (code int, stdout, stderr string) {
	t.Helper()
	for _, name := range []string{"out", "data", "up", "etc", "proc"} {
		if err := os.Remove(l.work + "/" + name); err != nil {
			t.Fatal(err)
		}
	}
	d := approval.Classify(text, approval.Rules{Dir: l.work, Home: l.data, Users: []string{l.home}, Allow: l.allow, Profile: func() bool { return l.profile }})
	if d.Line == nil {
		t.Fatalf("%q needs approval: %s", text, d.Reason)
	}
	l.link(t)
	var out, errs bytes.Buffer
	code, err := RunLine(t.Context(), d.Line, LineOptions{
		Dir: l.work, Env: []string{"PREFIX=yes"}, Hidden: []string{l.data, l.work + "/key"}, Stdout: &out, Stderr: &errs,
	})
	if err != nil {
		t.Errorf("%q: %v", text, err)
	}
	return code, out.String(), errs.String()
}

// TestLineOwn runs the commands that need no program, on a machine without the
// profile.
func TestLineOwn(t *testing.T) {
	l := newLines(t)
	l.profile = false
	for _, c := range []struct {
		text   string
		code   int
		stdout string
		stderr string
	}{
		{"echo", 0, "\n", ""},
		{"echo -n -n a 'b  c' ''", 0, "a b  c ", ""},
		{"pwd", 0, "WORK\n", ""},
		{"true", 0, "", ""},
		{"false", 1, "", ""},
		{"false && echo a || echo b", 0, "b\n", ""},
		{"true || echo a && echo b", 0, "b\n", ""},
		{"false && true; echo c", 0, "c\n", ""},
		{"false; true && false", 1, "", ""},
		{"false | true", 0, "", ""},
		{"true | false", 1, "", ""},
		{"echo a | echo b", 0, "b\n", ""},
		{"echo a >/dev/null", 0, "", ""},
		{"cd sub && pwd && cd .. && pwd; cd sub/../sub; pwd", 0, "WORK/sub\nWORK\nWORK/sub\n", ""},
		{"cd up; pwd", 0, "WORK\n", "cd: up: outside the working directory\n"},
		{"cd data 2>/dev/null || echo no", 0, "no\n", ""},
		{"cd data 2>&1 >/dev/null", 1, "cd: data: outside the working directory\n", ""},
		{"cd data >/dev/null 2>&1", 1, "", ""},
		{"cd a", 1, "", "cd: a: not a directory\n"},
		{"cd nowhere", 1, "", "cd: nowhere: no such directory\n"},
	} {
		code, out, errs := l.run(t, c.text)
		out = strings.ReplaceAll(out, l.work, "WORK")
		if code != c.code || out != c.stdout || errs != c.stderr {
			t.Errorf("%q: %d, %q, %q", c.text, code, out, errs)
		}
	}
}

// TestLineView checks what programs of the default list see.
func TestLineView(t *testing.T) {
	needsView(t)
	l := newLines(t)
	t.Setenv("SECRET_VARIABLE", "SECRET")
	t.Setenv("TZ", "UTC")
	for _, c := range []struct {
		text   string
		code   int
		stdout string
		stderr string // a part
	}{
		{"cat a in sub/b", 0, "one\ntwo\nthree\nthree\n", ""},
		{"cd sub && cat b ../a && ls ..", 0, "three\none\ntwo\na\ndata\netc\nin\nkey\nout\nproc\nsub\nup\n", ""},
		{"cat a | grep -c o | tr 2 x", 0, "x\n", ""},
		{"cat a nothing 2>&1 >/dev/null", 1, "cat: nothing: No such file or directory\n", ""},
		{"cat nothing | true", 0, "", "No such file"},
		{"cat", 0, "", ""},
		{"cat a </dev/null", 0, "one\ntwo\n", ""},
		{"sort -r a | head -n 1", 0, "two\n", ""},
		{"grep -q three a || echo no", 0, "no\n", ""},
		{"head -c 3 'in'", 0, "thr", ""},
		{"cat out", 1, "", "No such file"},
		{"cat data/secrets.key", 1, "", "No such file"},
		{"cat key", 0, "", ""}, // hidden, in the session's directory
		{"cat up/notes up/data/secrets.key", 1, "", "No such file"},
		{"ls up", 0, "work\n", ""},
		{"cat etc/shadow etc/hosts", 1, "", "No such file"},
		{"ls etc/ssh proc/", 2, "", "No such file"},
		{"grep -r SECRET .", 1, "", ""},
		{"date +%Z", 0, "UTC\n", ""},
		{"stat -c %U a", 0, "", ""},
	} {
		code, out, errs := l.run(t, c.text)
		if strings.HasPrefix(c.text, "stat") {
			out = ""
		}
		if code != c.code || out != c.stdout || !strings.Contains(errs, c.stderr) || c.stderr == "" && errs != "" {
			t.Errorf("%q: %d, %q, %q", c.text, code, out, errs)
		}
	}
}

// TestLinePlain runs programs that a prefix permits together with default programs.
func TestLinePlain(t *testing.T) {
	needsView(t)
	l := newLines(t)
	l.allow = slices.Concat(approval.Default, []string{"touch", "/usr/bin/env", "sleep"})
	if code, out, errs := l.run(t, "touch new | cat && ls new; /usr/bin/env"); code != 0 || out != "new\nPREFIX=yes\n" || errs != "" {
		t.Errorf("%d, %q, %q", code, out, errs)
	}
	if code, out, _ := l.run(t, "/usr/bin/env kill -9 0 | cat; echo after"); code != 0 || out != "after\n" {
		t.Errorf("after a signal: %d, %q", code, out)
	}
}

// TestLineAttack runs programs in the read-only profile that Classify would not
// permit, and checks what they can do.
func TestLineAttack(t *testing.T) {
	needsView(t)
	l := newLines(t)
	t.Setenv("SECRET_VARIABLE", "SECRET")
	t.Setenv("LD_PRELOAD", "")
	before := visibleFiles(t, l.home)
	listener, err := net.Listen("unix", l.work+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.WriteFile(l.work+"/run", []byte("#!/bin/sh\necho ran\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(l.work + "/run")
	for _, c := range []struct{ script, want string }{
		{"echo $SECRET_VARIABLE", "\n"},
		{"env | grep -v '^_=\\|^SHLVL=\\|^PWD=\\|^OLDPWD=' | cut -d= -f1 | sort | tr '\\n' ' '", "LANG PATH "},
		{"echo x >new; echo x >/tmp/new; echo x >/home/new; echo x >>a; rm -f a; mkdir d; chmod 777 a; cat a", "one\ntwo\n"},
		{"echo x >/dev/null && echo ok", "ok\n"},
		{"ls -A /home; ls /dev; ls /proc /sys", "null\n"},
		{"ls -A /tmp | grep -v TestLineAttack", ""},
		{"./run", ""}, // no program of the directory runs
		{"ls -d /usr/local /usr/src", ""},
		{"ulimit -d", "524288\n"},
		{"cat /etc/shadow " + l.home + "/notes " + l.data + "/secrets.key", ""},
		{"umount " + l.work + "/key; mount -t tmpfs x /tmp && echo mounted", ""},
		{"exec 3<>/dev/tcp/127.0.0.1/1 && echo connected", ""},
		{"cat <&3; cat <&4; cat <&5; cat <&6", ""},
		{"ls / | tr '\\n' ' ' | grep -c 'root\\|proc'", "0\n"},
	} {
		var out, errs bytes.Buffer
		line := approval.Line{{Commands: []approval.Command{{Words: []string{"bash", "-c", c.script}, Path: "/bin/bash", ReadOnly: true}}}}
		_, err := RunLine(t.Context(), line, LineOptions{Dir: l.work, Hidden: []string{l.data, l.work + "/key"}, Stdout: &out, Stderr: &errs})
		if err != nil || out.String() != c.want {
			t.Errorf("%s: %v, %q, %q", c.script, err, out.String(), errs.String())
		}
	}
	os.Remove(l.work + "/run")
	listener.Close()
	if after := visibleFiles(t, l.home); after != before {
		t.Errorf("files:\n%s\nbefore:\n%s", after, before)
	}
}

// visibleFiles lists the files of a directory with their sizes and modes.
func visibleFiles(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(name string, fi os.FileInfo, err error) error {
		if err == nil && !fi.IsDir() {
			b.WriteString(name + " " + fi.Mode().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestLineCost logs the time of a command in the read-only profile, and as it is.
func TestLineCost(t *testing.T) {
	needsView(t)
	l := newLines(t)
	for _, allow := range []string{"ls", "/usr/bin/ls"} {
		l.allow = []string{allow}
		best := time.Hour
		for range 30 {
			began := time.Now()
			l.run(t, "ls")
			best = min(best, time.Since(began))
		}
		t.Logf("ls, with %s allowed: %v", allow, best)
	}
}
