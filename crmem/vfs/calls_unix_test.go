//go:build unix

package vfs_test

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
)

// treeCall is a call or a series of calls with one or two names.
type treeCall struct {
	name string
	two  bool // do uses both names
	do   func(tree vfs.Tree, a, b string) (string, error)
}

// openCall opens a file with flag, then makes each call of an open file.
func openCall(name string, flag int) treeCall {
	return treeCall{name: name, do: func(tree vfs.Tree, a, _ string) (string, error) {
		f, err := tree.OpenFile(a, flag, 0o640)
		if err != nil {
			if f != nil {
				return "file and error", err
			}
			return "", err
		}
		n, werr := f.Write([]byte("written"))
		b := make([]byte, 10)
		r, rerr := f.ReadAt(b, 0)
		q, qerr := f.Read(b[r:])
		fi, serr := f.Stat()
		stat := fmt.Sprint(serr)
		if serr == nil {
			stat = fmt.Sprint(fi.Name(), " ", fi.Size())
		}
		return fmt.Sprintf("write %d, %s; read %q, %s; then %d, %s; stat %s; truncate %v", n, class(werr), b[:r], class(rerr), q, class(qerr),
			stat, f.Truncate(5) == nil), f.Close()
	}}
}

var treeCalls = []treeCall{
	openCall("open", os.O_RDONLY), openCall("open to write", os.O_WRONLY), openCall("open for both", os.O_RDWR),
	openCall("create", os.O_RDWR|os.O_CREATE), openCall("create new", os.O_WRONLY|os.O_CREATE|os.O_EXCL),
	openCall("append", os.O_RDWR|os.O_APPEND), openCall("open new only", os.O_RDWR|os.O_EXCL),
	{name: "replace", do: func(tree vfs.Tree, a, _ string) (string, error) {
		return "", vfs.Replace(tree, a, 0o604, func(w io.Writer) error { _, err := io.WriteString(w, "replaced"); return err })
	}},
	{name: "discard", do: func(tree vfs.Tree, a, _ string) (string, error) {
		p, err := tree.Pending(a, 0o604)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(p.Discard()), p.Discard()
	}},
	{name: "read", do: func(tree vfs.Tree, a, _ string) (string, error) {
		b, fi, err := vfs.ReadFileInfo(tree, a, 8)
		if err != nil {
			return "", err
		}
		over, err := vfs.ReadFileOver(make([]byte, 2, 100), tree, a, 8)
		return fmt.Sprintf("%q %q of %s, %d bytes", b, over, fi.Name(), fi.Size()), err
	}},
	{name: "remove", do: func(tree vfs.Tree, a, _ string) (string, error) { return "", tree.Remove(a) }},
	{name: "mkdir", do: func(tree vfs.Tree, a, _ string) (string, error) { return "", tree.Mkdir(a, 0o750) }},
	{name: "mkdir all", do: func(tree vfs.Tree, a, _ string) (string, error) { return "", vfs.MkdirAll(tree, a, 0o750) }},
	{name: "list", do: func(tree vfs.Tree, a, _ string) (string, error) {
		list, err := tree.ReadDir(a)
		return fmt.Sprint(list), err
	}},
	{name: "lstat", do: func(tree vfs.Tree, a, _ string) (string, error) {
		fi, err := tree.Lstat(a)
		if err != nil {
			return fmt.Sprint(fi), err
		}
		return fmt.Sprint(fi.Name(), " ", fi.Mode(), " ", fi.IsDir()), nil
	}},
	{name: "check", do: func(tree vfs.Tree, a, _ string) (string, error) {
		fi, changed, err := vfs.CheckName(tree, a, nil)
		return fmt.Sprint(fi != nil, " ", changed), err
	}},
	{name: "rename", two: true, do: func(tree vfs.Tree, a, b string) (string, error) { return "", tree.Rename(a, b) }},
	{name: "link", two: true, do: func(tree vfs.Tree, a, b string) (string, error) { return "", tree.Link(a, b) }},
}

// machineCalls lists the calls of an FS that a Tree lacks. The tree must be an
// FS.
var machineCalls = []treeCall{
	{name: "resolve", do: func(tree vfs.Tree, a, _ string) (string, error) { return tree.(vfs.FS).Resolve(a) }},
	{name: "lock", do: func(tree vfs.Tree, a, _ string) (string, error) {
		l, err := tree.(vfs.FS).Lock(a)
		if err != nil {
			return "", err
		}
		_, second := tree.(vfs.FS).Lock(a)
		err = l.SetText("text of the lock")
		text, terr := l.Text()
		return fmt.Sprintf("%s, %q, %v, %v", class(second), text, terr, l.Unlock()), err
	}},
}

// eachCall calls f for each call with each name. For a call with two names, it
// uses the pairs of pairNames whose first name is in names.
func eachCall(calls []treeCall, names []string, f func(title string, c treeCall, a, b string)) {
	for _, c := range calls {
		for _, a := range names {
			if !c.two {
				f(fmt.Sprintf("%s %.20q", c.name, a), c, a, "")
				continue
			}
			if !slices.Contains(pairNames, a) {
				continue
			}
			for _, b := range pairNames {
				f(fmt.Sprintf("%s %.20q to %.20q", c.name, a, b), c, a, b)
			}
		}
	}
}

// callNames lists existing, missing, and invalid names in the directory of callScene,
// and rootNames those in its subdirectory d.
var callNames = []string{
	"f", "f/x", "big", "new", "new/x", "hard", "link", "link/x", "abs", "dangling", "loop", "fifo", "d", "d/f", "d/new", "d/sub/f", "d/empty",
	"d/empty/new", "d/up/f", "d/abs", "d/in/f", "dirlink", "dirlink/f", "dirlink/new", "dangling/x", "absdir/f",
}

var rootNames = []string{
	".", "..", "/", "/f", "f", "f/x", "new", "new/x", "sub", "sub/f", "sub/new", "sub/../f", "sub/../../f", "empty",
	"empty/new", "up", "up/f", "up/d/f", "abs", "abs/x", "in", "in/f", "in/new", "in/back", "sub/back", "../f", "./f",
}

// pairNames lists the names for calls with two names.
var pairNames = []string{"f", "hard", "new", "new/x", "link", "fifo", "d", "d/f", "d/empty", "d/sub", "d/sub/new", "dirlink/new", "sub", "sub/new", "up", "in/f"}

// callScene creates files of each kind.
func callScene(t *testing.T, fsys vfs.FS, dir string, s scene) {
	for _, name := range []string{"d", "d/sub", "d/empty"} {
		must(t, fsys.Mkdir(dir+"/"+name, 0o755))
	}
	for name, text := range map[string]string{"f": "f", "d/f": "d/f", "d/sub/f": "d/sub/f", "big": strings.Repeat("x", 9000)} {
		f, err := fsys.OpenFile(dir+"/"+name, os.O_WRONLY|os.O_CREATE, 0o600)
		must(t, err)
		_, err = io.WriteString(f, text)
		must(t, err, f.Close())
	}
	must(t, fsys.Link(dir+"/f", dir+"/hard"))
	s.mkfifo(dir + "/fifo")
	links := [][2]string{
		{"link", "f"}, {"abs", dir + "/d/f"}, {"dirlink", "d"}, {"absdir", dir + "/d/sub"}, {"dangling", "nowhere"}, {"loop", "loop"},
		{"d/up", ".."}, {"d/abs", dir + "/f"}, {"d/in", "sub"}, {"d/sub/back", "../f"},
	}
	for _, link := range links {
		s.symlink(link[1], dir+"/"+link[0])
	}
}

// sceneFiles returns one line for each file under dir, without properties that the
// file system chooses, such as inodes and sizes of directories.
func sceneFiles(t *testing.T, fsys vfs.FS, dir string) (list []string) {
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		name := dir + "/" + e.Name()
		fi, err := fsys.Lstat(name)
		must(t, err)
		line := fmt.Sprint(name, " ", fi.Mode())
		if fi.Mode().IsRegular() {
			b, err := vfs.ReadFile(fsys, name, 1<<20)
			must(t, err)
			line += fmt.Sprintf(" links %d size %d sum %08x", vfs.Identify(fi).Links, fi.Size(), crc32.ChecksumIEEE(b))
		}
		list = append(list, line)
		if e.IsDir() {
			list = append(list, sceneFiles(t, fsys, name)...)
		}
	}
	return list
}

// changes returns the lines of before that after lacks, marked "-", and the lines
// of after that before lacks, marked "+".
func changes(before, after []string) string {
	var b strings.Builder
	for _, line := range before {
		if !slices.Contains(after, line) {
			fmt.Fprintln(&b, "-", line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			fmt.Fprintln(&b, "+", line)
		}
	}
	return b.String()
}

// TestConformCalls makes each call with each name on a real file system and on a Mem.
// The same calls fail, with the same results and changed files. TestConformErrors
// compares the classes of errors.
func TestConformCalls(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	results := map[string]map[string]string{}
	eachFS(t, func(t *testing.T, fsys vfs.FS, top string, s scene) {
		got := map[string]string{}
		results[filepath.Base(t.Name())] = got
		var before []string
		made, dir := 0, ""
		build := func() {
			made++
			dir = fmt.Sprint(top, "/", made)
			must(t, fsys.Mkdir(dir, 0o755))
			callScene(t, fsys, dir, s)
			before = sceneFiles(t, fsys, dir)
		}
		build()
		run := func(root bool) func(string, treeCall, string, string) {
			return func(title string, c treeCall, a, b string) {
				if c.name == "rename" && a == b {
					return
				}
				var tree vfs.Tree = fsys
				if root {
					d, err := fsys.Root(dir + "/d")
					must(t, err)
					defer d.Close()
					tree, title = d, "root: "+title
				} else {
					a, b = dir+"/"+a, dir+"/"+b
				}
				if fi, err := tree.Lstat(a); c.name == "link" && err == nil && !fi.Mode().IsRegular() {
					return // a Mem links only regular files
				}
				result, err := c.do(tree, a, b)
				changed := changes(before, sceneFiles(t, fsys, dir))
				if err != nil {
					result = "fails"
				}
				got[title] = strings.ReplaceAll(result+"\n"+changed, dir, "/DIR")
				if changed != "" {
					build()
				}
			}
		}
		eachCall(treeCalls, callNames, run(false))
		eachCall(machineCalls, callNames, run(false))
		eachCall(treeCalls, rootNames, run(true))
	})
	for title, want := range results["os"] {
		if got := results["mem"][title]; got != want {
			t.Errorf("%s: %q, want %q", title, got, want)
		}
	}
	t.Logf("%d calls", len(results["os"]))
}
