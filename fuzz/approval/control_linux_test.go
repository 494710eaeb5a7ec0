package approval

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rules "crabmem/daemon/approval"
	"crabmem/daemon/tool"
)

// A control is a broken mechanism. The oracle must find a violation in what its line does.
type control struct {
	line rules.Line // what the mechanism believes that the text starts
	run  func(ctx context.Context, dir string, it item) (outcome, error)
	want string // part of the violation
}

// line returns a line of one command.
func line(path string, words ...string) rules.Line {
	return rules.Line{{Commands: []rules.Command{{Words: words, Path: path, ReadOnly: path != ""}}}}
}

// start runs a program without the profile.
func start(ctx context.Context, dir string, env []string, path string, words ...string) (outcome, error) {
	cmd := exec.CommandContext(ctx, path, words[1:]...)
	cmd.Args, cmd.Dir, cmd.Env = words, dir, env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return outcome{Output: out}, err
}

// safe is the environment of the profile.
var safe = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}

// controls are broken mechanisms by name.
var controls = map[string]control{
	// A parser of bash read the text, and bash ran it. See shellTexts.
	"a shell": {line(""), func(ctx context.Context, dir string, it item) (outcome, error) {
		return start(ctx, dir, safe, "/bin/bash", "bash", "-c", it.Text)
	}, "started"},
	"a passed glob": {line("/usr/bin/cat", "cat", "*"), func(ctx context.Context, dir string, it item) (outcome, error) {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			return outcome{}, err
		}
		return start(ctx, dir, safe, "/usr/bin/cat", append([]string{"cat"}, names...)...)
	}, "started /usr/bin/cat"},
	"PATH of the environment": {line("/usr/bin/ls", "ls"), func(ctx context.Context, dir string, it item) (outcome, error) {
		own := filepath.Join(dir, "bin")
		data, err := os.ReadFile("/usr/bin/true")
		if err == nil {
			err = os.MkdirAll(own, 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(own, "ls"), data, 0o755)
		}
		if err != nil {
			return outcome{}, err
		}
		return start(ctx, dir, safe, filepath.Join(own, "ls"), "ls")
	}, "outside the system's programs"},
	// The profile does not hide the program that find starts.
	"find on the list": {line("/usr/bin/find", "find", ".", "-maxdepth", "0", "-exec", "touch", "x", "{}", "+"), func(ctx context.Context, dir string, it item) (outcome, error) {
		code, err := tool.RunLine(ctx, it.Line, tool.LineOptions{Dir: dir, Stdout: io.Discard, Stderr: io.Discard})
		return outcome{Code: code}, err
	}, "started /usr/bin/touch"},
	"a followed link": {line("/usr/bin/cat", "cat", "away/secret"), func(ctx context.Context, dir string, it item) (outcome, error) {
		return start(ctx, dir, safe, "/usr/bin/cat", "cat", "away/secret")
	}, "outside the working directory"},
	"an inherited variable": {line("/usr/bin/cat", "cat", "a"), func(ctx context.Context, dir string, it item) (outcome, error) {
		return start(ctx, dir, append(safe, "RIPGREP_CONFIG_PATH="+filepath.Join(dir, "a")), "/usr/bin/cat", "cat", "a")
	}, "has the variable RIPGREP_CONFIG_PATH"},
	"a program that writes": {line("/usr/bin/sort", "sort", "-o", "x", "a"), func(ctx context.Context, dir string, it item) (outcome, error) {
		return start(ctx, dir, safe, "/usr/bin/sort", "sort", "-o", "x", "a")
	}, "for writing"},
}

// shellTexts are texts that a parser of bash permitted, since it found only programs that
// read, and in which bash runs touch, or a file of the directory.
var shellTexts = []string{
	"true {a['$(touch x)']}</dev/null",
	"true \r#$(touch x)",
	"ls \\\r\ntouch x",
	"(ls \\\r\ntouch x)",
	"true && ls \\\r\ntouch x",
	"true #\\\ntouch x",
	"cat <<E\\\nF\nEF\ntouch x\nE\n",
	"{PATH}</dev/null; ls",
	"true 3</dev/tcp/127.0.0.1/9",
}

// TestControls checks that the oracle finds each violation, and that the mechanism does
// not permit the texts.
func TestControls(t *testing.T) {
	need(t)
	for name, c := range controls {
		t.Run(name, func(t *testing.T) {
			texts := []string{strings.Join(c.line[0].Commands[0].Words, " ")}
			if name == "a shell" {
				texts = shellTexts
			}
			for _, text := range texts {
				m := newMachine(t)
				b := batch{Dir: m.dir, Home: m.home, Control: name, Items: []item{{text, c.line}}}
				traces, outcomes := b.traced(t)
				l := limits{shown: shown(c.line), dir: m.dir, confined: true}
				found := l.violations(traces[0])
				if name == "a shell" {
					found = beyondShell(found)
				}
				if got := strings.Join(found, "\n"); !strings.Contains(got, c.want) && !strings.Contains(got, "socket") || outcomes[0].Err != "" {
					t.Errorf("%s: want a violation %q, have %q, %s", describe(text), c.want, got, outcomes[0].Err)
				}
			}
		})
	}
	for _, text := range append(shellTexts, "cat *", "find . -exec touch x", "sort -o x a") {
		m := newMachine(t)
		if line := rules.Classify(text, m.rules(true)).Line; line != nil {
			t.Errorf("%s runs by itself: %+v", describe(text), line)
		}
	}
}

// beyondShell returns the violations without the start of bash itself, and of the program
// that a text shows.
func beyondShell(list []string) (rest []string) {
	for _, v := range list {
		if !strings.HasPrefix(v, "started /bin/bash ") && !strings.HasPrefix(v, `started /usr/bin/ls ["ls"]`) && !strings.HasPrefix(v, "started /usr/bin/cat ") {
			rest = append(rest, v)
		}
	}
	return rest
}

// TestNumberUsedAgain checks that the calls of a helper do not count as calls of an ended
// program with the same number.
func TestNumberUsedAgain(t *testing.T) {
	list, err := readTrace(strings.NewReader(strings.Join([]string{
		`1 openat(AT_FDCWD, "\x2f\x63\x72\x61\x62\x6d\x65\x6d\x2d\x6d\x61\x72\x6b\x2f\x30", O_RDONLY) = -1 ENOENT`, // /crabmem-mark/0
		`5 execve("\x2f\x6c\x73", ["\x6c\x73"], []) = 0`,
		`5 tgkill(5, 6, SIGURG) = 0`,
		`5 +++ exited with 0 +++`,
		`5 tgkill(5, 7, SIGURG) = 0`,
	}, "\n")+"\n"), "/own")
	if err != nil || list["0"] == nil || len(list["0"].programs) != 1 || len(list["0"].calls) != 1 {
		t.Errorf("%+v %v, want one program and one call", list["0"], err)
	}
}
