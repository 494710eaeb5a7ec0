package hub

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
)

// A remote is a repository that tests publish to.
type remote struct{ dir string }

func newRemote(t testing.TB) remote {
	t.Helper()
	r := remote{filepath.Join(t.TempDir(), "remote.git")}
	r.git(t, "", "init", "-q", "--bare", "-b", "main", r.dir)
	return r
}

func (r remote) git(t testing.TB, in string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r remote) source(name string) config.HubSource {
	return config.HubSource{Name: name, Repo: "file://" + r.dir}
}

// push replaces a branch by a commit without a parent: names and texts in turn. A name may have
// a mode before it.
func (r remote) push(t testing.TB, branch string, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "reset refs/heads/%s\ncommit refs/heads/%[1]s\ncommitter a <a@example.com> 0 +0000\ndata 0\n", branch)
	for i := 0; i < len(files); i += 2 {
		mode, name, ok := strings.Cut(files[i], " ")
		if !ok {
			mode, name = "100644", files[i]
		}
		if mode == "160000" {
			fmt.Fprintf(&b, "M %s %s %s\n", mode, strings.Repeat("1", 40), quote(name))
			continue
		}
		fmt.Fprintf(&b, "M %s inline %s\ndata %d\n%s\n", mode, quote(name), len(files[i+1]), files[i+1])
	}
	r.git(t, b.String(), "--git-dir="+r.dir, "fast-import", "--quiet", "--force")
	return r.git(t, "", "--git-dir="+r.dir, "rev-parse", "refs/heads/"+branch)
}

// quote quotes a path for fast-import.
func quote(name string) string {
	b := []byte{'"'}
	for _, c := range []byte(name) {
		b = fmt.Appendf(b, "\\%03o", c)
	}
	return string(append(b, '"'))
}

func manifest(typ, name, version, more string) string {
	return fmt.Sprintf("name = %q\ndescription = \"about %s\"\nversion = %q\nresource_type = %q\nauthor = \"Ann\"\ntags = [\"ops\"]\n%s", name, name, version, typ, more)
}

func skillText(name, body string) string {
	return "---\nname: " + name + "\ndescription: does it\nallowed-tools: read bash\n---\n" + body + "\n"
}

// temp returns a directory without links in its path.
func temp(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// tree returns the files below a directory: paths, and modes and texts.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		text, err := os.ReadFile(name)
		fi, _ := d.Info()
		all[filepath.ToSlash(rel)] = fi.Mode().String() + " " + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// newHub returns a hub with copies of the sources.
func newHub(t testing.TB, sources ...config.HubSource) *Hub {
	t.Helper()
	h := &Hub{FS: vfs.OS{}, Home: temp(t), Sources: sources}
	for _, s := range sources {
		if err := h.Update(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// fetch finds a resource, fetches it, and checks it.
func fetch(h *Hub, name string) (*Package, []string, error) {
	x, err := h.Index(context.Background())
	if err != nil {
		return nil, nil, err
	}
	r, err := x.Find(name)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %v", err, x.Warnings)
	}
	p, err := h.Fetch(context.Background(), r)
	if err != nil {
		return nil, nil, err
	}
	grants, err := p.Check()
	return p, grants, err
}

func TestInstall(t *testing.T) {
	gate.Needs(t, "git")
	files := newRemote(t)
	commit := files.push(t, "stable", "tools/agent.toml", "description = \"writes\"\ntools = [\"read\"]\n")
	files.push(t, "main", "other", "")
	flat := newRemote(t)
	sha := flat.push(t, "main", "reader.toml", "tools = []\n")
	flat.push(t, "main", "a", "", "b", "") // the ref is a commit that is on no branch
	r := newRemote(t)
	head := r.push(t, "main",
		"skills/deploy.toml", manifest(Skill, "deploy", "1", ""), "skills/deploy/SKILL.md", skillText("deploy", "Build."), "100755 skills/deploy/bin/run.sh", "true\n",
		"agents/writer.toml", manifest(Agent, "writer", "1", "[source]\ngithub = \"file://"+files.dir+"\"\npath = \"tools\"\nref = \"stable\"\n"),
		"agents/root.toml", manifest(Agent, "root", "1", "[source]\ngithub = \"file://"+flat.dir+"\"\nref = \""+sha+"\"\n"),
		"mcp/browser.toml", manifest(MCP, "browser", "7", ""), "mcp/browser/server.toml", "command = \"npx\"\nargs = [\"browser\"]\n",
		"workspaces/shop.toml", manifest(Workspace, "shop", "1", ""), "workspaces/shop/crabmem.toml", "[memory]\nproject = true\n",
		"workspaces/shop/agents/default.toml", "prompt = \"a\"\n", "workspaces/shop/cron/daily.toml", "schedule = \"0 9 * * *\"\nmessage = \"go\"\n")
	h := newHub(t, r.source("ours"))
	root := &Root{FS: vfs.OS{}, Dir: temp(t)}
	for name, want := range map[string]string{"deploy": "skill deploy: tools read, bash", "root": "agent root: no tools", "ours/writer": "agent writer: tools read", "browser": "server browser: runs npx browser",
		"shop": "agent default: all tools|cron daily: 0 9 * * *: go"} {
		p, grants, err := fetch(h, name)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(grants, "|"); got != want {
			t.Errorf("grants %s, want %s", got, want)
		}
		if err := root.Install(p, New); err != nil {
			t.Fatal(err)
		}
	}
	got := tree(t, root.Dir)
	for name, want := range map[string]string{
		".crabmem/managed/skills/deploy/SKILL.md":   "-rw-r--r-- " + skillText("deploy", "Build."),
		".crabmem/managed/skills/deploy/bin/run.sh": "-rwxr-xr-x true\n",
		".crabmem/managed/agents/writer.toml":       "-rw-r--r-- description = \"writes\"\ntools = [\"read\"]\n",
		".crabmem/managed/agents/root.toml":         "-rw-r--r-- tools = []\n",
		".crabmem/managed/mcp/browser.toml":         "-rw-r--r-- command = \"npx\"\nargs = [\"browser\"]\n",
		"shop/crabmem.toml":                         "-rw-r--r-- [memory]\nproject = true\n",
		"shop/agents/default.toml":                  "-rw-r--r-- prompt = \"a\"\n",
		"shop/cron/daily.toml":                      "-rw-r--r-- schedule = \"0 9 * * *\"\nmessage = \"go\"\n",
	} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
		delete(got, name)
	}
	delete(got, LockFile)
	delete(got, "shop/"+LockFile)
	if len(got) > 0 {
		t.Errorf("other files: %v", got)
	}
	list, err := root.Installed()
	if err != nil || len(list) != 4 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, e := range list {
		want := map[string]string{"deploy": "1 " + head, "writer": "1 " + commit, "browser": "7 " + head, "root": "1 " + sha}[e.Name]
		if e.Version+" "+e.Ref != want || e.Source != "ours" {
			t.Errorf("got %+v, want %s", e, want)
		}
	}
	if list, err := (&Root{FS: vfs.OS{}, Dir: filepath.Join(root.Dir, "shop")}).Installed(); err != nil || len(list) != 1 || list[0].Type != Workspace || len(list[0].Files) != 3 {
		t.Errorf("the lock of the workspace: %v, %v", list, err)
	}
	home := &Root{FS: vfs.OS{}, Dir: temp(t), IsHome: true}
	for name, want := range map[string]string{"deploy": "", "writer": "into a workspace", "browser": "into a workspace"} {
		p, _, err := fetch(h, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := home.Install(p, New); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s in the home: %v", name, err)
		}
	}
	if got := tree(t, home.Dir)[".crabmem/managed/skills/deploy/bin/run.sh"]; !strings.HasPrefix(got, "-rwx------ ") {
		t.Errorf("in the home: %s", got)
	}
}

func TestUpgradeAndRemove(t *testing.T) {
	gate.Needs(t, "git")
	r := newRemote(t)
	push := func(version string, more ...string) {
		r.push(t, "main", append([]string{"skills/deploy.toml", manifest(Skill, "deploy", version, ""), "skills/deploy/SKILL.md", skillText("deploy", version)}, more...)...)
	}
	push("1", "skills/deploy/a/old", "x")
	h := newHub(t, r.source("ours"))
	root := &Root{FS: vfs.OS{}, Dir: temp(t)}
	install := func(how How) error {
		t.Helper()
		if err := h.Update(context.Background(), h.Sources[0]); err != nil {
			t.Fatal(err)
		}
		p, _, err := fetch(h, "deploy")
		if err != nil {
			t.Fatal(err)
		}
		return root.Install(p, how)
	}
	want := func(err error, text string) {
		t.Helper()
		if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	dir := ".crabmem/managed/skills/deploy/"
	want(install(New), "")
	want(install(New), "it is installed from ours")
	push("2", "skills/deploy/b/new", "y")
	want(install(Upgrade), "")
	if got := tree(t, root.Dir); len(got) != 3 || !strings.Contains(got[dir+"SKILL.md"], "\n2\n") || got[dir+"b/new"] == "" {
		t.Errorf("after the upgrade: %v", got)
	}
	for _, c := range [][2]string{{"SKILL.md", skillText("deploy", "edited")}, {"note", "mine"}} {
		name, text := c[0], c[1]
		before := tree(t, root.Dir)[dir+name]
		if err := os.WriteFile(filepath.Join(root.Dir, dir+name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		want(install(Upgrade), "files differ from hub.lock: "+dir+"SKILL.md")
		if got := tree(t, root.Dir)[dir+name]; !strings.HasSuffix(got, text) || got == before {
			t.Errorf("the user's text is lost: %s", got)
		}
	}
	kept, err := root.Remove("deploy")
	if want := []string{dir + "SKILL.md", dir + "note"}; err != nil || !slices.Equal(kept, want) {
		t.Errorf("kept %v, %v; want %v", kept, err, want)
	}
	if got := tree(t, root.Dir); len(got) != 3 || got[dir+"note"] == "" {
		t.Errorf("after remove: %v", got)
	}
	want(install(New), "exists, and is not in hub.lock")
	want(install(Force), "")
	if kept, err := root.Remove("deploy"); err != nil || kept != nil {
		t.Errorf("kept %v, %v", kept, err)
	}
	if got := tree(t, root.Dir); len(got) != 1 {
		t.Errorf("after the last remove: %v", got)
	}
	if _, err := os.Lstat(filepath.Join(root.Dir, ".crabmem/managed/skills/deploy")); err == nil {
		t.Error("an empty directory stays")
	}
	_, err = root.Remove("deploy")
	want(err, "it is not installed")
}

func TestFindAndSearch(t *testing.T) {
	gate.Needs(t, "git")
	a, b := newRemote(t), newRemote(t)
	a.push(t, "main", "skills/deploy.toml", manifest(Skill, "deploy", "1", ""), "skills/ops.toml", manifest(Skill, "ops", "1", ""), "mcp/deploy.toml", manifest(MCP, "deploy", "1", ""),
		"skills/redeploy.toml", manifest(Skill, "redeploy", "1", ""), "skills/bad.toml", "name = \"bad\"\nsetup = \"install.sh\"\n", "100755 skills/x.toml", "", "skills/Bad.toml", "")
	b.push(t, "main", "skills/deploy.toml", manifest(Skill, "deploy", "2", ""))
	h := newHub(t, a.source("a"), b.source("b"))
	x, err := h.Index(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(x.Warnings, "|"); got != "a: skills/bad.toml:2: unknown key setup|a: skills/deploy.toml: another resource has this name" {
		t.Errorf("warnings %s", got)
	}
	names := func(list []Resource) (text string) {
		for _, r := range list {
			text += " " + r.Source + "/" + r.Name
		}
		return text
	}
	for query, want := range map[string]string{"deploy": " a/deploy b/deploy a/redeploy", "OPS": " a/ops a/deploy a/redeploy b/deploy", "about red": " a/redeploy", "ann": " a/deploy a/ops a/redeploy b/deploy", "zebra": ""} {
		if got := names(x.Search(query)); got != want {
			t.Errorf("%s: got%s, want%s", query, got, want)
		}
	}
	if _, err := x.Find("deploy"); err == nil || !strings.Contains(err.Error(), "more than one source has \"deploy\": a/deploy, b/deploy") {
		t.Error(err)
	}
	if r, err := x.Find("b/deploy"); err != nil || r.Version != "2" {
		t.Errorf("%v, %v", r, err)
	}
	h.Sources[1].Repo = "other/repo"
	if x, err := h.Index(context.Background()); err != nil || len(x.Resources) != 3 || len(x.Warnings) != 3 || !strings.Contains(x.Warnings[2], "run crabmem hub update") {
		t.Errorf("a source with another repository than its copy: %v, %v", x, err)
	}
	if err := h.Forget("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Index(context.Background()); err == nil || !strings.Contains(err.Error(), "no copy of a hub") {
		t.Error(err)
	}
}
