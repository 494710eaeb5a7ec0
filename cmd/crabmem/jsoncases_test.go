package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

// jsonDir holds a script NAME.txtar for each command and the recorded output,
// NAME.golden, which go test -run TestJSON -update rewrites. A command that talks
// to a daemon starts one in its script; TestScriptsWithDaemon compares the others.
const jsonDir = "testdata/json"

// commandsGolden lists each command with its flags and the exit codes of its
// recorded cases.
const commandsGolden = jsonDir + "/commands.golden"

// TestJSONOutput runs the scripts in jsonDir and compares the standard output,
// the standard error and the exit code of each recorded command with the golden
// files.
//
// A script has the commands of TestScripts and these:
//
//	json [-nopriv] ARG... run crabmem --json ARG... and record the result; -nopriv: mode bits count, also for root
//	record N ARG...       record the output of the last command as crabmem --json ARG... with exit code N
func TestJSONOutput(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: the golden files contain the paths and the service of Linux")
	}
	files, err := filepath.Glob(filepath.Join(jsonDir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("scripts", func(t *testing.T) { runJSONScripts(t, files) })
	checkJSONFiles(t)
}

// runJSONScripts runs scripts in parallel and returns when all have ended.
func runJSONScripts(t *testing.T, files []string) {
	p := scriptParams(t)
	p.Dir, p.Files, p.ContinueOnError = "", files, true
	p.Cmds["json"] = scriptJSON
	p.Cmds["record"] = scriptRecord
	setup := p.Setup
	p.Setup = func(e *testscript.Env) error {
		if err := setup(e); err != nil {
			return err
		}
		for _, v := range []string{"CRABTALK_HOME", "CRABMEM_SOCKET", "OPENAI_API_KEY", "XDG_CONFIG_HOME", "CRABMEM_TOKEN", "EDITOR", "VISUAL"} {
			e.Setenv(v, "")
		}
		e.Setenv("NO_COLOR", "1")
		e.Setenv("SHELL", "/bin/sh")
		e.Setenv("OLLAMA_HOST", "127.0.0.1:1")
		home := filepath.Join(e.WorkDir, "home", ".crabtalk")
		if err := os.Chmod(home, 0o700); err != nil && !os.IsNotExist(err) {
			return err
		}
		r := newJSONRecord(e)
		e.Values[jsonRecordKey{}] = r
		e.Defer(func() {
			if err := r.finish(); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
		})
		return nil
	}
	testscript.Run(t, p)
}

// checkJSONFiles fails for a golden file that no script writes.
func checkJSONFiles(t *testing.T) {
	goldens, err := filepath.Glob(filepath.Join(jsonDir, "*.golden"))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range goldens {
		name := strings.TrimSuffix(filepath.Base(g), ".golden")
		if _, err := os.Stat(filepath.Join(jsonDir, name+".txtar")); err != nil && g != commandsGolden {
			t.Errorf("%s has no script: remove it or add %s.txtar", g, name)
		}
	}
}

type jsonRecordKey struct{}

// jsonRecord compares the steps of one script run with its golden file.
type jsonRecord struct {
	name  string
	clean func(string) string
	want  []jsonStep
	got   []jsonStep
}

// jsonStep is one recorded command: the command line and the golden lines
// "out …", "err …" and "exit N".
type jsonStep struct {
	command string
	result  string
}

func newJSONRecord(e *testscript.Env) *jsonRecord {
	r := &jsonRecord{name: strings.TrimPrefix(filepath.Base(e.WorkDir), "script-"), clean: cleaner(e.WorkDir)}
	r.want = readJSONSteps(r.golden())
	return r
}

func (r *jsonRecord) golden() string { return filepath.Join(jsonDir, r.name+".golden") }

// add records a step and returns an error if the golden file has another one
// at its place.
func (r *jsonRecord) add(args []string, stdout, stderr string, code int) error {
	words := []string{"$ crabmem"}
	for _, a := range args {
		words = append(words, quoteArg(r.clean(a)))
	}
	s := jsonStep{command: strings.Join(words, " ")}
	var b strings.Builder
	for _, stream := range []struct{ label, text string }{{"out", stdout}, {"err", stderr}} {
		for line := range strings.Lines(r.clean(stream.text)) {
			fmt.Fprintf(&b, "%s %s\n", stream.label, strings.TrimSuffix(line, "\n"))
		}
	}
	fmt.Fprintf(&b, "exit %d\n", code)
	s.result = b.String()
	r.got = append(r.got, s)
	if *update {
		return nil
	}
	n := len(r.got) - 1
	if n >= len(r.want) {
		return fmt.Errorf("not in %s: %s\n%s", r.golden(), s.command, s.result)
	}
	if s.command != r.want[n].command {
		return fmt.Errorf("command %d: got %s, want %s; rewrite the golden files with -update", n+1, s.command, r.want[n].command)
	}
	if d := cmp.Diff(strings.Split(r.want[n].result, "\n"), strings.Split(s.result, "\n")); d != "" {
		return fmt.Errorf("%s: result differs (-want +got):\n%s", s.command, d)
	}
	return nil
}

// finish writes the golden file if -update is set. Otherwise it returns an
// error if the golden file has more steps.
func (r *jsonRecord) finish() error {
	if !*update {
		if n := len(r.got); n < len(r.want) {
			return fmt.Errorf("%s did not run", r.want[n].command)
		}
		return nil
	}
	var parts []string
	for _, s := range r.got {
		parts = append(parts, s.command+"\n"+s.result)
	}
	return os.WriteFile(r.golden(), []byte(strings.Join(parts, "\n")), 0o600)
}

// readJSONSteps returns the steps of a golden file, or nil without a file.
func readJSONSteps(file string) (steps []jsonStep) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		switch {
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, jsonStep{command: strings.TrimSuffix(line, "\n")})
		case line != "\n" && len(steps) > 0:
			steps[len(steps)-1].result += line
		}
	}
	return steps
}

func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: json [-nopriv] arg...")
	}
	noPriv := args[0] == "-nopriv"
	if noPriv {
		args = args[1:]
	}
	args = append([]string{"--json"}, args...)
	command := append([]string{"crabmem"}, args...)
	if noPriv {
		command = withoutPrivilege(command)
	}
	code := exitCode(ts.Exec(command[0], command[1:]...))
	recordJSON(ts, args, code)
}

func scriptRecord(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: record N arg...")
	}
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	recordJSON(ts, append([]string{"--json"}, args[1:]...), code)
}

func recordJSON(ts *testscript.TestScript, args []string, code int) {
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	r := ts.Value(jsonRecordKey{}).(*jsonRecord)
	err := r.add(args, stdout, stderr, code)
	for line := range strings.Lines(stdout + stderr) {
		if !json.Valid([]byte(line)) && !strings.HasPrefix(line, "warning: ") {
			err = errors.Join(err, fmt.Errorf("crabmem %s: output is not JSON: %s", strings.Join(args, " "), line))
		}
	}
	if err = errors.Join(err, checkOutput(args, stdout, stderr)); err != nil {
		ts.Fatalf("%v", err)
	}
}

// checkOutput validates the output of a command against its schema, and its error
// against the schema of errors.
func checkOutput(args []string, stdout, stderr string) error {
	cmd, _, err := rootCommand(newApp(nil, nil, nil)).Find(args)
	if err != nil {
		cmd = &cobra.Command{}
	}
	command := strings.TrimPrefix(cmd.CommandPath(), "crabmem ")
	if !cmd.HasParent() {
		command = "version" // crabmem --version
	}
	for line := range strings.Lines(stdout) {
		if err := checkSchema(command, []byte(line)); err != nil {
			return fmt.Errorf("crabmem %s: %w: %s", command, err, line)
		}
	}
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, `{"error"`) {
			if err := checkSchema("error", []byte(line)); err != nil {
				return fmt.Errorf("crabmem %s: %w: %s", command, err, line)
			}
		}
	}
	return nil
}

// quoteArg returns an argument as a golden file shows it.
func quoteArg(a string) string {
	if a == "" || strings.ContainsAny(a, " \t\n'\"\\") {
		return strconv.Quote(a)
	}
	return a
}

// unstable are the parts of the output that differ between two runs or two
// machines, and the text that replaces each.
var unstable = []struct {
	pattern *regexp.Regexp
	with    string
}{
	// Processes.
	{regexp.MustCompile(`"(pid|previous_pid)":[0-9]+`), `"$1":<pid>`},
	{regexp.MustCompile(`\bpid [0-9]+`), `pid <pid>`},
	{regexp.MustCompile(`process [0-9]+ \(crabmem daemon\)`), `process <pid> (crabmem daemon)`},
	// Random names and numbers.
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), `<identity>`},
	{regexp.MustCompile(`\bcmk_[A-Za-z0-9_-]{43}`), `cmk_<random>`},
	{regexp.MustCompile(`("code":"|\?start=)[0-9A-Z]{4}-[0-9A-Z]{4}"`), `${1}<code>"`},
	{regexp.MustCompile(`\bcmk_[A-Za-z0-9_-]{4}"`), `cmk_<4>"`},
	{regexp.MustCompile(`crabmem-(demo|deploy)-[0-9A-Z]+`), `crabmem-$1-<random>`},
	{regexp.MustCompile(`\.\.crabmem\.json[0-9]+`), `..crabmem.json<random>`},
	{regexp.MustCompile(`(\.damaged)-[0-9a-f]{8}\b`), `$1-<random>`},
	{regexp.MustCompile(`"hex":"[0-9a-f]+","field":"(salt|crc|crc2|prev_crc)","value":"[^"]*"`), `"hex":"<random>","field":"$1","value":"<random>"`},
	// Durations and memory.
	{regexp.MustCompile(`"(microseconds|build_seconds|index_cpu_seconds|index_wall_seconds|query_p50_us|query_p99_us|query_max_us)":[0-9.e+-]+`), `"$1":<duration>`},
	{regexp.MustCompile(`"(memory_bytes|heap_bytes)":[0-9]+`), `"$1":<bytes>`},
	{regexp.MustCompile(`"uptime_secs":[0-9]+,("agents":)`), `$1`}, // absent in the first second
	{regexp.MustCompile(`"next_at":"[^"]+"`), `"next_at":"<time>"`},
	// The machine and the build.
	{regexp.MustCompile(`[0-9.]+ [KMGT]iB free`), `<bytes> free`},
	{regexp.MustCompile(`\bPATH=[^\\]*`), `PATH=<path>`}, // of services
	{regexp.MustCompile(`(<key>PATH</key>\\n\\t\\t<string>)[^<]*`), `$1<path>`},
	{regexp.MustCompile(`"(commit|go|platform)":"[^"]*"`), `"$1":"<$1>"`},
	{regexp.MustCompile(`("name":"logs","state":"ok","what":")[0-9]+ bytes`), `$1<bytes>`},
	{regexp.MustCompile(`os: \S+ shell: \S+ platform: \S+`), `os: <os> shell: <shell> platform: <platform>`},
	{regexp.MustCompile(`"(prompt|tokens_before|tokens_after)":[0-9]+`), `"$1":<tokens>`},
	{regexp.MustCompile(`/[^"<> ]*/bin/crabmem\b`), `<program>`},
	{regexp.MustCompile(`(\.[0-9]{9})[0-9]+`), `$1`}, // arm64 fuses multiplication and addition
	// The commands, which commandsGolden lists.
	{regexp.MustCompile(`\["agents","agents show",[^\]]+\]`), `["<command>"]`},
	{regexp.MustCompile(`"files":\["man1/crabmem\.1",[^\]]+\]`), `"files":["<page>"]`},
	// Help and shell code, which have tests of their own.
	{regexp.MustCompile(`"(page|script)":"(?:[^"\\]|\\.)+"`), `"$1":"<text>"`},
}

// cleaner returns a function that replaces text that differs between two runs:
// the working directory, times of the test, and the unstable patterns.
func cleaner(workDir string) func(string) string {
	topDir, _ := filepath.Abs(top)
	paths := strings.NewReplacer(workDir, "$WORK", topDir, "$TOP")
	began := time.Now()
	return func(s string) string {
		s = paths.Replace(s)
		s = clock.ReplaceAllStringFunc(s, func(v string) string {
			if at, err := parseClock(v); err == nil && at.Sub(began).Abs() < 48*time.Hour {
				return "<now>"
			}
			return v
		})
		for _, u := range unstable {
			s = u.pattern.ReplaceAllString(s, u.with)
		}
		return s
	}
}

// clock matches a time in seconds since 1970, an RFC 3339 time, or a date.
var clock = regexp.MustCompile(`\b(?:[1-9][0-9]{9}|20[0-9]{2}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]+(?:Z|[+-][0-9]{2}:[0-9]{2}))?)\b`)

func parseClock(v string) (time.Time, error) {
	if sec, err := strconv.ParseInt(v, 10, 64); err == nil {
		return time.Unix(sec, 0), nil
	}
	if len(v) == len(time.DateOnly) {
		return time.Parse(time.DateOnly, v)
	}
	return time.Parse(time.RFC3339Nano, v)
}
