package importer

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
)

// changingFS changes a page between the listing and the reading of a directory.
type changingFS struct {
	vfs.FS
	change map[string]func() // by name, before it is read
}

func (c changingFS) Root(dir string) (vfs.RootDir, error) {
	root, err := c.FS.Root(dir)
	return changingRoot{root, c.change}, err
}

type changingRoot struct {
	vfs.RootDir
	change map[string]func()
}

func (c changingRoot) Lstat(name string) (fs.FileInfo, error) {
	fi, err := c.RootDir.Lstat(name)
	if change := c.change[name]; change != nil {
		change()
	}
	return fi, err
}

// TestPagesThatChange changes pages during the import. Each is read in bounded memory,
// or omitted with a reason.
func TestPagesThatChange(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"gone.md", "grown.md", "linked.md", "replaced.md", "same.md"} {
		check(os.WriteFile(at(name), []byte("text of "+name), 0o600))
	}
	m, err := ReadMarkdown(Markdown, changingFS{vfs.OS{}, map[string]func(){
		"gone.md":     func() { check(os.Remove(at("gone.md"))) },
		"grown.md":    func() { check(os.WriteFile(at("grown.md"), []byte(strings.Repeat("x", 9<<20)), 0o600)) },
		"linked.md":   func() { check(os.Remove(at("linked.md"))); check(os.Symlink("/etc/passwd", at("linked.md"))) },
		"replaced.md": func() { check(os.Remove(at("replaced.md"))); check(os.Mkdir(at("replaced.md"), 0o700)) },
	}}, dir, nil)
	check(err)
	if len(m.Notes) != 1 || m.Notes[0].Text != "text of same.md" {
		t.Errorf("notes %+v", m.Notes)
	}
	if left(m.Left, "not a regular file, or removed during the import") != 3 || left(m.Left, "larger than 8 MiB") != 1 {
		t.Errorf("left out %+v", m.Left)
	}
}

// TestDirectoriesInACircle reads a tree with links to its own directories.
func TestDirectoriesInACircle(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"a/b/up": "..", "a/self": ".", "a/b/top": dir} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip("SKIPPED: no symbolic links")
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "b", "page.md"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := ReadMarkdown(Markdown, vfs.OS{}, dir, nil)
	if err != nil || len(m.Notes) != 1 || left(m.Left, "symbolic link, not followed") != 3 {
		t.Errorf("%+v, %v", m, err)
	}
	link := filepath.Join(t.TempDir(), "vault")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if again, err := ReadMarkdown(Markdown, vfs.OS{}, link, nil); err != nil || len(again.Notes) != 1 || again.Notes[0].ID != m.Notes[0].ID {
		t.Errorf("through a link: %+v, %v", again, err)
	}
}
