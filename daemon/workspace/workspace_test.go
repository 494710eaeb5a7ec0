package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
)

// write writes the files of a txtar-like list: names and texts in turn.
func write(t *testing.T, root string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(root, files[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// temp returns a directory without links in its path.
func temp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var complete = []string{
	File, "[memory]\nproject = true\n[agents.inline]\nprompt = \"a\"\n[agents.both]\nprompt = \"table\"\n[[cron]]\nname = \"old\"\nschedule = \"0 0 9 * * *\"\nagent = \"both\"\nmessage = \"hello\"\n",
	"agents/both.toml", "name = \"both\"\nsystem_prompt = \"file\"\ntools = [\"remember\"]\n",
	"mcp/browser.toml", "command = \"npx\"\nargs = [\"server\"]\nenv = {MODE = \"x\"}\n",
	"cron/daily.toml", "schedule = \"0 9 * * *\"\nskill = \"post\"\n",
	"skills/post/SKILL.md", "---\nname: post\n---\nPost.\n",
}

// managedFiles are installed files: of each kind one that the workspace replaces, and another.
var managedFiles = []string{
	Managed + "/agents/inline.toml", "prompt = \"managed\"\n", Managed + "/agents/both.toml", "prompt = \"managed\"\n", Managed + "/agents/more.toml", "prompt = \"more\"\n",
	Managed + "/mcp/browser.toml", "command = \"managed\"\n", Managed + "/mcp/more.toml", "command = \"more\"\n",
	Managed + "/skills/post/SKILL.md", "---\nname: post\n---\nManaged.\n", Managed + "/skills/more/SKILL.md", "---\nname: more\n---\nMore.\n",
}

func TestFind(t *testing.T) {
	top := temp(t)
	home := filepath.Join(top, "home")
	write(t, top, File, "", "a/b/c/x", "", "a/"+OldFile, "", "home/"+File, "", "home/sub/x", "", "both/"+File, "", "both/"+OldFile, "")
	for dir, want := range map[string]string{".": File, "a/b/c": "a/" + OldFile, "home": File, "home/sub": File, "both": "both/" + File} {
		if got := Find(vfs.OS{}, filepath.Join(top, dir), home); got != filepath.Join(top, want) {
			t.Errorf("%s: got %s, want %s", dir, got, want)
		}
	}
	if got := Find(vfs.OS{}, temp(t), home); got != "" && !strings.HasPrefix(got, os.TempDir()) {
		t.Errorf("got %s, want no workspace", got)
	}
}

func TestLoad(t *testing.T) {
	root := temp(t)
	write(t, root, append(slices.Clone(complete), managedFiles...)...)
	w, err := Load(vfs.OS{}, filepath.Join(root, File))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range w.Agents {
		got = append(got, a.Name+"="+a.Prompt)
	}
	for _, m := range w.MCPs {
		got = append(got, m.Name+"="+m.Describe())
	}
	for _, c := range w.Crons {
		got = append(got, c.Name+"="+c.Schedule+"="+c.Message())
	}
	got = append(got, w.Skills...)
	want := "both=file|inline=a|more=more|browser=npx server MODE=x|more=more|daily=0 9 * * *=/post|old=0 0 9 * * *=hello|more|post"
	if text := strings.Join(got, "|"); text != want || !w.Memory {
		t.Errorf("memory %v, got %s\nwant %s", w.Memory, text, want)
	}
}

// TestRefusals loads workspaces with a fault each. The message names the file and the line.
func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"[provider.x]\napi_key = \"a\"":                         "crabmem.toml:1: provider: a workspace cannot set providers and keys",
		"\n[origins.\"tg:1\"]\ntrust = \"admin\"":               "crabmem.toml:2: origins: a workspace cannot set trust in identities",
		"[tcp]\nlisten = \"127.0.0.1:1\"":                       "crabmem.toml:1: tcp: a workspace cannot set a listener",
		"[mcps.a]\nurl = \"https://a.example\"\ntoken = \"x\"":  "crabmem.toml:3: mcps.a.token: a workspace cannot set a secret",
		"[mcps.a]\ncommand = \"x\"\nargs = [\"${KEY}\"]":        "crabmem.toml:3: mcps.a.args: a workspace cannot use secrets or variables",
		"[mcps.a]\ncommand = \"x\"\nenv = {A = \"secret:b\"}":   "crabmem.toml:3: mcps.a.env.A: a workspace cannot use secrets",
		"[memory]\nprojct = true":                               "crabmem.toml:2: unknown key 'projct' in memory; did you mean 'project'?",
		"[agents.a]\nmemory = \"team\"":                         "crabmem.toml:2: agents.a.memory: a workspace cannot set spaces",
		"[agents.a]\nedit_instructions = true":                  "crabmem.toml:2: agents.a.edit_instructions: a workspace cannot set access to Crab.md",
		"[agents.crab]\nprompt = \"x\"":                         "crabmem.toml:1: agent name 'crab' is reserved",
		"[cron.a]\nschedule = \"never\"\nmessage = \"x\"":       "crabmem.toml:1: cron 'a': ",
		"[cron.a]\nschedule = \"0 9 * * *\"\napprove = \"off\"": "crabmem.toml:3: unknown key 'approve'",
		"[[agents]]\nprompt = \"x\"":                            "crabmem.toml:1: agents: each [[agents]] must have its own name",
		"a = ":                                                  "crabmem.toml:1: ",
	} {
		root := temp(t)
		write(t, root, File, text)
		if _, err := Load(vfs.OS{}, filepath.Join(root, File)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v\nwant %s", text, err, want)
		}
	}
}

// TestDigest changes each file that takes effect: each change must change the digest, and a
// file that has no effect must not.
func TestDigest(t *testing.T) {
	root := temp(t)
	files := append(slices.Concat(complete, managedFiles), "mcp/own.toml", "command = \"./run.sh\"\n", "run.sh", "true\n", "skills/post/more/tool.py", "x\n")
	write(t, root, files...)
	last := digest(t, root)
	for i := 0; i < len(files); i += 2 {
		write(t, root, files[i], "\n"+files[i+1])
		next := digest(t, root)
		if next == last {
			t.Errorf("a change of %s keeps the digest", files[i])
		}
		last = next
	}
	write(t, root, "data/x", "", Managed+"/cron/x.toml", "x", "README.md", "changed", "agents/notes.txt", "x")
	if digest(t, root) != last {
		t.Error("a file without effect changes the digest")
	}
}

func digest(t *testing.T, root string) string {
	t.Helper()
	w, err := Load(vfs.OS{}, filepath.Join(root, File))
	if err != nil {
		t.Fatal(err)
	}
	return w.Digest
}

func TestTrust(t *testing.T) {
	root, home := temp(t), temp(t)
	write(t, root, complete...)
	state := func() State {
		t.Helper()
		w, err := Load(vfs.OS{}, filepath.Join(root, File))
		if err != nil {
			t.Fatal(err)
		}
		all, err := ReadTrusts(vfs.OS{}, home)
		if err != nil {
			t.Fatal(err)
		}
		return all.State(w)
	}
	set := func(trust *Trust, want bool) {
		t.Helper()
		if was, err := SetTrust(vfs.OS{}, home, root, trust, 0); err != nil || was != want {
			t.Errorf("got %v, %v; want %v", was, err, want)
		}
	}
	if got := state(); got != Untrusted {
		t.Errorf("got %s before trust", got)
	}
	set(&Trust{Digest: digest(t, root), Memory: true}, false)
	if got := state(); got != Trusted {
		t.Errorf("got %s after trust", got)
	}
	write(t, root, "cron/daily.toml", "schedule = \"* * * * *\"\nskill = \"post\"\n")
	if got := state(); got != Changed {
		t.Errorf("got %s after a change", got)
	}
	set(nil, true)
	set(nil, false)
	if got := state(); got != Untrusted {
		t.Errorf("got %s after untrust", got)
	}
	set(&Trust{}, false)
	if err := os.Chmod(filepath.Join(home, TrustFile), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTrusts(vfs.OS{}, home); err == nil {
		t.Error("a file that others can change gives trust")
	}
}

// TestManyFiles loads workspaces with too much in a directory.
func TestManyFiles(t *testing.T) {
	root := temp(t)
	write(t, root, File, "", "skills/a/0", "")
	for i := 1; i < 10_000; i++ {
		if err := os.Link(filepath.Join(root, "skills/a/0"), filepath.Join(root, "skills/a", strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(vfs.OS{}, filepath.Join(root, File)); err == nil || !strings.Contains(err.Error(), "10000 files, more than the limit of 1000") {
		t.Errorf("got %v", err)
	}
	root = temp(t)
	write(t, root, File, strings.Repeat("#", maxFile+1))
	if _, err := Load(vfs.OS{}, filepath.Join(root, File)); err == nil || !strings.Contains(err.Error(), "more than the limit of 65536") {
		t.Errorf("got %v", err)
	}
}
