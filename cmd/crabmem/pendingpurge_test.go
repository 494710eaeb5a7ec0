package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorPendingPurge leaves the file of a purge in a space. The doctor names the
// space, and the command that it names completes the purge.
func TestDoctorPendingPurge(t *testing.T) {
	p := newPlace(t, false)
	run := func(args ...string) string {
		t.Helper()
		stdout, stderr, _ := p.runs(args...)
		return stdout + stderr
	}
	run("remember", "main", "text")
	run("spaces", "create", "team")
	run("remember", "a", "text", "--space", "team")
	run("forget", "a", "--space", "team")
	dir := filepath.Join("spaces", "team")
	id, err := os.ReadFile(filepath.Join(p.home, dir, "memory.db-id"))
	if err != nil {
		t.Fatal(err)
	}
	const named = "space team: a purge is pending"
	if out := run("doctor"); strings.Contains(out, named) {
		t.Errorf("before the purge:\n%s", out)
	}
	p.write(filepath.Join(dir, "memory.db-purge"), string(id)+"1\n")
	if out := run("doctor"); !strings.Contains(out, named) || !strings.Contains(out, "crabmem checkpoint --space team") {
		t.Errorf("during the purge:\n%s", out)
	}
	run("checkpoint", "--space", "team")
	if out := run("doctor"); strings.Contains(out, named) {
		t.Errorf("after the purge:\n%s", out)
	}
}
