//go:build unix

package skill

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// secret is in a file outside every directory of skills. No result may contain
// it.
const secret = "the-secret-outside"

// attacked returns a directory with a valid skill, ok. Its parent has a skill
// and a file with the secret.
func attacked(t *testing.T) (dir string) {
	t.Helper()
	top := tree(t,
		"outside/SKILL.md", text("outside", secret, secret),
		"SKILL.md", text("above", secret, secret),
		"secret.md", text("leak", secret, secret),
		"skills/ok/SKILL.md", text("ok", "Fine", "Fine."),
	)
	return filepath.Join(top, "skills")
}

// surface is everything that a caller can get of a set, for names and messages.
func surface(s *Set, names ...string) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteString(call(s, all, n).Output)
		got, _, err := s.Preprocess(all, "/"+n)
		if got != "/"+n {
			b.WriteString(got)
		}
		fmt.Fprintln(&b, err)
	}
	for _, sk := range s.Skills(all) {
		b.WriteString(sk.Name + sk.Description)
	}
	for _, sk := range s.Triggered(all, "leak outside above ok") {
		b.WriteString(sk.Name + sk.Body)
	}
	b.WriteString(s.Resources(all))
	return b.String()
}

// TestAttackNames requests paths outside by every kind of name.
func TestAttackNames(t *testing.T) {
	dir := attacked(t)
	set, _ := load(t, dir)
	asked := []string{
		"..", "../outside", "ok/../../outside", "../SKILL.md", "..\\outside", "/etc/passwd", filepath.Dir(dir), filepath.Join(filepath.Dir(dir), "outside"),
		"outside", "outside\x00", "ok\x00/../../outside", "\x00", "....//outside", "%2e%2e%2foutside", "..%2foutside", "．．／outside", "ok/", "./ok", "~/outside",
		"C:\\outside", "file:///etc/passwd", "\xff\xfe", strings.Repeat("../", 100) + "etc/passwd", strings.Repeat("a", 1<<20), "\nok", "ok\r\n", "$HOME", "*", "ok*", "-", ".",
	}
	if got := surface(set, asked...); strings.Contains(got, secret) {
		t.Errorf("escaped: %.300q", got)
	}
	for _, name := range asked {
		if sk, err := set.Get(all, name); err == nil {
			t.Errorf("%.40q is %s", name, sk.Name)
		}
		if r := call(set, all, name); len(r.Output) > 4096 {
			t.Errorf("%.40q: %d bytes", name, len(r.Output))
		}
	}
}

// TestAttackLinks puts links of every kind into a directory of skills.
func TestAttackLinks(t *testing.T) {
	link := func(t *testing.T, to, name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	for name, plant := range map[string]func(t *testing.T, dir string){
		"SKILL.md that is a link": func(t *testing.T, dir string) { link(t, "../../secret.md", filepath.Join(dir, "leak/SKILL.md")) },
		"SKILL.md that is an absolute one": func(t *testing.T, dir string) {
			link(t, filepath.Join(dir, "../secret.md"), filepath.Join(dir, "leak/SKILL.md"))
		},
		"SKILL.md that links to itself": func(t *testing.T, dir string) { link(t, "SKILL.md", filepath.Join(dir, "leak/SKILL.md")) },
		"directory out":                 func(t *testing.T, dir string) { link(t, "../outside", filepath.Join(dir, "outside")) },
		"directory out, nested":         func(t *testing.T, dir string) { link(t, "../../outside", filepath.Join(dir, "a/outside")) },
		"directory above":               func(t *testing.T, dir string) { link(t, "..", filepath.Join(dir, "up")) },
		"directory to itself":           func(t *testing.T, dir string) { link(t, ".", filepath.Join(dir, "self")) },
		"absolute directory":            func(t *testing.T, dir string) { link(t, filepath.Dir(dir), filepath.Join(dir, "up")) },
		"link to a link": func(t *testing.T, dir string) {
			link(t, "../outside", filepath.Join(dir, "b"))
			link(t, "b", filepath.Join(dir, "a"))
		},
		"link to nothing": func(t *testing.T, dir string) { link(t, "nowhere", filepath.Join(dir, "a")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := attacked(t)
			plant(t, dir)
			set, warnings := load(t, dir)
			if got := surface(set, "leak", "outside", "above", "up", "self", "a", "b", "ok"); strings.Contains(got, secret) || !strings.Contains(got, "Fine.") {
				t.Errorf("%.300q", got)
			}
			if got := names(set.Skills(all)); got != "ok" {
				t.Errorf("skills: %q", got)
			}
			if len(*warnings) == 0 || !strings.Contains((*warnings)[0], "link") {
				t.Errorf("warnings: %q", *warnings)
			}
			if list, problems, err := Check(vfs.OS{}, Dir{Path: dir}); names(list) != "ok" || len(problems) == 0 || err != nil {
				t.Errorf("check: %s, %d problems, %v", names(list), len(problems), err)
			}
		})
	}
}

// TestLinks checks that links in a directory that permits links are followed,
// and links in their targets are not.
func TestLinks(t *testing.T) {
	link := func(dir, to, name string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.Symlink(to, name)); err != nil {
			t.Fatal(err)
		}
	}
	top, err := filepath.EvalSymlinks(filepath.Dir(attacked(t)))
	if err != nil {
		t.Fatal(err)
	}
	dir, files := filepath.Join(top, "skills"), filepath.Join(top, "files")
	for _, name := range []string{"one", "more/two", "more/three", "file"} {
		write(t, filepath.Join(files, name, "SKILL.md"), text(filepath.Base(name), "Linked", name))
	}
	link(dir, "../files/one", "one")               // a directory of one skill
	link(dir, filepath.Join(files, "more"), "n/m") // a directory of skills
	link(dir, "../../files/file/SKILL.md", "file/SKILL.md")
	link(dir, filepath.Join(top, "secret.md"), "leak/SKILL.md")
	link(dir, "..", "up")
	link(dir, ".", "self")
	link(dir, "ok", "again")
	link(dir, "nowhere", "nothing")
	link(dir, "../secret.md", "secret.md")
	link(files, filepath.Join(top, "outside"), "more/outside")          // a target is not the user's directory
	link(files, filepath.Join(top, "secret.md"), "more/above/SKILL.md") // nor is its file

	load := func(links bool) (*Set, string) {
		var warned []string
		set := Load(vfs.OS{}, []Dir{{Path: dir, Links: links}}, func(err error) { warned = append(warned, strings.TrimPrefix(err.Error(), dir+"/")) })
		return set, strings.Join(warned, "\n")
	}
	set, warned := load(true)
	if got := names(set.Skills(all)); got != "file leak three two ok one" {
		t.Errorf("skills: %s", got)
	}
	for _, name := range []string{"one", "two", "file"} {
		sk, err := set.Get(all, name)
		if err != nil || !strings.HasSuffix(sk.Body, name) || !strings.HasPrefix(sk.Dir, dir) || sk.File != filepath.Join(sk.Dir, "SKILL.md") {
			t.Errorf("%s: %+v, %v", name, sk, err)
		}
	}
	for _, want := range []string{
		"up: skipped a link to " + top + ", which contains it", "self: skipped a link to ", "again: skipped a link to ", "nothing: cannot read: ",
		"n/m/outside: skipped a link; ", "n/m/above/SKILL.md: not a regular file, or a link",
	} {
		if !strings.Contains("\n"+warned, "\n"+want) {
			t.Errorf("no warning %q in\n%s", want, warned)
		}
	}
	if n := strings.Count(warned, "\n") + 1; n != 6 {
		t.Errorf("%d warnings:\n%s", n, warned)
	}
	if list, problems, err := Check(vfs.OS{}, Dir{Path: dir, Links: true}); names(list) != "file leak three two ok one" || len(problems) < 6 || err != nil {
		t.Errorf("check: %s, %d problems, %v", names(list), len(problems), err)
	}
	if set, _ := load(false); names(set.Skills(all)) != "ok" {
		t.Errorf("without links: %s", names(set.Skills(all)))
	}
}

// TestAttackSwap replaces a skill and its directory by links out while the skill
// is asked for.
func TestAttackSwap(t *testing.T) {
	dir := attacked(t)
	set, _ := load(t, dir)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := filepath.Join(dir, "ok")
			os.Rename(name, name+"2")
			os.Symlink("../outside", name)
			os.Remove(name)
			os.Rename(name+"2", name)
			file := filepath.Join(name, "SKILL.md")
			os.Rename(file, file+"2")
			os.Symlink("../../secret.md", file)
			os.Remove(file)
			os.Rename(file+"2", file)
		}
	}()
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if got := surface(set, "ok", "leak", "outside"); strings.Contains(got, secret) {
			t.Errorf("escaped: %.300q", got)
			break
		}
	}
	close(stop)
	<-done
}

// TestAttackFiles puts things into the place of a SKILL.md that are no files,
// or too large.
func TestAttackFiles(t *testing.T) {
	dir := attacked(t)
	path := func(name string) string { return filepath.Join(dir, name, "SKILL.md") }
	for _, name := range []string{"fifo", "large", "closed", "socket"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(path("directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path("large"), text("large", "L", "x"))
	if err := os.Truncate(path("large"), 100<<20); err != nil {
		t.Fatal(err)
	}
	write(t, path("closed"), "\xef\xbb\xbf---\r\nname: closed\r\n")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path("socket")}); err != nil && !errors.Is(err, syscall.EINVAL) { // too long a path
		t.Fatal(err)
	}
	began := time.Now()
	set, warnings := load(t, dir)
	got := surface(set, "fifo", "large", "directory", "closed", "ok")
	gate.Time(t, "load", began, 30*time.Second)
	for _, want := range []string{"large/SKILL.md: 104857600 bytes, more than the limit of 1048576; ", "fifo/SKILL.md: not a regular file", "directory/SKILL.md: not a regular file", "the front matter does not end", "Fine."} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %.2000q", want, got)
		}
	}
	if len(*warnings) < 4 || names(set.Skills(all)) != "ok" {
		t.Errorf("%s, %q", names(set.Skills(all)), *warnings)
	}
	if _, err := Parse("SKILL.md", make([]byte, maxFile+1)); err == nil || !strings.Contains(err.Error(), "more than the limit") {
		t.Errorf("%v", err)
	}
}

// TestAttackDepth has a skill below the depth limit, and one at the limit.
func TestAttackDepth(t *testing.T) {
	deep := strings.Repeat("d/", maxDepth)
	dir := tree(t, deep+"SKILL.md", text("deep", "D", "x"), strings.Repeat("e/", maxDepth+1)+"SKILL.md", text("deeper", "D", "x"))
	name := dir
	for range 200 {
		name = filepath.Join(name, "x")
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		t.Fatal(err)
	}
	set, warnings := load(t, dir)
	if got := names(set.Skills(all)); got != "deep" || len(*warnings) != 2 {
		t.Errorf("%q, %q", got, *warnings)
	}
}

// TestAttackMany has more directories, and more skills, than anybody looks at.
func TestAttackMany(t *testing.T) {
	race.Skip(t)
	dir := tree(t, "0/SKILL.md", text("first", "F", "x"))
	for i := range 10_000 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("d%05d", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "z/SKILL.md"), text("last", "L", "x"))
	began := time.Now()
	set, warnings := load(t, dir)
	gate.Time(t, "load", began, 30*time.Second)
	if got := names(set.Skills(all)); got != "first" || len(*warnings) != 1 || !strings.Contains((*warnings)[0], "more than 4096 directories") {
		t.Errorf("%q, %q", got, *warnings)
	}

	var files []string
	for i := range maxSkills + 50 {
		name := fmt.Sprintf("s%04d", i)
		files = append(files, name+"/SKILL.md", text(name, strings.Repeat("long ", 200), "x"))
	}
	set, warnings = load(t, tree(t, files...))
	if n := len(set.Skills(all)); n != maxSkills || len(*warnings) != 1 || !strings.Contains((*warnings)[0], "more than 1000 skills") {
		t.Errorf("%d skills, %q", n, *warnings)
	}
	list := call(set, all, "").Output
	if len(list) > maxListed+100 || !strings.Contains(list, "\n... and 9") || strings.Contains(list, "left out]") {
		t.Errorf("a list of %d bytes: %q", len(list), list[len(list)-100:])
	}
	res := set.Resources(all)
	if len(res) > maxResources+100 || !strings.Contains(res, " more: the skill tool") {
		t.Errorf("resources of %d bytes", len(res))
	}
	if more := fmt.Sprintf("... and %d more: the skill tool", maxSkills-strings.Count(res, "\n- ")); !strings.Contains(res, more) {
		t.Errorf("resources end in %q, want %s", res[len(res)-100:], more)
	}
}

// TestUnreadable has directories that may not be read: the others are found.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("SKIPPED: root reads everything")
	}
	dir := tree(t, "a/b/SKILL.md", text("a", "A", "x"), "c/SKILL.md", text("c", "C", "x"), "d/SKILL.md", text("d", "D", "x"))
	for _, name := range []string{"a", "c/SKILL.md"} {
		if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "a"), 0o700) })
	set, warnings := load(t, dir)
	if got := names(set.Skills(all)); got != "d" || len(*warnings) != 2 {
		t.Errorf("%q, %q", got, *warnings)
	}
}

// TestNoWorkingDirectory uses a relative directory after the working directory was
// removed.
func TestNoWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(gone)
	if err := os.Remove(gone); err != nil {
		t.Skipf("SKIPPED: the working directory cannot be removed here: %v", err)
	}
	if file, err := New(faultfs.NewMem(), "skills", "a", "A"); file != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("new: %q, %v", file, err)
	}
	m := fewDirs(t)
	if list, problems, err := Check(m, Dir{Path: "s"}); list != nil || problems != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("check: %v, %v, %v", list, problems, err)
	}
	if list := Load(m, []Dir{{Path: "s"}}, nil).Skills(all); len(list) != 1 || list[0].File != "s/a/SKILL.md" {
		t.Errorf("%+v", list)
	}
}
