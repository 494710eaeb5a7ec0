package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/cmd/crabmem/internal/chat"
	"crabmem/daemon/model/modeltest"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal with a program on it.
type terminal struct {
	t     *testing.T
	file  *os.File // the side of who types
	other *os.File
	cmd   *exec.Cmd
	ended chan error
	modes *unix.Termios // before the program

	mu   sync.Mutex
	seen bytes.Buffer // output after the last await
	ever bytes.Buffer
}

// openTerminal starts the program on a terminal of 24 rows and 80 columns.
func openTerminal(t *testing.T, env []string, name string, args ...string) *terminal {
	t.Helper()
	file, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("SKIPPED: no pseudo-terminals here: %v", err)
	}
	p := &terminal{t: t, file: file, ended: make(chan error, 1)}
	fd := int(file.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if p.other, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	p.resize(24, 80)
	if p.modes, err = unix.IoctlGetTermios(int(p.other.Fd()), unix.TCGETS); err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(name, args...)
	p.cmd.Env = append(env, "TERM=xterm-256color")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = p.other, p.other, p.other
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := file.Read(b)
			p.mu.Lock()
			p.seen.Write(b[:n])
			p.ever.Write(b[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		file.Close()
		p.other.Close()
	})
	return p
}

func (p *terminal) resize(rows, cols uint16) {
	if err := unix.IoctlSetWinsize(int(p.file.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *terminal) typed(s string) {
	p.t.Helper()
	if _, err := p.file.WriteString(s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *terminal) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.String()
}

// await waits for a text, and discards the output before its end.
func (p *terminal) await(text string) {
	p.t.Helper()
	found := false
	defer func() {
		if !found {
			p.t.Logf("the terminal has %q", p.all())
		}
	}()
	gate.Until(p.t, fmt.Sprintf("%q on the terminal", text), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		i := bytes.Index(p.seen.Bytes(), []byte(text))
		if found = i >= 0; found {
			p.seen.Next(i + len(text))
		}
		return found
	})
}

// end waits for the program, and wants its exit code and the terminal as it was.
func (p *terminal) end(code int) {
	p.t.Helper()
	select {
	case err := <-p.ended:
		if got := exitCode(err); got != code {
			p.t.Errorf("exit code %d, want %d; the terminal has %q", got, code, p.all())
		}
	case <-time.After(gate.Hang):
		p.t.Fatalf("it did not end; the terminal has %q", p.all())
	}
	modes, err := unix.IoctlGetTermios(int(p.other.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	if *modes != *p.modes {
		p.t.Errorf("the terminal is not as it was: %+v, was %+v", modes, p.modes)
	}
}

// chatting is a home with a daemon whose model is a scripted one.
func chatting(t *testing.T) (m *modeltest.Server, file string, env []string) {
	t.Helper()
	file, env = program(t)
	m = modeltest.New(t)
	dir, err := os.MkdirTemp("", "crab") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	env = append(env, "CRABTALK_HOME="+dir, "HOME="+dir, "NO_COLOR=")
	config := "[provider.test]\nkind = \"openai-compatible\"\nbase_url = \"" + m.URL + "\"\napi_key = \"sk-planted\"\nmodels = [\"script\", \"other\"]\nmax_retries = 0\n[sessions]\ntitles = \"off\"\n"
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start := exec.Command(file, "daemon", "start")
	start.Env = env
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { endDaemon(dir) })
	return m, file, env
}

func TestScreen(t *testing.T) {
	t.Parallel()
	m, file, env := chatting(t)
	script := `
when user hello
text "# Title\n\nSome **bold** text\x1b]0;owned\x07 and ` + "`code`" + `.\n\n"
text "- one\n- two\n"
usage 100 20

when user list
think I should look.\n
call bash {"command": "echo found it"}
reply
text Done.

when user ask me
call ask_user {"questions": [{"question": "Which colour?", "header": "Colour", "options": [{"label": "red", "description": ""}, {"label": "blue", "description": ""}]}]}

when last blue
text Painted blue.

when user hang
text half of it
stall

always
text fine
repeat
`
	if err := m.Script(script); err != nil {
		t.Fatal(err)
	}
	p := openTerminal(t, env, file, "chat")
	p.await("/help lists the commands")

	p.typed("hello\r")
	p.await("> hello")
	p.await("\x1b[1m# Title\x1b[0m")
	p.await("Some \x1b[1mbold\x1b[0m text]0;owned and \x1b[36mcode\x1b[0m.")
	p.await("• two")
	p.await("100 tokens in, 20 out")

	// Tools are a line each, thinking is dim.
	p.typed("list it\r")
	p.await("\x1b[2mI should look.")
	p.await("→ bash echo found it")
	p.await("← found it")
	p.await("Done.")

	// A question.
	p.typed("ask me\r")
	p.await("Colour: Which colour?")
	p.await("2  blue")
	p.typed("7\r")
	p.await("invalid choice")
	p.typed("2\r")
	p.await("Painted blue.")

	// Input during a response is queued; Ctrl+C cancels the run, and the queued
	// input can be edited.
	p.typed("hang now\r")
	p.await("half of it")
	p.typed("and then\r")
	p.await("queued: and then")
	p.typed("\x03")
	p.await("canceled")
	p.typed("!\r")
	p.await("> and then!")
	p.await("fine")

	// Several lines: by Alt+Enter, Shift+Enter, a backslash and a paste.
	p.typed("a\x1b\rb\x1b[13;2uc\\\rd\x1b[200~e\r\nf\x1b[201~\r")
	p.await("> a")
	p.await("  f")
	p.await("fine")
	for _, r := range m.Requests()[len(m.Requests())-1:] {
		if r.LastUser() != "a\nb\nc\nde\nf" {
			t.Errorf("the model got %q", r.LastUser())
		}
	}

	// A paste of a terminal that does not mark it is one message, and keeps tabs.
	p.typed("all:\r\tgo build\r\r# end")
	p.await("# end")
	p.typed("\r")
	p.await("> all:")
	p.await("      go build")
	p.await("\x1b[Jfine") // not dim: the run has ended, so Ctrl+C clears the line
	if got := m.Requests()[len(m.Requests())-1].LastUser(); got != "all:\n\tgo build\n\n# end" {
		t.Errorf("the model got %q", got)
	}
	p.typed("\x1b[A")
	p.await("      go build")
	p.typed("\x03")

	// History, completion, and another size.
	p.typed(strings.Repeat("\x1b[A", 10))
	p.await("> and then!")
	p.typed("\x15\x15")

	// A search of the history: further Ctrl+R shows an older match, Escape and
	// Ctrl+C end the search, and Enter sends the match.
	p.typed("draft\x12")
	p.await("search the history; Ctrl+R shows an older match, Enter sends it, Esc restores")
	p.typed("the")
	p.await("search: \"the\"")
	p.await("> and then!")
	p.typed("\x12")
	p.await("> and then")
	p.typed("\x12")
	p.await("search: \"the\": no older match")
	p.typed("\x1b")
	p.await("> draft")
	p.typed("\x12zebra")
	p.await("search: \"zebra\": no older match")
	p.typed("\x03")
	p.typed("\x12list\r")
	p.await("> list it")
	p.await("fine")

	// The memory.
	p.typed("/remember tea green, three minutes\r")
	p.await("remembered tea (note 1, 20 bytes)")
	p.typed("/rec\t")
	p.await("/recall ")
	p.typed("three\r")
	p.await("1  tea  note 1, ")
	p.await("   green, three minutes")
	p.typed("/remember t\t")
	p.await("/remember tea ")
	p.typed("\x15")
	p.typed("/mo\t")
	p.await("/model ")
	p.typed("ot\t\r")
	p.await("answering with other")
	p.resize(10, 30)
	p.typed("/help\r")
	p.await("/exit")
	p.await("//WORD sends the text /WORD.")
	p.typed("and last\r")
	p.await("> and last")
	p.await("tokens in")

	// Ctrl+C twice leaves.
	p.typed("\x03")
	p.await("Ctrl+C again leaves")
	p.typed("\x03")
	p.end(0)
	p.await("\x1b[<u\x1b[?2004l\x1b[0m")
	home := home(env)
	b, err := os.ReadFile(filepath.Join(home, "history"))
	if err != nil || !strings.Contains(string(b), `a\nb\nc\nde\nf`+"\n") {
		t.Errorf("the history is %q, %v", b, err)
	}
	if fi, err := os.Stat(filepath.Join(home, "history")); err == nil && fi.Mode().Perm() != 0o600 {
		t.Errorf("the history has mode %v", fi.Mode())
	}
}

func home(env []string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if h, ok := strings.CutPrefix(env[i], "CRABTALK_HOME="); ok {
			return h
		}
	}
	return ""
}

// TestScreenEnds ends a chat in every way, and wants the terminal back.
func TestScreenEnds(t *testing.T) {
	t.Parallel()
	m, file, env := chatting(t)
	if err := m.Script("text half of it\nstall\nrepeat\n"); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		busy bool
		end  func(*terminal)
		code int
	}{
		"ctrl d":     {false, func(p *terminal) { p.typed("\x04") }, 0},
		"exit":       {false, func(p *terminal) { p.typed("/exit\r") }, 0},
		"terminated": {false, func(p *terminal) { p.cmd.Process.Signal(syscall.SIGTERM) }, 143},
		"in a run":   {true, func(p *terminal) { p.cmd.Process.Signal(syscall.SIGTERM) }, 143},
		"hung up":    {true, func(p *terminal) { p.cmd.Process.Signal(syscall.SIGHUP) }, 130},
		"interrupt":  {true, func(p *terminal) { p.cmd.Process.Signal(os.Interrupt) }, 130},
	} {
		t.Run(name, func(t *testing.T) {
			p := openTerminal(t, env, file, "chat", "--new")
			p.await("/help lists the commands")
			if tc.busy {
				p.typed("go\r")
				p.await("half of it")
			}
			tc.end(p)
			p.end(tc.code)
		})
	}
}

// TestScreenResume opens a session in a second terminal during a run in the first
// one: it shows the session, its last exchange, and that a run is active.
func TestScreenResume(t *testing.T) {
	t.Parallel()
	m, file, env := chatting(t)
	if err := m.Script("when user hang\ntext half of it\nstall\n\nalways\ntext größe\\nand more\nrepeat\n"); err != nil {
		t.Fatal(err)
	}
	first := openTerminal(t, env, file, "chat")
	first.await("a new session; /help lists the commands")
	first.typed("hello\r")
	first.await("and more")
	first.typed("hang now\r")
	first.await("half of it")
	second := openTerminal(t, env, file, "chat")
	second.await("resumed crab_user_1: 3 messages, agent crab")
	second.await("> hang now")
	second.await("another client's run is active in this session; /new creates a session")
	second.await("agent crab, crab_user_1; /help lists the commands")
	second.typed("\x04")
	second.end(0)
	first.typed("\x03")
	first.await("canceled")
	first.typed("hello\r")
	first.await("and more")
	first.await("tokens in") // the run has ended
	first.typed("\x04")
	first.end(0)
	third := openTerminal(t, env, file, "chat", "--session", "crab_user_1")
	third.await("resumed crab_user_1: 6 messages, agent crab")
	third.await("> hello")
	third.await("größe")
	third.typed("\x04")
	third.end(0)
}

// TestRawGuard panics during a chat: the terminal must be restored.
func TestRawGuard(t *testing.T) {
	p := openTerminal(t, os.Environ(), "true")
	p.end(0)
	r, err := chat.OpenTerminal(p.other, p.other)
	if err != nil {
		t.Fatal(err)
	}
	if modes, err := unix.IoctlGetTermios(int(p.other.Fd()), unix.TCGETS); err != nil || *modes == *p.modes {
		t.Fatalf("the terminal is as it was: %v", err)
	}
	func() {
		defer func() {
			if v := recover(); v != "oops" {
				t.Errorf("the panic became %v", v)
			}
		}()
		defer r.Guard()
		panic("oops")
	}()
	p.await("\x1b[?2004h\x1b[>1u")
	p.await("\x1b[<u\x1b[?2004l\x1b[0m")
	if modes, err := unix.IoctlGetTermios(int(p.other.Fd()), unix.TCGETS); err != nil || *modes != *p.modes {
		t.Errorf("the terminal is not as it was: %v", err)
	}
}

// TestScreenDaemonGone continues after the daemon restarts. It runs without
// colors.
func TestScreenDaemonGone(t *testing.T) {
	t.Parallel()
	m, file, env := chatting(t)
	if err := m.Script("when user one\ntext half of it\nstall\n\nalways\ntext fine\nrepeat\n"); err != nil {
		t.Fatal(err)
	}
	p := openTerminal(t, append(env, "NO_COLOR=1"), file, "chat")
	p.await("/help lists the commands")
	p.typed("one\r")
	p.await("half of it")
	endDaemon(home(env))
	p.await("read response: connection to the daemon lost")
	p.await("try: run crabmem daemon start")
	p.typed("two\r")
	p.await("try: crabmem daemon start") // it is stopping or has stopped
	p.mu.Lock()
	all := p.ever.String()
	p.mu.Unlock()
	if strings.Contains(all, "\x1b[1m") || strings.Contains(all, "\x1b[2m") {
		t.Errorf("colours under NO_COLOR: %q", all)
	}
	start := exec.Command(file, "daemon", "start")
	start.Env = env
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.typed("three\r")
	p.await("fine")
	p.await("tokens in") // the run has ended
	p.typed("\x04")
	p.end(0)
}

// awaitSubscribers waits until the daemon has n subscribers to events.
func awaitSubscribers(t *testing.T, file string, env []string, n int, flags ...string) {
	t.Helper()
	gate.Until(t, fmt.Sprintf("%d subscribers", n), func() bool {
		status := exec.Command(file, append(flags, "daemon", "status", "--json")...)
		status.Env = env
		out, err := status.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(out), fmt.Sprintf(`"subscribers":%d,`, n))
	})
}

// TestScreenFollow opens a session in two terminals. The second one says so, each
// shows the other's messages and answers, and a new session of one is its own.
func TestScreenFollow(t *testing.T) {
	t.Parallel()
	m, file, env := chatting(t)
	if err := m.Script(`
when user list
call bash {"command": "echo found it"}
reply
text Two **files**.

when user fail
status 401 no key
repeat

always
text fine
repeat
`); err != nil {
		t.Fatal(err)
	}
	first := openTerminal(t, env, file, "chat")
	first.await("/help lists the commands")
	first.typed("hello\r")
	first.await("fine")
	awaitSubscribers(t, file, env, 1)

	second := openTerminal(t, env, file, "chat")
	second.await("resumed crab_user_1: 2 messages, agent crab")
	second.await("another chat has this session open; /new creates a session")
	second.await("/help lists the commands")

	awaitSubscribers(t, file, env, 2)
	first.typed("list them\r")
	first.await("Two \x1b[1mfiles\x1b[0m.")
	second.await("other> list them")
	second.await("→ bash echo found it")
	second.await("Two \x1b[1mfiles\x1b[0m.")
	second.typed("thanks\r")
	second.await("fine")
	first.await("other> thanks")
	first.await("fine")
	first.typed("fail\r")
	first.await("error: ")
	second.await("other> fail")
	second.await("the other client's run failed: ")

	// A new session is not shown to the other; nothing of one's own is shown twice.
	second.typed("/new\r")
	second.await("next message")
	second.typed("alone\r")
	second.await("fine")
	second.await("tokens in") // the run has ended
	first.typed("last\r")
	first.await("fine")
	first.await("tokens in")
	for _, p := range []*terminal{first, second} {
		p.typed("\x04")
		p.end(0)
	}
	if text := first.ever.String(); strings.Contains(text, "other> alone") || strings.Contains(text, "other> hello") {
		t.Errorf("the first terminal has %q", text)
	}
	if text := second.ever.String(); strings.Contains(text, "other> last") || strings.Contains(text, "other> thanks") {
		t.Errorf("the second terminal has %q", text)
	}
}
