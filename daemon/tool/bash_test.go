//go:build unix

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/sandbox"
)

// args are the arguments of a call.
func args(t *testing.T, fields ...any) json.RawMessage {
	t.Helper()
	m := make(map[string]any)
	for i := 0; i < len(fields); i += 2 {
		m[fields[i].(string)] = fields[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ran is the result of a command.
type ran struct {
	Code           int `json:"exit_code"`
	Stdout, Stderr string
}

func runBash(t *testing.T, b Tool, c Call) ran {
	t.Helper()
	out, err := b.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	var r ran
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

func TestBash(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LC_TIME", "C")
	b := NewBash(BashOptions{Env: map[string]string{"CONFIGURED": "yes", "BOTH": "configured"}})
	for _, c := range []struct{ command, want string }{
		{"echo hello", `{"exit_code":0,"stderr":"","stdout":"hello\n"}`},
		{"echo no >&2; exit 3", `{"exit_code":3,"stderr":"no\n","stdout":""}`},
		{"kill -9 $$", `{"exit_code":-1,"stderr":"","stdout":""}`},
		{"kill -TERM $$", `{"exit_code":-1,"stderr":"","stdout":""}`},
		{"pwd", `{"exit_code":0,"stderr":"","stdout":"` + dir + `\n"}`},
		{"cat", `{"exit_code":0,"stderr":"","stdout":""}`},
		{`printf 'a\xff\xe2\x82b<&>\xe2\x80\xa8'`, `{"exit_code":0,"stderr":"","stdout":"a` + "\uFFFD\uFFFDb<&>\u2028" + `"}`},
		{"echo $CONFIGURED $BOTH $CALL $LC_TIME", `{"exit_code":0,"stderr":"","stdout":"yes call x C\n"}`},
		{": </dev/tty", ""},
	} {
		out, err := b.Run(t.Context(), Call{Dir: dir, Arguments: args(t, "command", c.command, "env", map[string]string{"CALL": "x", "BOTH": "call"})})
		if err != nil || c.want != "" && out != c.want || c.want == "" && strings.HasPrefix(out, `{"exit_code":0`) {
			t.Errorf("%s: %v %s, want %s", c.command, err, out, c.want)
		}
	}
}

func TestBashErrors(t *testing.T) {
	b := NewBash(BashOptions{})
	for _, c := range []struct {
		dir  string
		args json.RawMessage
		want string
	}{
		{"/", args(t, "command", " \n"), "bash failed: command is empty"},
		{"/", nil, "bash failed: command is empty"},
		{"/", json.RawMessage(`{"command":1}`), "invalid arguments: json: cannot unmarshal number into Go struct field bashArgs.command of type string"},
		{"/nowhere", args(t, "command", "true"), "bash failed: working directory: lstat /nowhere: no such file or directory"},
		{"/bin/sh", args(t, "command", "true"), "bash failed: working directory: /bin/sh: not a directory"},
		{"/", args(t, "command", "true", "timeout_secs", 601), "bash failed: timeout_secs is 601, want 1 to 600"},
		{"/", args(t, "command", "true", "timeout_secs", -1), "bash failed: timeout_secs is -1, want 1 to 600"},
		{"/", args(t, "command", "true", "env", map[string]string{"A=B": "c"}), `bash failed: env: "A=B" is not a valid variable`},
		{"/", args(t, "command", "true", "env", map[string]string{"": "c"}), `bash failed: env: "" is not a valid variable`},
		{"/", args(t, "command", "true", "env", map[string]string{"A": "\x00"}), `bash failed: env: "A" is not a valid variable`},
	} {
		if out, err := b.Run(t.Context(), Call{Dir: c.dir, Arguments: c.args}); err == nil || err.Error() != c.want || out != "" {
			t.Errorf("%v %s, want %s", err, out, c.want)
		}
	}
	if out, err := b.Run(t.Context(), Call{Dir: "/", Arguments: args(t, "command", "true\x00")}); err == nil || !strings.HasPrefix(err.Error(), "bash failed: fork/exec ") {
		t.Errorf("a NUL: %v %s", err, out)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := b.Run(t.Context(), Call{Dir: "/", Arguments: args(t, "command", "true")}); err == nil || err.Error() != `bash failed: exec: "bash": executable file not found in $PATH` {
		t.Error(err)
	}
	if !strings.Contains(b.Description, "killed after 30 seconds") {
		t.Error(b.Description)
	}
	for d, want := range map[time.Duration]string{30 * time.Second: "30 seconds", time.Second: "1 second", 10 * time.Minute: "600 seconds", 1500 * time.Millisecond: "1.5s"} {
		if got := seconds(d); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// gone waits until a process has exited.
func gone(t *testing.T, pid int) {
	t.Helper()
	gate.Until(t, fmt.Sprintf("process %d ends", pid), func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		// A zombie is another's to wait for: it was not our child.
		return syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(stat), ") Z ")
	})
}

// noChildren checks that everything was waited for.
func noChildren(t *testing.T) {
	t.Helper()
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("child %d is left: %v", pid, err)
	}
}

// cancelAfterPrint returns a context that is canceled after a command has made the file
// printed in dir.
func cancelAfterPrint(t *testing.T) (ctx context.Context, cancel context.CancelCauseFunc, dir string) {
	t.Helper()
	dir = t.TempDir()
	ctx, cancel = context.WithCancelCause(t.Context())
	go func() { // ends with the context
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "printed")); err == nil {
				cancel(errors.New("canceled"))
			}
			time.Sleep(time.Millisecond) // real time: another process makes the file
		}
	}()
	return ctx, cancel, dir
}

func TestBashTimeout(t *testing.T) {
	b := NewBash(BashOptions{Timeout: 300 * time.Millisecond})
	if _, err := b.Run(t.Context(), Call{Dir: "/", Arguments: args(t, "command", "sleep 1000")}); err == nil || err.Error() != "bash timed out after 300ms" {
		t.Error(err)
	}
	b = NewBash(BashOptions{})
	ctx, cancel, dir := cancelAfterPrint(t)
	defer cancel(nil)
	out, err := b.Run(ctx, Call{Dir: dir, Arguments: args(t, "command", "trap '' TERM INT HUP; sleep 1000 & echo $!; (sleep 1000 & echo $!); >printed; sleep 1000")})
	if err == nil || err.Error() != "bash canceled: canceled" {
		t.Error(err)
	}
	var r ran
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Code != -1 || len(strings.Fields(r.Stdout)) != 2 {
		t.Fatalf("the output so far is lost: %v %s", err, out)
	}
	for _, p := range strings.Fields(r.Stdout) {
		pid, _ := strconv.Atoi(p)
		gone(t, pid)
	}
	out, err = b.Run(t.Context(), Call{Dir: "/", Arguments: args(t, "command", "sleep 1000", "timeout_secs", 1)})
	if err == nil || err.Error() != "bash timed out after 1 second" || out != "" {
		t.Errorf("%v %q", err, out)
	}
	if _, err = b.Run(ctx, Call{Dir: "/", Arguments: args(t, "command", "touch /nowhere")}); err == nil || err.Error() != "bash canceled: canceled" {
		t.Error(err)
	}
	noChildren(t)
}

// TestBashStoppedOutput checks that a stopped command returns its output so far
// on both streams, and none if both are empty.
func TestBashStoppedOutput(t *testing.T) {
	b := NewBash(BashOptions{})
	for _, tt := range []struct{ print, want string }{
		{":", ""},
		{"printf a", `{"exit_code":-1,"stderr":"","stdout":"a"}`},
		{"printf b >&2", `{"exit_code":-1,"stderr":"b","stdout":""}`},
		{"printf ab; printf cd >&2", `{"exit_code":-1,"stderr":"cd","stdout":"ab"}`},
	} {
		ctx, cancel, dir := cancelAfterPrint(t)
		defer cancel(nil)
		out, err := b.Run(ctx, Call{Dir: dir, Arguments: args(t, "command", tt.print+"; >printed; sleep 1000")})
		if err == nil || err.Error() != "bash canceled: canceled" || out != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.print, out, err, tt.want)
		}
	}
	noChildren(t)
}

// TestBashBackground checks that background processes do not delay the end of a
// command and are killed, unless they left the group.
func TestBashBackground(t *testing.T) {
	b := NewBash(BashOptions{})
	r := runBash(t, b, Call{Dir: "/", Arguments: args(t, "command", "sleep 1000 & echo $!")})
	if r.Code != 0 {
		t.Errorf("%+v", r)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(r.Stdout))
	gone(t, pid)
	if runtime.GOOS == "linux" {
		r = runBash(t, b, Call{Dir: t.TempDir(), Arguments: args(t, "command", "setsid bash -c 'echo $$; >left; exec sleep 1000' & until [ -e left ]; do sleep 0.01; done")})
		pid, err := strconv.Atoi(strings.TrimSpace(r.Stdout))
		if err != nil || r.Code != 0 {
			t.Fatalf("%+v", r)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("it was killed although it left: %v", err)
		}
	}
	noChildren(t)
}

func TestBashFlood(t *testing.T) {
	b := NewBash(BashOptions{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out, err := b.Run(t.Context(), Call{Dir: "/", Arguments: args(t, "command", "yes | head -c 200000000; yes '\x01' | head -c 20000000 >&2")})
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
	var r ran
	if jerr := json.Unmarshal([]byte(out), &r); err != nil || jerr != nil || len(out) > MaxOutput {
		t.Fatalf("%d bytes, %v %v", len(out), err, jerr)
	}
	left := func(text string, of int) {
		head, rest, _ := strings.Cut(text, "\n... [")
		count, tail, _ := strings.Cut(rest, " bytes left out] ...\n")
		if n, _ := strconv.Atoi(count); len(head)+len(tail)+n != of || len(head) < 2000 || len(tail) < 2000 {
			t.Errorf("%d + %s + %d bytes, want %d", len(head), count, len(tail), of)
		}
	}
	left(r.Stdout, 200_000_000)
	left(r.Stderr, 20_000_000)
	noChildren(t)
}

// TestBashSecrets: the daemon's variables are not the commands'.
func TestBashSecrets(t *testing.T) {
	const planted = "sk-planted-4711"
	for _, name := range []string{"OPENAI_API_KEY", "CRABTALK_TOKEN", "AWS_SECRET_ACCESS_KEY", "lc_all", "XLC_", "HOMEPAGE", "LD_PRELOAD_NOT", "SSH_AUTH_SOCK"} {
		t.Setenv(name, planted)
	}
	confined := []bool{false}
	if sandbox.Check(t.Context()) == nil {
		confined = append(confined, true)
	}
	for _, c := range confined {
		r := runBash(t, NewBash(BashOptions{}), Call{Dir: "/", Scope: Scope{Confined: c},
			Arguments: args(t, "command", "env; cat /proc/self/environ /proc/$PPID/environ; true", "env", map[string]string{"GODEBUG": "x=1", "MINE": "1"})})
		if c && strings.Contains(r.Stdout, planted) || strings.Contains(before(r.Stdout, "\x00"), planted) {
			t.Errorf("confined %v: a secret is seen: %s", c, r.Stdout)
		}
		if !strings.Contains(r.Stdout, "MINE=1\n") || !strings.Contains(r.Stdout, "PATH=") {
			t.Errorf("confined %v: %s", c, r.Stdout)
		}
	}
}

// before returns the text before the first line with a mark: here, the output
// of env.
func before(text, mark string) string {
	text, _, _ = strings.Cut(text, mark)
	return text
}
