package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/cmd/internal/sqliterows"
	"crabmem/crmem/vfs"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/sandbox"
	"crabmem/daemon/secret"
	"crabmem/daemon/service/servicetest"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	os.Setenv(secret.KeyringVariable, secret.KeyringOff) // tests must not use the keyring of the developer
	sandbox.Main()
	servicetest.Main(os.Exit)
	gcPercent = 400 // the stores are small and many
	debug.SetGCPercent(gcPercent)
	// Tests wait for the programs that they start, and for the disk.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	testscript.Main(tests{m}, map[string]func(){"crabmem": func() { useGateway(os.Args[1:]); main() }, "crabmem-sqlite": func() {
		os.Exit(sqliterows.Main(os.Args[1:], os.Stdout, os.Stderr))
	}})
}

const scriptDir = "../../testdata/script"

// TestScripts runs testdata/script/*.txtar. Every command has a script of its
// name, after the name of its family. The condition [daemon] is true if the
// script runs with a daemon: see TestScriptsWithDaemon. [gateway] is true if it also runs
// through a gateway: see TestScriptsThroughGateway. In addition to the
// commands of testscript there are:
//
//	code N [-nopriv] command...  run it and check the exit code; -nopriv: mode bits count, also for root
//	schema NAME file [lines]     check the JSON in file (stdout, stderr) against the schema of a command
//	hold FILE, release FILE      hold and release the lock of a store, or of a session if FILE is its lock, as another process would
//	signal INT|TERM N command... start it with an open standard input, send the signal, check the exit code
//	flip FILE OFFSET             change the lowest bit of a byte; OFFSET may count from the end
//	sqlite FILE SQL-FILE         create a SQLite database
//	append FILE TEXT             append a text
//	publish DIR REPOSITORY       replace the branch main of a bare git repository by the files of a directory
//	refuses [-write] [-create] command [args...]  check its error in every situation of refusals
//	hostile FOLDER               put objects that are not sessions into a folder
//	refuses [-write] sessions [args...]          the same for a command on sessions of the home
//	model SCRIPT                 serve the scripted model of a file and make it crab's in config.toml; MODEL_URL is the address, model.log the requests
//	await FILE TEXT              wait until a file contains a text
//	eventually REGEXP COMMAND... repeat a command until its standard output matches
//	killdaemon                   kill -9 the daemon of the home
//	component HOME NAME          start a component, which ends with the tests
//	tool NAME                    log that a tool is missing; fail if CRABMEM_REQUIRE lists it
func TestScripts(t *testing.T) {
	t.Parallel()
	commands := newApp(nil, nil, nil).commands()
	for _, cmd := range withSubcommands(commands) {
		if cmd.HasSubCommands() {
			continue
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "_")
		b, err := os.ReadFile(filepath.Join(scriptDir, name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"\nschema ", "\nschema error stderr", "\n! stderr .", "\ncode 2 "} {
			// refuses checks the errors of its commands.
			if !strings.Contains(string(b), part) && !(part == "\nschema error stderr" && strings.Contains(string(b), "\nrefuses ")) {
				t.Errorf("the script of %s has no %q", name, strings.TrimSpace(part))
			}
		}
	}
	t.Logf("scripts: %d commands", len(commands))
	testscript.Run(t, scriptParams(t))
}

// scriptParams are those of every run of scripts.
func scriptParams(t *testing.T) testscript.Params {
	transcripts, err := filepath.Abs("../../testdata/transcripts")
	if err != nil {
		t.Fatal(err)
	}
	return testscript.Params{
		Condition:           func(cond string) (bool, error) { return false, unknownCondition(cond) },
		Dir:                 scriptDir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("CRABMEM_DB", filepath.Join(e.WorkDir, "memory.db"))
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("TMPDIR", filepath.Join(e.WorkDir, ".tmp"))
			e.Setenv("TZ", "UTC")
			e.Setenv("BY", "user") // in the names of sessions: their creator
			e.Setenv(secret.KeyringVariable, secret.KeyringOff)
			e.Setenv("TRANSCRIPTS", transcripts)
			tiny, err := filepath.Abs(filepath.Join(top, "testdata", "recall", "tiny"))
			e.Setenv("TINY", tiny)
			e.Setenv("STATIC", filepath.Join(filepath.Dir(filepath.Dir(tiny)), "static"))
			e.Setenv("IMPORTS", filepath.Join(filepath.Dir(transcripts), "import"))
			e.Setenv("ADAPTER", filepath.Join(filepath.Dir(filepath.Dir(transcripts)), "daemon", "channel", "testdata", "adapter.py"))
			home := filepath.Join(e.WorkDir, "home", ".crabtalk")
			e.Defer(func() { endDaemon(home) })
			fakes := filepath.Join(e.WorkDir, ".fakes")
			e.Setenv("PATH", fakes+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Values[telegramKey] = &scriptBot{}
			err = errors.Join(err, fakeSystem(fakes))
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": scriptCode, "schema": scriptSchema, "hold": scriptHold, "release": scriptRelease,
			"signal": scriptSignal, "flip": scriptFlip, "append": scriptAppend, "publish": scriptPublish, "sqlite": scriptSQLite, "tool": scriptTool, "refuses": scriptRefuses, "hostile": scriptHostile,
			"model": scriptModel, "telegram": scriptTelegram, "say": scriptSay, "photos": scriptPhotos, "press": scriptPress, "await": scriptAwait, "eventually": scriptEventually, "killdaemon": scriptKillDaemon,
			"component": func(ts *testscript.TestScript, _ bool, args []string) {
				servicetest.Start(t, ts.MkAbs(args[0]), args[1])
			},
		},
	}
}

// scriptSQLite creates a database from statements.
func scriptSQLite(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: sqlite FILE SQL-FILE")
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.Exec(ts.ReadFile(args[1]))
	ts.Check(errors.Join(err, db.Close()))
}

// unknownCondition is an error but for [daemon] and [gateway], which scripts have.
func unknownCondition(cond string) error {
	if cond != "daemon" && cond != "gateway" {
		return fmt.Errorf("unknown condition %q", cond)
	}
	return nil
}

// endDaemon ends the daemon that a script has left in its home.
func endDaemon(home string) {
	b, err := os.ReadFile(filepath.Join(home, "run", "daemon.lock"))
	if err != nil {
		return
	}
	l, err := vfs.Acquire(vfs.OS{}, filepath.Join(home, "run", "daemon.lock"), 0)
	if err == nil {
		l.Unlock()
		return
	}
	if p, err := os.FindProcess(vfs.ParseLockHolder(string(b)).PID); err == nil && p.Pid > 1 {
		p.Kill()
	}
	// The connections may close before the process exits.
	if l, err = vfs.Acquire(vfs.OS{}, filepath.Join(home, "run", "daemon.lock"), gate.Hang); err == nil {
		l.Unlock()
	}
}

func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N [-nopriv] command [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	args = args[1:]
	if args[0] == "-nopriv" {
		args = withoutPrivilege(args[1:])
	}
	if got := exitCode(ts.Exec(args[0], args[1:]...)); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// withoutPrivilege returns a command line for which mode bits count, also if
// root runs it.
func withoutPrivilege(args []string) []string {
	if os.Geteuid() != 0 {
		return args
	}
	return append([]string{"setpriv", "--bounding-set=-dac_override,-dac_read_search"}, args...)
}

// exitCode is 0 for nil, the code of a process that ended by itself, and -1
// for one that a signal ended or that was not started.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode()
	}
	return -1
}

func scriptSchema(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: schema NAME file [lines]")
	}
	text := ts.ReadFile(args[1])
	values := []string{text}
	if len(args) == 3 {
		values = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	} else if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("%s is not one line:\n%s", args[1], text)
	}
	for _, v := range values {
		ts.Check(checkSchema(args[0], []byte(v)))
	}
}

// checkSchema validates a JSON text against the schema of a command. The words of its name
// may be joined by underscores.
func checkSchema(command string, text []byte) error {
	command = strings.ReplaceAll(command, "_", " ")
	get, _ := resolved.LoadOrStore(command, sync.OnceValues(func() (*jsonschema.Resolved, error) {
		c := newApp(nil, nil, nil)
		list := c.outputsNamed(rootCommand(c), command)
		if list == nil {
			return nil, fmt.Errorf("no schema of %s", command)
		}
		schema, err := schemaOf(command, list)
		if err != nil {
			return nil, err
		}
		return schema.Resolve(nil)
	}))
	r, err := get.(func() (*jsonschema.Resolved, error))()
	if err != nil {
		return err
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return r.Validate(v)
}

// resolved contains the schema of each command, as checkSchema resolves it.
var resolved sync.Map

// held are the locks of all scripts, which run side by side.
var (
	heldMu sync.Mutex
	held   = make(map[string]vfs.Locked)
)

func scriptHold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hold FILE")
	}
	name := lockOf(ts, args[0])
	l, err := vfs.OS{}.Lock(name)
	ts.Check(err)
	ts.Check(l.SetText("pid 4711\nboot x\ncommand crabmem serve\nsocket \nstate dirty\n"))
	heldMu.Lock()
	held[name] = l
	heldMu.Unlock()
	ts.Defer(func() { l.Unlock() })
}

func lockOf(ts *testscript.TestScript, file string) string {
	if strings.HasSuffix(file, ".lock") {
		return ts.MkAbs(file)
	}
	return ts.MkAbs(file) + "-lock"
}

func scriptRelease(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: release FILE")
	}
	name := lockOf(ts, args[0])
	heldMu.Lock()
	l := held[name]
	delete(held, name)
	heldMu.Unlock()
	if l == nil {
		ts.Fatalf("%s is not held", name)
	}
	ts.Check(l.Unlock())
}

func scriptSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: signal INT|TERM N command [args...]")
	}
	sig := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM}[args[0]]
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	// A signal that comes before the program listens ends it like any other
	// program: then it had not begun, and it is tried again with more time.
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		got, took, diag := signalled(ts, sig, wait, args[2:])
		if got != want && (got == -1 || strings.Contains(diag, "signal: ")) && wait < gate.Hang/4 {
			continue
		}
		if got != want {
			ts.Fatalf("exit code %d, want %d", got, want)
		}
		if gate.Enforced() && took > 1500*time.Millisecond {
			ts.Fatalf("it took %v to end", took)
		}
		return
	}
}

func signalled(ts *testscript.TestScript, sig os.Signal, wait time.Duration, args []string) (code int, took time.Duration, diag string) {
	path := args[0]
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, args[0])); err == nil {
			path = filepath.Join(dir, args[0])
			break
		}
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, k := range []string{"CRABMEM_DB", "HOME", "TMPDIR", "TZ", "PATH", "EDITOR"} {
		cmd.Env = append(cmd.Env, k+"="+ts.Getenv(k))
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	ts.Check(err)
	defer stdin.Close()
	ts.Check(cmd.Start())
	time.Sleep(wait)
	start := time.Now()
	ts.Check(cmd.Process.Signal(sig))
	err = cmd.Wait()
	ts.Logf("%s", stderr.String())
	return exitCode(err), time.Since(start), stderr.String()
}

func scriptFlip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip FILE OFFSET")
	}
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 1
	ts.Check(os.WriteFile(name, b, 0o600))
}

func scriptAppend(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: append FILE TEXT")
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	ts.Check(err)
	_, err = f.WriteString(args[1])
	ts.Check(errors.Join(err, f.Close()))
}

// scriptModel serves a scripted model until the script ends.
func scriptModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: model SCRIPT")
	}
	m, err := modeltest.Start("127.0.0.1:0")
	ts.Check(err)
	ts.Defer(m.Close)
	log, err := os.Create(ts.MkAbs("model.log"))
	ts.Check(err)
	ts.Defer(func() { log.Close() })
	m.Log = func(r modeltest.Request) { log.Write(append(r.Body, '\n')) }
	ts.Check(m.Script(ts.ReadFile(args[0])))
	ts.Setenv("MODEL_URL", m.URL)
	home := filepath.Join(ts.Getenv("HOME"), ".crabtalk")
	ts.Check(os.MkdirAll(home, 0o700))
	file := filepath.Join(home, "config.toml")
	more, err := os.ReadFile(file) // configuration of the script
	if err != nil && !os.IsNotExist(err) {
		ts.Fatalf("%v", err)
	}
	config := strings.ReplaceAll(string(more), "MODEL_URL", m.URL)
	if !strings.Contains(config, "[provider.") {
		config = "[provider.test]\nkind = \"openai-compatible\"\nbase_url = \"" + m.URL + "\"\napi_key = \"sk-planted\"\nmodels = [\"script\", \"other\"]\nmax_retries = 0\n" + config
	}
	if !strings.Contains(config, "titles") {
		config = "sessions.titles = \"first-line\"\n" + config // without a request for a title
	}
	ts.Check(os.WriteFile(file, []byte(config), 0o600))
}

// scriptKillDaemon ends the daemon as a crash does.
func scriptKillDaemon(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: killdaemon")
	}
	lock := filepath.Join(ts.Getenv("HOME"), ".crabtalk", "run", "daemon.lock")
	b, err := os.ReadFile(lock)
	ts.Check(err)
	p, err := os.FindProcess(vfs.ParseLockHolder(string(b)).PID)
	ts.Check(err)
	ts.Check(p.Kill())
	l, err := vfs.Acquire(vfs.OS{}, lock, gate.Hang) // it has ended when its lock is free
	ts.Check(err)
	ts.Check(l.Unlock())
}

// scriptAwait waits for something that another process writes.
func scriptAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE TEXT")
	}
	gate.Until(ts, fmt.Sprintf("%q in %s", args[1], args[0]), func() bool {
		files, err := filepath.Glob(ts.MkAbs(args[0]))
		ts.Check(err)
		return slices.ContainsFunc(files, func(f string) bool {
			b, err := os.ReadFile(f)
			return err == nil && strings.Contains(string(b), args[1])
		})
	})
}

// scriptEventually waits for an effect of other processes that a command prints.
func scriptEventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP command [args...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	gate.Until(ts, args[0], func() bool {
		_ = ts.Exec(args[1], args[2:]...) // it may fail before
		return pattern.MatchString(ts.ReadFile("stdout"))
	})
}

// scriptTool logs that a tool is missing, and fails if CRABMEM_REQUIRE lists
// it. The script continues with [!exec:NAME] stop.
func scriptTool(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: tool NAME")
	}
	name := args[0]
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if slices.Contains(strings.FieldsFunc(os.Getenv("CRABMEM_REQUIRE"), func(r rune) bool { return r == ',' || r == ' ' }), name) {
		ts.Fatalf("%s is required and not there", name)
	}
	fmt.Fprintf(os.Stderr, "SKIPPED the rest of script %s: %s is missing\n", ts.Name(), name)
}
