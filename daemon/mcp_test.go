package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/service/servicetest"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

// says has an agent call the mcp tool. It returns the result for the model, and
// the system prompt.
func (s *served) says(m *modeltest.Server, agent, name, args string) (result, system string) {
	s.t.Helper()
	m.Queue(modeltest.Call("mcp", fmt.Sprintf(`{"name":%q,"args":%q}`, name, args)), modeltest.Say("done"))
	r := s.one(send(&pb.SendMsg{Agent: agent, Content: "go", Sender: proto.String("user")}))
	if r.GetResponse() == nil {
		s.t.Fatalf("mcp %s: %v", name, r)
	}
	q := m.Requests()
	last := q[len(q)-1].Messages
	return last[len(last)-1].Content, last[0].Content
}

// TestComponent: a component is started, found, called, killed, started again
// on another port and called again, and all the while the daemon runs. An agent
// that may not use it neither sees nor calls it.
func TestComponent(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m)+"[agents.narrow]\nmcps = ['mail*']\nmodel = 'script'\n")
	p := servicetest.Start(t, s.home, "search")
	if got, _ := s.says(m, "crab", "greet", `{"name":"Crab"}`); got != "hello, Crab, from search" {
		t.Errorf("a call: %q", got)
	}
	prompt := func(agent string) string { return s.setup().agents[agent].System() }
	gate.Until(t, "the prompt lists the server", func() bool { return strings.Contains(prompt("crab"), "\n- search: greet, pid, sleep\n</resources>") })
	if _, system := s.says(m, "crab", "", ""); !strings.Contains(system, "<resources>\nMCP servers provide more tools") {
		t.Errorf("the system prompt:\n%s", system)
	}
	if got, system := s.says(m, "narrow", "greet", "{}"); got != "tool not available: greet" || strings.Contains(system, "- search:") {
		t.Errorf("an agent without the server: %q\n%s", got, system)
	}
	if got, _ := s.says(m, "narrow", "", ""); got != "no tools found" {
		t.Errorf("its list: %q", got)
	}

	p.Kill(t)
	gate.Until(t, "the prompt omits the server", func() bool { return !strings.Contains(prompt("crab"), "- search:") })
	if got, _ := s.says(m, "crab", "greet", "{}"); got != "mcp tool 'greet' not available" {
		t.Errorf("while it is gone: %q", got)
	}
	q := servicetest.Start(t, s.home, "search")
	if q.Port == p.Port {
		t.Fatal("the same port")
	}
	if got, _ := s.says(m, "crab", "pid", "{}"); got != strconv.Itoa(q.Process.Pid) {
		t.Errorf("after it came back: %q", got)
	}
	if r := s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_Reload{Reload: &pb.ReloadMsg{}}}); r.GetPong() == nil {
		t.Fatal(r)
	}
	if got, _ := s.says(m, "crab", "pid", "{}"); got != strconv.Itoa(q.Process.Pid) {
		t.Errorf("after a reload: %q", got)
	}
	s.stop()
	if err := q.Stop(t); err != nil {
		t.Errorf("the component ended with the daemon: %v", err)
	}
	noChildren(t)
}

// TestConfiguredServer: a server of the configuration is a child, which stays
// over a reload that does not change it, and ends with the daemon.
func TestConfiguredServer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := modeltest.New(t)
	dir := home(t)
	config := scripted(m) + "[env]\n" + servicetest.Stdio + " = 'notes'\n[mcps.notes]\ncommand = '" + self + "'\n"
	s := serve(t, dir, config)
	pid, _ := s.says(m, "crab", "pid", "")
	if n, err := strconv.Atoi(pid); err != nil || n < 2 {
		t.Fatalf("pid: %q", pid)
	}
	reload := func(config string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_Reload{Reload: &pb.ReloadMsg{}}}); r.GetPong() == nil {
			t.Fatal(r)
		}
	}
	reload(config + "[mcps.broken]\ncommand = 'no-such-program'\n")
	if again, _ := s.says(m, "crab", "notes__pid", ""); again != pid {
		t.Errorf("after a reload: %s, was %s", again, pid)
	}
	reload(scripted(m))
	if got, _ := s.says(m, "crab", "pid", ""); got != "mcp tool 'pid' not available" {
		t.Errorf("after it was taken out: %s", got)
	}
	reload(config)
	if again, _ := s.says(m, "crab", "pid", ""); again == pid {
		t.Errorf("the process that was taken out answers")
	}
	s.stop()
	noChildren(t)
}

// noChildren wants this process to have no child, dead or alive.
func noChildren(t *testing.T) {
	t.Helper()
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err == nil && len(b) > 0 {
			t.Errorf("children: %s", b)
		}
	}
}
