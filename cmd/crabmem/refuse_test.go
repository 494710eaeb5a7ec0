package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"crabmem/bench/gate"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"

	"github.com/rogpeppe/go-internal/testscript"
)

// refusal is a situation in which commands fail, and the exit code for it.
type refusal struct {
	name string
	code int
	// writes: only commands that write fail in it; finds: only those that want
	// a store to be there.
	writes, finds bool
	// prepare changes a copy of the script's store and returns the words before
	// and after the command.
	prepare func(ts *testscript.TestScript, db string) (before, after []string)
}

var refusals = []refusal{
	{name: "unknown-flag", code: cli.ExitUsage, prepare: func(*testscript.TestScript, string) (before, after []string) {
		return nil, []string{"--no-such-flag"}
	}},
	{name: "invalid-utf8", code: cli.ExitUsage, prepare: func(*testscript.TestScript, string) (before, after []string) {
		return nil, []string{"--home", "\xff"}
	}},
	{name: "missing", code: cli.ExitNotFound, finds: true, prepare: func(ts *testscript.TestScript, db string) (before, after []string) {
		ts.Check(os.RemoveAll(filepath.Dir(db)))
		return nil, nil
	}},
	{name: "directory", code: cli.ExitCorrupt, prepare: func(ts *testscript.TestScript, db string) (before, after []string) {
		ts.Check(os.Remove(db))
		ts.Check(os.Mkdir(db, 0o700))
		return nil, nil
	}},
	{name: "fifo", code: cli.ExitCorrupt, prepare: func(ts *testscript.TestScript, db string) (before, after []string) {
		ts.Check(os.Remove(db))
		ts.Check(exec.Command("mkfifo", db).Run())
		return nil, nil
	}},
	{name: "garbage", code: cli.ExitCorrupt, prepare: func(ts *testscript.TestScript, db string) (before, after []string) {
		ts.Check(os.WriteFile(db, []byte("dear diary, this is no store at all"), 0o600))
		return nil, nil
	}},
	{name: "cut", code: cli.ExitCorrupt, prepare: func(ts *testscript.TestScript, db string) (before, after []string) {
		ts.Check(os.Truncate(db, 40))
		return nil, nil
	}},
	{name: "unreadable", code: cli.ExitPermission, prepare: func(ts *testscript.TestScript, db string) (before, after []string) {
		ts.Check(os.Chmod(db, 0))
		return unprivileged(), nil
	}},
	{name: "read-only-directory", code: cli.ExitPermission, writes: true, prepare: func(ts *testscript.TestScript, db string) (before, after []string) {
		ts.Check(os.Chmod(filepath.Dir(db), 0o500))
		return unprivileged(), nil
	}},
	{name: "in-use", code: cli.ExitConflict, writes: true, prepare: func(ts *testscript.TestScript, db string) (before, after []string) {
		l, err := vfs.OS{}.Lock(db + "-lock")
		ts.Check(err)
		ts.Check(l.SetText("pid 4711\nboot x\ncommand crabmem serve\nsocket \nstate dirty\n"))
		ts.Defer(func() { l.Unlock() })
		return nil, []string{"--lock-wait", "200ms"}
	}},
	{name: "sync-fails", code: cli.ExitUnknown, writes: true, prepare: func(ts *testscript.TestScript, db string) (before, after []string) {
		if _, err := exec.LookPath("strace"); err != nil {
			return []string{"skip"}, nil
		}
		return []string{"strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO"}, nil
	}},
	{name: "full-output", code: cli.ExitFailure, prepare: func(ts *testscript.TestScript, db string) (before, after []string) {
		return []string{"sh", "-c", `"$@" >/dev/full`, "sh"}, nil
	}},
}

// unprivileged takes root's right to read and write everything.
func unprivileged() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return []string{"setpriv", "--bounding-set=-dac_override,-dac_read_search"}
}

// scriptRefuses runs a command in every situation, with or without --json: the
// exit code is right, an error contains a remedy or the problem, and with
// --json it is one line and standard output is empty.
func scriptRefuses(ts *testscript.TestScript, neg bool, args []string) {
	writes, finds := false, true
	skip := make(map[string]bool)
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch {
		case args[0] == "-write":
			writes = true
		case args[0] == "-create":
			writes, finds = true, false
		case strings.HasPrefix(args[0], "-not="):
			skip[args[0][5:]] = true
		}
		args = args[1:]
	}
	if len(args) > 0 && args[0] == "sessions" {
		ts.Logf("situations: %d", refusesSessions(ts, args, writes, finds, skip))
		return
	}
	if neg || len(args) == 0 {
		ts.Fatalf("usage: refuses [-write] [-create] [-not=SITUATION] command [args...]")
	}
	ts.Check(ts.Exec("crabmem", "list")) // there is a store to copy
	origin := ts.Getenv("CRABMEM_DB")
	defer ts.Setenv("CRABMEM_DB", origin)
	tried := 0
	for i, r := range refusals {
		if skip[r.name] || r.writes && !writes || r.finds && !finds || elsewhere(r) {
			continue
		}
		for _, flag := range forms(ts, r, i+len(args[0])) {
			db := copyStore(ts, origin, r.name+flag)
			ts.Setenv("CRABMEM_DB", db)
			before, after := r.prepare(ts, db)
			if len(before) > 0 && before[0] == "skip" {
				continue
			}
			line := append(append(append(before, "crabmem"), args...), after...)
			if flag != "" {
				line = append(line, flag)
			}
			start := time.Now()
			got := exitCode(ts.Exec(line[0], line[1:]...))
			if took := time.Since(start); gate.Enforced() && took > 3*time.Second {
				ts.Fatalf("%s: it took %v", r.name, took)
			}
			if got != r.code {
				ts.Fatalf("%s: exit code %d, want %d: %s", r.name, got, r.code, strings.Join(line, " "))
			}
			checkError(ts, r.name, flag != "", r.code)
			tried++
		}
	}
	ts.Logf("situations: %d", tried)
}

// forms returns the flags with which a command runs in a situation. One function prints
// all errors, so each command meets a situation with one flag: both occur in every
// command and in every situation. With a daemon, one situation shows that the command uses
// the copy, not the store of the daemon.
func forms(ts *testscript.TestScript, r refusal, number int) []string {
	if both := []string{"", "--json"}; ts.Getenv("CRABMEM_WITH_DAEMON") == "" {
		if gate.Enforced() {
			return both
		}
		return both[number%2:][:1]
	}
	if r.name == "garbage" || r.name == "file" {
		return []string{"--json"}
	}
	return nil
}

// elsewhere tells a situation that this system has not.
func elsewhere(r refusal) bool { return r.name == "full-output" && runtime.GOOS != "linux" }

// checkError checks the output of a failed command.
func checkError(ts *testscript.TestScript, name string, asJSON bool, code int) {
	out, diag := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	if !asJSON {
		if !strings.Contains("\n"+diag, "\nerror: ") {
			ts.Fatalf("%s: no line begins with error: in %q", name, diag)
		}
		return
	}
	if out != "" {
		ts.Fatalf("%s: standard output is not empty: %q", name, out)
	}
	if strings.Count(diag, "\n") != 1 {
		ts.Fatalf("%s: not one line: %q", name, diag)
	}
	ts.Check(checkSchema("error", []byte(diag)))
	var v struct{ Error struct{ Code int } }
	ts.Check(json.Unmarshal([]byte(diag), &v))
	if v.Error.Code != code {
		ts.Fatalf("%s: code %d in %s", name, v.Error.Code, diag)
	}
}

// copyStore copies the store, its log, and its history into a directory of their own.
func copyStore(ts *testscript.TestScript, db, name string) string {
	dir, err := os.MkdirTemp(ts.MkAbs("."), "refuse-"+name+"-")
	ts.Check(err)
	ts.Defer(func() { os.Chmod(dir, 0o700) })
	to := filepath.Join(dir, "memory.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(db + suffix)
		if suffix != "" && os.IsNotExist(err) {
			continue
		}
		ts.Check(err)
		ts.Check(os.WriteFile(to+suffix, b, 0o600))
	}
	if _, err := os.Stat(db + "-history"); err == nil {
		ts.Check(os.CopyFS(to+"-history", os.DirFS(db+"-history")))
	}
	return to
}
