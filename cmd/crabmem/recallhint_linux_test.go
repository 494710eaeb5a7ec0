package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecallHint searches without a match: on a terminal, recall says once how to search by
// meaning. It does not in a pipe, with --json, or with an empty store.
func TestRecallHint(t *testing.T) {
	t.Parallel()
	file, env := program(t)
	home := t.TempDir()
	env = append(env, "CRABTALK_HOME="+home, "HOME="+home, "CRABMEM_DB="+filepath.Join(home, "memory.db"), "NO_COLOR=1")
	run := func(args ...string) {
		cmd := exec.Command(file, args...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "hint:") {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
	shown := func(args ...string) string {
		p := openTerminal(t, env, "/bin/sh", "-c", file+" "+strings.Join(args, " ")+"; echo the end")
		p.await("the end")
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.ever.String()
	}
	const install = "hint: to search by meaning, too, install a model, such as crabmem model add potion-base-8M"
	if out := shown("recall", "car"); strings.Contains(out, "hint:") {
		t.Errorf("of an empty store: %s", out)
	}
	run("remember", "travel", "by train")
	run("recall", "automobile")
	if out := shown("recall", "automobile"); strings.Count(out, install) != 1 {
		t.Errorf("without a model: %s", out)
	}
	for _, args := range [][]string{{"recall", "train"}, {"recall", "automobile", "--json"}, {"recall", "automobile", "--at", "now"}, {"recall", "automobile", "-q"}} {
		if out := shown(args...); strings.Contains(out, "hint:") {
			t.Errorf("%s: %s", args, out)
		}
	}
	run("model", "add", filepath.Join(top, "testdata", "static"))
	run("config", "set", "embedder.static", "static")
	if out := shown("recall", "automobile"); strings.Count(out, "hint: add --semantic to search by meaning, too") != 1 {
		t.Errorf("with a model: %s", out)
	}
}
