package skill

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/crmem/vfs/vfstest"
)

// fewDirs returns one valid and one invalid skill.
func fewDirs(t *testing.T) *faultfs.Mem {
	m := faultfs.NewMem()
	must(t, vfs.MkdirAll(m, "/s/a", 0o700), vfs.MkdirAll(m, "/s/b", 0o700), m.Mkdir("/s/empty", 0o700))
	m.WriteFile("/s/a/SKILL.md", []byte("---\nname: a\ndescription: A\ntriggers: go\n---\nbody\n"), 0o600)
	m.WriteFile("/s/b/SKILL.md", []byte("---\nname: b\n---\nbody\n"), 0o600)
	return m
}

// faultUses are uses with few calls of the file system.
var faultUses = []struct {
	name string
	do   func(m vfs.FS, set *Set) string
}{
	{"load", func(m vfs.FS, _ *Set) string {
		var text string
		set := Load(m, []Dir{{Path: "/s", Tier: Managed}}, func(err error) { text += err.Error() + "\n" })
		return text + names(set.Skills(all))
	}},
	{"get", func(_ vfs.FS, set *Set) string { return result(set.Get(all, "a")) }},
	{"get a broken one", func(_ vfs.FS, set *Set) string { return result(set.Get(all, "b")) }},
	{"trigger", func(_ vfs.FS, set *Set) string { return names(set.Triggered(all, "go")) }},
	{"preprocess", func(_ vfs.FS, set *Set) string {
		content, sk, err := set.Preprocess(all, "/a x")
		return content + result(sk, err)
	}},
	{"preprocess without permission", func(_ vfs.FS, set *Set) string {
		content, sk, err := set.Preprocess(only("x"), "/a x")
		return content + result(sk, err)
	}},
	{"tool", func(_ vfs.FS, set *Set) string {
		result := call(set, all, "a")
		return fmt.Sprint(result.Failed, " ", result.Output)
	}},
	{"check", func(m vfs.FS, _ *Set) string {
		list, found, err := Check(m, Dir{Path: "/s", Tier: Managed})
		return result(list, err) + "\n" + problems(found)
	}},
	{"check one", func(m vfs.FS, _ *Set) string {
		list, found, err := Check(m, Dir{Path: "/s/a", Tier: Managed})
		return result(list, err) + "\n" + problems(found)
	}},
	{"new", func(m vfs.FS, _ *Set) string { return result(New(m, "/s", "c", "C")) }},
	{"new in an empty directory", func(m vfs.FS, _ *Set) string { return result(New(m, "/s", "empty", "C")) }},
	{"new in a new directory", func(m vfs.FS, _ *Set) string { return result(New(m, "/new/s", "c", "C")) }},
	{"new again", func(m vfs.FS, _ *Set) string { return result(New(m, "/s", "a", "C")) }},
}

// TestFaults lets each call of the file system fail, in each use: the use reports the
// error or returns the same as without one, and it closes all files.
// Triggers skip skills that cannot be read.
func TestFaults(t *testing.T) {
	for _, use := range faultUses {
		for _, fault := range []error{syscall.EIO, fs.ErrPermission, &faultfs.Fault{Err: syscall.EIO, Done: true}} {
			clean := ""
			for n := 0; ; n++ {
				m := fewDirs(t)
				counted := &vfstest.Handles{FS: m}
				var text string
				set := Load(counted, []Dir{{Path: "/s", Tier: Managed}}, func(err error) { text += err.Error() + "\n" })
				text = ""
				seen, which := 0, ""
				m.Hook = func(c faultfs.Call) error {
					if seen++; seen != n {
						return nil
					}
					which = c.Op + " " + c.Name
					return fault
				}
				text += use.do(counted, set)
				m.Hook = nil
				if open := counted.Count(); open != 0 {
					t.Errorf("%s, %s fails: %d open", use.name, which, open)
				}
				if n == 0 {
					clean = text
				} else if which == "" {
					break
				} else if text != clean && use.name != "trigger" && !strings.Contains(text, "input/output error") && !strings.Contains(text, "permission denied") {
					t.Errorf("%s, %s fails with %v:\n%s\nwithout it:\n%s", use.name, which, fault, text, clean)
				}
			}
		}
	}
}

// TestCloseErrors checks that each error of the close of a directory is reported.
func TestCloseErrors(t *testing.T) {
	const want = "/s: cannot read: input/output error; check the type, owner, and mode of the path"
	closing := errors.New("input/output error")
	h := &vfstest.Handles{FS: fewDirs(t)}
	for _, skip := range []int{0, 1} { // closes that succeed first
		n := 0
		h.CloseRoot = func(string) error {
			if n++; n <= skip {
				return nil
			}
			return closing
		}
		var warned []string
		set := Load(h, []Dir{{Path: "/s", Tier: Managed}}, func(err error) { warned = append(warned, err.Error()) })
		n = 0
		sk, err := set.Get(all, "a")
		if want := strings.Replace(want, "/s:", "/s/a/SKILL.md:", 1); sk != nil || err == nil || err.Error() != want {
			t.Errorf("get: %v, %v, want %s", sk, err, want)
		}
		if got := names(set.Skills(all)); got != "a" || warned[len(warned)-1] != want {
			t.Errorf("skills %q, warned %q", got, warned)
		}
		n = 0
		for _, dir := range []string{"/s", "/s/a"} {
			if list, found, err := Check(h, Dir{Path: dir}); list != nil || found != nil || !errors.Is(err, closing) {
				t.Errorf("check %s: %v, %v, %v", dir, list, found, err)
			}
		}
	}
	h.CloseRoot = func(string) error { return closing }
	if file, err := New(h, "/s", "c", "C"); file != "/s/c/SKILL.md" || !errors.Is(err, closing) {
		t.Errorf("new: %s, %v", file, err)
	}
	n := 0
	h.CloseRoot = func(string) error { // only the scan's
		if n++; n == 1 {
			return closing
		}
		return nil
	}
	if list, found, err := Check(h, Dir{Path: "/s"}); names(list) != "a c" || !strings.Contains(problems(found), want) || err != nil {
		t.Errorf("check: %s, %s, %v", names(list), problems(found), err)
	}
}

// result describes a result as text.
func result(v any, err error) string { return fmt.Sprintf("%+v %v", v, err) }

func problems(list []*Problem) string { return fmt.Sprint(list) }

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
