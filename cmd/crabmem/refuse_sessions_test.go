package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"crabmem/bench/gate"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"

	"github.com/rogpeppe/go-internal/testscript"
)

// sessionRefusals are situations in which commands on sessions fail. They are
// made of a copy of the script's home.
var sessionRefusals = []refusal{
	{name: "unknown-flag", code: cli.ExitUsage, prepare: func(*testscript.TestScript, string) (before, after []string) {
		return nil, []string{"--no-such-flag"}
	}},
	{name: "invalid-utf8", code: cli.ExitUsage, prepare: func(*testscript.TestScript, string) (before, after []string) {
		return nil, []string{"--home", "\xff"}
	}},
	{name: "missing", code: cli.ExitNotFound, finds: true, prepare: func(ts *testscript.TestScript, home string) (before, after []string) {
		ts.Check(os.RemoveAll(filepath.Join(home, "sessions")))
		return nil, nil
	}},
	{name: "file", code: cli.ExitCorrupt, prepare: func(ts *testscript.TestScript, home string) (before, after []string) {
		ts.Check(os.RemoveAll(filepath.Join(home, "sessions")))
		ts.Check(os.WriteFile(filepath.Join(home, "sessions"), []byte("one\n"), 0o600))
		return nil, nil
	}},
	{name: "fifo", code: cli.ExitCorrupt, prepare: func(ts *testscript.TestScript, home string) (before, after []string) {
		ts.Check(os.RemoveAll(filepath.Join(home, "sessions")))
		ts.Check(exec.Command("mkfifo", filepath.Join(home, "sessions")).Run())
		return nil, nil
	}},
	{name: "home-is-a-file", code: cli.ExitCorrupt, prepare: func(ts *testscript.TestScript, home string) (before, after []string) {
		ts.Check(os.RemoveAll(home))
		ts.Check(os.WriteFile(home, nil, 0o600))
		return nil, nil
	}},
	{name: "unreadable", code: cli.ExitPermission, prepare: func(ts *testscript.TestScript, home string) (before, after []string) {
		ts.Check(os.Chmod(filepath.Join(home, "sessions"), 0))
		return unprivileged(), nil
	}},
	{name: "read-only-directory", code: cli.ExitPermission, writes: true, prepare: func(ts *testscript.TestScript, home string) (before, after []string) {
		ts.Check(filepath.WalkDir(filepath.Join(home, "sessions"), func(name string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(name, 0o500)
			}
			return err
		}))
		return unprivileged(), nil
	}},
	{name: "in-use", code: cli.ExitConflict, writes: true, prepare: func(ts *testscript.TestScript, home string) (before, after []string) {
		dir := filepath.Join(home, "sessions", ".locks")
		ts.Check(os.MkdirAll(dir, 0o700))
		// The script's sessions, and the lock of imports.
		for _, id := range []string{"crab_user_1", ".import"} {
			l, err := vfs.OS{}.Lock(filepath.Join(dir, id+".lock"))
			ts.Check(err)
			ts.Check(l.SetText("pid 4711\nboot x\ncommand crabmem serve\nsocket \nstate dirty\n"))
			ts.Defer(func() { l.Unlock() })
		}
		return nil, []string{"--lock-wait", "200ms"}
	}},
	{name: "full-output", code: cli.ExitFailure, prepare: func(ts *testscript.TestScript, home string) (before, after []string) {
		return []string{"sh", "-c", `"$@" >/dev/full`, "sh"}, nil
	}},
}

// refusesSessions is scriptRefuses for commands on sessions.
func refusesSessions(ts *testscript.TestScript, args []string, writes, finds bool, skip map[string]bool) (tried int) {
	origin := filepath.Join(ts.Getenv("HOME"), ".crabtalk")
	defer ts.Setenv("CRABTALK_HOME", "")
	for i, r := range sessionRefusals {
		if skip[r.name] || r.writes && !writes || r.finds && !finds || elsewhere(r) {
			continue
		}
		for _, flag := range forms(ts, r, i+len(args[1])) {
			home, err := os.MkdirTemp(ts.MkAbs("."), "refuse-"+r.name+flag+"-")
			ts.Check(err)
			ts.Check(os.CopyFS(filepath.Join(home, "sessions"), os.DirFS(filepath.Join(origin, "sessions"))))
			ts.Defer(func() { openTree(home) })
			ts.Setenv("CRABTALK_HOME", home)
			before, after := r.prepare(ts, home)
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
	return tried
}

// openTree gives directories back the modes that removing them takes.
func openTree(dir string) {
	filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(name, 0o700)
		}
		return nil
	})
}

// scriptHostile puts objects into a folder that are not sessions: a FIFO, a
// link, a directory, a line of 70 MB, files without a meta line.
func scriptHostile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hostile FOLDER")
	}
	ts.Check(makeHostile(ts.MkAbs(args[0]), 70_000_000))
}

// makeHostile does that; long is the length of the line.
func makeHostile(dir string, long int64) error {
	name := func(s string) string { return filepath.Join(dir, s+".jsonl") }
	const message = `{"role":"user","content":"whose is it?"}` + "\n"
	err := errors.Join(
		exec.Command("mkfifo", name("fifo")).Run(),
		os.Symlink("no-meta.jsonl", name("link")),
		os.Mkdir(name("dir"), 0o700),
		os.WriteFile(name("no-meta"), []byte(message), 0o600),
		os.WriteFile(name("empty"), nil, 0o600),
	)
	// Sparse: it takes no room on the disk.
	f, ferr := os.Create(name("long"))
	if ferr != nil {
		return errors.Join(err, ferr)
	}
	_, werr := f.WriteAt([]byte("\n"), long)
	return errors.Join(err, werr, f.Close())
}
