package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem"
	"crabmem/crmem/recall"
	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server in a home, which it makes this process's.
func serve(t *testing.T, h wire.Handler) *wire.Server {
	t.Helper()
	home, err := os.MkdirTemp("", "client")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	t.Setenv("CRABTALK_HOME", home)
	t.Setenv("CRABMEM_SOCKET", "")
	l, err := wire.ListenUnix(vfs.OS{}, filepath.Join(home, "daemon.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := &wire.Server{Handler: h}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func newClient(t *testing.T) *Client {
	c := new(Client)
	t.Cleanup(func() { c.Close() })
	return c
}

func hello() *pb.ServerMessage { return helloOf(pb.Version, "v1") }

// helloOf returns the response to Hello of a daemon.
func helloOf(protocol uint32, version string) *pb.ServerMessage {
	body, err := op.Encode(op.DaemonInfo{Protocol: protocol, Version: version})
	if err != nil {
		panic(err) // the type is a constant
	}
	return result(body, false, false)
}

func isHello(m *pb.ClientMessage) bool { return m.GetCall().GetOp() == "daemon.hello" }

// chunk returns an event of a run, and end the end of the run.
func chunk(t *testing.T, text string) *pb.ServerMessage {
	return result(encoded(t, agent.Event{Kind: agent.TextDelta, Content: text}), true, false)
}

func end() *pb.ServerMessage { return result(nil, false, false) }

func fail(code uint32, text string) *pb.ServerMessage {
	return &pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Code: code, Message: text, Kind: "not_found"}}}
}

// script answers every request of a kind with the same messages.
func script(answers ...*pb.ServerMessage) wire.Handler {
	return func(_ context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if isHello(m) {
			_ = send(hello())
			return
		}
		for _, a := range answers {
			if send(a) != nil {
				return
			}
		}
	}
}

func collect(t *testing.T, c *Client) (text string, err error) {
	t.Helper()
	for e, err := range op.StreamMessage.All(t.Context(), c, op.Message{Content: "x"}) {
		if err != nil {
			return text, err
		}
		text += e.Content
	}
	return text, nil
}

func TestStreamEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		answers []*pb.ServerMessage
		text    string
		err     string
	}{
		"well":     {[]*pb.ServerMessage{chunk(t, "a"), chunk(t, "b"), end()}, "ab", ""},
		"error":    {[]*pb.ServerMessage{chunk(t, "a"), fail(429, "slow down")}, "a", "server error (429): slow down"},
		"no start": {[]*pb.ServerMessage{fail(500, "agent 'x' not registered")}, "", "server error (500): agent 'x' not registered"},
		"newer":    {[]*pb.ServerMessage{result(encoded(t, map[string]any{"kind": "later", "what": 1}), true, false), chunk(t, "b"), end()}, "b", ""},
		"other":    {[]*pb.ServerMessage{{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}}}, "", "unexpected response: pong"},
		"empty":    {[]*pb.ServerMessage{{}}, "", "unexpected response: empty, or from a newer daemon"},
	} {
		t.Run(name, func(t *testing.T) {
			serve(t, script(tc.answers...))
			c := newClient(t)
			text, err := collect(t, c)
			if text != tc.text || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("got %q, %v; want %q, %q", text, err, tc.text, tc.err)
			}
		})
	}
}

// TestConnections sees to it that answers which ended leave their connection,
// and others do not.
func TestConnections(t *testing.T) {
	gone := make(chan bool, 1)
	s := serve(t, func(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		switch {
		case isHello(m):
			_ = send(hello())
		case m.GetCall().GetOp() == "runs.cancel":
			e := &Error{Code: 404, Message: "session 7 not found", Kind: "not_found", Path: "/p", Remedy: "look"}
			_ = send(&pb.ServerMessage{Msg: &pb.ServerMessage_Result{Result: &pb.Result{Error: e.Encode()}}})
		case m.GetCall() != nil:
			_ = send(chunk(t, "a"))
			<-ctx.Done()
			gone <- true
		default:
			_ = send(&pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}})
		}
	})
	c := newClient(t)
	for range 3 {
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := op.CancelRun.Do(t.Context(), c, op.SessionNumber{Number: 7})
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != 404 || e.Kind != "not_found" || e.Path != "/p" || e.Remedy != "look" {
			t.Fatalf("cancel: %v", err)
		}
	}
	if n := s.Conns(); n != 1 {
		t.Errorf("%d connections for requests one after the other", n)
	}
	for e, err := range op.StreamMessage.All(t.Context(), c, op.Message{Content: "x"}) {
		if err != nil || e.Kind != agent.TextDelta {
			t.Fatal(e, err)
		}
		if err := c.Ping(t.Context()); err != nil { // during the run
			t.Fatal(err)
		}
		break
	}
	select {
	case <-gone:
	case <-time.After(gate.Hang):
		t.Fatal("the run was not ended by the hang-up")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range op.StreamMessage.All(ctx, c, op.Message{Content: "x"}) {
		if ctx.Err() == nil {
			cancel()
		} else if !errors.Is(err, context.Canceled) {
			t.Fatalf("after cancel: %v", err)
		}
	}
	<-gone
}

// TestStaleConnection uses a connection that the daemon has closed since.
func TestStaleConnection(t *testing.T) {
	pong := &pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}}
	s := serve(t, script(pong))
	c := newClient(t)
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := c.Ping(t.Context())
	if e, ok := errors.AsType[*NoDaemonError](err); !ok || !strings.Contains(e.Error(), "crabmem daemon") {
		t.Fatalf("Ping without a daemon: %v", err)
	}
	l, err := wire.ListenUnix(vfs.OS{}, filepath.Join(os.Getenv("CRABTALK_HOME"), "daemon.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s = &wire.Server{Handler: script(pong)}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("Ping after a restart: %v", err)
	}
	_ = s.Shutdown(t.Context())
	<-done
}

func TestSkew(t *testing.T) {
	for name, tc := range map[string]struct {
		answer *pb.ServerMessage
		want   string
	}{
		"foreign": {fail(400, "empty client message"), "call daemon: not a crabmem daemon, or older than this program: stop it, then run crabmem daemon start"},
		"other": {helloOf(pb.Version+1, "v9"),
			"call daemon: it has version v9 and protocol 4, but this program needs protocol 3: stop it, then run crabmem daemon start"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			serve(t, func(_ context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
				if !isHello(m) {
					asked++
				}
				_ = send(tc.answer)
			})
			c := newClient(t)
			_, err := op.ReadEntry(t.Context(), c, op.EntryName{Name: "deploy"})
			if e, ok := errors.AsType[*SkewError](err); !ok || e.Error() != tc.want {
				t.Errorf("Get: %v, want %s", err, tc.want)
			}
			if asked != 0 {
				t.Error("the daemon was asked what it does not know")
			}
		})
	}
}

// result returns a message of a response.
func result(body []byte, more, partial bool) *pb.ServerMessage {
	return &pb.ServerMessage{Msg: &pb.ServerMessage_Result{Result: &pb.Result{Body: body, More: more, Partial: partial}}}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	b, err := op.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestParts reads a sequence, of which a part has two messages, and a part is empty.
func TestParts(t *testing.T) {
	first := encoded(t, []crmem.Entry{{ID: 1}, {ID: 2}})
	s := serve(t, script(result(first[:7], true, true), result(first[7:], true, false), result(encoded(t, []crmem.Entry{}), true, false),
		result(encoded(t, []crmem.Entry{{ID: 3}}), true, false), result(nil, false, false)))
	c := newClient(t)
	for range 2 {
		var ids []uint64
		for e, err := range op.Entries(t.Context(), c, op.EntryFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, e.ID)
		}
		if fmt.Sprint(ids) != "[1 2 3]" {
			t.Errorf("ids %v", ids)
		}
	}
	if s.Conns() != 1 {
		t.Errorf("%d connections", s.Conns())
	}
	for e := range op.Entries(t.Context(), c, op.EntryFilter{}) {
		if e.ID == 1 {
			break
		}
	}
}

// TestResponseInMessages reads a response of two messages.
func TestResponseInMessages(t *testing.T) {
	body := encoded(t, recall.Answer{Total: 2, Searched: 9, Hits: []recall.Hit{{Score: 2}, {Score: 1}}})
	serve(t, script(result(body[:9], true, true), result(body[9:], false, false)))
	a, err := op.Recall.Do(t.Context(), newClient(t), op.Question{Query: "x"})
	if err != nil || a.Total != 2 || a.Searched != 9 || len(a.Hits) != 2 || a.Hits[1].Score != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestRefused gets the reason of a server that answers before it was asked and
// hangs up.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			_ = wire.NewConn(nc).Write(fail(503, "full"))
			nc.Close()
		}
	}()
	t.Setenv("CRABMEM_SOCKET", path)
	for range 20 {
		err := newClient(t).Ping(t.Context())
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != 503 {
			t.Fatalf("Ping: %v, want what the server said", err)
		}
	}
}

func TestLocal(t *testing.T) {
	t.Setenv("CRABMEM_SOCKET", "/tmp/s")
	if a, err := localAddr(); err != nil || a != (wire.Addr{Network: "unix", Address: "/tmp/s"}) {
		t.Errorf("CRABMEM_SOCKET: %v, %v", a, err)
	}
	t.Setenv("CRABMEM_SOCKET", "")
	home := t.TempDir()
	t.Setenv("CRABTALK_HOME", home)
	if a, err := localAddr(); runtime.GOOS != "windows" && (err != nil || a.Address != filepath.Join(home, "daemon.sock")) {
		t.Errorf("CRABTALK_HOME: %v, %v", a, err)
	}
	if _, err := localPort(home); err == nil || !strings.Contains(err.Error(), "crabmem daemon") {
		t.Errorf("without a port: %v", err)
	}
	for name, text := range map[string]string{"crabtalk.port": "6688\n", "crabtalk.token": "secret\n"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if a, err := localPort(home); err != nil || a != (wire.Addr{Network: "tcp", Address: "127.0.0.1:6688", Token: "secret"}) {
		t.Errorf("a port: %v, %v", a, err)
	}
	if err := os.WriteFile(filepath.Join(home, "crabtalk.port"), []byte("66880"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err := localPort(home); err == nil {
		t.Errorf("no port: %v", a)
	}
}
