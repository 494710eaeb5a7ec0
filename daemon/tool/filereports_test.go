package tool

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/crmem/vfs/vfstest"
	"crabmem/fuzz/golden"
)

// reportDesk returns a machine with the directory /work of a session, hidden files,
// and links.
func reportDesk(t *testing.T) *faultfs.Mem {
	t.Helper()
	m := faultfs.NewMem()
	for _, dir := range []string{"/work/sub", "/hidden/in", "/other", "/work/closed", "/work/vault/in"} {
		if err := vfs.MkdirAll(m, dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/work/file", "/work/sub/file", "/hidden/file", "/hidden/in/file", "/other/file", "/work/closed/file", "/work/vault/file", "/work/vault/in/file", "/key"} {
		m.WriteFile(name, []byte("one two\nin "+name+"\n"), 0o600)
	}
	m.WriteFile("/work/windows", []byte("one two\r\nthree\r\n"), 0o640)
	m.WriteFile("/work/twice", []byte("one one\n"), 0o600)
	m.WriteFile("/work/locked", []byte("one two\n"), 0o400)
	m.WriteFile("/work/unreadable", []byte("one two\n"), 0o200)
	m.WriteFile("/work/binary", []byte("one\x00two"), 0o600)
	for _, link := range [][2]string{{"sub", "/work/link"}, {"/hidden", "/work/secret"}, {"../other", "/work/out"}, {"file", "/work/alias"}, {"/key", "/work/keylink"}, {"none", "/work/dangling"}, {"loop", "/work/loop"}, {"/work", "/desk"}} {
		m.Symlink(link[0], link[1])
	}
	m.Mkfifo("/work/fifo")
	if err := m.Link("/key", "/work/hardkey"); err != nil {
		t.Fatal(err)
	}
	m.Chmod("/work/closed", 0o100)
	m.Chmod("/work/vault", 0o100)
	return m
}

// TestReportsOfFiles compares what read and edit return for each path, and if a call of
// the file system fails.
func TestReportsOfFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the paths are of Unix")
	}
	var r golden.Reports
	scene := reportDesk(t)
	paths := []string{"file", "./file", "sub/file", "sub/../file", "../work/file", "../other/file", "/work/file", "/desk/file", "/other/file", "link/file", "secret/file", "secret/in/file", "out/file", "alias", "keylink", "hardkey", "dangling", "loop",
		"fifo", "sub", ".", "", "..", "/", "none", "none/file", "file/x", "windows", "twice", "locked", "unreadable", "binary", "closed/file", "closed/none", "vault/file", "vault/in/file", "vault", "a\x00b", strings.Repeat("p", 4096), strings.Repeat("p", 4097), "/hidden/file", "sub/", "file/"}
	edits := [][2]string{{"one", "1"}, {"one two\nin", "x\ny"}, {"none", "x"}, {"", "x"}, {"one", "one"}, {"one two\nthree", "1\n2\n3"}, {"o", ""}}
	run := func(m *faultfs.Mem, dir, path string, edit [2]string, arm func()) string {
		hidden := []string{"/absent/x", "/hidden", "/key", "/absent", "/work/vault"}
		counted := &vfstest.Handles{FS: m}
		files := NewFiles(counted, hidden)
		clear(hidden) // it is the caller's
		tools := files.Tools()
		do := func(tool Tool, session uint64, fields map[string]any) string {
			b, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			out, err := tool.Run(t.Context(), Call{Dir: dir, Session: session, Arguments: b})
			return fmt.Sprintf("%.300s [%.300v]", out, err)
		}
		fields := map[string]any{"path": path, "old_string": edit[0], "new_string": edit[1]}
		text := do(tools[1], 1, fields) + "\n"
		arm()
		text += do(tools[0], 1, map[string]any{"path": path}) + "\n" + do(tools[1], 1, fields) + "\n" + do(tools[1], 2, fields)
		m.Hook = nil
		text += "\n" + do(tools[1], 1, map[string]any{"path": path, "old_string": "two", "new_string": "2"})
		files.Forget(1)
		text += "\n" + do(tools[1], 1, fields)
		for _, name := range []string{"file", "sub/file", "windows", "twice", "locked"} {
			if b, err := vfs.ReadFile(m, "/work/"+name, 1000); err == nil {
				fi, _ := m.Lstat("/work/" + name)
				text += fmt.Sprintf("\n%s %v %q", name, fi.Mode(), b)
			}
		}
		if n := counted.Count(); n != 0 {
			t.Errorf("%s in %s: %d open", path, dir, n)
		}
		return text
	}
	for _, path := range paths {
		for _, edit := range edits {
			r.Add(fmt.Sprintf("%.30q %d, %q", path, len(path), edit), run(scene.Kill(), "/work", path, edit, func() {}))
		}
	}
	for _, dir := range []string{"", "/", "/desk", "/none", "/work/file", "/work/closed", "/work/secret", "work"} {
		for _, path := range []string{"file", "/work/file", "/desk/file", "work/file"} {
			r.Add(fmt.Sprintf("in %q: %q", dir, path), run(scene.Kill(), dir, path, edits[0], func() {}))
		}
	}
	for _, path := range []string{"sub/file", "link/file"} {
		for n := 1; ; n++ {
			m := scene.Kill()
			seen, which := 0, ""
			text := run(m, "/work", path, edits[0], func() {
				m.Hook = func(c faultfs.Call) error {
					if seen++; seen == n {
						which = c.Op + " " + c.Name
						return []error{syscall.EIO, fs.ErrPermission, fs.ErrNotExist, &faultfs.Fault{Err: syscall.EIO, Done: true}}[n%4]
					}
					return nil
				}
			})
			r.Add(fmt.Sprintf("%s: call %d fails", path, n), which+"\n"+text)
			if which == "" {
				break
			}
		}
	}
	r.Compare(t, "testdata/reports/files.txt.gz")
}
