package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/gateway"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
)

// runMain in the environment makes the test binary the program.
const runMain = "CRABMEM_TEST_MAIN"

func init() {
	if os.Getenv(runMain) != "" {
		main()
	}
}

// program returns the path of the program: the test binary under its name, in
// a directory of its own, and the environment that makes it run as such.
func program(t *testing.T) (file string, env []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file = filepath.Join(dir, "crabmem")
	if err := os.Symlink(self, file); err != nil {
		t.Skipf("SKIPPED: no symbolic links here: %v", err)
	}
	env = append(os.Environ(), runMain+"=1", "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"),
		"CRABMEM_DB=", "CRABTALK_HOME="+filepath.Join(dir, "home"), "NO_COLOR=1", "TZ=UTC", "GOCOVERDIR="+dir)
	return file, env
}

// answer runs a command line in this process.
func answer(args ...string) (stdout, stderr string, code int) {
	var out, diag bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &diag)
	return out.String(), diag.String(), code
}

// withSubcommands returns commands and those under them, a family before its
// members. The path of each is its name, after that of its family.
func withSubcommands(commands []*cobra.Command) (all []*cobra.Command) {
	for _, cmd := range commands {
		all = append(append(all, cmd), withSubcommands(subcommands(cmd))...)
	}
	return all
}

// TestHelp checks the parts of every help text, and that the list of the root,
// or of the family, contains every command.
func TestHelp(t *testing.T) {
	commands := newApp(nil, nil, nil).commands()
	if len(commands) < 22 {
		t.Fatalf("%d commands", len(commands))
	}
	for _, cmd := range withSubcommands(commands) {
		name := cmd.CommandPath()
		words := append(strings.Fields(name), "--help")
		list, _, code := answer(words[len(words)-1:]...)
		if len(words) > 2 {
			list, _, code = answer(append(slices.Clone(words[:len(words)-2]), "--help")...)
		}
		if code != 0 {
			t.Fatalf("--help: exit code %d", code)
		}
		if !strings.Contains(list, "\n  "+cmd.Name()+" ") {
			t.Errorf("the list of commands has no %s", name)
		}
		text, diag, code := answer(words...)
		if code != 0 || diag != "" {
			t.Errorf("%s --help: exit code %d, %q", name, code, diag)
		}
		for _, part := range []string{"Usage:\n  crabmem " + name, "Examples:\n  ", "\nGlobal flags: --"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s --help has no %q", name, part)
			}
		}
		if len(cmd.Long) < 60 || (cmd.GroupID == "") != cmd.HasParent() {
			t.Errorf("%s: the help says too little", name)
		}
		for i, line := range strings.Split(cmd.Long, "\n") {
			if cli.Columns(line) > 80 {
				t.Errorf("%s: line %d of the help has %d columns", name, i+1, cli.Columns(line))
			}
		}
	}
}

// TestDocPages: agents read the help of each command, and the keys of the configuration.
func TestDocPages(t *testing.T) {
	texts := make(map[string]string)
	for _, p := range docPages() {
		texts[p.ID] = p.Text
	}
	for id, want := range map[string]string{
		"crabmem": "store and search the memory of AI agents\n\n", "tasks set": "\n  crabmem tasks set NUMBER", "recall": "\nGlobal flags: --", "config": "\n  agents.*.max_iterations: ",
	} {
		if !strings.Contains(texts[id], want) {
			t.Errorf("%s has no %q: %s", id, want, texts[id])
		}
	}
	if len(texts) < 100 {
		t.Errorf("%d pages", len(texts))
	}
}

// TestCommandTable checks the names in the command table, and that the help of a
// command does not depend on the commands that are built.
func TestCommandTable(t *testing.T) {
	c := newApp(nil, nil, nil)
	for _, row := range commandTable() {
		if name := row.build(c).Name(); name != row.name {
			t.Errorf("command %s is in the table as %s", name, row.name)
		}
		help := func(root *cobra.Command) string {
			cmd, _, err := root.Find([]string{row.name})
			if err != nil {
				t.Fatal(err)
			}
			cmd.InitDefaultHelpFlag()
			return cmd.UsageString()
		}
		if got, want := help(rootCommand(c, row.name)), help(rootCommand(c)); got != want {
			t.Errorf("usage of %s alone:\n%s\nwith all commands:\n%s", row.name, got, want)
		}
	}
	if n := len(rootCommand(c, "version").Commands()); n != 1 {
		t.Errorf("crabmem version builds %d commands", n)
	}
	for _, args := range [][]string{nil, {"--json", "version"}, {"help", "version"}, {"man", "version"}, {"completion", "bash"}, {"nosuch"}} {
		if n := len(rootCommand(c, args...).Commands()); n != len(commandTable()) {
			t.Errorf("%q builds %d commands", args, n)
		}
	}
}

// exampleGateway runs a gateway of the home until the result is called.
func exampleGateway(t *testing.T, dir string, shell func(string)) (stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // finds a free port
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	shell(fmt.Sprintf(`mkdir -p home/config && chmod 700 home && printf '[server]\nport = %d\n' >home/config/gateway.toml && chmod 600 home/config/gateway.toml`, port))
	shell(`crabmem daemon start`)
	shell(`crabmem gateway >/dev/null 2>&1 & echo $! >gateway.pid`)
	gate.Until(t, "the gateway answers", func() bool {
		return gateway.Answers(t.Context(), &gateway.Server{Host: "127.0.0.1", Port: port}, gateway.HomeID(vfs.OS{}, filepath.Join(dir, "home")))
	})
	return func() {
		shell(`kill $(cat gateway.pid)`)
		shell(`crabmem daemon stop`)
	}
}

// hostileWorkspace are the files of a workspace that nobody trusts. What it would run creates
// the file EVIL.
var hostileWorkspace = map[string]string{
	"crabmem.toml":         "memory.project = true\n",
	"agents/default.toml":  "description = \"EVIL\"\nsystem_prompt = \"EVIL\"\ntools = [\"bash\"]\n",
	"mcp/evil.toml":        "command = \"sh\"\nargs = [\"-c\", \"touch DIR/EVIL\"]\n",
	"cron/evil.toml":       "schedule = \"* * * * * *\"\nmessage = \"EVIL\"\n",
	"skills/evil/SKILL.md": "---\nname: evil\ndescription: EVIL\n---\nEVIL\n",
}

// TestExamples runs the examples of every help text unchanged, in a shell, on a
// small store. The directory is also a workspace that nobody trusts, which has no effect.
func TestExamples(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("SKIPPED: no sh to run examples in")
	}
	shellIn := exampleShell(t)
	// Each command gets a copy of this store and its export.
	began := t.TempDir()
	for _, line := range []string{
		`crabmem remember deploy "build, tag, push, then watch the canary" --alias ship`,
		`crabmem remember tea "green tea"`,
		`crabmem remember chat-2026-01 "what was said" --kind archive`,
		`crabmem export >memory.jsonl`,
	} {
		shellIn(t, began, line)
	}
	c := newApp(nil, nil, nil)
	ran := 0
	for _, cmd := range append(withSubcommands(c.commands()), rootCommand(c)) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := errors.Join(fakeSystem(filepath.Join(dir, ".fakes")), os.CopyFS(dir, os.DirFS(began))); err != nil {
				t.Fatal(err)
			}
			shell := func(line string) {
				t.Helper()
				shellIn(t, dir, line)
			}
			if name := strings.Fields(cmd.CommandPath())[0]; name == "attach" {
				shell(`crabmem init . && crabmem workspace trust --yes`)
			} else if name != "workspace" && name != "init" {
				defer insideHostile(t, dir, shell)()
			}
			if cmd.Name() == "load" {
				shell(`crabmem dump book`)
			}
			if strings.HasPrefix(cmd.CommandPath(), "cron") {
				exampleSessions(t, dir)
				shell(`chmod 700 home && mkdir -p home/config && echo "allowed_users = [7]" >home/config/telegram.toml && chmod 600 home/config/telegram.toml`)
				for _, skill := range []string{"check-feeds", "review", "greet"} {
					shell(`crabmem skills new ` + skill)
				}
			}
			if strings.HasPrefix(cmd.CommandPath(), "work") {
				exampleWork(t, dir)
			}
			if slices.Contains([]string{"daemon", "work", "cron", "ping", "events", "compact", "agents", "models"}, strings.Fields(cmd.CommandPath())[0]) {
				shell(`crabmem daemon start`)
				defer shell(`crabmem daemon stop || true`)
			}
			if strings.HasPrefix(cmd.CommandPath(), "service") {
				defer shell(`crabmem daemon stop || true`)
			}
			if strings.HasPrefix(cmd.CommandPath(), "bench") {
				if err := os.CopyFS(filepath.Join(dir, "tiny"), os.DirFS(filepath.Join(top, "testdata", "recall", "tiny"))); err != nil {
					t.Fatal(err)
				}
			}
			if name := strings.Fields(cmd.CommandPath())[0]; name == "model" || name == "bench" {
				for _, name := range []string{"minilm", "potion-base-8M"} {
					if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(top, "testdata", "static"))); err != nil {
						t.Fatal(err)
					}
				}
			}
			if strings.HasPrefix(cmd.CommandPath(), "bench") {
				shell(`crabmem model add minilm && crabmem config set embedder.static minilm`)
				shell(`for i in $(seq 60); do printf "deploy on day $i\tdeploy\n"; done > questions.tsv`)
			}
			if cmd.CommandPath() == "model remove" {
				shell(`crabmem model add minilm && crabmem model add potion-base-8M --name potion`)
			}
			if cmd.CommandPath() == "gateway key remove" {
				shell(`crabmem gateway key add phone && crabmem gateway key add ci`)
			}
			if cmd.CommandPath() == "open" { // without a gateway, it would run until a signal
				defer exampleGateway(t, dir, shell)()
			}
			if strings.HasPrefix(cmd.CommandPath(), "hub") {
				exampleHub(t, dir, shell)
			}
			switch cmd.CommandPath() {
			case "hub upgrade":
				shell(`crabmem hub install deploy --yes && crabmem hub update`)
			case "hub remove":
				shell(`crabmem hub install deploy --yes`)
			}
			if cmd.CommandPath() == "skills show" {
				shell(`crabmem skills new deploy`)
			}
			if strings.HasPrefix(cmd.CommandPath(), "sessions") || cmd.Name() == "compact" {
				exampleSessions(t, dir)
			}
			lines := strings.Split(cmd.Example, "\n")
			for _, line := range lines {
				if !strings.HasPrefix(line, "  ") || !strings.Contains(line, "crabmem "+strings.TrimPrefix(cmd.CommandPath(), "crabmem")) && !strings.Contains(line, "crabmem --") {
					t.Errorf("not an example of %s: %q", cmd.Name(), line)
				}
				shell(strings.TrimSpace(line))
			}
		})
		ran += strings.Count(cmd.Example, "\n") + 1
	}
	if ran < 45 {
		t.Errorf("%d examples", ran)
	}
	t.Logf("examples: %d", ran)
}

// insideHostile makes a directory a hostile workspace. check looks for its effects.
func insideHostile(t *testing.T, dir string, shell func(line string)) (check func()) {
	t.Helper()
	for name, text := range hostileWorkspace {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	shell(`crabmem workspace show . | grep -q "^state  *untrusted"`) // and not broken
	return func() {
		for _, effect := range []string{"EVIL", "data"} {
			if _, err := os.Lstat(filepath.Join(dir, effect)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a workspace without trust had an effect: %s: %v", effect, err)
			}
		}
	}
}

// exampleShell returns a function that runs a line in a shell, in a directory that
// contains the store and the home.
func exampleShell(t *testing.T) func(t *testing.T, dir, line string) {
	_, env := program(t)
	return func(t *testing.T, dir, line string) {
		t.Helper()
		sh := exec.Command("sh", "-c", line)
		sh.Dir = dir
		sh.Env = slices.Concat(env, []string{"XDG_CONFIG_HOME=", "PATH=" + filepath.Join(dir, ".fakes") + string(os.PathListSeparator) + os.Getenv("PATH"), "CRABMEM_DB=" + filepath.Join(dir, "memory.db"), "TMPDIR=" + dir,
			"CRABTALK_HOME=" + filepath.Join(dir, "home"), "HOME=" + dir, "GITHUB_TOKEN=example"})
		out, err := sh.CombinedOutput()
		if err != nil || strings.Contains(string(out), "EVIL") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}

// exampleSessions puts a session, which was compacted, into the home under dir,
// and transcripts where the tools leave them.
// exampleWork writes the sessions of the script of work list.
func exampleWork(t *testing.T, dir string) {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join(scriptDir, "work_list.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]string{"empty": "work/crab_user_1", "parent.jsonl": "sessions/crab_user_1.jsonl",
		"waiting.jsonl": "sessions/worker_work-user_1.jsonl", "done.jsonl": "sessions/worker_work-user_2.jsonl"}
	for _, f := range a.Files {
		name := filepath.Join(dir, "home", places[f.Name])
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, f.Data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func exampleSessions(t *testing.T, dir string) {
	t.Helper()
	write := func(name string, content []byte) {
		name = filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("home/sessions/crab_user_1_which-port.jsonl", []byte(`{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00","title":"","uptime_secs":0}
{"role":"user","content":"which port does it listen on?"}
{"role":"assistant","content":"6688, on loopback."}
{"compact":"The daemon listens on 127.0.0.1:6688."}
{"meta":{"title":"Which port","uptime_secs":12}}
{"role":"user","content":"and over a socket?"}
`))
	for from, to := range map[string]string{"claude-code/tools.jsonl": ".claude/projects/x/a.jsonl", "codex/rollout.jsonl": ".codex/sessions/2026/04/b.jsonl"} {
		b, err := os.ReadFile(filepath.Join(top, "testdata/transcripts", from))
		if err != nil {
			t.Fatal(err)
		}
		write(to, b)
	}
}
