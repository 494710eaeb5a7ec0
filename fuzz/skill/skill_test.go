// Package skill fuzzes package daemon/skill: skill files, and the skill names in
// tool calls and messages.
package skill

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"

	"go.yaml.in/yaml/v3"
)

const secret = "the-secret-outside"

// seeds contains valid front matter of every kind, and invalid front matter.
var seeds = []string{
	"---\nname: a\ndescription: b\n---\nbody\n",
	"\ufeff---\r\nname: a\r\ndescription: >-\r\n  b\r\n  c\r\n---\r\n\r\nbody\r\n",
	"---\nname: a\ndescription: b\nlicense: MIT\ncompatibility: any\nmetadata:\n  triggers: [x, y]\n  version: \"1\"\n  z: {q: r}\nallowed-tools: Bash(git:*) Read\n---\n</skill>",
	"---\nname: a\ndescription: b\nallowed-tools: [bash, browser_*]\ntriggers: ship it, deploy\n---\n< / SKILL >",
	"---\n{name: a, description: [b]}\n---\n",
	"---\na: &a [x]\nb: *a\nname: a\ndescription: d\n---\n",
	"---\n<<: {name: a}\ndescription: |\n  b\n---\n",
	"---\nname: a: b\n---\n", "---\n", "", "---\n---\n", "name: a\n", "---\nname: \"\\u202e\\0\"\ndescription: x\n---\n\x00",
}

// FuzzFrontMatter parses any bytes as a skill file. A parsed skill must be valid,
// and a set must list and return it. An invalid one must not be in the set.
func FuzzFrontMatter(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		began := time.Now()
		s, err := skill.Parse("SKILL.md", b)
		gate.Time(t, "parse", began, 20*time.Second)
		disk := faultfs.NewMem()
		put(t, disk, "/skills/x", b)
		set := skill.Load(disk, []skill.Dir{{Path: "/skills"}}, nil)
		listed := set.Skills(tool.Unbounded())
		if err != nil {
			if err := checkProblem(err); err != nil {
				t.Fatal(err)
			}
			if _, err := set.Get(tool.Unbounded(), "x"); err == nil {
				t.Fatal("Parse fails, but Get returns the skill")
			}
			return
		}
		if err := usable(&s, b); err != nil {
			t.Fatal(err)
		}
		got, err := set.Get(tool.Unbounded(), s.Name)
		if err != nil || len(listed) != 1 || listed[0].Name != s.Name || listed[0].Description != s.Description || got.Name != s.Name || got.Body != s.Body {
			t.Fatalf("Parse returns %q, Skills %+v, Get %+v, %v", s.Name, listed, got, err)
		}
	})
}

// checkProblem checks that an error has a file, a text, and a fix, and that it is
// short.
func checkProblem(err error) error {
	p, ok := errors.AsType[*skill.Problem](err)
	if !ok || p.File != "SKILL.md" || p.Text == "" || p.Remedy == "" || p.Warning || len(err.Error()) > 600 || !utf8.ValidString(err.Error()) {
		return fmt.Errorf("incomplete error: %#v", err)
	}
	return nil
}

// usable checks the name, the texts, the block, and the scope of a parsed skill.
func usable(s *skill.Skill, b []byte) error {
	switch {
	case s.Name == "" || strings.ContainsAny(s.Name, "/\\<>\"'&\x00") || strings.Contains(s.Name, "..") || strings.ContainsFunc(s.Name, unicode.IsControl):
		return fmt.Errorf("invalid name %q", s.Name)
	case s.Description == "" || strings.ContainsAny(s.Description, "\r\n"):
		return fmt.Errorf("invalid description %q", s.Description)
	case strings.Contains(s.Body, "\x00") || !utf8.ValidString(s.Body+s.Name+s.Description):
		return fmt.Errorf("invalid body %q", s.Body)
	}
	block := s.Block()
	if strings.Count(strings.ToLower(block), "</skill") != 1 || !strings.HasSuffix(block, "\n</skill>") || !strings.HasPrefix(block, `<skill name="`+s.Name+`">`) {
		return fmt.Errorf("invalid block %q", block)
	}
	// Bound must only remove tools from a scope.
	scope := tool.For(tool.Grant{Tools: []string{"read", "brow*"}, Skills: []string{s.Name}})
	for _, name := range append([]string{"bash", "read", "edit", "skill", "browser", "brow*", ""}, s.AllowedTools...) {
		if s.Bound(scope).Tools.Allows(name) && !scope.Tools.Allows(name) {
			return fmt.Errorf("Bound adds the tool %q to a scope", name)
		}
		if s.AllowedTools != nil && len(s.AllowedTools) == 0 && s.Bound(tool.Unbounded()).Tools.Allows(name) {
			return fmt.Errorf("the empty allowed-tools allow %q", name)
		}
	}
	// The name and the description must equal the result of the YAML library, if the
	// library accepts the text.
	text := strings.TrimPrefix(string(b), "\ufeff")
	_, text, _ = strings.Cut(text, "\n")
	if i := strings.Index(text, "\n---"); i >= 0 && !strings.Contains(text[:i], "<<") && !strings.HasPrefix(text, "---") {
		var want struct{ Name, Description string }
		if err := yaml.Unmarshal([]byte(text[:i+1]), &want); err == nil && (strings.TrimSpace(want.Name) != s.Name || strings.Join(strings.Fields(want.Description), " ") != s.Description) {
			return fmt.Errorf("the library returns %+v, want %q and %q", want, s.Name, s.Description)
		}
	}
	return nil
}

// put writes the file of a skill to an in-memory file system.
func put(t testing.TB, disk *faultfs.Mem, dir string, b []byte) {
	t.Helper()
	if err := vfs.MkdirAll(disk, dir, 0o700); err != nil {
		t.Fatal(err)
	}
	disk.WriteFile(dir+"/SKILL.md", b, 0o600)
}

// FuzzNames requests skills by names and messages. No request may return a skill
// outside the skill directories or outside the scope.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"ok", "/ok now", "../outside", "/../outside", "ok/../../outside", "o", "", "/", "/outside x", "hidden", "/hidden", "..\\x", "ok\x00", "deep", "/deep\u00a0x", "/ok\n\n</skill>"} {
		f.Add(s)
	}
	disk := faultfs.NewMem()
	for name, text := range map[string]string{
		"/outside/SKILL.md":         secret,
		"/skills/ok/SKILL.md":       "fine",
		"/skills/.h/SKILL.md":       secret,
		"/skills/a/b/deep/SKILL.md": "deep body",
		"/skills/hidden/SKILL.md":   "out of scope",
	} {
		dir := name[:strings.LastIndexByte(name, '/')]
		own := dir[strings.LastIndexByte(dir, '/')+1:]
		put(f, disk, dir, []byte("---\nname: "+strings.TrimPrefix(own, ".")+"\ndescription: "+text+"\ntriggers: "+own+"\n---\n"+text))
	}
	disk.Symlink("../outside", "/skills/out")
	set := skill.Load(disk, []skill.Dir{{Path: "/skills"}}, nil)
	scope := tool.For(tool.Grant{Skills: []string{"ok", "deep", "out", "outside", "h", ".h", "../outside", "ok/../../outside"}})
	f.Fuzz(func(t *testing.T, asked string) {
		text, sk, err := set.Preprocess(scope, asked)
		if (sk == nil) != (text == asked) || err != nil && sk != nil {
			t.Fatalf("%q became %q with %v, %v", asked, text, sk, err)
		}
		found := ""
		if got, err := set.Get(scope, asked); err == nil {
			found = got.Body
			if asked != got.Name {
				t.Fatalf("Get(%q) returns the skill %s", asked, got.Name)
			}
		}
		if text == asked {
			text = ""
		}
		for _, s := range set.Triggered(scope, asked) {
			found += s.Body
		}
		for _, s := range set.Find(scope, asked) {
			found += s.Description
		}
		for _, never := range []string{secret, "out of scope"} {
			if strings.Contains(found, never) || strings.Contains(strings.Replace(text, asked, "", 1), never) && !strings.Contains(asked, never) {
				t.Fatalf("%q returns %q", asked, found+text)
			}
		}
	})
}
