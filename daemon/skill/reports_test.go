package skill

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/crmem/vfs/vfstest"
	"crabmem/daemon/tool"
	"crabmem/fuzz/golden"
)

// reportFiles are contents of a SKILL.md by what is special about them.
func reportFiles() [][2]string {
	front := func(lines string) string {
		return "---\nname: deploy\ndescription: Deploys it\n" + lines + "---\nbody\n"
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	list := [][2]string{{"plain", front("")}, {"empty", ""}, {"body only", "body\n"}, {"bom", "\ufeff" + front("")}, {"fences only", "---\n---\n"}, {"null", "---\n~\n---\n"}, {"comment", "---\n# name: deploy\n---\n"}, {"text", "---\nname\n---\n"}}
	add := func(title, contents string) { list = append(list, [2]string{title, contents}) }
	for i, line := range []string{
		"license: Apache-2.0", "license: [a]", "license: &a b", "license: *a", "license:", "license: 2", "compatibility: any", "compatibility: {a: b}",
		"triggers: ship it, deploy,,  two  words ", "triggers: [ship it, '', 3]", "triggers: {a: b}", "triggers: [[a]]", "triggers:", "triggers: ''", "triggers: &a [b]",
		"allowed-tools: Read Bash(git:*, x) Edit", "allowed-tools: [Read, 'Bash(a b)']", "allowed-tools:", "allowed-tools: ''", "allowed-tools: []", "allowed-tools: read,write",
		"allowed-tools: [{a: b}]", "allowed_tools: Read", "AllowedTools: Read", "allowed tools: Read", "allowed.tools: Read",
		"metadata: {priority: '3', author: me}", "metadata: {priority: '99999999999999999999'}", "metadata: {priority: x}", "metadata: text", "metadata:", "metadata: ''", "metadata: [a]", "metadata: {a: {b: c}}", "metadata: {a: {b: c}, d: e}", "metadata: {triggers: x, d: e}", "metadata: {a: [x], d: e}", "metadata: {a: [[x]], d: e, triggers: y}",
		"metadata: {a: [b, c]}", "metadata: {a: [[b]]}", "metadata: {triggers: 'ship it, deploy'}", "metadata: {triggers: [ship it]}", "metadata: {triggers: {a: b}}",
		"metadata: {[a]: b}", "metadata: {&a a: b}", "metadata: &a {b: c}", "metadata: *a", "other: value", "other: {deep: [er]}", "? [a, b]\n: c",
		"name: other", "description: again", "license: a\nlicense: b", "license: a: b", "license: 'open", "\tlicense: a", "---", "--- ", "---\t\r", "...", "--- \nsecond: document\n---", "--- {a: b", "...\n[", "allowed-tools: \"a\\tb\\nc\"",
		"x: \x00", "x: \xff", "a:\n  - b\n c", "<<: {a: b}", "!!binary x: y", "license: !!int x",
	} {
		add(fmt.Sprintf("line %d %q", i, line), front(line+"\n"))
	}
	for _, name := range []string{
		"", "''", "~", "Deploy", "de ploy", "déploy", "-deploy", "deploy-", "de--ploy", "de..ploy", "de.ploy", "de/ploy", "de_ploy", "de+ploy", "de:ploy", "[a]", "' deploy'", "9", "a<b", "\"a\\tb\"",
		x(63), x(64), x(65), strings.Repeat("é", 64), strings.Repeat("é", 65), "'" + strings.Repeat(">", 101) + "'",
	} {
		add(fmt.Sprintf("name %.20q %d", name, len(name)), "---\ndescription: d\nname: "+name+"\n---\nbody")
	}
	for _, n := range []int{1, 99, 100, 101, 102, 499, 500, 501, 1023, 1024, 1025, 2000} {
		add(fmt.Sprintf("description of %d", n), "---\nname: deploy\ndescription: "+x(n)+"\n---\nbody")
		add(fmt.Sprintf("compatibility of %d é", n), front("compatibility: "+strings.Repeat("é", n)+"\n"))
		add(fmt.Sprintf("key of %d", n), front(x(n)+": ["+"\n"))
		add(fmt.Sprintf("license twice, %d", n), front(x(n)+": a\n"+x(n)+": b\n"))
		add(fmt.Sprintf("tool of %d", n), front("allowed-tools: [b("+strings.Repeat("é", n)+"]\n"))
	}
	for _, n := range []int{254, 255, 256, 257} {
		items := strings.TrimSuffix(strings.Repeat("a,", n), ",")
		var keys, lines string
		for i := range n {
			keys += fmt.Sprintf("  k%d: v\n", i)
			lines += fmt.Sprintf("k%d: v\n", i)
		}
		for _, key := range []string{"triggers", "allowed-tools"} {
			add(fmt.Sprintf("%d in %s as text", n, key), front(key+": "+items+"\n"))
			add(fmt.Sprintf("%d in %s", n, key), front(key+": ["+items+"]\n"))
		}
		add(fmt.Sprintf("%d in metadata", n), front("metadata:\n"+keys))
		add(fmt.Sprintf("%d in a list in metadata", n), front("metadata: {a: ["+items+"]}\n"))
		add(fmt.Sprintf("%d keys", n), "---\n"+lines+"---\nbody")
		add(fmt.Sprintf("%d more keys", n-2), "---\nname: deploy\ndescription: d\n"+strings.Join(strings.SplitAfter(lines, "\n")[2:], "")+"---\nbody")
	}
	for _, n := range []int{-2, -1, 0, 1, 2} {
		head := "---\nname: deploy\ndescription: d\n"
		add(fmt.Sprintf("front of %d", n), head+"#"+x(maxFront+n-len(head)-len("#\n---\n"))+"\n---\nbody")
		add(fmt.Sprintf("front without end of %d", n), head+"#"+x(maxFront+n-len(head)-1))
		add(fmt.Sprintf("body of %d", n), head+"---\n"+x(maxText+n))
		add(fmt.Sprintf("lines of %d", n), head+"---\n"+x(maxText/2+n)+"\n"+x(maxText))
		add(fmt.Sprintf("wide body of %d", n), head+"---\n"+x(maxText%3+n+3)+strings.Repeat("京", maxText/3+2))
		add(fmt.Sprintf("file of %d", n), head+"---\n"+x(maxFile+n-len(head)-4))
	}
	for _, body := range []string{"", " \n", "a\x00b", "a\n\nb\x00", "\xff", "a\nb\xffc", "a\n\xff\n\xffb\n\xff", "�\nb\xff", "a\r\nb\r\n", "</skill>", "< / SKILL >x</ski", "<\u200b/\u200bskill", "a</skil", "</skill"} {
		add(fmt.Sprintf("body %q", body), "---\nname: deploy\ndescription: d\n---\n"+body)
	}
	return list
}

// brief shortens long parts of an outcome.
func brief(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		n := 1
		for n < len(s) && s[n] == s[0] {
			n++
		}
		if n > 20 {
			fmt.Fprintf(&b, "%c{%d}", s[0], n)
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	if s := strings.ReplaceAll(b.String(), "京", ""); len(s) < b.Len()-100 {
		return fmt.Sprintf("%s with %d of 京", s, (b.Len()-len(s))/3)
	}
	return b.String()
}

// outcome describes a result as text.
func outcome(v any, err error) string {
	b, jerr := json.Marshal(v)
	if jerr != nil {
		return jerr.Error()
	}
	text := string(b)
	if err != nil {
		text += fmt.Sprintf("\nerror %v%s", err, wrapped(err))
	}
	return brief(text)
}

// wrapped lists errors that err wraps.
func wrapped(err error) string {
	text := ""
	for _, e := range []error{ErrInvalid, ErrNotFound, fs.ErrExist, fs.ErrNotExist, fs.ErrPermission, syscall.EIO} {
		if errors.Is(err, e) {
			text += fmt.Sprintf(" [%v]", e)
		}
	}
	return text
}

func problems(list []*Problem) string {
	var b strings.Builder
	for _, p := range list {
		fmt.Fprintf(&b, "%v (line %d, warning %v)%s\n", p, p.Line, p.Warning, wrapped(p))
	}
	return brief(b.String())
}

// TestReportsOfFiles compares how each SKILL.md is read, listed, and used.
func TestReportsOfFiles(t *testing.T) {
	var r golden.Reports
	for _, f := range reportFiles() {
		s, err := Parse("SKILL.md", []byte(f[1]))
		text := outcome(s, err) + "\n" + problems(s.problems) + fmt.Sprint(len(s.Body), " ", s.priority(), " ", outcome(s.Tools(), nil), "\n")
		if err == nil {
			text += fmt.Sprintf("%s\n%s\n", brief(s.Block()), brief(s.line()))
		}
		m := faultfs.NewMem()
		must(t, m.Mkdir("/s", 0o700), m.Mkdir("/s/deploy", 0o700))
		m.WriteFile("/s/deploy/SKILL.md", []byte(f[1]), 0o600)
		var warnings []string
		set := Load(m, []Dir{{"/s", Managed}}, func(err error) { warnings = append(warnings, brief(err.Error())) })
		text += strings.Join(warnings, "\n") + "\n"
		for _, sk := range set.Skills(all) {
			text += outcome(sk, nil) + "\n"
		}
		got, err := set.Get(all, "deploy")
		if got != nil {
			got.Body = ""
		}
		text += outcome(got, err)
		list, found, err := Check(m, Dir{"/s", Managed})
		text += fmt.Sprintf("\ncheck: %d, %v\n%s", len(list), err, problems(found))
		r.Add(f[0], text)
	}
	r.Compare(t, "testdata/reports/files.txt.gz")
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// reportDirs returns directories of skills of each kind.
func reportDirs(t *testing.T) *faultfs.Mem {
	m := faultfs.NewMem()
	put := func(name, contents string) {
		must(t, vfs.MkdirAll(m, path.Dir(name), 0o700))
		m.WriteFile(name, []byte(contents), 0o600)
	}
	must(t, vfs.MkdirAll(m, "/high", 0o700), vfs.MkdirAll(m, "/low/a/b", 0o700), vfs.MkdirAll(m, "/low/linked", 0o700))
	put("/high/deploy/SKILL.md", "---\nname: deploy\ndescription: Deploys it\ntriggers: ship it, déjà\n---\nbody of <deploy>\n")
	put("/high/deploy/notes.txt", "notes")
	put("/high/other/SKILL.md", "---\nname: named\ndescription: In another directory\ntriggers: ship\nmetadata: {priority: 2}\nallowed-tools: Read\n---\nnamed body\n")
	put("/high/broken/SKILL.md", "---\nname: broken\n---\nbody\n")
	put("/high/.hidden/SKILL.md", "---\nname: hidden\ndescription: d\n---\nbody\n")
	put("/high/SKILL.md", "---\nname: top\ndescription: d\n---\nbody\n")
	put("/low/a/b/SKILL.md", "---\nname: deploy\ndescription: Another\n---\nbody\n")
	put("/low/a/c/SKILL.md", "---\nname: low\ndescription: Low <one>\ntriggers: ship it\n---\nbody\n")
	put("/low/a/d/SKILL.md", "---\nname: lower\ndescription: x\ntriggers: ship it\nmetadata: {priority: -1}\n---\nbody\n")
	put("/low/a/e/SKILL.md", "---\nname: lowest\ndescription: x\ntriggers: ship it\n---\nbody\n")
	must(t, m.Mkdir("/low/dir", 0o700), m.Mkdir("/low/dir/SKILL.md", 0o700))
	m.Symlink("/high/deploy", "/low/link")
	m.Symlink("/high/deploy/SKILL.md", "/low/linked/SKILL.md")
	m.WriteFile("/file", nil, 0o600)
	deep := "/low/deep"
	for i := range maxDepth + 1 {
		deep += fmt.Sprintf("/%d", i)
		must(t, vfs.MkdirAll(m, deep, 0o700))
		if i >= maxDepth-3 {
			put(fmt.Sprintf("%s/s%d/SKILL.md", deep, i), fmt.Sprintf("---\nname: deep%d\ndescription: d\n---\nbody\n", i))
		}
	}
	return m
}

var reportSets = [][]Dir{
	{{"/low", Bundled}, {"/high", Workspace}}, {{"/high", Managed}, {"/low", Managed}}, {{"/high", 7}, {"/high", Bundled}, {"/low", Workspace}},
	{{"/", Managed}, {"/missing", Managed}, {"/file", Managed}}, {},
}

// reportUses are uses of a set.
var reportUses = []struct {
	name string
	do   func(m vfs.FS, dirs []Dir, set *Set) string
}{
	{"load", func(m vfs.FS, dirs []Dir, _ *Set) string {
		var text string
		set := Load(m, dirs, func(err error) { text += err.Error() + "\n" })
		return text + outcome(set.Skills(all), nil) + outcome(set.Skills(only("d*", "low")), nil) + outcome(set.Skills(all), nil)
	}},
	{"get", func(_ vfs.FS, _ []Dir, set *Set) string {
		var text string
		for _, name := range []string{"deploy", "named", "other", "broken", "low", "c", "missing", "", "a/b", "..", "Deploy", "deep9", "s9", strings.Repeat("a", 256), strings.Repeat("a", 257), "\n", "é", "\xff"} {
			for _, scope := range []tool.Scope{all, only("deploy", "broken", "c"), only()} {
				sk, err := set.Get(scope, name)
				text += outcome(sk, err) + "\n"
			}
		}
		return text
	}},
	{"find", func(_ vfs.FS, _ []Dir, set *Set) string {
		var text string
		for _, part := range []string{"", "DEP", "another", "zzz"} {
			text += outcome(set.Find(all, part), nil) + "\n" + set.find(all, part) + "\n"
		}
		return text + set.Resources(all) + "\n" + set.Resources(only("deploy")) + "\n" + set.Resources(only())
	}},
	{"trigger", func(_ vfs.FS, _ []Dir, set *Set) string {
		var text string
		for _, message := range []string{
			"ship it", "ship it, déjà vu", "SHIP  IT now", "ships it", "worship it", "ship", "déjà vu", "DÉJÀ", "déjàx", "", strings.Repeat("x ", maxSearched/2) + "ship", strings.Repeat("x ", maxSearched/2-2) + "ship", strings.Repeat("x ", maxSearched/2-2) + " ship",
			strings.Repeat("x ", maxSearched/2-3) + " ship", strings.Repeat("x ", maxSearched/2-4) + " ship it", "shipship it ship", "日ship本", "_ship", "ship_", "9ship",
		} {
			text += outcome(names(set.Triggered(all, message)), nil) + outcome(names(set.Triggered(only("low", "deploy"), message)), nil) + "\n"
		}
		return text
	}},
	{"preprocess", func(_ vfs.FS, _ []Dir, set *Set) string {
		var text string
		for _, message := range []string{"/deploy", "/deploy now", " \n/deploy\nnow ", "/deploynow", "/deploy.", "/", "/ deploy", "deploy", "/broken x", "/missing x", "/other", "/" + strings.Repeat("a", 64), "/" + strings.Repeat("a", 65), "/named a", "//deploy", ""} {
			for _, scope := range []tool.Scope{all, only("named")} {
				content, sk, err := set.Preprocess(scope, message)
				text += fmt.Sprintf("%q ", brief(content)) + outcome(sk, err) + "\n"
			}
		}
		return text
	}},
	{"check", func(m vfs.FS, dirs []Dir, _ *Set) string {
		var text string
		for _, d := range append(dirs, Dir{"/high/deploy", Managed}, Dir{"/low/dir", Managed}, Dir{"/low/linked", Managed}, Dir{"/high/broken", Managed}) {
			list, found, err := Check(m, d)
			text += outcome(list, err) + "\n" + problems(found)
		}
		return text
	}},
	{"new", func(m vfs.FS, _ []Dir, _ *Set) string {
		var text string
		for _, c := range [][3]string{
			{"/new/dir", "made", "A new skill"}, {"/new/dir", "made", "again"}, {"/high", "deploy", "exists"}, {"/high", "Bad", "d"}, {"/high", "long", strings.Repeat("é", maxDescription)},
			{"/high", "longer", strings.Repeat("é", maxDescription+1)}, {"/high", "none", ""}, {"/high", "fenced", "a\n---\nb"}, {"/high", strings.Repeat("a", 64), "d"}, {"/high", strings.Repeat("a", 65), "d"},
			{"/file", "x", "d"}, {"/low/link", "x", "d"}, {"/low", "link", "d"}, {"/low", "dir", "d"}, {"/low", "a", "d"}, {"/high", "nul", "a\x00b"},
		} {
			file, err := New(m, c[0], c[1], c[2])
			b, _ := vfs.ReadFile(m, file, 1<<20)
			text += outcome(file, err) + "\n" + brief(string(b)) + "\n"
		}
		return text
	}},
}

// TestReportsOfUses compares the results of each use of sets, and of the use
// when one of its calls of the file system fails.
func TestReportsOfUses(t *testing.T) {
	var r golden.Reports
	scene := reportDirs(t)
	for i, dirs := range reportSets {
		for _, use := range reportUses {
			for n := 0; ; n++ {
				m := scene.Kill()
				counted := &vfstest.Handles{FS: m}
				var warned []string
				set := Load(counted, dirs, func(err error) { warned = append(warned, err.Error()) })
				warned = nil
				seen, which := 0, ""
				m.Hook = func(c faultfs.Call) error {
					if seen++; seen == n {
						which = c.Op + " " + c.Name
						return []error{syscall.EIO, fs.ErrPermission, &faultfs.Fault{Err: syscall.EIO, Done: true}}[n%3]
					}
					return nil
				}
				text := use.do(counted, dirs, set)
				m.Hook = nil
				if open := counted.Count(); open != 0 {
					t.Errorf("set %d: %s, %s fails: %d open", i, use.name, which, open)
				}
				r.Add(fmt.Sprintf("set %d: %s, %s fails", i, use.name, which), text+"\n"+strings.Join(warned, "\n")+"\n"+outcome(set.Skills(all), nil))
				if n > 0 && which == "" || n > 30 || i > 0 && n == 0 && i != 3 {
					break
				}
			}
		}
	}
	r.Compare(t, "testdata/reports/uses.txt.gz")
}

// TestReportsOfLimits compares sets of many skills and directories.
func TestReportsOfLimits(t *testing.T) {
	var r golden.Reports
	for _, n := range []int{0, 1, maxSkills - 1, maxSkills, maxSkills + 1, maxSkills + 500} {
		m := faultfs.NewMem()
		for i := range n {
			dir := fmt.Sprintf("/s%04d", i)
			must(t, m.Mkdir(dir, 0o700))
			m.WriteFile(dir+"/SKILL.md", fmt.Appendf(nil, "---\nname: n%d\ndescription: %s\n---\nbody\n", i, strings.Repeat("d", 40)), 0o600)
		}
		var warnings string
		set := Load(m, []Dir{{"/", Managed}}, func(err error) { warnings += err.Error() + "\n" })
		skills := set.Skills(all)
		text := fmt.Sprintf("%d %s\n", len(skills), warnings)
		for _, list := range []string{set.Resources(all), set.find(all, ""), set.find(all, "9")} {
			text += fmt.Sprintf("%d bytes, %s\n", len(list), list[max(0, len(list)-200):])
		}
		r.Add(fmt.Sprintf("%d skills", n), text)
	}
	for _, n := range []int{maxDirs - 2, maxDirs - 1, maxDirs, maxDirs + 1} {
		m := faultfs.NewMem()
		for i := range n {
			must(t, m.Mkdir(fmt.Sprintf("/d%05d", i), 0o700))
		}
		must(t, m.Mkdir("/z", 0o700))
		m.WriteFile("/z/SKILL.md", []byte("---\nname: last\ndescription: d\n---\nbody\n"), 0o600)
		var warnings string
		set := Load(m, []Dir{{"/", Managed}, {"/z", Managed}}, func(err error) { warnings += err.Error() + "\n" })
		r.Add(fmt.Sprintf("%d directories", n), names(set.Skills(all))+"\n"+warnings)
	}
	for _, tier := range []Tier{-1, Bundled, Managed, Workspace, 3} {
		r.Add(fmt.Sprint("tier ", int(tier)), tier.String())
	}
	r.Compare(t, "testdata/reports/limits.txt.gz")
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
