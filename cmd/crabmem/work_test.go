package main

import (
	"bufio"
	"context"
	"encoding/json"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon"
	"crabmem/daemon/client"
	"crabmem/daemon/model"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
	"crabmem/daemon/wire"
	"crabmem/sessionlog/record"
)

// heldModel is the model of crabmem demo work. Workers wait until held is closed.
type heldModel struct {
	demoModel
	held chan struct{}
}

func (m heldModel) Stream(ctx context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	if slices.ContainsFunc(q.Tools, func(t model.Tool) bool { return t.Name == role.Outcome }) {
		<-m.held
	}
	return m.demoModel.Stream(ctx, q)
}

// TestWorkTailFollows follows a channel's work, and one work: calls, status, and
// outcome arrive, and the command for one work ends with it.
func TestWorkTailFollows(t *testing.T) {
	t.Parallel()
	home, project := filepath.Join(t.TempDir(), "home"), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(home, 0o700))
	must(os.WriteFile(filepath.Join(home, "config.toml"), []byte(demoConfig), 0o600))
	for name, text := range map[string]string{"tests.txt": "a\nb\n", "changelog.md": "# 2.4\n", "image.bin": "x"} {
		must(os.WriteFile(filepath.Join(project, name), []byte(text), 0o600))
	}
	m := heldModel{held: make(chan struct{})}
	stop, err := serveHome(daemon.Options{Home: home, Getenv: os.Getenv, Offline: m})
	must(err)
	defer stop()
	cl := &client.Client{Addr: wire.Addr{Network: "unix", Address: daemon.Socket(home)}}
	defer cl.Close()
	file, env := program(t)
	tail := func(args ...string) (*exec.Cmd, *bufio.Scanner) {
		cmd := exec.Command(file, append([]string{"--home", home, "work", "tail"}, args...)...)
		cmd.Env, cmd.Stderr = env, os.Stderr
		out, err := cmd.StdoutPipe()
		must(err)
		must(cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, bufio.NewScanner(out)
	}
	wait := func(is func() bool) {
		t.Helper()
		for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
			if time.Since(began) > gate.Hang {
				t.Fatal("nothing happens")
			}
		}
	}
	subscribers := func(n int) func() bool {
		return func() bool {
			s, err := op.ReadDaemonStats.Do(t.Context(), cl, op.None{})
			return err == nil && s.Subscribers == n
		}
	}
	all, lines := tail("--json")
	wait(subscribers(1))
	a, err := op.SendMessage.Do(t.Context(), cl, op.Message{Content: demoQuestion, Dir: project})
	must(err)
	one, text := tail(a.Session + "/w1")
	wait(subscribers(2))
	close(m.held)
	got := ""
	for text.Scan() {
		got += text.Text() + "\n"
	}
	must(one.Wait())
	for _, want := range []string{"w1  worker  running, ", "→ bash wc -l tests.txt\n", ". w1 running wc -l tests.txt\n", "w1  worker  done, ", "\n2 tests.txt\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "w2") || strings.Contains(got, "image.bin") {
		t.Errorf("other work in\n%s", got)
	}
	seen := map[string]int{}
	for ended := 0; ended < 5 && lines.Scan(); {
		var v struct{ Kind, State, ID string }
		line := lines.Bytes()
		must(json.Unmarshal(line, &v))
		if err := checkSchema("work_tail", line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if v.State == record.Done {
			ended++
		}
		if v.State != "" {
			v.Kind = v.ID + " " + v.State
		}
		seen[v.Kind]++
	}
	if seen["tool_start"] < 6 || seen["work_status"] != 3 || seen["w1 running"] != 1 || seen["w3 done"] != 1 || seen["b2 done"] != 1 || seen["b1 done"] != 1 {
		t.Errorf("lines by kind: %v", seen)
	}
	must(all.Process.Signal(os.Interrupt))
	_ = all.Wait()
}
