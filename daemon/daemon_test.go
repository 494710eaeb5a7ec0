package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/service/servicetest"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // before any goroutine reads it; schedules without a zone use it
	servicetest.Main(os.Exit)
	debug.SetGCPercent(400) // the daemons are small and many
	goleak.VerifyTestMain(m)
}

// served is a daemon that serves a separate home.
type served struct {
	t    *testing.T
	home string
	*Daemon
	stop func()
}

// scripted returns the configuration of a home with a scripted model.
func scripted(m *modeltest.Server) string {
	return `sessions.titles = "off"
[provider.test]
kind = "openai-compatible"
base_url = "` + m.URL + `"
api_key = "sk-planted"
models = ["script"]
max_retries = 0
[provider.test.context_limits]
script = 100000
[system.crab]
model = "script"
`
}

func serve(t *testing.T, home, config string, with ...func(*Options)) *served {
	t.Helper()
	if config != "" {
		if err := os.MkdirAll(home, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Home: home, Getenv: func(string) string { return "" }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "test"}
	for _, f := range with {
		f(&o)
	}
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx) }()
	s := &served{t: t, home: d.home, Daemon: d}
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		s.stop = func() {}
	}
	t.Cleanup(func() { s.stop() })
	gate.Until(t, "the daemon listens", func() bool {
		c, err := net.Dial("unix", Socket(d.home))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return s
}

// home returns a directory with a path that is short enough for a socket.
func home(t *testing.T) string {
	dir, err := os.MkdirTemp("", "crab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// dial returns a new connection after a call.
func (s *served) dial() *wire.Conn {
	s.t.Helper()
	c, err := wire.Dial(context.Background(), wire.Addr{Network: "unix", Address: Socket(s.home)})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.Write(callMessage(s.t, "daemon.hello", op.None{})); err != nil {
		s.t.Fatal(err)
	}
	if err := c.Read(new(pb.ServerMessage)); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// callMessage returns the request of an operation.
func callMessage(t *testing.T, name string, in any) *pb.ClientMessage {
	t.Helper()
	body, err := op.Encode(in)
	if err != nil {
		t.Fatal(err)
	}
	return &pb.ClientMessage{Msg: &pb.ClientMessage_Call{Call: &pb.Call{Op: name, Body: body}}}
}

// failure returns the error in a response. Without an error it is empty.
func failure(t *testing.T, r *pb.ServerMessage) (e op.Error) {
	t.Helper()
	if body := r.GetResult().GetError(); len(body) > 0 {
		if err := op.Decode(body, &e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	return op.Error{Code: r.GetError().GetCode(), Message: r.GetError().GetMessage(), Kind: r.GetError().GetKind()}
}

// ask sends a request on a new connection and returns all responses.
func (s *served) ask(m *pb.ClientMessage) []*pb.ServerMessage {
	s.t.Helper()
	c := s.dial()
	defer c.Close()
	if err := c.Write(m); err != nil {
		s.t.Fatal(err)
	}
	var all []*pb.ServerMessage
	for {
		r := &pb.ServerMessage{}
		if err := c.Read(r); err != nil {
			s.t.Fatalf("after %d answers: %v", len(all), err)
		}
		all = append(all, r)
		if e := r.GetStream(); e == nil || e.GetEnd() != nil {
			return all
		}
	}
}

// stored returns the ID of a loaded session.
func (s *served) stored(number uint64) string {
	s.t.Helper()
	l, err := s.loaded.Get(number)
	if err != nil {
		s.t.Fatal(err)
	}
	return l.StoredID()
}

// describe returns a session, as the owner sees it.
func (s *served) describe(id string) (op.Session, error) {
	on := op.Daemon{Parts: s.parts}
	return on.Describe(id)
}

func (s *served) one(m *pb.ClientMessage) *pb.ServerMessage {
	s.t.Helper()
	all := s.ask(m)
	if len(all) != 1 {
		s.t.Fatalf("%d answers: %v", len(all), all)
	}
	return all[0]
}

// kill ends a loaded session.
func (s *served) kill(session uint64) *pb.ServerMessage {
	return s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_Kill{Kill: &pb.KillMsg{Session: session}}})
}

func send(m *pb.SendMsg) *pb.ClientMessage {
	return &pb.ClientMessage{Msg: &pb.ClientMessage_Send{Send: m}}
}
func stream(m *pb.StreamMsg) *pb.ClientMessage {
	return &pb.ClientMessage{Msg: &pb.ClientMessage_Stream{Stream: m}}
}

func TestOffline(t *testing.T) {
	s := serve(t, home(t), "")
	if _, err := s.store.Remember("deploy", "build, tag, push, then watch the canary", nil); err != nil {
		t.Fatal(err)
	}
	r := s.one(send(&pb.SendMsg{Agent: "crab", Content: "how do we deploy?"})).GetResponse()
	if r == nil || !strings.Contains(r.Content, "watch the canary") || !strings.Contains(r.Content, "No model is in use") {
		t.Fatalf("answered %v", r)
	}
	if _, err := Open(Options{Home: s.home}); err == nil || !strings.Contains(err.Error(), ErrRunning.Error()) {
		t.Errorf("a second daemon: %v", err)
	}
	b, err := vfs.ReadFile(vfs.OS{}, filepath.Join(s.home, "sessions", s.stored(r.Session)+"_how-do-we-deploy.jsonl"), 1<<20)
	if err != nil || strings.Count(string(b), "\n") < 3 {
		t.Errorf("the session holds %q, %v", b, err)
	}
}

// follow subscribes to all events. The returned function waits until the given
// number of runs are done, and returns the events.
func (s *served) follow() (end func(runs int) []*pb.AgentEventMsg) {
	s.t.Helper()
	c := s.dial()
	s.t.Cleanup(func() { c.Close() })
	if err := c.Write(&pb.ClientMessage{Msg: &pb.ClientMessage_SubscribeEvents{SubscribeEvents: &pb.SubscribeEvents{}}}); err != nil {
		s.t.Fatal(err)
	}
	gate.Until(s.t, "a subscriber", func() bool { return s.events.count.Load() > 0 })
	return func(runs int) (all []*pb.AgentEventMsg) {
		s.t.Helper()
		for runs > 0 {
			m := &pb.ServerMessage{}
			if err := c.Read(m); err != nil {
				s.t.Fatalf("after %d events: %v", len(all), err)
			}
			e := m.GetAgentEvent()
			all = append(all, e)
			if e.GetKind() == pb.AgentEventKind_DONE {
				runs--
			}
		}
		return all
	}
}

func typeName(v any) string { return fmt.Sprintf("%T", v) }

// TestTCP checks that a port requires no token from the same user, unless a
// confined agent has commands that could use it.
func TestTCP(t *testing.T) {
	const listen = "[tcp]\nlisten = \"127.0.0.1:0\"\n"
	for name, c := range map[string]struct {
		config, token string
		works         bool
	}{
		"no confined agent":    {listen, "", true},
		"an agent is":          {listen + "[agents.a]\nprompt = \"x\"\ntools = [\"bash\"]\n", "", false},
		"without commands":     {listen + "[agents.a]\nprompt = \"x\"\ntools = [\"recall\"]\n", "", true},
		"with the token":       {listen + "token_file = \"token\"\n[agents.a]\nprompt = \"x\"\ntools = [\"bash\"]\n", "a-long-token-of-ours-0123456789abcdef", true},
		"with another token":   {listen + "token_file = \"token\"\n[agents.a]\nprompt = \"x\"\ntools = [\"bash\"]\n", "another", false},
		"without it, confined": {listen + "token_file = \"token\"\n[agents.a]\nprompt = \"x\"\ntools = [\"bash\"]\n", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := home(t)
			if err := os.WriteFile(filepath.Join(dir, "token"), []byte("a-long-token-of-ours-0123456789abcdef"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := serve(t, dir, c.config)
			var port []byte
			gate.Until(t, "the port is known", func() bool {
				var err error
				port, err = os.ReadFile(filepath.Join(s.home, "run", "crabtalk.port"))
				return err == nil
			})
			r := &pb.ServerMessage{}
			conn, err := wire.Dial(t.Context(), wire.Addr{Network: "tcp", Address: "127.0.0.1:" + string(port), Token: c.token})
			if err == nil {
				defer conn.Close()
				if err = conn.Write(&pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}}); err == nil {
					err = conn.Read(r)
				}
			}
			if works := err == nil && r.GetPong() != nil; works != c.works {
				t.Errorf("answered %v, %v", r, err)
			}
		})
	}
}
