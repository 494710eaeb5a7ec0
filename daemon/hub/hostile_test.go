package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
)

// TestHostileRepositories fetches skills with a fault each. Each is refused, and no file is
// written outside of the copy.
func TestHostileRepositories(t *testing.T) {
	gate.Needs(t, "git")
	deep := strings.Repeat("d/", 11) + "x"
	cases := map[string][]string{ // path and text of a file: error
		"/.git/config":          {"x", "belongs to git|hasDotgit"},
		"/.GIT/config":          {"x", "belongs to git|hasDotgit"},
		"/a/.Git":               {"x", "belongs to git|hasDotgit"},
		"/git~1":                {"x", "belongs to git|hasDotgit"},
		"/.g\u200cit/x":         {"x", "control character|hasDotgit"},
		"/.git /x":              {"x", "not all systems|hasDotgit"},
		"/.git./x":              {"x", "not all systems|hasDotgit"},
		"/.git::$INDEX/x":       {"x", "not all systems|hasDotgit"},
		"/a\\..\\b":             {"x", "not all systems"},
		"/-rf":                  {"x", "begins with -"},
		"/a\nb":                 {"x", "control character"},
		"/a\x1b[2J":             {"x", "control character"},
		"/a\u202eb":             {"x", "control character"},
		"/a\xffb":               {"x", "not UTF-8"},
		"/skill.md":             {"x", "cannot distinguish"},
		"/e\u0301":              {"x", "cannot distinguish"},
		"/ST\u00c4/x":           {"x", "cannot distinguish"},
		"/" + deep:              {"x", "more than 10 directories deep"},
		"/../outside":           {"x", "leads out|hasDotdot"},
		"/big":                  {strings.Repeat("x", maxFile+1), "more than the limit of 1048576"},
		"120000 /link":          {"/etc/passwd", "links are not installed"},
		"120000 /SKILL.md":      {"/etc/passwd", "links are not installed"},
		"160000 /module":        {"", "submodules are not installed"},
		"120000 ":               {"/etc", "links are not installed"},
		"160000 ":               {"", "submodules are not installed"},
		"/setup.sh and no text": {"", ""},
	}
	shared, n := newRemote(t), 0
	var files []string
	names := make(map[string]string) // of the cases in the shared repository, by resource
	for name, c := range cases {
		mode, at, ok := strings.Cut(name, " ")
		if !ok || strings.HasPrefix(mode, "/") {
			mode, at = "100644", name
		}
		n++
		id := fmt.Sprint("x", n)
		of := []string{"skills/" + id + ".toml", manifest(Skill, id, "1", "[source]\npath = \"skills/"+id+"\"\n")}
		if at != "" {
			of = append(of, "skills/"+id+"/SKILL.md", skillText(id, "x"), "skills/"+id+"/\u00e9", "", "skills/"+id+"/st\u00e4/x", "")
		}
		of = append(of, mode+" skills/"+id+at, c[0])
		if names[id] = name; !strings.Contains(c[1], "hasDot") {
			files = append(files, of...)
			continue
		}
		// The checks of git refuse some of them with the repository.
		r := newRemote(t)
		r.push(t, "main", of...)
		checkHostile(t, r, map[string]string{id: c[1]})
	}
	shared.push(t, "main", files...)
	want := make(map[string]string)
	for id, name := range names {
		if !strings.Contains(cases[name][1], "hasDot") {
			want[id] = cases[name][1]
		}
	}
	checkHostile(t, shared, want)
}

// checkHostile fetches resources, and compares the errors.
func checkHostile(t *testing.T, r remote, wants map[string]string) {
	t.Helper()
	h := &Hub{FS: vfs.OS{}, Home: temp(t), Sources: []config.HubSource{r.source("s")}}
	uerr := h.Update(context.Background(), h.Sources[0])
	for id, want := range wants {
		err := uerr
		if err == nil {
			_, _, err = fetch(h, id)
		}
		matches := err == nil && want == ""
		for _, want := range strings.Split(want, "|") {
			matches = matches || err != nil && want != "" && strings.Contains(err.Error(), want)
		}
		if !matches {
			t.Errorf("%s: got %v, want %s", id, err, want)
		}
	}
	for file := range tree(t, h.Home) {
		if !strings.HasPrefix(file, "hub/") {
			t.Errorf("wrote %s", file)
		}
	}
}

// TestChecks checks lists of files that git itself may refuse.
func TestChecks(t *testing.T) {
	many := make([]entry, maxFiles+1)
	for i := range many {
		many[i] = entry{mode: "100644", path: strconv.Itoa(i)}
	}
	for want, list := range map[string][]entry{
		"more than 200 files":   many,
		"has no files":          nil,
		"two files have this":   {{mode: "100644", path: "a"}, {mode: "100644", path: "a"}},
		"cannot distinguish":    {{mode: "100644", path: "A/x"}, {mode: "100644", path: "a/y"}},
		"more than 8388608":     {{mode: "100644", path: "a", size: maxFile}, {mode: "100644", path: "b", size: maxFile}, {mode: "100644", path: "c", size: maxFile}, {mode: "100644", path: "d", size: maxFile}, {mode: "100644", path: "e", size: maxFile}, {mode: "100644", path: "f", size: maxFile}, {mode: "100644", path: "g", size: maxFile}, {mode: "100644", path: "h", size: maxFile}, {mode: "100644", path: "i", size: 1}},
		"belongs to git":        {{mode: "100644", path: "a/.GiT"}},
		"leads out":             {{mode: "100644", path: "/etc/passwd"}},
		"not a regular file":    {{mode: "100664", path: "a"}},
		"a name has more than ": {{mode: "100644", path: strings.Repeat("a", 201)}},
	} {
		if err := checkEntries(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := checkEntries([]entry{{mode: "100644", path: "a/b/c.md", size: maxFile}, {mode: "100755", path: "a/b/d", size: 3}}); err != nil {
		t.Error(err)
	}
}

func TestHostileManifests(t *testing.T) {
	for text, want := range map[string]string{
		"setup = \"run.sh\"\n":                           "unknown key setup",
		"dependencies = [\"x\"]\n":                       "unknown key dependencies",
		"[source]\ngithub = \"--upload-pack=x/y\"\n":     "source.github",
		"[source]\ngithub = \"ext::sh -c x\"\n":          "source.github",
		"[source]\ngithub = \"file:///etc\"\n":           "source.github",
		"[source]\ngithub = \"https://x.example/a/b\"\n": "source.github",
		"[source]\ngithub = \"a/b.git\"\n":               "source.github",
		"[source]\ngithub = \"a/b\"\nref = \"--x\"\n":    "source.ref",
		"[source]\ngithub = \"a/b\"\nref = \"a:b\"\n":    "source.ref",
		"[source]\ngithub = \"a/b\"\nref = \"a..b\"\n":   "source.ref",
		"[source]\nref = \"main\"\n":                     "source.ref: it needs",
		"[source]\npath = \"../x\"\n":                    "source.path",
		"[source]\npath = \"/etc\"\n":                    "source.path",
		"[source]\npath = \":(top)x\"\n":                 "source.path",
		"[source]\npath = \"-x\"\n":                      "source.path",
	} {
		r := Resource{Source: "s", Repo: "a/b"}
		if err := r.parse("skills/x.toml", []byte(manifest(Skill, "x", "1", text))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		manifest(Skill, "y", "1", ""):                                        "name: want \"x\"",
		manifest(Agent, "x", "1", ""):                                        "resource_type",
		manifest("tool", "x", "1", ""):                                       "resource_type",
		manifest(Skill, "x", "", ""):                                         "version",
		manifest(Skill, "x", "1\x1b", ""):                                    "s: skills/x.toml",
		strings.Replace(manifest(Skill, "x", "1", ""), "Ann", `A\u202en`, 1): "author",
		"[": "s: skills/x.toml:1",
	} {
		r := Resource{Source: "s", Repo: "a/b"}
		if err := r.parse("skills/x.toml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestHostileContents checks packages whose files take effect other than their manifests say.
func TestHostileContents(t *testing.T) {
	for _, c := range []struct {
		typ, want string
		files     []File
	}{
		{Skill, "the file is missing", []File{{Path: "README.md"}}},
		{Skill, "it has the name \"other\"", []File{{Path: "SKILL.md", Data: []byte(skillText("other", "x"))}}},
		{Agent, "want one file", []File{{Path: "a.toml"}, {Path: "b.toml"}}},
		{Agent, "want one file", []File{{Path: "a.md"}}},
		{Agent, "a workspace cannot set", []File{{Path: "a.toml", Data: []byte("edit_instructions = true\n")}}},
		{MCP, "a workspace cannot", []File{{Path: "a.toml", Data: []byte("url = \"https://x.example\"\ntoken = \"secret:x\"\n")}}},
		{MCP, "a workspace cannot", []File{{Path: "a.toml", Data: []byte("command = \"x\"\nargs = [\"${KEY}\"]\n")}}},
		{Workspace, "no crabmem.toml", []File{{Path: "agents/a.toml"}}},
		{Workspace, "crabmem writes", []File{{Path: "crabmem.toml"}, {Path: "HUB.lock"}}},
		{Workspace, "crabmem writes", []File{{Path: "crabmem.toml"}, {Path: ".crabmem/managed/skills/x/SKILL.md"}}},
		{Workspace, "a workspace cannot set providers", []File{{Path: "crabmem.toml", Data: []byte("[provider.x]\n")}}},
		{Workspace, "SKILL.md", []File{{Path: "crabmem.toml"}, {Path: "skills/a/SKILL.md", Data: []byte("x")}}},
	} {
		p := &Package{Resource: Resource{Manifest: Manifest{Name: "x", Type: c.typ}}, Files: c.files}
		if _, err := p.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: got %v, want %s", c.typ, c.files, err, c.want)
		}
	}
}

// TestNothingRuns publishes everything that makes git run programs, in the repository and in its
// hooks, and inherits variables of another repository.
func TestNothingRuns(t *testing.T) {
	gate.Needs(t, "git")
	r, trap := newRemote(t), filepath.Join(temp(t), "ran")
	program := "touch " + trap + "\n"
	r.push(t, "main", "skills/deploy.toml", manifest(Skill, "deploy", "1", ""), "skills/deploy/SKILL.md", skillText("deploy", "x"),
		"skills/deploy/.gitattributes", "* filter=x diff=x merge=x\n", ".gitattributes", "* filter=x\n", ".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = https://x.example/x\n",
		"100755 skills/deploy/setup.sh", program, "100755 skills/deploy/hooks/post-checkout", program)
	for _, hook := range []string{"post-checkout", "post-merge", "post-update", "pre-push", "reference-transaction", "fsmonitor-watchman", "post-index-change"} {
		if err := os.WriteFile(filepath.Join(r.dir, "hooks", hook), []byte("#!/bin/sh\n"+program), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"filter.x.smudge", "core.fsmonitor", "core.sshCommand", "uploadpack.packObjectsHook", "core.editor"} {
		r.git(t, "", "--git-dir="+r.dir, "config", key, program)
	}
	t.Setenv("GIT_CONFIG_COUNT", "1") // as git sets for the hooks of git -c KEY=VALUE
	t.Setenv("GIT_CONFIG_KEY_0", "url.file:///missing.insteadOf")
	t.Setenv("GIT_CONFIG_VALUE_0", "file:///")
	t.Setenv("GIT_EXTERNAL_DIFF", program)
	h := newHub(t, r.source("s"))
	p, _, err := fetch(h, "deploy")
	root := &Root{FS: vfs.OS{}, Dir: temp(t)}
	if err == nil {
		err = root.Install(p, New)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(trap); err == nil {
		t.Error("a program of the repository ran")
	}
	if got := tree(t, root.Dir); len(got) != 5 {
		t.Errorf("files %v", got)
	}
	if _, err := os.Lstat(filepath.Join(h.Home, "hub", "s", "hooks")); err == nil {
		t.Error("the copy has hooks")
	}
}

// TestHostileLocks reads locks that list files of others. No file is removed.
func TestHostileLocks(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	for file, want := range map[string]string{
		sum + "  ../../victim":                                 "not in .crabmem/managed/skills/x",
		sum + "  .crabmem/managed/skills/x/../../../../victim": "leads out",
		sum + "  /etc/passwd":                                  "not in .crabmem",
		sum + "  .crabmem/managed/skills/other/SKILL.md":       "not in .crabmem",
		sum + "  .crabmem/managed/skills/x":                    "not in .crabmem",
		sum + "  .crabmem/managed/skills/x/.git/config":        "belongs to git",
		sum + " .crabmem/managed/skills/x/y":                   "want a SHA-256",
		"abcd  .crabmem/managed/skills/x/y":                    "want a SHA-256",
	} {
		dir := temp(t)
		text := fmt.Sprintf("[[resources]]\nname = \"x\"\nversion = \"1\"\nsource_name = \"s\"\nsource_repo = \"a/b\"\nresolved_ref = \"1\"\nresource_type = \"skill\"\ninstalled_files = [%q]\n", file)
		if err := os.WriteFile(filepath.Join(dir, LockFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (&Root{FS: vfs.OS{}, Dir: dir}).Remove("x"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Join(dir, LockFile)) {
			t.Errorf("%s: got %v, want %s", file, err, want)
		}
	}
	for text, want := range map[string]string{
		"[[resources]]\nname = \"../x\"\nresource_type = \"skill\"\n": "lowercase letters",
		"[[resources]]\nname = \"x\"\nresource_type = \"tool\"\n":     "want skill, agent",
		"[[resources]]\nname = \"x\"\nrun = \"y\"\n":                  ":3: unknown key",
		"[": LockFile + ":1",
		"[[resources]]\nname = \"x\"\nresource_type = \"mcp\"\n[[resources]]\nname = \"x\"\nresource_type = \"skill\"\n": "listed twice",
	} {
		dir := temp(t)
		if err := os.WriteFile(filepath.Join(dir, LockFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (&Root{FS: vfs.OS{}, Dir: dir}).Installed(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestLinksInTheRoot puts a link in the place of each directory and file. It leads out of the
// root, or to another directory in it. The files there do not change.
func TestLinksInTheRoot(t *testing.T) {
	p := testPackage(Skill, "x", "1")
	for _, name := range []string{".crabmem", ".crabmem/managed", ".crabmem/managed/skills", ".crabmem/managed/skills/x", ".crabmem/staging", LockFile} {
		for _, how := range []How{New, Upgrade, Force} {
			for _, inside := range []bool{false, true} {
				dir, victim := temp(t), temp(t)
				if inside {
					victim = filepath.Join(dir, "own")
				}
				files := []string{"x/SKILL.md", "skills/x/SKILL.md", "managed/skills/x/SKILL.md", "new/skills/x/SKILL.md", "old/skills/x/SKILL.md", LockFile}
				for _, file := range append(files, "../"+name) {
					if err := os.MkdirAll(filepath.Dir(filepath.Join(victim, file)), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				for _, file := range files {
					if err := os.WriteFile(filepath.Join(victim, file), []byte("victim"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				at := filepath.Join(dir, name)
				rel, _ := filepath.Rel(filepath.Dir(at), victim)
				if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.Symlink(rel, at)); err != nil {
					t.Skip("SKIPPED: no symbolic links here: ", err)
				}
				before := tree(t, victim)
				err := (&Root{FS: vfs.OS{}, Dir: dir}).Install(p, how)
				_, rerr := (&Root{FS: vfs.OS{}, Dir: dir}).Remove("x")
				if got := tree(t, victim); !maps.Equal(got, before) {
					t.Errorf("%s, %v, inside: %v: the files changed: %v, %v, %v", name, how, inside, got, err, rerr)
				}
				if isUnit := strings.HasSuffix(name, "/x"); err == nil && !(isUnit && how == Force) {
					t.Errorf("%s, %v, inside: %v: no error", name, how, inside)
				}
			}
		}
	}
}
