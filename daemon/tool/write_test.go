//go:build unix

package tool

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	d := newDesk(t)
	c := Call{Dir: d.work, Session: 7}
	write := func(path, content string, create bool, want string) {
		t.Helper()
		if got := d.run(d.write, c, "path", path, "content", content, "create", create); got != want {
			t.Errorf("write %s: %q, want %q", path, got, want)
		}
	}
	write("new", "a\n", true, "wrote 2 bytes")
	write("new", "ab\n", true, "new exists: write it without create, or choose another path")
	write("new", "ab\n", false, "wrote 3 bytes") // the session wrote what it replaces
	if got := d.text("work/new"); got != "ab\n" {
		t.Errorf("%q", got)
	}
	write("file", "x", false, "you must read file before editing it")
	d.run(d.read, c, "path", "file")
	if err := os.Chmod(d.work+"/file", 0o640); err != nil {
		t.Fatal(err)
	}
	d.put("work/file", "OPEN\nlater\n")
	write("file", "x", false, "file has changed since you read it: read it again before editing it")
	d.run(d.read, c, "path", "file")
	write("file", "x", false, "wrote 1 bytes")
	if fi, err := os.Stat(d.work + "/file"); err != nil || fi.Mode() != 0o640 || d.text("work/file") != "x" {
		t.Errorf("%v %v %q", fi.Mode(), err, d.text("work/file"))
	}
	write("sub", "x", false, "sub is a directory")
	write("a/b/c/file", "deep", false, "wrote 4 bytes")
	write(d.work+"/a/b/other", "deep", false, "wrote 4 bytes")
	if got := d.text("work/a/b/c/file") + d.text("work/a/b/other"); got != "deepdeep" {
		t.Errorf("%q", got)
	}
	if fi, err := os.Stat(d.work + "/a/b/c/file"); err != nil || fi.Mode() != 0o644 {
		t.Errorf("%v %v", fi, err)
	}
	d.run(d.read, c, "path", "filelink")
	write("filelink", "through the link", false, "wrote 16 bytes")
	if fi, err := os.Lstat(d.work + "/filelink"); err != nil || fi.Mode()&fs.ModeSymlink == 0 || d.text("work/sub/deep/file") != "through the link" {
		t.Errorf("the link was replaced, not the file: %v %v", fi, err)
	}
	for _, path := range []string{"../x", d.home + "/x", "file/x", ".", "out/x", "dangling/x", "up/x"} {
		write(path, "x", false, path+": no such file under "+d.work)
	}
	write("", "x", false, "path must not be empty")
	// A file that crabmem will create is hidden before it exists, in any case.
	c.Dir = d.home
	for _, path := range []string{"missing", "MISSING", "share/data/new", "share/data/new/file"} {
		if got := d.run(d.write, c, "path", path, "content", "x"); !strings.HasPrefix(got, path+": no such file under "+d.home) {
			t.Errorf("%s: %s", path, got)
		}
	}
	d.unchanged()
	left, err := filepath.Glob(d.work + "/.*")
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v %v", left, err)
	}
}

func TestList(t *testing.T) {
	d := newDesk(t)
	d.put("work/sub/deep/other", "")
	d.put("work/line\nfeed", "")
	list := func(dir, want string, fields ...any) {
		t.Helper()
		if got := d.run(d.list, Call{Dir: dir}, fields...); got != want {
			t.Errorf("%v: %q, want %q", fields, got, want)
		}
	}
	list(d.work, "back@\ndata@\ndeep/\n--- 3 names ---", "path", "sub")
	list(d.work, "back@\ndata@\ndeep/\n--- 5 names (showing 3) ---", "path", "sub", "depth", 2, "limit", 3)
	list(d.work, "file\t5\nother\t0\n--- 2 names ---", "path", "inside")
	list(d.work, "file\t5\n--- 2 names (showing 1) ---", "path", "sub/deep/", "limit", 1)
	list(d.work, "file is a file: use read", "path", "file")
	list(d.work, "depth must be from 1 to 3, and limit must not be negative", "depth", 4)
	for _, path := range []string{"none", "..", "data", "up/share", d.home} {
		list(d.work, path+": no such file under "+d.work, "path", path)
	}
	if got := d.run(d.list, Call{Dir: d.work}); !strings.Contains(got, "\nfile\t13\n") || !strings.Contains(got, "\nline?feed\t0\n") || strings.Contains(got, "deep") {
		t.Error(got)
	}
	if got := d.run(d.list, Call{Dir: d.home}, "depth", 3); !strings.Contains(got, "work/sub/deep/\n") || !strings.Contains(got, "share/\nwork/\n") && !strings.Contains(got, "\nshare/\n") || strings.Contains(got, "closed-f3b1") || strings.Contains(got, "key\t") {
		t.Errorf("hidden files are listed, or others are not: %s", got)
	}
	for i := range 600 {
		d.put(fmt.Sprintf("outside/%d%s", i, strings.Repeat("n", 200)), "")
	}
	if got := d.run(d.list, Call{Dir: d.home + "/outside"}, "limit", 100_000); len(got) > MaxOutput || !strings.Contains(got, "--- 601 names (showing ") {
		t.Errorf("%d bytes: %s", len(got), got[len(got)-80:])
	}
}

// TestInstructions opens the Crab.md of the home, and only it, to read and edit.
func TestInstructions(t *testing.T) {
	d := newDesk(t)
	file := d.home + "/share/data/Crab.md"
	d.put("share/data/Crab.md", "Be brief.\n")
	open := Call{Session: 7, Scope: For(Grant{Instructions: file})}
	if got := d.run(d.edit, open, "path", file, "old_string", "brief", "new_string", "exact"); got != "you must read "+file+" before editing it" {
		t.Error(got)
	}
	if got := d.run(d.read, open, "path", file); !strings.HasPrefix(got, "1\tBe brief.\n") {
		t.Error(got)
	}
	if got := d.run(d.edit, open, "path", file, "old_string", "brief", "new_string", "exact"); got != "ok" || d.text("share/data/Crab.md") != "Be exact.\n" {
		t.Errorf("%s: %q", got, d.text("share/data/Crab.md"))
	}
	closed := []Call{{Dir: d.work, Scope: For(Grant{})}, {Dir: d.work, Scope: Unbounded()}, {Dir: d.work, Scope: For(Grant{Instructions: file}).Intersect(For(Grant{}))}}
	for _, c := range closed {
		if got := d.run(d.read, c, "path", file); !strings.Contains(got, "edit_instructions") || strings.Contains(got, "exact") {
			t.Errorf("%+v: %s", c.Scope, got)
		}
	}
	open.Dir = d.work
	for _, path := range []string{d.home + "/share/data/secret", d.home + "/share/data/./Crab.md", d.home + "/share/data"} {
		if got := d.run(d.read, open, "path", path); !strings.Contains(got, "no such file") {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := d.run(d.write, open, "path", file, "content", "x"); !strings.Contains(got, "no such file") {
		t.Error(got)
	}
	if prompt := open.Scope.Prompt(); !strings.Contains(prompt, "\ninstructions that you may read and edit: "+file+"\n") {
		t.Error(prompt)
	}
}
