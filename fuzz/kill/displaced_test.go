//go:build unix

package kill_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/kill/history"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

func init() { children["session"] = childSession }

// childSession writes a session and keeps it open until it is killed. Its arguments
// are the folder and "dirty" or "clean". With "clean" it closes and reopens the
// session after the last write.
func childSession(args []string) error {
	d, err := sessionlog.OpenDir(args[0], &sessionlog.Options{Command: "childSession"})
	if err != nil {
		return err
	}
	l, err := d.Create(history.SessionMeta(0))
	if err != nil {
		return err
	}
	for i := range 3 {
		if err := l.Append(sessionlog.Message{Role: record.RoleUser, Content: fmt.Sprint("acknowledged ", i)}); err != nil {
			return err
		}
	}
	if args[1] == "clean" {
		if err := l.Close(); err != nil {
			return err
		}
		if _, err = d.Open(l.ID()); err != nil {
			return err
		}
	}
	fmt.Println(l.ID())
	time.Sleep(time.Hour)
	return nil
}

// fileChanges are changes of a file by another program. other is the content of a
// valid session; side is a path for a moved or new file.
var fileChanges = []struct {
	name string
	do   func(name, side string, other []byte) error
}{
	{"rm", func(name, _ string, _ []byte) error { return os.Remove(name) }},
	{"mv away", func(name, side string, _ []byte) error { return os.Rename(name, side) }},
	{"cp over", func(name, _ string, other []byte) error { return os.WriteFile(name, other, 0o600) }},
	{"rename over", func(name, side string, other []byte) error {
		return errors.Join(os.WriteFile(side, other, 0o600), os.Rename(side, name))
	}},
	{"truncate", func(name, _ string, other []byte) error {
		return os.Truncate(name, int64(strings.IndexByte(string(other), '\n')+1))
	}},
	{"chmod 000", func(name, _ string, _ []byte) error { return os.Chmod(name, 0) }},
	{"directory", func(name, _ string, _ []byte) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) }},
	{"symlink", func(name, side string, _ []byte) error {
		return errors.Join(os.Rename(name, side), os.Symlink(side, name))
	}},
	{"fifo", func(name, _ string, _ []byte) error { return errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600)) }},
}

// silentLosses are the cases in which sessionlog detects no loss, by
// sessionlog/FORMAT.md.
var silentLosses = []string{"session, cp over, dirty", "session, truncate, dirty"}

// TestKillDisplaced changes the session file or the lock file of a process. It kills
// the process before its next call, and opens the session. The open must report
// each loss, except in the cases of silentLosses.
func TestKillDisplaced(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FILE\tCHANGE\tLOCK\tACKNOWLEDGED\tNEXT OPEN")
	var silent []string
	for _, file := range []string{"session", "lock"} {
		for _, change := range fileChanges {
			for _, state := range []string{"dirty", "clean"} {
				name := file + ", " + change.name + ", " + state
				dir := t.TempDir()
				id := killDisplaced(t, dir, state, func(path string, other []byte) error {
					return change.do(path, filepath.Join(dir, "side"), other)
				}, file == "lock")
				found := hasAcknowledged(t, dir)
				next := openDisplaced(t, name, filepath.Join(dir, "sessions"), id)
				if !found && next == "silent" {
					silent = append(silent, name)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", file, change.name, state, map[bool]string{true: "found", false: "LOST"}[found], next)
			}
		}
	}
	w.Flush()
	t.Logf("kill -9 after another program changed a session's files:\n%s", &table)
	if !slices.Equal(silent, silentLosses) {
		t.Errorf("lost without a report: %q, want %q", silent, silentLosses)
	}
}

// killDisplaced runs a child, changes the session file or the lock file, kills the
// child, and returns the session's ID.
func killDisplaced(t *testing.T, dir, state string, change func(path string, other []byte) error, lock bool) string {
	t.Helper()
	cmd := child("session", filepath.Join(dir, "sessions"), state)
	line, err := firstLine(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	id := strings.TrimSuffix(line, "\n")
	path := filepath.Join(dir, "sessions", id+".jsonl")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	meta, _, _ := strings.Cut(string(b), "\n")
	other := meta + "\n" + strings.Repeat(`{"role":"user","content":"of another program"}`+"\n", 30)
	if lock {
		path = filepath.Join(dir, "sessions", ".locks", id+".lock")
	}
	if err := change(path, []byte(other)); err != nil {
		t.Fatal(err)
	}
	return id
}

// hasAcknowledged reports whether one file contains all acknowledged messages. It
// makes each file readable for the read, and then restores the mode.
func hasAcknowledged(t *testing.T, dir string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		if err := os.Chmod(path, 0o600); err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.Chmod(path, fi.Mode())
		}
		all := true
		for i := range 3 {
			all = all && strings.Contains(string(b), fmt.Sprint("acknowledged ", i))
		}
		found = found || all
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// openDisplaced opens a session for writing and returns a description of the
// result.
func openDisplaced(t *testing.T, name, path, id string) string {
	t.Helper()
	var warnings []string
	d, err := sessionlog.OpenDir(path, &sessionlog.Options{LockWait: lockWait, Warn: func(s string) { warnings = append(warnings, s) }})
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Open(id)
	switch {
	case err == nil:
		err = errors.Join(l.Append(sessionlog.Message{Role: record.RoleUser, Content: "later"}), l.Close())
		if err != nil {
			t.Errorf("%s: write after the open: %v", name, err)
		}
		if strings.Contains(strings.Join(warnings, "\n"), "another program") {
			return "reports it"
		}
		return "silent"
	case errors.Is(err, sessionlog.ErrNotFound) && strings.Contains(err.Error(), "lock file /"):
		return "not found, quotes the lock file"
	case errors.Is(err, vfs.ErrNotRegular), errors.Is(err, syscall.EISDIR):
		return "refused: not a regular file"
	case errors.Is(err, os.ErrPermission):
		return "refused: permission"
	case errors.Is(err, syscall.ELOOP):
		return "refused: a link"
	}
	t.Errorf("%s: %v", name, err)
	return err.Error()
}
