package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// TestNoResponse stops a daemon between a request and its response. A command
// repeats a request that has the same effect; otherwise the outcome is unknown.
func TestNoResponse(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		diag string
	}{
		{[]string{"remember", "a", "new"}, 0, ""},
		{[]string{"remember", "a new text"}, 0, ""},
		{[]string{"checkpoint"}, 0, ""},
		{[]string{"forget", "a"}, cli.ExitUnknown, "wait for response: outcome unknown"},
		{[]string{"alias", "a", "x", "--json"}, cli.ExitUnknown, `"kind":"outcome_unknown"`},
	} {
		p := newPlace(t, false)
		if out, diag, code := p.runs("remember", "a", "old"); code != 0 {
			t.Fatalf("%s%s", out, diag)
		}
		dies(t, p)
		out, diag, code := p.runs(c.args...)
		if code != c.code || !strings.Contains(diag, c.diag) {
			t.Errorf("crabmem %s: exit code %d, want %d: %s%s", strings.Join(c.args, " "), code, c.code, out, diag)
		}
		if out, _, _ := p.runs("show", "a"); c.args[0] == "remember" && len(c.args) == 3 && out != "new" {
			t.Errorf("the store has %q", out)
		}
	}
}

// dies lets something have the store's lock that says it is a daemon, finds an entry, and
// dies when it is asked for anything else.
func dies(t *testing.T, p *place) {
	t.Helper()
	db, err := vfs.OS{}.Resolve(filepath.Join(p.home, "memory.db"))
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(p.home, "d.sock")
	lock, err := vfs.OS{}.Lock(db + "-lock")
	if err != nil {
		t.Fatal(err)
	}
	before, err := lock.Text()
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.SetText(vfs.LockHolder{PID: 4711, Command: "crabmem daemon", Socket: socket}.Text()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // ends with the listener
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			conn := wire.NewConn(nc)
			for {
				m := new(pb.ClientMessage)
				if conn.Read(m) != nil {
					break
				}
				var response any
				switch m.GetCall().GetOp() {
				case "daemon.hello":
					response = op.DaemonInfo{Protocol: pb.Version, Store: db}
				case "entries.named":
					response = *op.EntryOf(&crmem.Entry{ID: 1, Name: "a"}, true)
				}
				if response == nil {
					l.Close()
					_ = lock.SetText(before)
					_ = lock.Unlock()
					break
				}
				_ = conn.Write(responseOf(response))
			}
			conn.Close()
		}
	}()
}

// responseOf returns the response with the result of an operation.
func responseOf(result any) *pb.ServerMessage {
	body, err := op.Encode(result)
	if err != nil {
		panic(err) // the tests' results can be encoded
	}
	return &pb.ServerMessage{Msg: &pb.ServerMessage_Result{Result: &pb.Result{Body: body}}}
}
