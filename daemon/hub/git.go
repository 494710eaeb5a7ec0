package hub

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/tool"
)

const (
	gitTimeout = 2 * time.Minute // of a command
	maxList    = 4 << 20         // bytes of a listing
)

// A bare is a bare copy of a repository.
type bare struct{ dir, repo string }

// An entry is a file of a commit.
type entry struct {
	mode, id string
	size     int64
	path     string
}

// A limited keeps the first bytes, and refuses more.
type limited struct {
	bytes.Buffer
	max int
}

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > l.max {
		return 0, fmt.Errorf("more than %d bytes", l.max)
	}
	return l.Buffer.Write(b)
}

// repoURL returns the URL of a repository. It returns an error for any other text than
// [config.CheckHubRepo] permits.
func repoURL(repo string) (string, error) {
	if err := config.CheckHubRepo(repo); err != nil || strings.HasPrefix(repo, "file:") {
		return repo, err
	}
	return "https://github.com/" + repo + ".git", nil
}

// git runs git in a separate process group, and returns at most limit bytes of its output.
func (r bare) git(ctx context.Context, in string, limit int, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "transfer.fsckObjects=true", "-c", "core.hooksPath=" + os.DevNull,
		"-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "submodule.recurse=false"}, args...)...)
	protocols := "https:ssh"
	if strings.HasPrefix(r.repo, "file:") {
		protocols += ":file"
	}
	// A variable of another repository, such as GIT_DIR in a hook, must not have an effect.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_ALLOW_PROTOCOL="+protocols, "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_LITERAL_PATHSPECS=1", "LC_ALL=C")
	out, diag := &limited{max: limit}, &limited{max: 1 << 16}
	cmd.Stdout, cmd.Stderr = out, diag
	if in != "" {
		cmd.Stdin = strings.NewReader(in)
	}
	group := tool.NewGroup(cmd)
	err := cmd.Start()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, refusal(errtable.ExitFailure, errtable.Failed, "", "install git, then retry", "run git: not found on the PATH")
	}
	if err == nil {
		err = group.Wait()
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		text := fmt.Sprintf("git %s %s: %v: %s", args[0], r.repo, err, display.Short(display.OneLine(diag.String()), 400))
		return nil, &errtable.Error{Kind: errtable.Failed, Message: text, Fix: "check the repository, your access to it, and the network, then retry", Err: err}
	}
	return out.Bytes(), nil
}

// in runs git in the copy.
func (r bare) in(ctx context.Context, in string, limit int, args ...string) ([]byte, error) {
	return r.git(ctx, in, limit, append([]string{"--git-dir=" + r.dir}, args...)...)
}

// clone makes the copy, and returns the commit of ref, which is empty for the default branch.
func (r bare) clone(ctx context.Context, ref string) (commit string, err error) {
	url, err := repoURL(r.repo)
	if err != nil {
		return "", fmt.Errorf("repository %s: %w", r.repo, err)
	}
	if _, err := r.git(ctx, "", 0, "clone", "-q", "--bare", "--depth", "1", "--no-tags", "--template=", "--", url, r.dir); err != nil {
		return "", err
	}
	if ref == "" {
		return r.commit(ctx, "HEAD")
	}
	if _, err := r.in(ctx, "", 0, "fetch", "-q", "--depth", "1", "--no-tags", "--no-recurse-submodules", "origin", ref); err != nil {
		return "", err
	}
	return r.commit(ctx, "FETCH_HEAD")
}

// isCopy returns why the directory is no copy of the repository.
func (r bare) isCopy(ctx context.Context, fsys vfs.FS) error {
	url, err := repoURL(r.repo)
	if _, lerr := fsys.Lstat(r.dir); err == nil && lerr == nil {
		if out, _ := r.in(ctx, "", 1<<13, "config", "--get", "remote.origin.url"); string(out) == url+"\n" {
			return nil
		}
	}
	return cmp.Or(err, errors.New("no copy: run crabmem hub update"))
}

// commit returns the commit of a ref of the copy.
func (r bare) commit(ctx context.Context, ref string) (string, error) {
	out, err := r.in(ctx, "", 1<<10, "rev-parse", "--verify", "-q", ref+"^{commit}")
	if err != nil {
		return "", refusal(errtable.ExitFailure, errtable.Failed, "", "publish a commit, or correct source.ref", "repository %s: no commit of %s", r.repo, ref)
	}
	return strings.TrimSpace(string(out)), nil
}

// list lists the entries of a commit that paths name, with the option -r all files below them.
func (r bare) list(ctx context.Context, commit, option string, paths ...string) (list []entry, err error) {
	out, err := r.in(ctx, "", maxList, append([]string{"ls-tree", "-z", "-l", "--full-tree", option, commit, "--"}, paths...)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		head, path, ok := strings.Cut(line, "\t")
		f := strings.Fields(head)
		if line == "" {
			continue
		}
		if !ok || len(f) != 4 {
			return nil, fmt.Errorf("repository %s: git ls-tree printed %q", r.repo, display.Short(line, 80))
		}
		size, _ := strconv.ParseInt(f[3], 10, 64) // - if the entry is no file
		list = append(list, entry{mode: f[0], id: f[2], size: size, path: path})
	}
	return list, nil
}

// read returns the contents of entries.
func (r bare) read(ctx context.Context, list []entry) ([][]byte, error) {
	var ids strings.Builder
	limit := 0
	for _, e := range list {
		ids.WriteString(e.id + "\n")
		limit += int(e.size) + 200
	}
	out, err := r.in(ctx, ids.String(), limit, "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	texts := make([][]byte, len(list))
	for i, e := range list {
		head, rest, _ := bytes.Cut(out, []byte("\n"))
		if want := fmt.Sprintf("%s blob %d", e.id, e.size); string(head) != want || len(rest) <= int(e.size) {
			return nil, fmt.Errorf("repository %s: %s: git cat-file printed %q", r.repo, e.path, display.Short(string(head), 80))
		}
		texts[i], out = rest[:e.size:e.size], rest[e.size+1:]
	}
	return texts, nil
}
