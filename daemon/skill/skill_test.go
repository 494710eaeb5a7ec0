package skill

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/daemon/tool"
)

// text is a SKILL.md.
func text(name, description, body string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\n\n" + body + "\n"
}

// tree writes files, each a name and its contents, into a new directory.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		write(t, filepath.Join(dir, files[i]), files[i+1])
	}
	return dir
}

func write(t *testing.T, name, contents string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(contents), 0o600); err != nil {
		t.Fatal(err)
	}
}

// load loads directories of one tier, and collects the warnings.
func load(t *testing.T, dirs ...string) (*Set, *[]string) {
	t.Helper()
	var list []Dir
	for _, d := range dirs {
		list = append(list, Dir{Path: d, Tier: Workspace})
	}
	var warnings []string
	return Load(vfs.OS{}, list, func(err error) { warnings = append(warnings, err.Error()) }), &warnings
}

func names(list []Skill) string {
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

var all = tool.Unbounded()

// only is the scope of an agent with a list of skills.
func only(names ...string) tool.Scope { return tool.For(tool.Grant{Skills: names}) }

// call calls the skill tool as agents do.
func call(s *Set, scope tool.Scope, name string) tool.Result {
	var set tool.Set
	set.Add(s.Tool(nil))
	args, _ := json.Marshal(map[string]string{"name": name})
	return set.Call(context.Background(), tool.Call{Name: tool.Skill, Arguments: args, Scope: scope, Agent: "crab", Session: 7})
}

func wantCall(t *testing.T, s *Set, scope tool.Scope, name, want string) {
	t.Helper()
	if got := call(s, scope, name).Output; got != want {
		t.Errorf("skill %q: %q, want %q", name, got, want)
	}
}

// TestRFC0036 has a test for every sentence of the Design section, in order.
func TestRFC0036(t *testing.T) {
	feeds := text("check-feeds", "Reads the feeds", "Read them all.")
	sum := text("summarize", "Makes it short", "Be brief.")

	t.Run("SKILL.md follows the agentskills.io convention", func(t *testing.T) {
		s, err := Parse("SKILL.md", []byte("---\nname: pdf\ndescription: Reads PDF files. Use when there is one.\nlicense: Apache-2.0\n"+
			"compatibility: needs pdftotext\nmetadata:\n  author: us\n  version: \"1.0\"\nallowed-tools: Bash(pdftotext:*) Read\n---\n# PDF\n"))
		if err != nil {
			t.Fatal(err)
		}
		if s.Name != "pdf" || s.Description != "Reads PDF files. Use when there is one." || s.License != "Apache-2.0" || s.Compatibility != "needs pdftotext" ||
			s.Metadata["author"] != "us" || s.Metadata["version"] != "1.0" || strings.Join(s.AllowedTools, "|") != "Bash(pdftotext:*)|Read" || s.Body != "# PDF" {
			t.Errorf("%+v", s)
		}
	})
	t.Run("Required fields: name, description", func(t *testing.T) {
		for _, missing := range []string{"---\nname: a\n---\nx", "---\ndescription: a\n---\nx", "---\nname: a\ndescription: \n---\nx", "---\nname: ''\ndescription: a\n---\nx"} {
			if _, err := Parse("SKILL.md", []byte(missing)); err == nil {
				t.Errorf("%q is a skill", missing)
			}
		}
		set, warnings := load(t, tree(t, "a/SKILL.md", "---\nname: a\n---\nx", "b/SKILL.md", text("b", "B", "x")))
		if got := names(set.Skills(all)); got != "b" || len(*warnings) != 1 || !strings.Contains((*warnings)[0], "no description") {
			t.Errorf("%q, %q", got, *warnings)
		}
	})
	t.Run("Optional: allowed-tools", func(t *testing.T) {
		s, err := Parse("SKILL.md", []byte(feeds))
		if err != nil || s.AllowedTools != nil || !s.Tools().All() {
			t.Errorf("%v, %v", s.AllowedTools, err)
		}
	})
	t.Run("The markdown body is the skill prompt", func(t *testing.T) {
		dir := tree(t, "a/SKILL.md", text("a", "A", "# Do\n\n- this\n\n---\n\n- that"))
		set, _ := load(t, dir)
		wantCall(t, set, all, "a", "# Do\n\n- this\n\n---\n\n- that\n\nSkill directory: "+filepath.Join(dir, "a"))
	})

	t.Run("load scans a list of directories in config-defined order recursively for SKILL.md files", func(t *testing.T) {
		one := tree(t, "z/SKILL.md", text("z", "Z", "x"), "deep/er/y/SKILL.md", text("y", "Y", "x"))
		two := tree(t, "a/SKILL.md", text("a", "A", "x"), "b/README.md", "no skill", "c/skill.txt", "none")
		set, warnings := load(t, one, two, filepath.Join(two, "missing"))
		if got := names(set.Skills(all)); got != "y z a" || len(*warnings) != 0 {
			t.Errorf("%q, %q", got, *warnings)
		}
	})
	t.Run("Each skill lives in its own directory", func(t *testing.T) {
		set, warnings := load(t, tree(t, "SKILL.md", feeds, "a/SKILL.md", sum, "a/SKILL.md.bak", feeds, "a/sub/SKILL.md", feeds))
		if got := names(set.Skills(all)); got != "summarize" || len(*warnings) != 1 || !strings.Contains((*warnings)[0], "needs its own directory") {
			t.Errorf("%q, %q", got, *warnings)
		}
	})
	t.Run("Nested organization is supported", func(t *testing.T) {
		dir := tree(t, "category/my-skill/SKILL.md", text("my-skill", "Mine", "Mine."))
		set, _ := load(t, dir)
		wantCall(t, set, all, "my-skill", "Mine.\n\nSkill directory: "+filepath.Join(dir, "category", "my-skill"))
		wantCall(t, set, all, "category/my-skill", "invalid skill name: category/my-skill")
	})
	t.Run("Hidden directories are skipped", func(t *testing.T) {
		set, warnings := load(t, tree(t, ".a/SKILL.md", feeds, "b/.c/SKILL.md", sum, "check-feeds/.git/SKILL.md", feeds))
		if got := names(set.Skills(all)); got != "" || len(*warnings) != 0 {
			t.Errorf("%q, %q", got, *warnings)
		}
		wantCall(t, set, all, ".a", "no skills found")
		wantCall(t, set, all, "check-feeds", "no skills found")
		hidden, _ := load(t, tree(t, ".claude/skills/check-feeds/SKILL.md", feeds)+"/.claude/skills")
		if got := names(hidden.Skills(all)); got != "check-feeds" {
			t.Errorf("a hidden directory that was named has %q", got)
		}
	})
	t.Run("Duplicate names across directories are detected and skipped with a warning, first-loaded wins in config-defined directory order", func(t *testing.T) {
		one := tree(t, "x/a/SKILL.md", text("a", "first", "first"))
		two := tree(t, "a/SKILL.md", text("a", "second", "second"), "b/SKILL.md", text("b", "B", "x"))
		set, warnings := load(t, one, two)
		if got := names(set.Skills(all)); got != "a b" || len(*warnings) != 1 || !strings.Contains((*warnings)[0], filepath.Join(two, "a", "SKILL.md")) {
			t.Errorf("%q, %q", got, *warnings)
		}
		set.Skills(all) // no second warning
		if len(*warnings) != 1 {
			t.Errorf("warned again: %q", *warnings)
		}
		if sk, err := set.Get(all, "a"); err != nil || sk.Body != "first" {
			t.Errorf("%+v, %v", sk, err)
		}
		other, _ := load(t, two, one)
		if sk, err := other.Get(all, "a"); err != nil || sk.Body != "second" {
			t.Errorf("%+v, %v", sk, err)
		}
	})

	t.Run("The registry is behind a mutex", func(t *testing.T) {
		dir := tree(t, "a/SKILL.md", text("a", "A", "x"), "b/SKILL.md", "broken")
		set, _ := load(t, dir)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					if r := call(set, all, "a"); r.Failed {
						t.Error(r.Output)
					}
					set.Preprocess(all, "/a x")
					set.Skills(all)
				}
			})
		}
		wg.Wait()
	})
	t.Run("Linear scan: the registry is small", func(t *testing.T) {
		files := []string{}
		for i := range 200 {
			name := "s" + strings.Repeat("x", i%5) + string(rune('a'+i%26)) + string(rune('a'+i/26))
			files = append(files, name+"/SKILL.md", text(name, "number", "x"))
		}
		set, _ := load(t, tree(t, files...))
		if n := len(set.Skills(all)); n != 200 {
			t.Errorf("%d skills", n)
		}
	})
	t.Run("Supports add, upsert, contains and skills", func(t *testing.T) {
		dir := tree(t, "a/SKILL.md", text("a", "A", "x"))
		set, _ := load(t, dir)
		write(t, filepath.Join(dir, "b/SKILL.md"), text("b", "B", "x"))
		if got := names(set.Skills(all)); got != "a b" {
			t.Errorf("added: %q", got)
		}
		write(t, filepath.Join(dir, "a/SKILL.md"), text("a", "Another", "x"))
		if l := set.Skills(all); names(l) != "a b" || l[0].Description != "Another" {
			t.Errorf("upserted: %+v", l)
		}
		if _, err := set.Get(all, "b"); err != nil {
			t.Errorf("contains: %v", err)
		}
	})

	dir := tree(t, "check-feeds/SKILL.md", feeds, "text/summarize/SKILL.md", sum, "secret/SKILL.md", text("secret", "Feeds nobody", "Hush."))
	set, _ := load(t, dir)
	t.Run("Exposed as a tool the agent can call", func(t *testing.T) {
		var tools tool.Set
		tools.Add(set.Tool(nil))
		if l := tools.Schemas(all, nil); len(l) != 1 || l[0].Name != "skill" || l[0].Description == "" {
			t.Errorf("%+v", l)
		}
	})
	t.Run("Input: name, a string", func(t *testing.T) {
		var schema struct {
			Type       string
			Properties map[string]struct{ Type string }
		}
		if err := json.Unmarshal(set.Tool(nil).Parameters, &schema); err != nil {
			t.Fatal(err)
		}
		if schema.Type != "object" || len(schema.Properties) != 1 || schema.Properties["name"].Type != "string" {
			t.Errorf("%+v", schema)
		}
	})
	t.Run("1. Scope check: if the agent has a skill scope and the name is not in it, reject", func(t *testing.T) {
		for _, name := range []string{"secret", "feeds", "../x", "nothing"} {
			r := call(set, only("check-feeds"), name)
			if r.Output != "skill not available: "+name || r.Refused == nil || r.Refused.Kind != "skill" || r.Refused.Agent != "crab" || r.Refused.Session != 7 {
				t.Errorf("%s: %+v", name, r)
			}
		}
	})
	t.Run("2. Path traversal guard: reject names containing .. or / or \\", func(t *testing.T) {
		for _, name := range []string{"..", "a..b", "a/b", "/", `a\b`, `\`, "/etc/passwd", "../check-feeds", "./check-feeds", "check-feeds/"} {
			wantCall(t, set, all, name, "invalid skill name: "+name)
		}
	})
	t.Run("3. Exact load from disk", func(t *testing.T) {
		wantCall(t, set, all, "check-feeds", "Read them all.\n\nSkill directory: "+filepath.Join(dir, "check-feeds"))
		wantCall(t, set, all, "summarize", "Be brief.\n\nSkill directory: "+filepath.Join(dir, "text", "summarize"))
		// {dir}/{name}/SKILL.md, whatever name is in it.
		other := tree(t, "feeds/SKILL.md", text("Feed Reader", "F", "Fed."))
		otherSet, _ := load(t, other)
		for _, name := range []string{"feeds", "Feed Reader"} {
			wantCall(t, otherSet, all, name, "Fed.\n\nSkill directory: "+filepath.Join(other, "feeds"))
		}
		// The name of a directory permits no more than the skill's name.
		wantCall(t, otherSet, only("feeds"), "feeds", "skill not available: Feed Reader")
		wantCall(t, otherSet, only("feeds", "Feed Reader"), "feeds", "Fed.\n\nSkill directory: "+filepath.Join(other, "feeds"))
		broken, _ := load(t, tree(t, "a/SKILL.md", "nothing"))
		if got := call(broken, all, "a").Output; !strings.HasPrefix(got, "failed to parse skill: ") || !strings.Contains(got, "SKILL.md:1: no front matter; ") {
			t.Errorf("%q", got)
		}
	})
	t.Run("4. Fuzzy fallback: if no exact match, substring search by name and description; if input is empty, list all", func(t *testing.T) {
		wantCall(t, set, all, "feed", "check-feeds: Reads the feeds\nsecret: Feeds nobody")
		wantCall(t, set, all, "SHORT", "summarize: Makes it short")
		wantCall(t, set, all, "nothing", "no skills found")
		wantCall(t, set, all, "", "check-feeds: Reads the feeds\nsecret: Feeds nobody\nsummarize: Makes it short")
		wantCall(t, set, only("check-feeds"), "", "check-feeds: Reads the feeds")
		wantCall(t, set, only("nothing"), "", "no skills found")
		var tools tool.Set
		tools.Add(set.Tool(nil))
		if r := tools.Call(context.Background(), tool.Call{Name: "skill", Scope: all}); !strings.HasPrefix(r.Output, "check-feeds: ") {
			t.Errorf("without arguments: %q", r.Output)
		}
	})

	t.Run("The load is the hot-reload mechanism", func(t *testing.T) {
		dir := tree(t, "a/SKILL.md", text("a", "A", "one"))
		set, _ := load(t, dir)
		write(t, filepath.Join(dir, "a/SKILL.md"), text("a", "A2", "two"))
		wantCall(t, set, all, "a", "two\n\nSkill directory: "+filepath.Join(dir, "a"))
		wantCall(t, set, all, "", "a: A2")
	})
	t.Run("It is always loaded fresh from disk", func(t *testing.T) {
		dir := tree(t, "a/SKILL.md", text("a", "A", "one"))
		set, _ := load(t, dir)
		fi, err := os.Stat(filepath.Join(dir, "a/SKILL.md"))
		if err != nil {
			t.Fatal(err)
		}
		// As long, and as old.
		write(t, filepath.Join(dir, "a/SKILL.md"), text("a", "A", "two"))
		if err := os.Chtimes(filepath.Join(dir, "a/SKILL.md"), fi.ModTime(), fi.ModTime()); err != nil {
			t.Fatal(err)
		}
		if sk, err := set.Get(all, "a"); err != nil || sk.Body != "two" {
			t.Errorf("%+v, %v", sk, err)
		}
	})
	t.Run("Skills can be updated on disk and picked up on next invocation without daemon restart", func(t *testing.T) {
		dir := tree(t)
		set, _ := load(t, filepath.Join(dir, "later"))
		wantCall(t, set, all, "", "no skills found")
		write(t, filepath.Join(dir, "later/x/new/SKILL.md"), text("new", "N", "N."))
		wantCall(t, set, all, "new", "N.\n\nSkill directory: "+filepath.Join(dir, "later/x/new"))
		write(t, filepath.Join(dir, "later/x/new/SKILL.md"), text("newer", "N", "N."))
		wantCall(t, set, all, "newer", "N.\n\nSkill directory: "+filepath.Join(dir, "later/x/new"))
		if err := os.RemoveAll(filepath.Join(dir, "later/x/new")); err != nil {
			t.Fatal(err)
		}
		wantCall(t, set, all, "newer", "no skills found")
		if got, sk, err := set.Preprocess(all, "/newer x"); got != "/newer x" || sk != nil || err != nil {
			t.Errorf("%q, %v, %v", got, sk, err)
		}
	})

	t.Run("Before a message reaches the agent, preprocess resolves leading /skill-name commands", func(t *testing.T) {
		for content, want := range map[string]string{
			"/summarize":             "<skill name=\"summarize\">\nBe brief.\n</skill>",
			" \n/summarize":          "<skill name=\"summarize\">\nBe brief.\n</skill>",
			"/summarize  the\nbook ": "the\nbook\n\n<skill name=\"summarize\">\nBe brief.\n</skill>",
			"/summarize\nit":         "it\n\n<skill name=\"summarize\">\nBe brief.\n</skill>",
			"please /summarize":      "please /summarize",
			"/summarize/it":          "/summarize/it",
			"/summarize, please":     "/summarize, please",
			"/summarizes":            "/summarizes",
			"/Summarize":             "/Summarize",
			"//summarize":            "//summarize",
			"/ summarize":            "/ summarize",
			"/":                      "/",
			"":                       "",
			"/../secret":             "/../secret",
		} {
			got, sk, err := set.Preprocess(all, content)
			if got != want || err != nil || (sk != nil) != (got != content) {
				t.Errorf("%q became %q, %v, %v", content, got, sk, err)
			}
		}
	})
	t.Run("For each skill directory, it checks dir/name/SKILL.md", func(t *testing.T) {
		two, _ := load(t, tree(t, "a/SKILL.md", text("a", "A", "x")), dir)
		if got, _, err := two.Preprocess(all, "/check-feeds"); got != "<skill name=\"check-feeds\">\nRead them all.\n</skill>" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("If found, the skill body is wrapped in a skill tag and injected into the message", func(t *testing.T) {
		got, sk, err := set.Preprocess(all, "/check-feeds of today")
		if got != "of today\n\n<skill name=\"check-feeds\">\nRead them all.\n</skill>" || sk == nil || sk.Name != "check-feeds" || err != nil {
			t.Errorf("%q, %v, %v", got, sk, err)
		}
	})
	t.Run("It is prompt injection, not a tool call", func(t *testing.T) {
		// An agent without the tool has it too.
		scope := tool.For(tool.Grant{Tools: []string{"bash"}})
		if got, _, err := set.Preprocess(scope, "/summarize"); !strings.HasPrefix(got, "<skill ") || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if r := call(set, scope, "summarize"); r.Output != "tool not available: skill" {
			t.Errorf("%q", r.Output)
		}
	})

	t.Run("Agents can be restricted to a subset of skills", func(t *testing.T) {
		if got := names(set.Skills(only("secret", "summarize"))); got != "secret summarize" {
			t.Errorf("%q", got)
		}
	})
	t.Run("If non-empty, only listed skills are available", func(t *testing.T) {
		wantCall(t, set, only("secret"), "summarize", "skill not available: summarize")
		wantCall(t, set, only("secret"), "secret", "Hush.\n\nSkill directory: "+filepath.Join(dir, "secret"))
	})
	t.Run("Empty means unrestricted", func(t *testing.T) {
		if got := names(set.Skills(tool.For(tool.Grant{}))); got != "check-feeds secret summarize" {
			t.Errorf("%q", got)
		}
		if got := names(set.Skills(tool.Scope{})); got != "" {
			t.Errorf("the scope of an unknown agent has %q", got)
		}
	})
	t.Run("Scoping applies to exact load, fuzzy listing and slash resolution", func(t *testing.T) {
		scope := only("check-feeds", "feed")
		if _, err := set.Get(scope, "secret"); err == nil {
			t.Error("exact load")
		}
		wantCall(t, set, scope, "feed", "check-feeds: Reads the feeds")
		got, sk, err := set.Preprocess(scope, "/secret now")
		if v, ok := err.(*tool.Violation); got != "/secret now" || sk != nil || !ok || v.Name != "secret" {
			t.Errorf("%q, %v, %v", got, sk, err)
		}
		// A word that names no skill is plain text.
		if got, _, err := set.Preprocess(scope, "/tmp is full"); got != "/tmp is full" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if r := set.Resources(scope); strings.Contains(r, "secret") || !strings.Contains(r, "- check-feeds: Reads the feeds") {
			t.Errorf("%q", r)
		}
	})
}
