package daemon

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/model/modeltest"
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
