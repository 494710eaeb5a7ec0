package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"crabmem/daemon/skill"
	"crabmem/daemon/tool"
)

// TestSkillTags checks that an agent with skill_tags may use the skills that it
// lists and those with a tag, and no others, also in additional folders and after a
// reload.
func TestSkillTags(t *testing.T) {
	dir, shared := home(t), home(t)
	write := func(folder, name, tags string) {
		t.Helper()
		d := filepath.Join(folder, name)
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		text := "---\nname: " + name + "\ndescription: " + name + "\n" + tags + "---\nDo it."
		if err := os.WriteFile(filepath.Join(d, "SKILL.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	skills := filepath.Join(dir, "skills")
	write(skills, "plain", "")
	write(skills, "listed", "tags: other\n")
	write(skills, "upper", "tags: [Text, x]\n")
	write(shared, "far", "metadata:\n  tags: a, text\n")
	const config = "[agents.writer]\nprompt = \"You write.\"\nskills = [\"listed\"]\nskill_tags = [\"text\"]\n[agents.none]\nprompt = \"You wait.\"\nskill_tags = [\"unused\"]\n"
	s := serve(t, dir, config+"[skills]\ndirs = ["+quoted(shared)+"]\n")
	allowed := func(agent string) (names []string) {
		for _, sk := range s.setup().skills.Skills(s.setup().agents[agent].Scope) {
			names = append(names, sk.Name)
		}
		slices.Sort(names)
		return names
	}
	check := func(agent string, want ...string) {
		t.Helper()
		if got := allowed(agent); !slices.Equal(got, want) {
			t.Errorf("%s may use %q, want %q", agent, got, want)
		}
	}
	check("crab", "far", "listed", "memory", "plain", "upper")
	check("writer", "far", "listed", "upper")
	check("none")
	for _, name := range []string{"writer", "none"} {
		if scope := s.setup().agents[name].Scope; !scope.Confined || !scope.Tools.Allows(tool.Skill) || scope.Tools.Allows(tool.Delegate) {
			t.Errorf("scope of %s: %+v", name, scope)
		}
	}
	write(skills, "later", "tags: text\n")
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	check("writer", "later", "listed", "upper")
}

// TestSkillLinks checks that the daemon follows links in the home's folder of
// skills, and in no other folder.
func TestSkillLinks(t *testing.T) {
	dir, shared, target := t.TempDir(), t.TempDir(), t.TempDir()
	for i, folder := range []string{filepath.Join(dir, "skills"), shared} {
		name := fmt.Sprintf("linked-%d", i)
		file := filepath.Join(target, name, "SKILL.md")
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.MkdirAll(folder, 0o700),
			os.WriteFile(file, []byte("---\nname: "+name+"\ndescription: x\n---\nDo it."), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Dir(file), filepath.Join(folder, name)); err != nil {
			t.Skipf("SKIPPED: no symbolic links here: %v", err)
		}
	}
	s := serve(t, dir, "[skills]\ndirs = ["+quoted(shared)+"]\n")
	if list := s.setup().skills.Skills(tool.Unbounded()); len(list) != 2 || list[0].Name != "linked-0" || list[1].Tier != skill.Bundled {
		t.Errorf("skills: %+v", list)
	}
}

func quoted(path string) string { return "'" + path + "'" }
