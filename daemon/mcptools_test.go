package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/bench/gate"
	crabmcp "crabmem/daemon/mcp"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/tool"
	"crabmem/daemon/wire/pb"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/protobuf/proto"
)

// mcpServer starts a server with tools that return their name and arguments. It returns
// its configuration.
func mcpServer(t *testing.T, name string, schemas map[string]string) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	for called, schema := range schemas {
		server.AddTool(&mcp.Tool{Name: called, Description: "Does <" + called + ">.", InputSchema: json.RawMessage(schema)},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				text := fmt.Sprintf("%s/%s %s", name, called, r.Params.Arguments)
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
			})
	}
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(h.Close)
	return fmt.Sprintf("[mcps.%s]\nurl = '%s/mcp'\n", name, h.URL)
}

// anything is the schema of an object.
const anything = `{"type":"object"}`

// srvTools are the tools of a server that also has a tool of each name of the daemon's.
func srvTools() map[string]string {
	all := map[string]string{
		"get-a": `{"$defs":{"Key":{"anyOf":[{"type":"integer"},{"type":"string"}]}},"type":"object","properties":{"key":{"$ref":"#/$defs/Key"},"at":{"type":"object","properties":{"line":{"type":"integer"}}}},"required":["key"]}`,
		"get-b": anything, "echo": anything, "a.b/c": anything,
	}
	for _, name := range tool.BuiltIn() {
		all[name] = anything
	}
	return all
}

// TestMCPToolsOfAgent compares the tools in the request to the provider, follows a call of
// a server's tool to the server and into the session, and has calls of its other tools
// refused.
func TestMCPToolsOfAgent(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m)+mcpServer(t, "srv", srvTools())+mcpServer(t, "two", map[string]string{"only": anything})+`[agents.narrow]
model = 'script'
tools = ['recall', 'srv/get-*']
[agents.both]
model = 'script'
tools = ['mcp', 'srv/get-*', 'srv/none']
`)
	turn := func(agent, name, args string) (result string, first modeltest.Request) {
		t.Helper()
		n := len(m.Requests())
		m.Queue(modeltest.Call(name, args), modeltest.Say("done"))
		if r := s.one(send(&pb.SendMsg{Agent: agent, Content: "go", Sender: proto.String("user"), NewChat: true})); r.GetResponse() == nil {
			t.Fatalf("%s calls %s: %v", agent, name, r)
		}
		q := m.Requests()
		return q[len(q)-1].Messages[len(q[len(q)-1].Messages)-1].Content, q[n]
	}
	const args = `{"key":7,"at":{"line":1}}`
	got, request := turn("narrow", "srv__get-a", args)
	if got != "srv/get-a "+args {
		t.Errorf("a call: %s", got)
	}
	var body struct{ Tools []json.RawMessage }
	check(t, json.Unmarshal(request.Body, &body))
	const golden = `{"function":{"name":"srv__get-a","description":"Does \u0026lt;get-a\u0026gt;.","parameters":{"properties":{"at":{"properties":{"line":{"type":"integer"}},"type":"object"},"key":{"anyOf":[{"type":"integer"},{"type":"string"}]}},"required":["key"],"type":"object"}},"type":"function"}
{"function":{"name":"srv__get-b","description":"Does \u0026lt;get-b\u0026gt;.","parameters":{"properties":{},"type":"object"}},"type":"function"}`
	if len(body.Tools) != 3 || !strings.Contains(string(body.Tools[0]), `"name":"recall"`) || string(bytes.Join([][]byte{body.Tools[1], body.Tools[2]}, []byte("\n"))) != golden {
		t.Errorf("tools of the request: %s\nwant recall and\n%s", body.Tools, golden)
	}
	q := m.Requests()
	if calls := q[len(q)-1].Messages; calls[len(calls)-2].ToolCalls[0].Function.Name != "srv__get-a" {
		t.Errorf("the call in the next request: %+v", calls)
	}
	var sessions []byte
	files, _ := filepath.Glob(filepath.Join(s.home, "sessions", "*"))
	for _, name := range files {
		b, _ := os.ReadFile(name)
		sessions = append(sessions, b...)
	}
	if !bytes.Contains(sessions, []byte(`"srv/get-a"`)) || bytes.Contains(sessions, []byte("srv__")) {
		t.Errorf("the session:\n%s", sessions)
	}

	m.Queue(modeltest.Call("srv__get-b", "{}"), modeltest.Say("done"))
	var shown []string
	for e, err := range op.StreamMessage.All(t.Context(), s.client(), op.Message{Agent: "narrow", Content: "go", New: true}) {
		check(t, err)
		for _, c := range e.Calls {
			shown = append(shown, c.Name)
		}
	}
	if got := strings.Join(shown, " "); got != "srv/get-b srv/get-b" {
		t.Errorf("calls in events: %s", got)
	}

	for _, c := range []struct{ agent, name, args, want string }{
		{"narrow", "srv__echo", "{}", "tool not available: srv__echo"},
		{"narrow", "srv/echo", "{}", "tool not available: srv/echo"},
		{"narrow", "mcp", `{"name":"echo"}`, "tool not available: mcp"},
		{"narrow", "mcp", `{"name":"srv__get-a"}`, "tool not available: mcp"},
		{"narrow", "srv/get-b", "{}", "srv/get-b {}"},
		{"both", "srv__echo", "{}", "tool not available: srv__echo"},
		{"both", "mcp", `{"name":"echo"}`, "tool not available: echo"},
		{"both", "mcp", `{"name":"srv__echo"}`, "tool not available: srv__echo"},
		{"both", "mcp", `{"name":"get-b","args":{"x":1}}`, `srv/get-b {"x":1}`},
		{"both", "mcp", `{"name":"only"}`, "two/only {}"},
		{"both", "mcp", `{"name":"srv*"}`, "no tools found"},
		{"crab", "srv/get-a", "{}", "tool not available: srv/get-a"},
		{"crab", "mcp", `{"name":"echo"}`, "srv/echo {}"},
	} {
		if got, _ := turn(c.agent, c.name, c.args); got != c.want {
			t.Errorf("%s calls %s %s: %q, want %q", c.agent, c.name, c.args, got, c.want)
		}
	}
}

// TestMCPToolNames compares the tools that agents have: a pattern that matches a tool of the
// daemon brings no tool of a server, and a server that has every name of the daemon's
// replaces none.
func TestMCPToolNames(t *testing.T) {
	m := modeltest.New(t)
	other := mcpServer(t, "other", map[string]string{"echo": anything})
	config := scripted(m) + mcpServer(t, "srv", srvTools())
	for _, c := range []struct{ name, lists, want string }{
		{"star", "tools = ['*']", "ask_user bash forget mcp recall remember session_search skill"},
		{"prefix", "tools = ['re*', 'srv*']", "recall remember"},
		{"pattern", "tools = ['re*', 'ge*', 'ec*']", "recall remember srv/get-a srv/get-b"},
		{"skilled", "tools = ['re*', 'ge*']\nskills = ['x']", "recall remember"},
		{"ours", "tools = ['recall', 'bash']\nmcps = ['srv']", "bash recall"},
		{"server", "tools = ['recall', 'srv/*']", "recall srv/a.b/c srv/ask_user srv/bash srv/delegate srv/echo srv/edit srv/forget srv/get-a srv/get-b srv/list srv/mcp srv/read srv/recall srv/remember srv/send srv/session_search srv/skill srv/write"},
		{"one", "tools = ['srv/recall', 'srv/a.b/c']\nmcps = ['srv']", "srv/a.b/c srv/recall"},
		{"alone", "tools = ['recall', 'get-a']\nmcps = ['srv']", "recall srv/get-a"},
		{"ambiguous", "tools = ['recall', 'echo']\nmcps = ['srv']", "recall"},
		{"unlisted", "tools = ['recall', 'get-a']", "recall"},
		{"foreign", "tools = ['recall', 'srv/get-a', 'get-a']\nmcps = ['other']", "recall"},
		{"implied", "tools = ['recall', 'srv/get-a']\nskills = ['x']", "recall"},
		{"servers", "tools = ['s*/get-a', 'srv/', '/get-a', '*/*']", ""},
		{"mcps", "mcps = ['srv']", "ask_user bash forget mcp recall remember session_search"},
	} {
		config += fmt.Sprintf("[agents.%s]\nmodel = 'script'\n%s\n#want %s\n", c.name, c.lists, c.want)
	}
	s := serve(t, home(t), config+other)
	c := s.client()
	gate.Until(t, "both servers", func() bool {
		return !slices.ContainsFunc(s.mcp.Statuses(), func(st crabmcp.Status) bool { return st.State != "connected" })
	})
	agents, err := op.ListAgents.Do(t.Context(), c, op.AgentNames{})
	check(t, err)
	for _, a := range agents {
		_, want, ok := strings.Cut(config, "[agents."+a.Name+"]")
		_, want, _ = strings.Cut(want, "#want ")
		want, _, _ = strings.Cut(want, "\n")
		if got := strings.Join(a.Tools, " "); ok && got != want {
			t.Errorf("%s: %s\nwant %s", a.Name, got, want)
		}
	}
	for _, call := range []struct{ name, want string }{{"recall", `"memories"`}, {"srv__recall", "srv/recall {}"}} {
		m.Queue(modeltest.Call(call.name, `{}`), modeltest.Say("done"))
		s.one(send(&pb.SendMsg{Agent: "server", Content: "go", Sender: proto.String("user")}))
		q := m.Requests()
		if got := q[len(q)-1].Messages; !strings.Contains(got[len(got)-1].Content, call.want) && (call.name != "recall" || strings.Contains(got[len(got)-1].Content, "srv/")) {
			t.Errorf("%s: %s", call.name, got[len(got)-1].Content)
		}
	}
}
