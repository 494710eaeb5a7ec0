package vfs_test

import (
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/golden"
)

// TestReportsOfSystemCalls makes each call with each name on a real file system.
// It compares the error classes, the results, and the changed files.
func TestReportsOfSystemCalls(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	names := []string{
		"f", "f/", "f/x", "big", "new", "new/x", "hard", "link", "link/x", "abs", "dangling", "loop", "fifo", "d", "d/", "d/.", "d/..",
		"d/f", "d/../f", "d/new", "d/sub/f", "d/empty", "d/empty/new", "d/up/f", "d/abs", "d/in/f", "dirlink", "dirlink/f", "dirlink/new",
		"dangling/x", "absdir/f", strings.Repeat("a", 256),
	}
	var r golden.Reports
	made := 0
	dir := ""
	build := func() {
		if dir != "" {
			must(t, os.RemoveAll(dir))
		}
		made++
		dir = fmt.Sprintf("%s/%d", top, made)
		must(t, os.MkdirAll(dir+"/d/sub", 0o755), os.Mkdir(dir+"/d/empty", 0o755))
		for _, name := range []string{"f", "d/f", "d/sub/f"} {
			must(t, os.WriteFile(dir+"/"+name, []byte(name), 0o644))
		}
		must(t, os.WriteFile(dir+"/big", make([]byte, 9000), 0o600), os.Link(dir+"/f", dir+"/hard"), syscall.Mkfifo(dir+"/fifo", 0o600))
		for _, link := range [][2]string{
			{"link", "f"}, {"abs", dir + "/d/f"}, {"dirlink", "d"}, {"absdir", dir + "/d/sub"}, {"dangling", "nowhere"}, {"loop", "loop"},
			{"d/up", ".."}, {"d/abs", dir + "/f"}, {"d/in", "sub"},
		} {
			must(t, os.Symlink(link[1], dir+"/"+link[0]))
		}
	}
	build()
	before := realFiles(t, dir)
	run := func(root bool) func(string, treeCall, string, string) {
		return func(title string, c treeCall, a, b string) {
			if (c.name == "sync" || c.name == "root") && strings.HasSuffix(a, "fifo") {
				return // the open of a FIFO waits for a writer
			}
			var tree vfs.Tree = vfs.OS{}
			if root {
				d, err := tree.(vfs.FS).Root(dir + "/d")
				must(t, err)
				defer d.Close()
				tree, title = d, "root: "+title
			} else {
				a, b = dir+"/"+a, dir+"/"+b
			}
			result, err := c.do(tree, a, b)
			after := realFiles(t, dir)
			changed := changes(before, after)
			text := fmt.Sprintf("%s\n%s\n%s", class(err), result, changed)
			text = temporary.ReplaceAllString(strings.ReplaceAll(text, dir, "/DIR"), "*")
			r.Add(title, text)
			if changed != "" {
				build()
				before = realFiles(t, dir)
			}
		}
	}
	eachCall(treeCalls, names, run(false))
	eachCall(machineCalls, names, run(false))
	eachCall(treeCalls, rootNames, run(true))
	r.Compare(t, "testdata/reports/system.txt.gz")
}

// temporary matches the random part of a temporary file's name.
var temporary = regexp.MustCompile(`[0-9]{6,}`)

// realFiles returns one line for each file under dir. The lines omit properties
// that the file system chooses, such as inodes and sizes of directories.
func realFiles(t *testing.T, dir string) []string {
	var list []string
	must(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := vfs.OS{}.Lstat(name)
		if err != nil {
			return err
		}
		line := fmt.Sprint(name, " ", fi.Mode())
		if fi.Mode().IsRegular() {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" links %d size %d sum %08x", vfs.Identify(fi).Links, fi.Size(), crc32.ChecksumIEEE(b))
		}
		list = append(list, line)
		return nil
	}))
	return list
}
