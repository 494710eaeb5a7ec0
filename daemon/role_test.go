package daemon

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem/recalleval"
	"crabmem/crmem/vfs"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/role"
	store "crabmem/daemon/secret"
	"crabmem/daemon/wire/pb"
)

// TestExternalWorker gives a task to a program of the configuration, and a task with a
// secret, which the program does not receive.
func TestExternalWorker(t *testing.T) {
	const value = "correct-horse-9"
	m := modeltest.New(t)
	h, dir := home(t), t.TempDir()
	if err := m.Script(`
when last "go"
call spawn_worker {"agent":"count","task":"one two three"}
call spawn_worker {"agent":"count","task":"the key is ` + value + `"}
when last "results of work"
text "counted"
always
text "on it"
repeat
`); err != nil {
		t.Fatal(err)
	}
	s := serve(t, h, scripted(m)+"role = \"channel\"\n[workers.count]\nprotocol = \"exec\"\ncommand = \"sh\"\nargs = [\"-c\", \"tee "+filepath.Join(dir, "in")+" | wc -w\"]\n")
	vault := &store.Store{FS: vfs.OS{}, Home: h}
	if _, _, err := vault.Set("later", value); err != nil {
		t.Fatal(err)
	}
	s.ask(send(&pb.SendMsg{Content: "go"}))
	gate.Until(t, "the result is delivered", func() bool {
		b, err := os.ReadFile(filepath.Join(h, "sessions", "crab_user_1.jsonl"))
		return err == nil && strings.Contains(string(b), `"work":["w1.1"]`)
	})
	v, err := s.roles.Show("crab_user_1", "w1")
	if err != nil || v.State != "done" || strings.TrimSpace(v.Outcome) != "3" {
		t.Errorf("%+v %v", v, err)
	}
	if list, err := s.roles.List("crab_user_1"); err != nil || len(list) != 1 {
		t.Errorf("%d items: %v", len(list), err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "in")); err != nil || string(b) != "one two three" {
		t.Errorf("the program received %q: %v", b, err)
	}
}

// TestLeaves plants a secret in the arguments of the tools that send text away, plain and
// in base64. No policy but off and warn lets it pass.
func TestLeaves(t *testing.T) {
	const value, token = "correct-horse-9", "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"
	encoded := base64.StdEncoding.EncodeToString([]byte("user:" + value))
	for policy, leaves := range map[string]bool{"default": false, "redact": false, "refuse": false, "warn": true, "off": true} {
		m := modeltest.New(t)
		h, dir := home(t), t.TempDir()
		s := serve(t, h, scripted(m)+"[memory]\nsecrets = \""+policy+"\"\n[tools.bash]\napprove = \"off\"\n", func(o *Options) { o.Dir = dir })
		vault := &store.Store{FS: vfs.OS{}, Home: h}
		if _, _, err := vault.Set("later", value); err != nil {
			t.Fatal(err)
		}
		for i, text := range []string{value, encoded, token} {
			name := filepath.Join(dir, fmt.Sprint("sent", i))
			m.Queue(modeltest.Call("bash", fmt.Sprintf(`{"command":"echo %s > %s"}`, text, name)), modeltest.Say("done"))
			s.ask(send(&pb.SendMsg{Content: "hi"}))
			if _, err := os.Stat(name); (err == nil) != leaves {
				t.Errorf("%s: the command with text %d ran: %v", policy, i, err == nil)
			}
		}
		s.stop()
	}
}

// TestTurnCosts compares the CPU time of a channel's turn without work with one while 10 and
// while 32 workers run. Both conversations have as many calls.
func TestTurnCosts(t *testing.T) {
	if os.Getenv("CRABMEM_ROLE_COSTS") == "" {
		t.Skip("SKIPPED: it measures the CPU; CRABMEM_ROLE_COSTS=1 runs it")
	}
	m := modeltest.New(t)
	m.Discard = true
	var calls modeltest.Reply
	m.Func(func(r modeltest.Request) modeltest.Reply {
		switch {
		case slices.Contains(r.Tools, role.Outcome):
			return modeltest.Stall()
		case strings.HasSuffix(r.Messages[len(r.Messages)-1].Content, "go"):
			return calls
		}
		return modeltest.Say("fine")
	})
	for _, n := range []int{10, 32} {
		var least [2]time.Duration
		for pass := range 20 {
			running := n * (pass % 2)
			calls = modeltest.Reply{}
			for i := range n {
				if task := fmt.Sprintf(`{"task":"t%d"}`, i); running > 0 {
					calls = calls.Call(role.SpawnWorker, task)
				} else {
					calls = calls.Call(role.Cancel, fmt.Sprintf(`{"id":"w%d"}`, i+1))
				}
			}
			s := serve(t, home(t), scripted(m)+"role = \"channel\"\n[roles]\nworkers = 32\n")
			s.ask(send(&pb.SendMsg{Content: "go"}))
			if list, err := s.roles.List("crab_user_1"); err != nil || len(list) != running {
				t.Fatalf("%d works: %v", len(list), err)
			}
			began := recalleval.CPUTime()
			for range 100 {
				s.ask(send(&pb.SendMsg{Content: "hi"}))
			}
			if took := (recalleval.CPUTime() - began) / 100; least[pass%2] == 0 || took < least[pass%2] {
				least[pass%2] = took
			}
			s.stop()
		}
		t.Logf("%d workers: %v of CPU for a turn without them, %v while they run", n, least[0], least[1])
		gate.Most(t, fmt.Sprintf("percent of the CPU time of a turn while %d workers run", n), int64(100*least[1]/least[0]), 120)
	}
}
