package skill

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestExactLists has lists that fill their limit exactly, or exceed it by a byte.
func TestExactLists(t *testing.T) {
	for _, c := range []struct {
		name, before string // of each line
		limit, begin int
		list         func(*Set) string
	}{
		{"tool", "", maxListed, 0, func(s *Set) string { return s.find(all, "") }},
		{"prompt", "- ", maxResources, strings.Index(fewSet(t).Resources(all), "- a"), func(s *Set) string { return s.Resources(all) }},
	} {
		for more := range 2 {
			m := faultfs.NewMem()
			n := 0
			for left := c.limit - c.begin; left > 0; n++ {
				head := fmt.Sprintf("%ss%03d: ", c.before, n)
				length := min(left, 1000) // of the line, without its end
				if rest := left - length; rest > 0 && rest < 500 {
					length -= 500
				} else if rest == 0 {
					length += more
				}
				must(t, m.Mkdir(fmt.Sprintf("/s%03d", n), 0o700))
				m.WriteFile(fmt.Sprintf("/s%03d/SKILL.md", n), fmt.Appendf(nil, "---\nname: s%03d\ndescription: %s\n---\nbody\n", n, strings.Repeat("d", length-len(head))), 0o600)
				left -= length + 1
			}
			got := c.list(Load(m, []Dir{{Path: "/", Tier: Managed}}, nil))
			if last := fmt.Sprintf("s%03d: ", n-1); strings.Contains(got, last) != (more == 0) || strings.Contains(got, "... and 1 more: ") != (more == 1) {
				t.Errorf("%s, %d bytes over the limit: %d bytes that end in %q", c.name, more, len(got), got[len(got)-80:])
			}
			if more == 0 && len(got) != c.limit {
				t.Errorf("%s: %d bytes, want %d", c.name, len(got), c.limit)
			}
		}
	}
}

func fewSet(t *testing.T) *Set { return Load(fewDirs(t), []Dir{{Path: "/s", Tier: Managed}}, nil) }

// TestProblemLimits checks how many problems are reported, and that a limit is
// reported once.
func TestProblemLimits(t *testing.T) {
	for _, n := range []int{maxSkills - 1, maxSkills, maxSkills + 1, maxSkills + 2} {
		m := faultfs.NewMem()
		for i := range n {
			must(t, m.Mkdir(fmt.Sprintf("/d%04d", i), 0o700))
			m.WriteFile(fmt.Sprintf("/d%04d/SKILL.md", i), nil, 0o600)
		}
		_, found, err := Check(m, Dir{Path: "/"})
		if want := min(n, maxSkills); len(found) != want || err != nil {
			t.Errorf("%d invalid skills: %d problems, %v, want %d", n, len(found), err, want)
		}
	}
	m := faultfs.NewMem()
	for i := range maxDirs + 10 {
		must(t, m.Mkdir(fmt.Sprintf("/d%05d", i), 0o700))
	}
	if _, found, err := Check(m, Dir{Path: "/"}); len(found) != 1 || err != nil {
		t.Errorf("many directories: %d problems, %v", len(found), err)
	}
	m = faultfs.NewMem()
	for i := range maxDirs - 1 { // one more is the root
		must(t, m.Mkdir(fmt.Sprintf("/d%05d", i), 0o700))
	}
	if _, found, err := Check(m, Dir{Path: "/"}); len(found) != 0 || err != nil {
		t.Errorf("as many directories as the limit: %d problems, %v", len(found), err)
	}
	set := fewSet(t)
	for i := range maxWarned + 2 {
		if first, want := set.first(fmt.Sprint(i)), i < maxWarned; first != want {
			t.Errorf("warning %d is new: %v, want %v", i, first, want)
		}
	}
	if set.first("0") || len(set.warned) != maxWarned {
		t.Errorf("%d warnings are known, want %d", len(set.warned), maxWarned)
	}
}

// TestRelative loads and checks skills in a relative directory: their paths are
// absolute.
func TestRelative(t *testing.T) {
	dir, err := filepath.EvalSymlinks(tree(t, "a/SKILL.md", text("a", "A", "x")))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	set := Load(vfs.OS{}, []Dir{{Path: "."}}, nil)
	list, found, err := Check(vfs.OS{}, Dir{Path: "."})
	if len(found) != 0 || err != nil {
		t.Errorf("check: %v, %v", found, err)
	}
	for _, list := range [][]Skill{set.Skills(all), list} {
		if len(list) != 1 || list[0].Dir != filepath.Join(dir, "a") || list[0].File != filepath.Join(dir, "a", "SKILL.md") {
			t.Errorf("%+v", list)
		}
	}
}

// TestNameCharacters checks which characters a name and a command may have.
func TestNameCharacters(t *testing.T) {
	const commands = "abcdefghijklmnopqrstuvwxyz0123456789-"
	for r := rune(0); r < 0x180; r++ {
		inCommand := strings.ContainsRune(commands, r)
		if got := command(r); got != inCommand {
			t.Errorf("%q in a command: %v, want %v", r, got, inCommand)
		}
		if got := conforms("a" + string(r) + "a"); got != inCommand {
			t.Errorf("%q conforms: %v, want %v", r, got, inCommand)
		}
		if got, want := usable("a"+string(r)+"a"), unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" -_.+", r); got != want {
			t.Errorf("%q in a name: %v, want %v", r, got, want)
		}
	}
	if !usable("a\u0301") || usable("a\u200d") {
		t.Error("a mark is refused, or an invisible character is not")
	}
}

// TestFileLimits reads files at the limits, and one unit above them.
func TestFileLimits(t *testing.T) {
	const head = "---\nname: deploy\ndescription: d\n"
	x := func(n int) string { return strings.Repeat("x", n) }
	keys := func(n int, indent string) (lines string) {
		for i := range n {
			lines += fmt.Sprintf("%sk%d: v\n", indent, i)
		}
		return lines
	}
	for title, c := range map[string]struct {
		text func(more int) string
		want string // with one more
	}{
		"body":     {func(more int) string { return head + "---\n" + x(maxText+more) }, "the model receives at most the first"},
		"front":    {func(more int) string { return head + "#" + x(maxFront+more-len(head)-len("#\n---\n")) + "\n---\nbody" }, "the front matter does not end"},
		"no end":   {func(more int) string { return head + "#" + x(maxFront+more-len(head)-1) }, "does not end in the first"},
		"keys":     {func(more int) string { return head + keys(maxItems-2+more, "") + "---\nbody" }, fmt.Sprintf("%d keys, more than the limit of %d", maxItems+1, maxItems)},
		"metadata": {func(more int) string { return head + "metadata:\n" + keys(maxItems+more, "  ") + "---\nbody" }, fmt.Sprintf("metadata has %d keys", maxItems+1)},
		"triggers": {func(more int) string {
			return head + "metadata: {triggers: [" + strings.Repeat("a,", maxItems+more) + "]}\n---\nbody"
		}, "triggers"},
		"long keys": {func(more int) string { return head + x(100+more) + ": a\n" + x(100+more) + ": b\n---\nbody" }, x(100-len("…")) + "…"},
	} {
		for more := range 2 {
			s, err := Parse("SKILL.md", []byte(c.text(more)))
			if text := fmt.Sprint(err, s.problems); strings.Contains(text, c.want) != (more == 1) {
				t.Errorf("%s, %d above the limit: %.300s, want %s", title, more, text, c.want)
			}
		}
	}
	for more := range 2 {
		m := faultfs.NewMem()
		file, err := New(m, "/s", "deploy", strings.Repeat("é", maxDescription+more))
		if _, missing := m.Lstat("/s/deploy/SKILL.md"); (err != nil) != (more == 1) || (file == "") != (more == 1) || (missing != nil) != (more == 1) {
			t.Errorf("a description of %d characters: %q, %v", maxDescription+more, file, err)
		}
	}
}

// TestUsedDirectories checks that Use loads its directories at once, and that a file
// in two of them is one skill without a warning.
func TestUsedDirectories(t *testing.T) {
	m := fewDirs(t)
	var warned []string
	Load(m, []Dir{{Path: "/s/a", Tier: Managed}, {Path: "/s", Tier: Managed}, {Path: "/s", Tier: Bundled}}, func(err error) { warned = append(warned, err.Error()) })
	if len(warned) != 2 || !strings.Contains(warned[0]+warned[1], "needs its own directory") || !strings.Contains(warned[0]+warned[1], "/s/b/SKILL.md") {
		t.Errorf("warned %q", warned)
	}
}
