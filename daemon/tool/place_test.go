//go:build unix

package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/crmem/vfs/vfstest"
)

// TestContains checks which opened directories a name in a directory is.
func TestContains(t *testing.T) {
	m := newSwapDesk(t)
	open := func(dir string) vfs.RootDir {
		root, err := m.Root(dir)
		if err != nil {
			t.Fatal(err)
		}
		return root
	}
	work := open("/work")
	for _, c := range []struct {
		name, dir string
		want      bool
	}{{"sub", "/work/sub", true}, {"sub", "/other", false}, {"link", "/work/sub", false}, {"link", "/other", false}, {"file", "/work/sub", false}, {"none", "/work/sub", false}, {".", "/work", true}} {
		if err := contains(work, c.name, open(c.dir)); (err == nil) != c.want {
			t.Errorf("%s is %s: %v, want %v", c.name, c.dir, err, c.want)
		}
	}
	for _, c := range []struct {
		a, b vfs.Identity
		want bool
	}{{vfs.Identity{Dev: 1, Ino: 2}, vfs.Identity{Dev: 1, Ino: 2, Links: 3}, true}, {vfs.Identity{Dev: 1, Ino: 2}, vfs.Identity{Dev: 1, Ino: 3}, false}, {vfs.Identity{Dev: 1, Ino: 2}, vfs.Identity{Dev: 2, Ino: 2}, false}} {
		if got := same(c.a, c.b); got != c.want {
			t.Errorf("%+v and %+v: %v", c.a, c.b, got)
		}
	}
	for _, c := range []struct {
		path, dir, rel string
		want           bool
	}{{"/a/b", "/a", "b", true}, {"/a", "/a", ".", true}, {"/a", "/a/b", "..", false}, {"/ab", "/a", "../ab", false}, {"a", "/b", "", false}} {
		if rel, ok := below(c.path, c.dir); rel != c.rel || ok != c.want {
			t.Errorf("%s below %s: %q, %v", c.path, c.dir, rel, ok)
		}
	}
	// Without identities, names count.
	hidden := hiddenFiles{{"/a", vfs.Identity{Dev: 1, Ino: 2}}, {"/h", vfs.Identity{}}}
	for path, want := range map[string]bool{"/h": true, "/h/x": true, "/hx": false, "/": false} {
		if got := hidden.has(path, vfs.Identity{}); got != want {
			t.Errorf("%s is hidden: %v, want %v", path, got, want)
		}
	}
	if hidden.has("/h", vfs.Identity{Dev: 3, Ino: 4}) || !hidden.has("/other", vfs.Identity{Dev: 1, Ino: 2}) {
		t.Error("with identities, names count")
	}
}

// newSwapDesk returns a machine with the directory /work of a session, and hidden files.
func newSwapDesk(t *testing.T) *faultfs.Mem {
	t.Helper()
	m := faultfs.NewMem()
	for _, dir := range []string{"/work/sub", "/hidden", "/other"} {
		if err := vfs.MkdirAll(m, dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/work/file", "/work/sub/file", "/hidden/file", "/other/file", "/key"} {
		m.WriteFile(name, []byte("in "+name+"\n"), 0o600)
	}
	m.Symlink("sub", "/work/link")
	if err := m.Link("/key", "/work/hardkey"); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestSwaps replaces a directory or a file before each call of the file system by
// read, which returns no hidden file and closes all files.
func TestSwaps(t *testing.T) {
	scene := newSwapDesk(t)
	swaps := []struct {
		name string
		swap func(m *faultfs.Mem) error
	}{
		{"directory by a link to a hidden one", func(m *faultfs.Mem) error {
			m.Symlink("/hidden", "/work/new")
			return swapped(m.Rename("/work/sub", "/work/old"), m.Rename("/work/new", "/work/sub"))
		}},
		{"directory by another", func(m *faultfs.Mem) error {
			return swapped(m.Rename("/work/sub", "/work/old"), m.Rename("/other", "/work/sub"))
		}},
		{"file by a hidden one", func(m *faultfs.Mem) error { return m.Rename("/work/hardkey", "/work/sub/file") }},
		{"file by a link", func(m *faultfs.Mem) error {
			m.Symlink("/hidden/file", "/work/new")
			return m.Rename("/work/new", "/work/sub/file")
		}},
		{"file by a directory", func(m *faultfs.Mem) error {
			return swapped(m.Remove("/work/sub/file"), m.Mkdir("/work/sub/file", 0o700))
		}},
	}
	for _, s := range swaps {
		for n := 1; ; n++ {
			m := scene.Kill()
			counted := &vfstest.Handles{FS: m}
			files := NewFiles(counted, []string{"/hidden", "/key"})
			seen, which := 0, ""
			m.Hook = func(c faultfs.Call) error {
				if seen++; seen == n {
					which = c.Op + " " + c.Name
					m.Hook = nil
					if err := s.swap(m); err != nil {
						t.Errorf("%s: %v", s.name, err)
					}
				}
				return nil
			}
			b, err := json.Marshal(map[string]string{"path": "sub/file"})
			if err != nil {
				t.Fatal(err)
			}
			out, err := files.Tools()[0].Run(t.Context(), Call{Dir: "/work", Arguments: b})
			if strings.Contains(out, "/hidden") || strings.Contains(out, "/key") || which == "" && (err != nil || !strings.Contains(out, "in /work/sub/file")) {
				t.Errorf("%s before %s: %s, %v", s.name, which, out, err)
			}
			if open := counted.Count(); open != 0 {
				t.Errorf("%s before %s: %d open", s.name, which, open)
			}
			if which == "" {
				break
			}
		}
	}
}

func swapped(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// TestRemembered checks that as many files and sessions are remembered as the
// limits allow.
func TestRemembered(t *testing.T) {
	f := NewFiles(faultfs.NewMem(), nil)
	known := func(sessions uint64, files int) (n int) {
		for s := range sessions {
			for i := range files {
				if _, ok := f.remembered(s, fmt.Sprint(i)); ok {
					n++
				}
			}
		}
		return n
	}
	for s := range uint64(maxSessions) {
		f.remember(s, "0", sum{})
	}
	if n := known(maxSessions, 1); n != maxSessions {
		t.Errorf("%d sessions are known, want %d", n, maxSessions)
	}
	for s := range uint64(3) {
		f.remember(maxSessions+s, "0", sum{})
		if _, ok := f.remembered(maxSessions+s, "0"); !ok {
			t.Errorf("session %d is unknown", maxSessions+s)
		}
	}
	if n := known(maxSessions+3, 1); n != maxSessions {
		t.Errorf("%d sessions are known, want %d", n, maxSessions)
	}
	f = NewFiles(faultfs.NewMem(), nil)
	for i := range maxSeen {
		f.remember(0, fmt.Sprint(i), sum{byte(i)})
	}
	if n := known(1, maxSeen); n != maxSeen {
		t.Errorf("%d files are known, want %d", n, maxSeen)
	}
	for i := range 3 {
		f.remember(0, fmt.Sprint(maxSeen+i), sum{})
		if _, ok := f.remembered(0, fmt.Sprint(maxSeen+i)); !ok {
			t.Errorf("file %d is unknown", maxSeen+i)
		}
	}
	if n := known(1, maxSeen+3); n != maxSeen {
		t.Errorf("%d files are known, want %d", n, maxSeen)
	}
}

// TestViewMemory checks that a long line takes no more memory than the result.
func TestViewMemory(t *testing.T) {
	v := &view{first: 1, limit: 1}
	for range 100 {
		v.Write([]byte(strings.Repeat("x", 4096)))
	}
	if len(v.line) != readOutput || v.left != 100*4096-readOutput {
		t.Errorf("%d bytes of the line are kept, and %d are not, want %d", len(v.line), v.left, readOutput)
	}
}
