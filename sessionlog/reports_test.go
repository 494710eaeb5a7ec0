package sessionlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
)

// unstable matches text that differs between two runs of the same calls.
var unstable = regexp.MustCompile(`process \d+|0x[0-9a-f]{9,}`)

// A change is a change of a folder by another program, a fault, or a crash.
type change struct {
	name  string
	crash bool // the power is cut before
	do    func(m *faultfs.Mem)
}

// edit changes the bytes of a file of the folder.
func edit(name, file string, f func([]byte) []byte) change {
	return change{name: file + " " + name, do: func(m *faultfs.Mem) {
		if b, err := vfs.ReadFile(m, file, 1<<20); err == nil {
			m.WriteFile(file, f(bytes.Clone(b)), 0o600)
		}
	}}
}

// act changes a folder with f. A call that fails changes nothing.
func act(name string, f func(m *faultfs.Mem) error) change {
	return change{name: name, do: func(m *faultfs.Mem) { _ = f(m) }}
}

// fileChanges are the changes of the bytes of a session file: each line removed,
// repeated, joined, and swapped, junk before and in each line, and lengths and
// bits at fixed places.
func fileChanges(file string, b []byte) []change {
	var list []change
	lines := bytes.SplitAfter(b, []byte("\n"))
	lines = lines[:len(lines)-1]
	splice := func(name string, i int, with ...[]byte) {
		list = append(list, edit(fmt.Sprintf("line %d %s", i+1, name), file, func([]byte) []byte {
			return bytes.Join([][]byte{bytes.Join(lines[:i], nil), bytes.Join(with, nil), bytes.Join(lines[i+1:], nil)}, nil)
		}))
	}
	for i, line := range lines {
		whole := line[:len(line)-1]
		splice("removed", i)
		splice("repeated", i, line, line)
		splice("joined", i, whole)
		splice("joined with its half", i, whole[:len(whole)/2], line)
		splice("joined in its half", i, whole[:len(whole)/2], []byte(`{"role":"user","content":"whole port"}`), whole[len(whole)/2:], []byte("\n"))
		splice("of NUL bytes", i, make([]byte, len(whole)), []byte("\n"))
		splice("after a blank line", i, []byte(" \n"), line)
		splice("after an unknown object", i, []byte(`{"note":"port"}`+"\n"), line)
		splice("after text", i, []byte("some text\n"), line)
		splice("after a long line", i, []byte(`{"role":"user","content":"`+strings.Repeat("port ", 300)+"\"}\n"), line)
		if i > 0 {
			splice("moved to the start", i)
			last := &list[len(list)-1]
			*last = edit(fmt.Sprintf("line %d moved to the start", i+1), file, func([]byte) []byte {
				return bytes.Join([][]byte{line, bytes.Join(lines[:i], nil), bytes.Join(lines[i+1:], nil)}, nil)
			})
		}
	}
	end := 0
	for i, line := range lines {
		end += len(line)
		for _, n := range []int{end, end - 1, end - 2, end - len(line)/2} {
			list = append(list, edit(fmt.Sprintf("cut to %d bytes, in line %d", n, i+1), file, func(b []byte) []byte { return b[:n] }))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 120 {
		at, bit := r.IntN(len(b)), r.IntN(8)
		list = append(list, edit(fmt.Sprintf("with bit %d flipped at %d", bit, at), file, func(b []byte) []byte {
			b[at] ^= 1 << bit
			return b
		}))
	}
	for _, tail := range []string{"{", `{"role":"user"}`, `{"role":"user"}{"role":"us`, "\x00\x00", " ", "text", `{"compact":"port"}`, `{"meta":{"title":"t"}`, "\n"} {
		list = append(list, edit(fmt.Sprintf("with %q appended", tail), file, func(b []byte) []byte { return append(b, tail...) }))
	}
	return list
}

// folderChanges change names, locks, and files next to the sessions.
func folderChanges() []change {
	const lock = "/s/.locks/crab_user_1.lock"
	state := func(name string, f func(h *vfs.LockHolder)) change {
		return edit(name, lock, func(b []byte) []byte {
			h := vfs.ParseLockHolder(string(b))
			f(&h)
			return []byte(h.Text())
		})
	}
	list := []change{
		{name: "nothing", do: func(*faultfs.Mem) {}},
		{name: "power cut", crash: true, do: func(*faultfs.Mem) {}},
		act(mainFile+" removed", func(m *faultfs.Mem) error { return m.Remove(mainFile) }),
		act(mainFile+" replaced by a directory", func(m *faultfs.Mem) error {
			return errors.Join(m.Remove(mainFile), m.Mkdir(mainFile, 0o700))
		}),
		act(mainFile+" replaced by a link", func(m *faultfs.Mem) error {
			err := m.Rename(mainFile, "/moved")
			m.Symlink("/moved", mainFile)
			return err
		}),
		act(mainFile+" without permissions", func(m *faultfs.Mem) error { m.Chmod(mainFile, 0); return nil }),
		act(mainFile+" renamed", func(m *faultfs.Mem) error { return m.Rename(mainFile, "/s/crab_user_1_other.jsonl") }),
		act(mainFile+" under a free name", func(m *faultfs.Mem) error { return m.Rename(mainFile, "/s/free.jsonl") }),
		act(mainFile+" replaced by another session", func(m *faultfs.Mem) error { return m.Rename("/s/crab_tg-1_1.jsonl", mainFile) }),
		act(mainFile+" with a second file of its ID", func(m *faultfs.Mem) error {
			b, err := vfs.ReadFile(m, mainFile, 1<<20)
			m.WriteFile("/s/crab_user_1_second.jsonl", b, 0o600)
			return err
		}),
		act("leftovers of a replacement", func(m *faultfs.Mem) error {
			m.WriteFile("/s/.crab_user_1.jsonl7", []byte("x"), 0o600)
			m.WriteFile("/s/.crab_user_11.jsonl7", []byte("x"), 0o600)
			return nil
		}),
		act("a name that a title wants", func(m *faultfs.Mem) error {
			m.WriteFile("/s/crab_user_1_new-title.jsonl", []byte("x"), 0o600)
			return nil
		}),
		act("a kept copy", func(m *faultfs.Mem) error {
			err := m.Mkdir("/s/.kept", 0o700)
			m.WriteFile("/s/.kept/crab_user_1_kept-00000001.jsonl", []byte("x"), 0o600)
			return err
		}),
		act("the locks removed", func(m *faultfs.Mem) error {
			return errors.Join(m.Rename("/s/.locks", "/locks"))
		}),
		act("the trash removed", func(m *faultfs.Mem) error { return m.Rename("/s/.trash", "/trash") }),
		act("the folder removed", func(m *faultfs.Mem) error { return m.Rename("/s", "/away") }),
		act("the folder without permissions", func(m *faultfs.Mem) error { m.Chmod("/s", 0o500); return nil }),
		act("the lock held", func(m *faultfs.Mem) error { _, err := m.Lock(lock); return err }),
		state("dirty", func(h *vfs.LockHolder) { h.Clean = -1 }),
		state("dirty of another boot", func(h *vfs.LockHolder) { h.Clean, h.Boot = -1, "other" }),
		state("dirty without a boot", func(h *vfs.LockHolder) { h.Clean, h.Boot = -1, "" }),
		state("torn", func(h *vfs.LockHolder) { h.Torn = true }),
		state("clean of another boot", func(h *vfs.LockHolder) { h.Boot = "other" }),
		state("of another length", func(h *vfs.LockHolder) { h.Clean-- }),
		state("of another file", func(h *vfs.LockHolder) { h.Inodes = []uint64{1 << 40} }),
		edit("cut", lock, func(b []byte) []byte { return b[:len(b)/2] }),
	}
	return list
}

// inOrder makes an index and a list call the file system in the same order in
// each run.
func inOrder(t *testing.T) {
	if filepath.Separator != '/' {
		t.Skip("SKIPPED: the golden reports contain slashes")
	}
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// TestReportsOfChangedFiles changes the files of a folder of sessions, and
// compares the reports and files of each later use of the folder.
func TestReportsOfChangedFiles(t *testing.T) {
	inOrder(t)
	base := scene(t)
	b, err := vfs.ReadFile(base, mainFile, 1<<20)
	noErr(t, err)
	dirty := func(m *faultfs.Mem) { // the bytes may be those of a power cut
		const lock = "/s/.locks/crab_user_1.lock"
		h := vfs.ParseLockHolder(text(t, m, lock))
		h.Clean, h.Boot = -1, "other"
		m.WriteFile(lock, []byte(h.Text()), 0o600)
	}
	var r golden.Reports
	for _, c := range folderChanges() {
		for _, u := range uses {
			r.Add(c.name+": "+u.name, outcome(base, c, u, nil))
		}
	}
	for i, c := range fileChanges(mainFile, b) {
		for j, u := range uses {
			if u.rare && (i+j)%4 > 0 {
				continue
			}
			r.Add(c.name+": "+u.name, outcome(base, c, u, nil))
		}
		r.Add(c.name+", cut: write", outcome(base, change{do: func(m *faultfs.Mem) { c.do(m); dirty(m) }}, writeUse, nil))
	}
	for i, c := range fileChanges("/s/codex_user_1_old.jsonl", []byte(text(t, base, "/s/codex_user_1_old.jsonl"))) {
		if i%3 == 0 {
			r.Add(c.name+": import", outcome(base, c, importUse, nil))
		}
	}
	r.Compare(t, "testdata/reports/changed.txt.gz")
}

// TestReportsOfFailedCalls fails each call of the file system once, and
// compares the reports and files of each use of the folder.
func TestReportsOfFailedCalls(t *testing.T) {
	inOrder(t)
	base := scene(t)
	var r golden.Reports
	states := []change{
		{name: "closed", do: func(*faultfs.Mem) {}},
		edit("torn", mainFile, func(b []byte) []byte { return append(b, `{"role":"user"}{"ro`...) }),
		edit("damaged", mainFile, func(b []byte) []byte { b[len(b)/2] = 0; return b }),
		{name: "power cut", crash: true, do: func(m *faultfs.Mem) {
			m.WriteFile(mainFile, append([]byte(text(t, m, mainFile)), "\x00\x00\n"+`{"role":"assistant"}`+"\n"...), 0o600)
		}},
	}
	for i, s := range states {
		for _, u := range uses {
			if i > 0 && u.rare {
				continue
			}
			var calls []faultfs.Call
			outcome(base, s, u, func(call faultfs.Call) error { calls = append(calls, call); return nil })
			for n, failed := range calls {
				if failed.Op == "close" {
					failed.Name = "" // an index closes files in any order
				}
				for _, f := range failures(failed) {
					seen := 0
					got := outcome(base, s, u, func(call faultfs.Call) error {
						if seen++; seen == n+1 {
							return f.err
						}
						return nil
					})
					r.Add(unstable.ReplaceAllString(fmt.Sprintf("%s: %s: %d, %s %s: %s", s.name, u.name, n+1, failed.Op, failed.Name, f.name), "*"), got)
				}
			}
		}
	}
	r.Compare(t, "testdata/reports/failed.txt.gz")
}

type failure struct {
	name string
	err  error
}

// failures returns the ways in which a call may fail.
func failures(call faultfs.Call) []failure {
	list := []failure{{"EIO", syscall.EIO}}
	switch call.Op {
	case "write":
		list = append(list, failure{"ENOSPC", &faultfs.Fault{Err: syscall.ENOSPC, N: call.Size / 2}})
	case "create":
		list = append(list, failure{"ENOSPC", syscall.ENOSPC})
	case "rename", "syncdir", "truncate":
		list = append(list, failure{"EIO after the effect", &faultfs.Fault{Err: syscall.EIO, Done: true}})
	}
	return list
}
