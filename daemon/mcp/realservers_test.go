package mcp

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/daemon/mcpserver/mcptest"
	"crabmem/daemon/tool"
)

// TestRealServers calls tools of the reference servers, through the tool mcp and as tools
// of an agent: everything (over each transport), filesystem, memory, time, and fetch.
// CRABMEM_MCP_SERVERS is the directory with their programs.
func TestRealServers(t *testing.T) {
	const required = "mcp-servers"
	dir := os.Getenv("CRABMEM_MCP_SERVERS")
	if dir == "" {
		mcptest.Skip(t, required, "CRABMEM_MCP_SERVERS is not set")
	}
	files := t.TempDir()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, "served by the test")
	}))
	defer page.Close()
	program := func(name string) string { return filepath.Join(dir, "mcp-server-"+name) }
	s := manager(t,
		Server{Name: "everything", Command: program("everything")},
		Server{Name: "http", URL: overNetwork(t, program("everything"), "streamableHttp") + "/mcp"},
		Server{Name: "sse", URL: overNetwork(t, program("everything"), "sse") + "/sse"},
		Server{Name: "files", Command: program("filesystem"), Args: []string{files}},
		Server{Name: "memory", Command: program("memory"), Env: []string{"MEMORY_FILE_PATH=" + filepath.Join(files, "memory.jsonl")}},
		Server{Name: "time", Command: program("time")},
		Server{Name: "fetch", Command: program("fetch"), Args: []string{"--allow-private-ips"}},
	)
	checks := 0
	check := func(ok bool, format string, args ...any) {
		t.Helper()
		if checks++; !ok {
			t.Errorf(format, args...)
		}
	}
	gate.Until(t, "the servers are connected", func() bool {
		for _, st := range s.Statuses() {
			if st.State != stateNames[up] {
				s.configured[st.Name].retry(down)
				return false
			}
		}
		return true
	})
	var lists []string
	for _, st := range s.Statuses() {
		check(st.Tools > 0, "%s has no tools", st.Name)
		lists = append(lists, st.Name+"/*")
	}
	scope := tool.For(tool.Grant{Tools: lists})
	own := make(map[string]tool.Tool)
	for _, o := range s.Listed(scope) {
		own[o.Name] = o
		check(strings.HasSuffix(string(o.Parameters), `"type":"object"}`) && !strings.Contains(string(o.Parameters), `"$`), "%s: %s", o.Name, o.Parameters)
	}
	everything := []struct{ tool, args, want string }{
		{"echo", `{"message":"hi"}`, "Echo: hi"}, {"get-sum", `{"a":2,"b":3}`, "5"}, {"get-sum", `{"a":"two"}`, "nvalid"},
		{"get-tiny-image", `{}`, "[image image/png, "}, {"get-structured-content", `{"location":"Chicago"}`, "temperature"},
		{"get-resource-links", `{"count":2}`, "[link "}, {"get-resource-reference", `{"resourceType":"Text","resourceId":1}`, "Resource"},
		{"get-annotated-message", `{"messageType":"error"}`, "rror"}, {"trigger-long-running-operation", `{"duration":1,"steps":2}`, "completed"},
	}
	calls := map[string][]struct{ tool, args, want string }{
		"everything": everything, "http": everything, "sse": everything,
		"files": {
			{"write_file", fmt.Sprintf(`{"path":%q,"content":"one\ntwo\n"}`, filepath.Join(files, "a.txt")), "uccessfully"},
			{"read_text_file", fmt.Sprintf(`{"path":%q,"head":1}`, filepath.Join(files, "a.txt")), "one"},
			{"edit_file", fmt.Sprintf(`{"path":%q,"edits":[{"oldText":"one","newText":"one"}],"dryRun":true}`, filepath.Join(files, "a.txt")), "a.txt"},
			{"list_directory", fmt.Sprintf(`{"path":%q}`, files), "[FILE] a.txt"}, {"directory_tree", fmt.Sprintf(`{"path":%q}`, files), "a.txt"},
			{"search_files", fmt.Sprintf(`{"path":%q,"pattern":"*.txt"}`, files), "a.txt"}, {"read_text_file", `{"path":"/etc/passwd"}`, "ccess denied"},
			{"list_allowed_directories", `{}`, files},
		},
		"memory": {
			{"create_entities", `{"entities":[{"name":"tea","entityType":"drink","observations":["green"]}]}`, ""}, {"search_nodes", `{"query":"tea"}`, "green"},
			{"add_observations", `{"observations":[{"entityName":"tea","contents":["hot"]}]}`, "tea"}, {"read_graph", `{}`, "hot"},
			{"open_nodes", `{"names":["tea"]}`, "drink"},
		},
		"time": {
			{"get_current_time", `{"timezone":"Asia/Tokyo"}`, "+09:00"}, {"get_current_time", `{"timezone":"Nowhere"}`, "imezone"},
			{"convert_time", `{"source_timezone":"UTC","time":"12:00","target_timezone":"Asia/Tokyo"}`, "21:00"},
		},
		"fetch": {{"fetch", fmt.Sprintf(`{"url":%q,"raw":true}`, page.URL), "served by the test"}, {"fetch", `{"url":"http://127.0.0.1:1/"}`, "ailed"}},
	}
	for server, list := range calls {
		for _, c := range list {
			args := tool.Call{Name: server + "/" + c.tool, Arguments: []byte(c.args), Scope: scope}
			o, ok := own[args.Name]
			if check(ok, "%s is not listed", args.Name); !ok {
				continue
			}
			for how, run := range map[string]func() (string, error){
				"by name":     func() (string, error) { return o.Run(t.Context(), args) },
				"through mcp": func() (string, error) { return s.call(tool.Unbounded(), server+"__"+c.tool, c.args) },
			} {
				text, err := run()
				if err != nil {
					text = err.Error()
				}
				check(strings.Contains(text, c.want), "%s %s %s: %.300s, want %s", args.Name, c.args, how, text, c.want)
			}
		}
	}
	t.Logf("mcp: %d servers with %d tools: %d results checked", len(s.Statuses()), len(own), checks)
}

// overNetwork starts a program with a transport over the network, and returns its address.
func overNetwork(t *testing.T, program, transport string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(program, transport)
	cmd.Env = append(os.Environ(), "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have exited
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	return "http://" + address
}
