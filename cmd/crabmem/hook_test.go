package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"crabmem/cmd/crabmem/internal/agenthook"
	"crabmem/crmem/vfs"
)

// hooked is a user with clients whose hooks run crabmem.
type hooked struct {
	t    *testing.T
	user string
	env  map[string]string

	mu   sync.Mutex
	used []string // paths that hooks opened or listed

	reads atomic.Int64 // bytes
}

func newHooked(t *testing.T) *hooked {
	user, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &hooked{t: t, user: user}
	h.env = map[string]string{"HOME": user, "USERPROFILE": user, "CRABTALK_HOME": h.path(".crabtalk")}
	h.write("work/shop/.git/HEAD", "")
	h.write("work/shop/cmd/main.go", "")
	return h
}

func (h *hooked) path(name string) string { return filepath.Join(h.user, filepath.FromSlash(name)) }

func (h *hooked) write(name, text string) string {
	h.t.Helper()
	name = h.path(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		h.t.Fatal(err)
	}
	return name
}

// transcript writes a transcript of Claude Code with messages of the user.
func (h *hooked) transcript(session string, messages ...string) string {
	var b strings.Builder
	for i, m := range messages {
		fmt.Fprintf(&b, `{"type":"user","uuid":"%s-%d","sessionId":%q,"cwd":%q,"timestamp":"2026-03-01T09:10:00.000Z","message":{"role":"user","content":%q}}`+"\n", session, i, session, h.path("work/shop/cmd"), m)
	}
	return h.write(".claude/projects/p/"+session+".jsonl", b.String())
}

// usedFS records the paths that are opened or listed.
type usedFS struct {
	vfs.OS
	h *hooked
}

func (f usedFS) note(name string) {
	f.h.mu.Lock()
	f.h.used = append(f.h.used, name)
	f.h.mu.Unlock()
}

func (f usedFS) Open(name string) (vfs.File, error) {
	f.note(name)
	return f.OS.Open(name)
}

func (f usedFS) ReadDir(name string) ([]os.DirEntry, error) {
	f.note(name)
	return f.OS.ReadDir(name)
}

func (h *hooked) run(stdin io.Reader, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	c := newApp(stdin, &out, &errs)
	c.fs = countingFS{usedFS{h: h}, &h.reads}
	c.now = func() time.Time { return fixedNow }
	c.Getenv = func(k string) string { return h.env[k] }
	code = c.report(c.execute(h.t.Context(), args))
	return out.String(), errs.String(), code
}

// hook sends an event. It must not fail.
func (h *hooked) hook(event, dir, transcript string) string {
	h.t.Helper()
	b, _ := json.Marshal(map[string]string{"cwd": dir, "transcript_path": transcript, "hook_event_name": "Any", "session_id": "s"})
	out, stderr, code := h.run(bytes.NewReader(b), "hook", event)
	if code != 0 || stderr != "" {
		h.t.Errorf("hook %s: exit code %d: %s", event, code, stderr)
	}
	return out
}

func (h *hooked) log() string {
	b, err := os.ReadFile(h.path(".crabtalk/logs/hooks.log"))
	if err != nil && !missing(err) {
		h.t.Error(err)
	}
	return string(b)
}

func (h *hooked) must(args ...string) string {
	h.t.Helper()
	out, stderr, code := h.run(strings.NewReader(""), args...)
	if code != 0 {
		h.t.Fatalf("%q: exit code %d: %s", args, code, stderr)
	}
	return out
}

// TestHookSessionStart prints the context for the working directory's project, and
// nothing without notes.
func TestHookSessionStart(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	if out := h.hook("session-start", h.path("work/shop/cmd"), ""); out != "" {
		t.Errorf("without a store it prints %q", out)
	}
	h.must("remember", "port", "6688", "--type", "decision", "--meta", "project=shop")
	h.must("remember", "color", "blue", "--type", "decision", "--meta", "project=page")
	h.hook("stop", h.path("work/shop"), h.transcript("one", "which port?"))
	var out struct {
		Hook struct {
			Name    string `json:"hookEventName"`
			Context string `json:"additionalContext"`
		} `json:"hookSpecificOutput"`
	}
	text := h.hook("session-start", h.path("work/shop/cmd"), "")
	if err := json.Unmarshal([]byte(text), &out); err != nil || out.Hook.Name != "SessionStart" || out.Hook.Context != h.must("context", "--project", "shop") {
		t.Errorf("%s, %v", text, err)
	}
	if list := h.must("sessions", "list", "--json"); !strings.Contains(list, `"project":"shop"`) {
		t.Errorf("the session has another project: %s", list)
	}
}

// TestHookImport imports a transcript once, again when it grew, and does not open one that
// is unchanged.
func TestHookImport(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.transcript("other", "not this session")
	key := "ghp_" + "Zk3mQ8vT1xR6nB4wJ9sL2cY7dF5hG0pKaXeU"
	file := h.transcript("one", "the key is "+key)
	for i, event := range []string{"stop", "pre-compact", "session-end"} {
		h.used = nil
		h.hook(event, h.path("work/shop"), file)
		if opened := strings.Contains(strings.Join(h.used, "\n"), file); opened != (i == 0) {
			t.Errorf("%s: opened the transcript: %v", event, opened)
		}
	}
	show := h.must("sessions", "show", "claude-code_user_1")
	if strings.Contains(show, key) || !strings.Contains(show, "the key is [redacted") {
		t.Errorf("the secret stays: %s", show)
	}
	h.transcript("one", "the key is "+key, "and now?")
	h.hook("stop", h.path("work/shop"), file)
	if show := h.must("sessions", "show", "claude-code_user_1"); !strings.Contains(show, "and now?") {
		t.Errorf("the session did not grow: %s", show)
	}
	if list := h.must("sessions", "list", "--json"); strings.Count(list, `"session":`) != 1 {
		t.Errorf("not one session: %s", list)
	}
	h.hook("session-end", h.path("work/shop"), h.write(".claude/projects/p/empty.jsonl", `{"type":"mode","mode":"plan","sessionId":"empty"}`+"\n"))
	if text := h.log(); text != "" {
		t.Errorf("errors: %s", text)
	}
}

// TestHookErrors sends events that hooks cannot handle. The client is not stopped, and
// the log has the reason.
func TestHookErrors(t *testing.T) {
	t.Parallel()
	link := func(h *hooked, to string) string {
		name := h.path(".claude/projects/link.jsonl")
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.Symlink(to, name)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	event := func(dir, transcript string) string {
		return fmt.Sprintf(`{"cwd":%q,"transcript_path":%q}`, dir, transcript)
	}
	for name, test := range map[string]struct {
		args  []string
		input func(h *hooked) string
		log   string // "" = no line
	}{
		"empty":            {input: func(*hooked) string { return "" }, log: "stop: read the event: "},
		"garbage":          {input: func(*hooked) string { return "\x00\xff{" }, log: "read the event: "},
		"wrong type":       {input: func(*hooked) string { return `{"transcript_path":7}` }, log: "read the event: "},
		"long path":        {input: func(h *hooked) string { return event(h.user, "/"+strings.Repeat("a", 5000)) }, log: "more than 4096 bytes"},
		"relative":         {input: func(h *hooked) string { return event("work", "") }, log: `directory "work": want an absolute path`},
		"no transcript":    {input: func(h *hooked) string { return `{"cwd":"/","transcript_path":null}` }},
		"missing":          {input: func(h *hooked) string { return event(h.user, h.path(".claude/projects/p/none.jsonl")) }},
		"outside":          {input: func(h *hooked) string { return event(h.user, h.write("other.jsonl", "{}")) }, log: "not in a directory of Claude Code"},
		"link to outside":  {input: func(h *hooked) string { return event(h.user, link(h, h.write("other.jsonl", "{}"))) }, log: "not in a directory of Claude Code"},
		"directory":        {input: func(h *hooked) string { h.transcript("x", "y"); return event(h.user, h.path(".claude/projects")) }, log: "not a regular file"},
		"no known program": {input: func(h *hooked) string { return event(h.user, h.write(".claude/projects/x.jsonl", "hello\n")) }},
		"fifo":             {input: func(h *hooked) string { return event(h.user, fifo(h.write(".claude/projects/x", "")+"fifo")) }, log: "not a regular file"},
		"home is a file":   {input: func(h *hooked) string { h.write(".crabtalk", ""); return event(h.user, h.transcript("x", "y")) }, log: "-"},
		"config is invalid": {input: func(h *hooked) string {
			h.write(".crabtalk/config.toml", "[hooks]\nexclude = [\"work\"]\n")
			return event(h.user, h.transcript("x", "y"))
		}, log: "want an absolute path"},
		"unknown event":  {args: []string{"hook", "later"}, input: func(*hooked) string { return "{}" }, log: `later: event "later": want session-start`},
		"unknown flag":   {args: []string{"hook", "stop", "--later"}, input: func(*hooked) string { return "{}" }, log: "unknown flag: --later"},
		"more arguments": {args: []string{"hook", "stop", "later"}, input: func(*hooked) string { return "{}" }, log: "too many arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHooked(t)
			if name == "fifo" && runtime.GOOS == "windows" {
				t.Skip("no FIFO")
			}
			args := test.args
			if args == nil {
				args = []string{"hook", "stop"}
			}
			out, stderr, code := h.run(strings.NewReader(test.input(h)), args...)
			if code != 0 || out != "" || (stderr != "") != (test.log != "") {
				t.Errorf("exit code %d, prints %q, %q", code, out, stderr)
			}
			if test.log == "-" {
				return
			}
			text := h.log()
			if strings.Count(text, "\n") != min(1, len(test.log)) || !strings.Contains(text, test.log) {
				t.Errorf("log %q", text)
			}
			if _, err := os.Stat(h.path(".crabtalk/sessions")); err == nil {
				t.Error("it wrote sessions")
			}
		})
	}
}

func fifo(name string) string {
	_ = syscall.Mkfifo(name, 0o600)
	return name
}

// TestDoctorHookProgram finds a missing program in the hooks of an agent.
func TestDoctorHookProgram(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	there := h.path("crabmem")
	if err := os.Symlink(self, there); err != nil {
		t.Skipf("SKIPPED: no symbolic links here: %v", err)
	}
	for program, missing := range map[string]bool{there: false, h.path("old/crabmem"): true} {
		h.write(".gemini/settings.json", fmt.Sprintf(`{"hooks": {"AfterAgent": [{"hooks": [{"type": "command", "command": %q}]}]}}`, program+" hook stop"))
		out, _, code := h.run(strings.NewReader(""), "doctor", "--quiet")
		if found := strings.Contains(out, "hooks gemini-cli") && strings.Contains(out, "which is missing or not a program") && strings.Contains(out, "crabmem hooks install gemini-cli"); found != missing || missing && code != 1 {
			t.Errorf("%s: exit code %d, %s", program, code, out)
		}
	}
}

// TestHookInputWithoutEnd ends a hook whose client sends too much, or nothing.
func TestHookInputWithoutEnd(t *testing.T) {
	h := newHooked(t)
	endless := io.MultiReader(strings.NewReader(`{"cwd":"`), readerFunc(func(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("a"), len(p))), nil }))
	if out, _, code := h.run(iotest.HalfReader(endless), "hook", "stop"); code != 0 || out != "" || !strings.Contains(h.log(), "more than 8.0 MiB") {
		t.Errorf("exit code %d, %q, log %q", code, out, h.log())
	}
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		began := time.Now()
		_, _, code := h.run(r, "hook", "session-end")
		if code != 0 || time.Since(began) != hookTime || !strings.Contains(h.log(), "session-end: not done after 10s") {
			t.Errorf("exit code %d after %v, log %q", code, time.Since(began), h.log())
		}
		w.Close()
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestHookConcurrent imports the transcripts of two sessions that end concurrently, each
// by several events.
func TestHookConcurrent(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	files := []string{h.transcript("one", "first"), h.transcript("two", "second")}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { h.hook([]string{"stop", "session-end"}[i/4], h.path("work/shop"), files[i%2]) })
	}
	wg.Wait()
	if list := h.must("sessions", "list", "--json"); strings.Count(list, `"session":`) != 2 || h.log() != "" {
		t.Errorf("sessions %s, log %s", list, h.log())
	}
	records, err := agenthook.Home{FS: vfs.OS{}, Dir: h.path(".crabtalk")}.Records()
	if err != nil || len(records) != 2 || !records[0].Created || !records[1].Created {
		t.Errorf("records %+v, %v", records, err)
	}
}

// TestHookExcluded reads nothing of excluded projects.
func TestHookExcluded(t *testing.T) {
	t.Parallel()
	exclude := func(dir string) func(h *hooked) {
		return func(h *hooked) {
			h.write(".crabtalk/config.toml", fmt.Sprintf("[hooks]\nexclude = [%q]\n", strings.ReplaceAll(dir, "USER", h.user)))
		}
	}
	only := func(dir string) func(h *hooked) {
		return func(h *hooked) { h.write(".crabtalk/config.toml", fmt.Sprintf("[hooks]\nonly = [%q]\n", dir)) }
	}
	link := func(h *hooked) {
		if err := os.Symlink(h.path("work/shop"), h.path("link")); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		prepare  func(h *hooked)
		dir      string
		env      string // CLAUDE_PROJECT_DIR
		included bool
	}{
		"directory":          {exclude("USER/work/shop"), "work/shop", "", false},
		"parent":             {exclude("~/work"), "work/shop/cmd", "", false},
		"slash":              {exclude("~/work/"), "work/shop", "", false},
		"root":               {exclude("/"), "work/shop", "", false},
		"case":               {exclude("~/Work/SHOP"), "work/shop", "", false},
		"sibling":            {exclude("~/work/sho"), "work/shop", "", true},
		"list names a link":  {func(h *hooked) { link(h); exclude("~/link")(h) }, "work/shop", "", false},
		"event names a link": {func(h *hooked) { link(h); exclude("~/work/shop")(h) }, "link/cmd", "", false},
		"missing directory":  {func(h *hooked) { link(h); exclude("~/work/shop")(h) }, "link/gone/deep", "", false},
		"file":               {func(h *hooked) { h.write("work/shop/.crabmem-off", "") }, "work/shop", "", false},
		"file above":         {func(h *hooked) { h.write("work/.crabmem-off", "") }, "work/shop/cmd", "", false},
		"file at the target": {func(h *hooked) { link(h); h.write("work/.crabmem-off", "") }, "link", "", false},
		"client's project":   {exclude("~/work/shop"), ".", "work/shop", false},
		"another project":    {exclude("~/work/other"), "work/shop", "work/shop", true},
		"only this":          {only("~/work/shop"), "work/shop/cmd", "work/shop", true},
		"only this, by case": {only("~/WORK"), "work/shop", "", true},
		"only this link":     {func(h *hooked) { link(h); only("~/link")(h) }, "work/shop", "", true},
		"only another":       {only("~/work/page"), "work/shop", "", false},
		"only a part":        {only("~/work/shop/cmd"), "work/shop/cmd", "work/shop", false},
		"only, and the file": {func(h *hooked) { only("~/work")(h); h.write("work/.crabmem-off", "") }, "work/shop", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHooked(t)
			h.must("remember", "tea", "green")
			file := h.transcript("one", "a secret plan")
			test.prepare(h)
			if test.env != "" {
				h.env["CLAUDE_PROJECT_DIR"] = h.path(test.env)
			}
			h.used = nil
			text := h.hook("session-start", h.path(test.dir), file)
			for _, event := range []string{"pre-compact", "stop", "session-end"} {
				text += h.hook(event, h.path(test.dir), file)
			}
			var read []string
			for _, name := range h.used {
				if strings.HasPrefix(name, h.path(".claude")) || strings.HasPrefix(name, h.path("work")) {
					read = append(read, name)
				}
			}
			if (text == "") == test.included || (len(read) == 0) == test.included || h.log() != "" {
				t.Errorf("prints %q, reads %q, log %s", text, read, h.log())
			}
		})
	}
}
