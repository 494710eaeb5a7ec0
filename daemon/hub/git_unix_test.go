//go:build unix

package hub

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
)

// fakeGit makes a shell script the only git of the test.
func fakeGit(t *testing.T, script string) {
	t.Helper()
	dir := temp(t)
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestGitCommand checks the arguments and the environment of git.
func TestGitCommand(t *testing.T) {
	for repo, want := range map[string]struct{ url, protocols string }{
		"a/b":             {"https://github.com/a/b.git", "https:ssh"},
		"file:///srv/hub": {"file:///srv/hub", "https:ssh:file"},
	} {
		out := filepath.Join(temp(t), "out")
		fakeGit(t, "{ for a; do echo \"arg $a\"; done; env; } >"+out+"\nexit 1\n")
		t.Setenv("GIT_SSL_NO_VERIFY", "1")
		t.Setenv("GIT_ALLOW_PROTOCOL", "ext")
		h := &Hub{FS: vfs.OS{}, Home: temp(t)}
		if err := h.Update(context.Background(), config.HubSource{Name: "s", Repo: repo}); err == nil {
			t.Error("a failure of git is no error")
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		var env, args []string
		for line := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n") {
			if arg, ok := strings.CutPrefix(line, "arg "); ok {
				args = append(args, arg)
			} else if strings.HasPrefix(line, "GIT_") {
				env = append(env, line)
			}
		}
		slices.Sort(env)
		if want := []string{"GIT_ALLOW_PROTOCOL=" + want.protocols, "GIT_CONFIG_NOSYSTEM=1", "GIT_LITERAL_PATHSPECS=1", "GIT_TERMINAL_PROMPT=0"}; !slices.Equal(env, want) {
			t.Errorf("%s: variables %q, want %q", repo, env, want)
		}
		i := slices.Index(args, "clone")
		if want := []string{"clone", "-q", "--bare", "--depth", "1", "--no-tags", "--template=", "--", want.url, filepath.Join(h.Home, "hub", ".new")}; i < 0 || !slices.Equal(args[i:], want) {
			t.Errorf("%s: arguments %q, want %q", repo, args, want)
		}
		if !slices.Contains(args, "transfer.fsckObjects=true") {
			t.Errorf("%s: arguments %q", repo, args)
		}
	}
	if _, err := repoURL("a/b/../c"); err == nil {
		t.Error("a repository of another form has a URL")
	}
}

// TestCancel cancels git while a child of git waits. Both end.
func TestCancel(t *testing.T) {
	dir := temp(t)
	started, ended := filepath.Join(dir, "started"), filepath.Join(dir, "ended")
	for _, name := range []string{started, ended} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The child has ended open for writing, so that its end closes it.
	fakeGit(t, "sh -c 'echo x >"+started+"; exec sleep 1000' 3>"+ended+" &\nwait\n")
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		failed <- (&Hub{FS: vfs.OS{}, Home: dir}).Update(ctx, config.HubSource{Name: "s", Repo: "a/b"})
	}()
	child, err := os.Open(ended) // waits for the child
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	if _, err := os.ReadFile(started); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n, err := child.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

func TestWithoutGit(t *testing.T) {
	t.Setenv("PATH", temp(t))
	err := (&Hub{FS: vfs.OS{}, Home: temp(t)}).Update(context.Background(), config.HubSource{Name: "s", Repo: "a/b"})
	if err == nil || !strings.Contains(err.Error(), "git: not found on the PATH") {
		t.Errorf("got %v", err)
	}
}

// TestInterruptedCopy fetches after the rest of another copy, and an empty repository.
func TestInterruptedCopy(t *testing.T) {
	gate.Needs(t, "git")
	r := newRemote(t)
	h := &Hub{FS: vfs.OS{}, Home: temp(t), Sources: []config.HubSource{r.source("s")}}
	if err := os.MkdirAll(filepath.Join(h.Home, "hub/.new/objects/pack"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := h.Update(context.Background(), h.Sources[0]); err == nil || !strings.Contains(err.Error(), "no commit") {
		t.Errorf("an empty repository: got %v", err)
	}
	r.push(t, "main", "skills/x.toml", manifest(Skill, "x", "1", ""))
	if err := h.Update(context.Background(), h.Sources[0]); err != nil {
		t.Fatal(err)
	}
	if x, err := h.Index(context.Background()); err != nil || len(x.Resources) != 1 {
		t.Errorf("%v, %v", x, err)
	}
	for _, path := range []string{"skills/x", "missing"} {
		r.push(t, "main", "skills/x.toml", manifest(Skill, "x", "1", "[source]\npath = \""+path+"\"\n"))
		if err := h.Update(context.Background(), h.Sources[0]); err != nil {
			t.Fatal(err)
		}
		if _, _, err := fetch(h, "x"); err == nil || !strings.Contains(err.Error(), "the path has no files") {
			t.Errorf("%s: got %v", path, err)
		}
	}
}
