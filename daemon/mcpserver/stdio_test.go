package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/guard"
	"crabmem/daemon/mcpserver/mcptest"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// reply is a response of the server.
type reply struct {
	ID     any
	Error  *struct{ Code int }
	Result map[string]any
}

// replies serves lines and returns the responses in their order.
func replies(t *testing.T, s *Server, lines ...string) (list []reply) {
	t.Helper()
	var out bytes.Buffer
	if err := s.ServeStdio(t.Context(), strings.NewReader(strings.Join(lines, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(&out); ; {
		var r reply
		if err := dec.Decode(&r); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
}

const (
	initializeLine  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
	initializedLine = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	pingLine        = `{"jsonrpc":"2.0","id":9,"method":"ping"}`
)

// TestInvalidLines: the server responds to a line that is not a message, and serves
// the next one.
func TestInvalidLines(t *testing.T) {
	race.Skip(t)
	for line, code := range map[string]int{
		"hello": -32700, `{"jsonrpc":"2.0","id":3,`: -32700, "{\"a\":\x01}": -32700, `{} {}`: -32700, "\xff": -32700,
		"42": -32600, "[]": -32600, "null": -32600, `{"id":3}`: -32600, `{"jsonrpc":"1.0","id":3,"method":"ping"}`: -32600, `[1]`: -32600,
		`[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"ping"}]`: -32600,
		"{\"a\":\"" + strings.Repeat("x", maxMessage) + "\"}":                                 -32600,
		"": 0, "  \r": 0,
	} {
		shown := line[:min(len(line), 80)]
		list := replies(t, newTestServer(t, t.TempDir()), initializeLine, initializedLine, line, pingLine)
		if code != 0 {
			i := 0
			for i < len(list)-1 && list[i].Error == nil {
				i++
			}
			if list[i].Error == nil || list[i].Error.Code != code || list[i].ID != nil {
				t.Errorf("%q: replies %+v, want code %d", shown, list, code)
				continue
			}
			list = append(list[:i], list[i+1:]...)
		}
		if len(list) != 2 || list[1].ID != 9.0 || list[1].Error != nil {
			t.Errorf("%q: replies %+v", shown, list)
		}
	}
}

// TestNoPrompts: the server has no prompts, and does not return an empty list.
func TestNoPrompts(t *testing.T) {
	list := replies(t, newTestServer(t, t.TempDir()), initializeLine, initializedLine, `{"jsonrpc":"2.0","id":2,"method":"prompts/list"}`)
	if len(list) != 2 || list[1].Error == nil || list[1].Error.Code != -32601 {
		t.Errorf("%+v", list)
	}
}

// TestResultType: each result of a tool has the field that the protocol requires
// since 2026-07-28, whether the call succeeds, fails, or has wrong arguments.
func TestResultType(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	for args, fails := range map[string]bool{
		`{"name":"a","content":"b"}`: false, `{"name":"","content":"b"}`: true, `{"name":"a"}`: true, `{"name":"a","content":[]}`: true,
		`{"name":"\ud800","content":"b"}`: true, `{"name":"a","name":"b"}`: true, `[]`: true, `null`: true,
	} {
		list := replies(t, newTestServer(t, t.TempDir()), fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"remember","arguments":%s,%s}}`, args, meta))
		if len(list) != 1 || list[0].Result["resultType"] != "complete" || (list[0].Result["isError"] == true) != fails {
			t.Errorf("%s: %+v", args, list)
		}
	}
}

// TestByteOrderMark: a byte order mark before a message has no effect.
func TestByteOrderMark(t *testing.T) {
	list := replies(t, newTestServer(t, t.TempDir()), "\xef\xbb\xbf"+initializeLine, initializedLine, "\xef\xbb\xbf"+pingLine, "\xef\xbb\xbf")
	if len(list) != 2 || list[0].Error != nil || list[1].Error != nil {
		t.Errorf("%+v", list)
	}
}

// connectStdio connects a client to a server over pipes.
func connectStdio(t *testing.T, s *Server, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	return connectClient(t, s, mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o), nil)
}

func connectClient(t *testing.T, s *Server, client *mcp.Client, o *mcp.ClientSessionOptions) *mcp.ClientSession {
	t.Helper()
	askR, askW := io.Pipe()
	answerR, answerW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := s.ServeStdio(context.Background(), askR, answerW)
		answerW.Close()
		ended <- err
	}()
	c, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: answerR, Writer: askW}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

// await returns the next value, or fails the test.
func await[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(gate.Hang):
		t.Fatal(what)
	}
	return v
}

// TestProgress: a call that waits notifies a client that asks for progress.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		s := newTestServer(t, t.TempDir(), func(o *Options) {
			write := o.Write
			o.Write = func(ctx context.Context, f func(op.Memory) error) error {
				<-free
				return write(ctx, f)
			}
		})
		seen := make(chan *mcp.ProgressNotificationParams, 100000)
		c := connectStdio(t, s, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { seen <- r.Params }})
		done := make(chan *mcp.CallToolResult, 1)
		go func() {
			p := &mcp.CallToolParams{Name: "remember", Arguments: dict{"name": "a", "content": "b"}}
			p.SetProgressToken("token")
			res, err := c.CallTool(t.Context(), p)
			if err != nil {
				t.Error(err)
			}
			done <- res
		}()
		first, second := await(t, seen, "no progress"), await(t, seen, "no further progress")
		if first.ProgressToken != "token" || second.Progress <= first.Progress || first.Message != "remember: running for 2s" {
			t.Errorf("progress %+v, %+v", first, second)
		}
		close(free)
		if res := await(t, done, "no result"); res.IsError {
			t.Errorf("%+v", res)
		}
	})
}

// TestListChanged: a client that lists the resources learns of new and removed
// ones, and only of those.
func TestListChanged(t *testing.T) {
	dir := t.TempDir()
	addNote(t, dir, "old", "text")
	changed := make(chan struct{}, 100)
	c := connectStdio(t, newTestServer(t, dir), &mcp.ClientOptions{ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { changed <- struct{}{} }})
	if !c.InitializeResult().Capabilities.Resources.ListChanged {
		t.Fatal("the server does not announce changes")
	}
	list := func() (n int) {
		t.Helper()
		res, err := c.ListResources(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(res.Resources) - 1 // without the context
	}
	call := func(tool string, args dict) {
		t.Helper()
		if res, text := mcptest.Call(t, c, tool, args); res.IsError {
			t.Fatal(text)
		}
	}
	if list() != 1 {
		t.Fatal("want one resource")
	}
	call("remember", dict{"name": "old", "content": "changed"})
	call("remember", dict{"name": "new", "content": "text"})
	await(t, changed, "no notification of a new note")
	if n := list(); n != 2 {
		t.Errorf("%d resources", n)
	}
	call("forget", dict{"name": "new"})
	await(t, changed, "no notification of a removed note")
	addNote(t, dir, "other", "text")
	call("recall", dict{"query": "text"})
	await(t, changed, "no notification of a note that another program wrote")
	if n := list(); n != 2 || len(changed) > 0 {
		t.Errorf("%d resources, %d further notifications", n, len(changed))
	}
}

// TestProgressHTTP: the server omits progress over HTTP, where the response is one
// JSON message.
func TestProgressHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, t.TempDir(), func(o *Options) {
			write := o.Write
			o.Write = func(ctx context.Context, f func(op.Memory) error) error {
				time.Sleep(time.Minute)
				return write(ctx, f)
			}
		})
		raw := &rawServer{t, s.o.Path, s.httpHandler(newBearer(testToken), guard.NewHosts("127.0.0.1", "80", nil), 1)}
		if text, ok := raw.call("remember", `{"name":"a","content":"b"},"_meta":{"progressToken":1}`); !ok {
			t.Error(text)
		}
	})
}

// TestSubscription: a client of the newest version receives changes of the list, and
// the subscription does not delay the end of the server.
func TestSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		s := newTestServer(t, t.TempDir())
		in, inW := io.Pipe()
		outR, out := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- s.ServeStdio(context.Background(), in, out) }()
		messages := make(chan string, 10)
		go func() {
			for dec := json.NewDecoder(outR); ; {
				var m struct{ Method string }
				if dec.Decode(&m) != nil {
					close(messages)
					return
				}
				messages <- m.Method
			}
		}()
		send := func(line string) {
			t.Helper()
			if _, err := io.WriteString(inW, line+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		send(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourcesListChanged":true},` + meta + `}}`)
		if m := await(t, messages, "no acknowledgement"); m != "notifications/subscriptions/acknowledged" {
			t.Fatal(m)
		}
		send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"remember","arguments":{"name":"a","content":"b"},` + meta + `}}`)
		if a, b := await(t, messages, "no response"), await(t, messages, "no notification"); a+b != "notifications/resources/list_changed" {
			t.Errorf("%q, %q", a, b)
		}
		inW.Close()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(drainTimeout / 2):
			t.Error("the server waits for the subscription")
		}
		out.Close()
		for range messages {
		}
	})
}

// TestClientEndsFirst closes the client's end of the pipe before a notification: that
// is a normal end.
func TestClientEndsFirst(t *testing.T) {
	dir := t.TempDir()
	s := newTestServer(t, dir)
	in, inW := io.Pipe()
	outR, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(context.Background(), in, out) }()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	outR.Close()
	fmt.Fprintf(inW, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"remember","arguments":{"name":"a","content":"b"},%s}}`+"\n", meta)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
