package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// followed is crabmem sessions tail -f --json of a session, running.
type followed struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	diag  bytes.Buffer
}

func follow(t *testing.T, home string, args ...string) *followed {
	t.Helper()
	file, env := program(t)
	f := &followed{t: t, lines: make(chan string, 1000)}
	f.cmd = exec.Command(file, append([]string{"--home", home, "sessions", "tail", "-f", "--json"}, args...)...)
	f.cmd.Env, f.cmd.Stderr = env, &f.diag
	out, err := f.cmd.StdoutPipe()
	if err == nil {
		err = f.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the program's output
		for in := bufio.NewScanner(out); in.Scan(); {
			f.lines <- in.Text()
		}
		close(f.lines)
	}()
	t.Cleanup(func() { f.cmd.Process.Kill() })
	return f
}

// next wants lines of these kinds and contents next: "message: hi".
func (f *followed) next(want ...string) {
	f.t.Helper()
	for _, w := range want {
		select {
		case line, open := <-f.lines:
			var v struct{ Kind, Content, Title, Message string }
			if err := json.Unmarshal([]byte(line), &v); err != nil || !open {
				f.t.Fatalf("want %q, got %q (%v) %s", w, line, err, f.diag.String())
			}
			if err := checkSchema("sessions_tail", []byte(line)); err != nil {
				f.t.Errorf("%s: %v", line, err)
			}
			if got := v.Kind + ": " + v.Content + v.Title + v.Message; got != w {
				f.t.Fatalf("got %q, want %q", got, w)
			}
		case <-time.After(gate.Hang):
			f.t.Fatalf("want %q, got no line; %s", w, f.diag.String())
		}
	}
}

// end waits for the program's exit and checks that there was no more output.
func (f *followed) end(want int) {
	f.t.Helper()
	for line := range f.lines {
		f.t.Errorf("one too many: %s", line)
	}
	if got := exitCode(f.cmd.Wait()); got != want {
		f.t.Errorf("exit code %d, want %d: %s", got, want, f.diag.String())
	}
}

func TestTailFollow(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	folder := filepath.Join(home, "sessions")
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := sessionlog.OpenDir(folder, nil)
	check(err)
	say := func(text string) sessionlog.Message {
		return sessionlog.Message{Role: record.RoleUser, Content: text}
	}
	l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	check(err)
	check(l.Append(say("one"), say("two"), say("three")))
	f := follow(t, home, "crab_user_1", "-n", "2")
	f.next("message: two", "message: three")

	check(l.Append(say("four")))
	f.next("message: four")
	check(l.SetTitle("a title"))
	f.next("title: a title")
	check(l.Append(say("five")))
	f.next("message: five")
	for i := range 60 {
		check(l.Append(say(fmt.Sprint("many ", i))))
		if i%7 == 0 {
			check(l.SetTitle(fmt.Sprint("title ", i)))
		}
	}
	for i := range 60 {
		f.next(fmt.Sprint("message: many ", i))
		if i%7 == 0 {
			f.next(fmt.Sprint("title: title ", i))
		}
	}
	check(l.Close())

	// A line that comes in two parts; a bad one; both from another program.
	add := func(text string) {
		t.Helper()
		names, _ := filepath.Glob(filepath.Join(folder, "crab_user_1*"))
		if len(names) != 1 {
			t.Fatal(names)
		}
		file, err := os.OpenFile(names[0], os.O_APPEND|os.O_WRONLY, 0)
		check(err)
		_, err = file.WriteString(text)
		check(err)
		check(file.Close())
	}
	add(`{"role":"user",`)
	time.Sleep(2 * pollEvery)
	add(`"content":"in two parts"}` + "\n")
	f.next("message: in two parts")
	add("no record\n" + `{"ro{"role":"user","content":"glued"}` + "\n" + "no record\n")
	f.next("bad: not JSON at byte 2: unexpected 'o'", "bad: not JSON at byte 7: unexpected 'r'", "message: glued", "bad: not JSON at byte 2: unexpected 'o'")

	// Moved lines are not printed again.
	if did, err := d.Repair("crab_user_1"); err != nil || did.Dropped != 2 || did.Unglued != 1 {
		t.Fatalf("%+v %v", did, err)
	}
	add(`{"role":"user","content":"after a repair"}` + "\n")
	f.next("message: after a repair")
	replace := func(from, to string) {
		t.Helper()
		names, _ := filepath.Glob(filepath.Join(folder, "crab_user_1*"))
		b, err := os.ReadFile(names[0])
		check(err)
		check(os.WriteFile(names[0]+".new", []byte(strings.Replace(string(b), from, to, 1)), 0o600))
		check(os.Rename(names[0]+".new", names[0]))
	}
	replace("", "")
	add(`{"role":"user","content":"after a replacement"}` + "\n")
	f.next("message: after a replacement")
	// The reference rewrites line 1 and replaces the file.
	names, _ := filepath.Glob(filepath.Join(folder, "crab_user_1*"))
	b, err := os.ReadFile(names[0])
	check(err)
	check(os.WriteFile(names[0], []byte(strings.Replace(string(b), `"uptime_secs":0}`, `"uptime_secs":123456}`, 1)), 0o600))
	add(`{"role":"user","content":"after a rewrite"}` + "\n")
	f.next("message: after a rewrite")
	// Another conversation altogether: from its end on.
	meta := sessionlog.Meta{Agent: "crab", CreatedBy: "user"}
	check(os.WriteFile(names[0]+".new", append(meta.AppendLine(nil), `{"role":"user","content":"x"}`+"\n"...), 0o600))
	check(os.Rename(names[0]+".new", names[0]))
	// The first line to appear shows that tail has seen the other file.
	for seen := false; !seen; {
		add(`{"role":"user","content":"is it seen"}` + "\n")
		select {
		case <-f.lines:
			seen = true
		case <-time.After(pollEvery / 4):
		}
	}
	add(`{"role":"user","content":"after another"}` + "\n")
	for line := range f.lines {
		if strings.Contains(line, "after another") {
			break
		}
	}

	time.Sleep(2 * pollEvery) // for lines too many
	check(f.cmd.Process.Signal(os.Interrupt))
	f.end(130)
	if !strings.Contains(f.diag.String(), "was replaced by a file with other lines") {
		t.Errorf("no word of the replacement: %s", f.diag.String())
	}
	if err := checkSchema("error", f.diag.Bytes()); err != nil {
		t.Error(err)
	}

	// One that is deleted ends it.
	f = follow(t, home, "crab_user_1", "-n", "1")
	f.next("message: after another")
	add(`{"role":"user","content":"the last"}` + "\n")
	f.next("message: the last")
	check(d.Delete("crab_user_1"))
	f.end(cli.ExitNotFound)
	check(d.Close())
}
