package doctor

import (
	"strings"
	"testing"

	"crabmem/daemon/config"
	"crabmem/daemon/op"
)

// TestServerStates shows the state of each configured server, and the fix if this process
// finds a program that the daemon does not.
func TestServerStates(t *testing.T) {
	const notFound = `exec: "sh": executable file not found in $PATH`
	for _, tc := range []struct {
		command, url       string
		state              *op.MCPServer
		want, what, remedy string
	}{
		{"sh", "", &op.MCPServer{State: "connected", Tools: 2}, OK, "connected, 2 tools; checked by the daemon", ""},
		{"", "http://localhost:1", &op.MCPServer{State: "connected", Tools: 1}, OK, "connected, 1 tool; checked by the daemon", ""},
		{"no-such-server", "", &op.MCPServer{State: "connecting"}, OK, "connecting; checked by the daemon", ""},
		{"sh", "", &op.MCPServer{State: "disconnected", Error: "exit status 3"}, Fail, "disconnected: exit status 3; checked by the daemon", "fix [mcps.s] of config.toml; see crabmem daemon logs"},
		{"", "http://localhost:1", &op.MCPServer{State: "disconnected", Error: "refused"}, Fail, "disconnected: refused", "fix [mcps.s]"},
		{"sh", "", &op.MCPServer{State: "disconnected", Error: notFound}, Fail, notFound, "run crabmem daemon restart from this shell, or crabmem service install"},
		{"no-such-server", "", &op.MCPServer{State: "disconnected", Error: notFound}, Fail, notFound, "install it, or fix command in [mcps.s]"},
		{"sh", "", nil, OK, "/sh", ""},
		{"no-such-server", "", nil, Fail, "program no-such-server not found", "install it"},
		{"", "http://localhost:1", nil, "", "", ""},
	} {
		var states []op.MCPServer
		if tc.state != nil {
			tc.state.Name = "s"
			states = []op.MCPServer{{Name: "other", State: "connected"}, *tc.state}
		}
		d := &doctor{}
		d.checkServers(&config.Config{MCPs: []config.MCP{{Name: "s", Command: tc.command, URL: tc.url}}}, states)
		d.findings = append(d.findings, Finding{})
		if f := d.findings[0]; f.State != tc.want || !strings.Contains(f.What, tc.what) || !strings.HasPrefix(f.Remedy, tc.remedy) || (tc.remedy == "") != (f.Remedy == "") {
			t.Errorf("%s%s %+v: %+v, want %s %q, %q", tc.command, tc.url, tc.state, f, tc.want, tc.what, tc.remedy)
		}
	}
}
