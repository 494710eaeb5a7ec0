package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"crabmem/bench/gate"

	"github.com/rogpeppe/go-internal/testscript"
)

// publish replaces the branch main of a bare repository, which it creates, by one commit with the
// files below dir. The commit depends only on the files.
func publish(dir, repo string) error {
	git := func(in []byte, args ...string) error {
		cmd := exec.Command("git", append([]string{"--git-dir=" + repo}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
		cmd.Stdin = bytes.NewReader(in)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %v: %w: %s", args, err, out)
		}
		return nil
	}
	b := []byte("reset refs/heads/main\ncommit refs/heads/main\ncommitter a <a@example.com> 0 +0000\ndata 0\n")
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		b = fmt.Appendf(b, "M 100644 inline %q\ndata %d\n%s\n", filepath.ToSlash(rel), len(text), text)
		return err
	})
	if err == nil {
		err = git(nil, "init", "-q", "--bare", "-b", "main")
	}
	if err == nil {
		err = git(b, "fast-import", "--quiet", "--force")
	}
	return err
}

// scriptPublish publishes the files of a directory in a bare repository.
func scriptPublish(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: publish DIR REPOSITORY")
	}
	ts.Check(publish(ts.MkAbs(args[0]), ts.MkAbs(args[1])))
}

// exampleHub publishes a hub with the skill deploy, version 1, adds it as ours, and publishes
// version 2.
func exampleHub(t *testing.T, dir string, shell func(string)) {
	t.Helper()
	gate.Needs(t, "git")
	for _, version := range []string{"1", "2"} {
		for name, text := range map[string]string{
			"skills/deploy.toml":     "name = \"deploy\"\ndescription = \"ships\"\nversion = \"" + version + "\"\nresource_type = \"skill\"\n",
			"skills/deploy/SKILL.md": "---\nname: deploy\ndescription: ships\n---\nBuild.\n",
		} {
			name = filepath.Join(dir, "hub", name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := publish(filepath.Join(dir, "hub"), filepath.Join(dir, "hub.git")); err != nil {
			t.Fatal(err)
		}
		if version == "1" {
			shell(`crabmem hub add-source ours "file://$PWD/hub.git"`)
		}
	}
}
