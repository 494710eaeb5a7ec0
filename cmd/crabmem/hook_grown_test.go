package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"crabmem/crmem/vfs"
)

// countingFS counts the bytes that are read.
type countingFS struct {
	vfs.FS
	n *atomic.Int64
}

type countingFile struct {
	vfs.File
	n *atomic.Int64
}

func (f countingFS) counted(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return countingFile{file, f.n}, nil
}

func (f countingFS) Open(name string) (vfs.File, error) { return f.counted(f.FS.Open(name)) }

func (f countingFS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	return f.counted(f.FS.OpenFile(name, flag, perm))
}

func (f countingFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.n.Add(int64(n))
	return n, err
}

func (f countingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.n.Add(int64(n))
	return n, err
}

// TestHookGrown imports 100 lines that were added to a long transcript: the bytes that the
// hook reads do not depend on the transcript. One that was rewritten is read again.
func TestHookGrown(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	line := func(i int, text string) string {
		return fmt.Sprintf(`{"type":"user","uuid":"%d","sessionId":"one","cwd":%q,"timestamp":"2026-03-01T%02d:%02d:%02d.000Z","message":{"role":"user","content":%q}}`+"\n",
			i, h.path("work/shop"), i/3600, i/60%60, i%60, text)
	}
	var text strings.Builder
	i := 0
	add := func(lines int, format string, args ...any) {
		for range lines {
			text.WriteString(line(i, fmt.Sprintf("message %d ", i)+fmt.Sprintf(format, args...)))
			i++
		}
	}
	stop := func() (read int64) {
		h.t.Helper()
		file := h.write(".claude/projects/p/one.jsonl", text.String())
		h.reads.Store(0)
		h.hook("stop", h.path("work/shop"), file)
		return h.reads.Load()
	}
	messages := func(want int) {
		h.t.Helper()
		list := h.must("sessions", "list", "--json")
		if strings.Count(list, `"session":`) != 1 || !strings.Contains(list, fmt.Sprintf(`"messages":%d,`, want)) || h.log() != "" {
			t.Errorf("want %d messages: %s, log %s", want, list, h.log())
		}
	}
	add(2000, "%s", strings.Repeat("x", 2000))
	if read := stop(); read < int64(text.Len()) {
		t.Fatalf("the first import reads %d of %d bytes", read, text.Len())
	}
	messages(2000)
	for n := 1; n <= 3; n++ {
		add(100, "more")
		if read := stop(); read > 200<<10 {
			t.Errorf("%d more lines: reads %d bytes", 100*n, read)
		}
		messages(2000 + 100*n)
	}
	key := "ghp_" + "Zk3mQ8vT1xR6nB4wJ9sL2cY7dF5hG0pKaXeU"
	add(1, "the key is %s", key)
	stop()
	if show := h.must("sessions", "show", "claude-code_user_1"); strings.Contains(show, key) || !strings.Contains(show, "the key is [redacted") || strings.Count(show, "message 2150 more") != 1 {
		t.Errorf("the session: %.300s", show[max(len(show)-300, 0):])
	}
	if list := h.must("sessions", "list", "--json"); !strings.Contains(list, fmt.Sprintf(`"uptime_secs":%d`, i-1)) {
		t.Errorf("the time of the last message: %s", list)
	}
	// A complete import finds the same texts, and leaves what a hook can continue.
	out := h.must("sessions", "import", h.path(".claude/projects"), "--json")
	if !strings.Contains(out, `"imported":0,`) || !strings.Contains(out, `"differs_from":""`) {
		t.Errorf("a complete import: %s", out)
	}
	add(1, "last")
	stop()
	messages(i)
	// The session was changed by another program, and then the transcript was rewritten.
	add(1, "and now")
	stop()
	name, err := filepath.Glob(h.path(".crabtalk/sessions/claude-code_user_1*.jsonl"))
	if err != nil || len(name) != 1 {
		t.Fatal(name, err)
	}
	b, err := os.ReadFile(name[0])
	if err != nil || os.WriteFile(name[0], append(b, "{}\n"...), 0o600) != nil {
		t.Fatal(err)
	}
	add(1, "later")
	if read := stop(); read < int64(text.Len()) {
		t.Errorf("with another session file it reads %d bytes", read)
	}
	messages(i)
	rewritten := strings.Replace(text.String(), "message 1 x", "message 1 y", 1)
	text.Reset()
	text.WriteString(rewritten)
	add(1, "rewritten")
	if read := stop(); read < int64(text.Len()) {
		t.Errorf("of a rewritten transcript it reads %d bytes", read)
	}
}
