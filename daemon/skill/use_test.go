package skill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/tool"
)

func TestTiers(t *testing.T) {
	bundled := tree(t, "a/SKILL.md", text("a", "bundled", "x"), "b/SKILL.md", text("b", "bundled", "x"), "c/SKILL.md", text("c", "bundled", "x"))
	managed := tree(t, "a/SKILL.md", text("a", "managed", "x"), "b/SKILL.md", text("b", "managed", "x"))
	first := tree(t, "a/SKILL.md", text("a", "workspace", "x"))
	second := tree(t, "a/SKILL.md", text("a", "later", "x"))
	set := Load(vfs.OS{}, []Dir{{Path: bundled, Tier: Bundled}, {Path: managed, Tier: Managed}, {Path: first, Tier: Workspace}, {Path: second, Tier: Workspace}}, nil)
	var got []string
	for _, s := range set.Skills(all) {
		got = append(got, s.Name+":"+s.Description+":"+s.Tier.String())
	}
	if s := strings.Join(got, " "); s != "a:workspace:workspace b:managed:managed c:bundled:bundled" {
		t.Error(s)
	}
	sk, err := set.Get(all, "b")
	if err != nil || sk.Tier != Managed || sk.Dir != filepath.Join(managed, "b") || sk.File != filepath.Join(managed, "b", "SKILL.md") {
		t.Errorf("%+v, %v", sk, err)
	}
}

// TestAllowedTools checks that a skill bounds the run it was loaded into, and
// never widens one.
func TestAllowedTools(t *testing.T) {
	dir := tree(t,
		"free/SKILL.md", text("free", "F", "x"),
		"bound/SKILL.md", "---\nname: bound\ndescription: B\nallowed-tools: Read Bash(git:*) browser_*\n---\nx",
		"none/SKILL.md", "---\nname: none\ndescription: N\nallowed-tools: []\n---\nx",
		"every/SKILL.md", "---\nname: every\ndescription: E\nallowed-tools: '*'\n---\nx",
	)
	set, _ := load(t, dir)
	tools := []string{"bash", "browser_click", "edit", "mcp", "read", "recall", "skill"}
	allowed := func(s tool.Scope) string {
		var got []string
		for _, n := range tools {
			if s.Tools.Allows(n) {
				got = append(got, n)
			}
		}
		return strings.Join(got, " ")
	}
	scoped := only("free", "bound", "none", "every") // has no read, no edit, no mcp
	for _, c := range []struct {
		name  string
		scope tool.Scope
		want  string
	}{
		{"free", all, "bash browser_click edit mcp read recall skill"},
		{"bound", all, "bash browser_click read"},
		{"none", all, ""},
		{"every", all, "bash browser_click edit mcp read recall skill"},
		{"bound", scoped, "bash"},
		{"every", scoped, "bash recall skill"},
		{"none", scoped, ""},
	} {
		// By the tool.
		var heard *Skill
		_, err := set.Tool(func(call tool.Call, sk *Skill) { heard = sk }).Run(context.Background(), tool.Call{Name: "skill", Arguments: []byte(`{"name":"` + c.name + `"}`), Scope: c.scope})
		if err != nil || heard == nil {
			t.Fatalf("%s: %v, %v", c.name, heard, err)
		}
		if got := allowed(heard.Bound(c.scope)); got != c.want {
			t.Errorf("%s by the tool: %q, want %q", c.name, got, c.want)
		}
		// By /name.
		_, sk, err := set.Preprocess(c.scope, "/"+c.name)
		if err != nil || sk == nil {
			t.Fatalf("%s: %v, %v", c.name, sk, err)
		}
		if got := allowed(sk.Bound(c.scope)); got != c.want {
			t.Errorf("%s by its name: %q, want %q", c.name, got, c.want)
		}
	}
	// Two bound as both do.
	bound, _ := set.Get(all, "bound")
	none, _ := set.Get(all, "none")
	if got := allowed(none.Bound(bound.Bound(all))); got != "" {
		t.Errorf("both: %q", got)
	}
	// A list or an error loads no skill.
	for _, args := range []string{`{}`, `{"name":"nothing"}`, `{"name":"a/b"}`} {
		set.Tool(func(tool.Call, *Skill) { t.Errorf("%s loaded a skill", args) }).Run(context.Background(), tool.Call{Arguments: []byte(args), Scope: all})
	}
}

func TestTriggers(t *testing.T) {
	trig := func(name, triggers, more string) string {
		return "---\nname: " + name + "\ndescription: D\ntriggers: [" + triggers + "]\n" + more + "---\n" + name + " body"
	}
	low := tree(t,
		"bundled/SKILL.md", trig("bundled", "deploy", "metadata: {priority: 9}\n"),
	)
	high := tree(t,
		"a/SKILL.md", trig("a", "deploy, pull request", ""),
		"b/SKILL.md", trig("b", "deploy", "metadata:\n  priority: \"5\"\n"),
		"c/SKILL.md", trig("c", "C++, 部署, résumé", ""),
		"d/SKILL.md", text("d", "deploy", "no trigger"),
		"e/SKILL.md", trig("e", "'', ' '", ""),
	)
	set := Load(vfs.OS{}, []Dir{{Path: low, Tier: Bundled}, {Path: high, Tier: Workspace}}, nil)
	for message, want := range map[string]string{
		"please deploy it":            "b a bundled",
		"DEPLOY!":                     "b a bundled",
		"(deploy)":                    "b a bundled",
		"redeploy":                    "",
		"deployment":                  "",
		"deploy_it":                   "",
		"redeploy, then deploy":       "b a bundled",
		"a pull\n  request":           "a",
		"pull the request":            "",
		"use C++17":                   "c",
		"use c++ here":                "c",
		"请部署它":                        "c",
		"my RÉSUMÉ":                   "c",
		"":                            "",
		strings.Repeat("x ", 100_000): "",
	} {
		got := set.Triggered(all, message)
		if names(got) != want {
			t.Errorf("%.40q: %q, want %q", message, names(got), want)
		}
		for _, s := range got {
			if s.Body != s.Name+" body" {
				t.Errorf("%s has the body %q", s.Name, s.Body)
			}
		}
	}
	if got := names(set.Triggered(only("a"), "deploy")); got != "a" {
		t.Errorf("scoped: %q", got)
	}
	var many []string
	for i := range 10 {
		name := fmt.Sprintf("s%d", i)
		many = append(many, name+"/SKILL.md", trig(name, "go", ""))
	}
	set, _ = load(t, tree(t, many...))
	if got := names(set.Triggered(all, "go")); got != "s0 s1 s2" {
		t.Errorf("%q", got)
	}
}

// TestBlock checks that only the last tag ends a block, whatever is in it.
func TestBlock(t *testing.T) {
	for body, want := range map[string]string{
		"a </skill> b":                  "a &lt;/skill> b",
		"</SKILL>":                      "&lt;/SKILL>",
		"< / skill >":                   "&lt; / skill >",
		"<\n/\tskill\n>":                "&lt;\n/\tskill\n>",
		"</skill":                       "&lt;/skill",
		"<\u200b/skill>":                "&lt;\u200b/skill>",
		"</skills>":                     "&lt;/skills>",
		"</skill></skill>":              "&lt;/skill>&lt;/skill>",
		"<</skill>":                     "<&lt;/skill>",
		"</b> <skill> < /x <":           "</b> <skill> < /x <",
		"<skill name=\"b\">x</skill>\n": "<skill name=\"b\">x&lt;/skill>",
	} {
		dir := tree(t, "a/SKILL.md", text("a", "A", body))
		set, _ := load(t, dir)
		got, _, err := set.Preprocess(all, "/a")
		if got != "<skill name=\"a\">\n"+want+"\n</skill>" || err != nil {
			t.Errorf("%q: %q, %v", body, got, err)
		}
	}
}

// TestLong checks that a long body is cut with a word, and ends as it should.
func TestLong(t *testing.T) {
	for name, body := range map[string]string{"lines": strings.Repeat("a line of text\n", 40_000), "no lines": strings.Repeat("é", 300_000), "odd": "x" + strings.Repeat("é", 300_000), "wide": "xy" + strings.Repeat("😀", 100_000)} {
		dir := tree(t, "a/SKILL.md", text("a", "A", body))
		set, _ := load(t, dir)
		r := call(set, all, "a")
		end := "; the rest is in " + filepath.Join(dir, "a", "SKILL.md") + "]\n\nSkill directory: " + filepath.Join(dir, "a")
		if !strings.HasSuffix(r.Output, end) || len(r.Output) > tool.MaxOutput || len(r.Output) < tool.MaxOutput/2 || strings.Contains(r.Output, "\ufffd") {
			t.Errorf("%s: %d bytes: %q", name, len(r.Output), r.Output[max(len(r.Output)-200, 0):])
		}
		if got, _, _ := set.Preprocess(all, "/a"); !strings.HasSuffix(got, "]\n</skill>") || len(got) > tool.MaxOutput {
			t.Errorf("%s: a block of %d bytes", name, len(got))
		}
	}
}

func TestResources(t *testing.T) {
	dir := tree(t, "a/SKILL.md", text("a", "A </resources> here", "x"), "b/SKILL.md", "---\nname: b\ndescription: |\n  one\n  - c: two\n---\nx",
		"c/SKILL.md", text("c", strings.Repeat("long ", 1000), "x"))
	set, _ := load(t, dir)
	got := set.Resources(all)
	if !strings.HasSuffix(got, "\n- a: A &lt;/resources> here\n- b: one - c: two\n- c: "+strings.Repeat("long ", maxDescription/5)+"lon…") {
		t.Errorf("%q", got)
	}
	if strings.Count(got, "\n") != 3 || !strings.Contains(got, "Skills in <skill> tags are already loaded.") {
		t.Errorf("%q", got)
	}
	if got := set.Resources(tool.For(tool.Grant{Tools: []string{"bash"}})); got != "" {
		t.Errorf("without the tool: %q", got)
	}
	empty, _ := load(t, t.TempDir())
	if got := empty.Resources(all); got != "" {
		t.Errorf("without skills: %q", got)
	}
}

func TestCheck(t *testing.T) {
	dir := tree(t,
		"good/SKILL.md", text("good", "G", "x"),
		"other/SKILL.md", text("misplaced", "M", "x"),
		"Bad Name/SKILL.md", text("Bad Name", "B", "x"),
		"long/SKILL.md", "---\nname: long\ndescription: "+strings.Repeat("d", maxDescription+1)+"\ncompatibility: "+strings.Repeat("c", maxCompatibility+1)+"\n---\nx",
		"empty/SKILL.md", text("empty", "E", ""),
		"tools/SKILL.md", "---\nname: tools\ndescription: T\nallowed-tools: Bash(git:*)\nmetadata:\n  x: {y: z}\n---\nx",
		"nodesc/SKILL.md", "---\nname: nodesc\n---\nx",
		"twice/good/SKILL.md", text("good", "G", "x"),
		"nul/SKILL.md", text("nul", "N", "x\x00"),
	)
	list, problems, err := Check(vfs.OS{}, Dir{Path: dir, Tier: Managed})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(list); got != "Bad Name empty good long misplaced tools" {
		t.Errorf("%q", got)
	}
	if list[2].Body != "x" || list[2].Tier != Managed || list[2].Dir != filepath.Join(dir, "good") {
		t.Errorf("%+v", list[2])
	}
	var got strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&got, "%v %s\n", p.Warning, strings.ReplaceAll(strings.TrimPrefix(p.Error(), dir+"/"), dir, "DIR"))
	}
	for _, want := range []string{
		"false other/SKILL.md: the skill \"misplaced\" is in a directory with another name: \"other\"; use the same name for both\n",
		"false Bad Name/SKILL.md:2: the name \"Bad Name\" breaks the convention; ",
		"false long/SKILL.md:3: the description has 1025 characters, more than the limit of 1024; ",
		"false long/SKILL.md:4: compatibility has 501 characters, more than the limit of 500; ",
		"true empty/SKILL.md: no text after the front matter; ",
		"true tools/SKILL.md:4: Bash(git:*): the parentheses do not limit the tool; ",
		"true tools/SKILL.md:6: omitted metadata x: not text; ",
		"false nodesc/SKILL.md:1: no description; ",
		"false twice/good/SKILL.md: omitted: DIR/good/SKILL.md already defines a skill \"good\"; ",
		"false nul/SKILL.md:6: a NUL byte; ",
	} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("no %q in\n%s", want, got.String())
		}
	}
	if len(problems) != 10 {
		t.Errorf("%d problems:\n%s", len(problems), got.String())
	}
	// One skill, by its directory.
	list, problems, err = Check(vfs.OS{}, Dir{Path: filepath.Join(dir, "good")})
	if names(list) != "good" || len(problems) != 0 || err != nil {
		t.Errorf("%q, %v, %v", names(list), problems, err)
	}
	if _, _, err := Check(vfs.OS{}, Dir{Path: filepath.Join(dir, "missing")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestNew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home", "skills")
	file, err := New(vfs.OS{}, dir, "deploy", "Ships it: build, tag, \"push\" #now")
	if err != nil || file != filepath.Join(dir, "deploy", "SKILL.md") {
		t.Fatalf("%s, %v", file, err)
	}
	list, problems, err := Check(vfs.OS{}, Dir{Path: dir})
	if len(list) != 1 || list[0].Description != "Ships it: build, tag, \"push\" #now" || len(problems) != 0 || err != nil {
		t.Errorf("%+v, %v, %v", list, problems, err)
	}
	for name, mode := range map[string]fs.FileMode{dir: 0o700, filepath.Dir(file): 0o700, file: 0o600} {
		if fi, err := os.Stat(name); err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
	write(t, file, "mine")
	if _, err := New(vfs.OS{}, dir, "deploy", "D"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("again: %v", err)
	}
	if b, err := os.ReadFile(file); string(b) != "mine" || err != nil {
		t.Errorf("it was overwritten: %q, %v", b, err)
	}
	// A directory without a skill is taken, a file or a link is not.
	os.Remove(file)
	if _, err := New(vfs.OS{}, dir, "deploy", "D"); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(dir, "file"), "x")
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Skipf("SKIPPED: no symbolic links here: %v", err)
	}
	for _, name := range []string{"file", "out"} {
		if _, err := New(vfs.OS{}, dir, name, "D"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "..", "a/b", "A", "a--b", "-a", "a-", "a b", strings.Repeat("a", 65), "é"} {
		if _, err := New(vfs.OS{}, dir, name, "D"); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := New(vfs.OS{}, dir, "a", " \n"); err == nil || !strings.Contains(err.Error(), "no description") {
		t.Errorf("%v", err)
	}
	if l, err := os.ReadDir(outside); len(l) != 0 || err != nil {
		t.Errorf("outside: %v, %v", l, err)
	}
}

// TestNewRelative checks that New returns an absolute path for a relative
// directory.
func TestNewRelative(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	want := filepath.Join(dir, "skills", "deploy", "SKILL.md")
	if file, err := New(vfs.OS{}, "skills", "deploy", "D"); err != nil || file != want {
		t.Errorf("New: %s, %v, want %s", file, err, want)
	}
	if _, err := os.Stat(want); err != nil {
		t.Error(err)
	}
}

// TestMem runs on the file system in memory: the same code, with reported
// failures.
func TestMem(t *testing.T) {
	m := faultfs.NewMem()
	if _, err := New(m, "/skills", "a", "A"); err != nil {
		t.Fatal(err)
	}
	set := Load(m, []Dir{{Path: "/skills"}, {Path: "/missing"}}, func(err error) { t.Error(err) })
	if got, sk, err := set.Preprocess(all, "/a now"); sk == nil || err != nil || !strings.HasPrefix(got, "now\n\n<skill name=\"a\">\n# a\n") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestRenamed checks that a skill which changes its name after the scope was
// asked is not given to who asked for the old one.
func TestRenamed(t *testing.T) {
	dir := tree(t, "a/SKILL.md", text("a", "A", "x"))
	set, _ := load(t, dir)
	f, err := set.scan().find("a")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a/SKILL.md"), text("b", "B", "secret"))
	if sk, err := set.read(f); !errors.Is(err, ErrNotFound) {
		t.Errorf("%+v, %v", sk, err)
	}
}

// TestSlash splits messages that begin with a name.
func TestSlash(t *testing.T) {
	long := strings.Repeat("a", maxName)
	for message, want := range map[string][2]string{
		"/a": {"a", ""}, " \n/a  b c ": {"a", "b c"}, "/a-9\nb": {"a-9", "b"}, "/" + long: {long, ""}, "/" + long + " b": {long, "b"},
	} {
		if name, args, ok := slash(message); !ok || name != want[0] || args != want[1] {
			t.Errorf("%q: %q, %q, %v", message, name, args, ok)
		}
	}
	for _, message := range []string{"", "a", "/", "/ ", "/ a", "//a", "/A", "/a.", "/aB", "/é", "a /b", "/" + long + "a", "/" + long + "a b"} {
		if name, args, ok := slash(message); ok || name != "" || args != "" {
			t.Errorf("%q: %q, %q, %v", message, name, args, ok)
		}
	}
}
