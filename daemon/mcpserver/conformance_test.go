package mcpserver

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/daemon/guard"
	"crabmem/daemon/mcpserver/mcptest"
)

// conformanceVersions are the versions of the protocol that the suite tests.
var conformanceVersions = []string{"2025-11-25", "2026-07-28"}

// TestConformance runs the public conformance suite over HTTP. Every check must pass,
// except those in testdata/mcp/conformance.txt, which must fail.
func TestConformance(t *testing.T) {
	t.Parallel()
	exempt := exemptChecks(t)
	failed, passed := make(map[string]string), 0
	for _, version := range conformanceVersions {
		for check, fault := range runConformance(t, version) {
			if fault == "" {
				passed++
			} else {
				failed[check] = fault
			}
			if exempt[check] && fault == "" {
				t.Errorf("%s passes with version %s: remove it from testdata/mcp/conformance.txt", check, version)
			}
		}
	}
	for check, fault := range failed {
		if !exempt[check] {
			t.Errorf("%s: %s", check, fault)
		}
	}
	for check := range exempt {
		if failed[check] == "" {
			t.Errorf("%s does not fail: remove it from testdata/mcp/conformance.txt", check)
		}
	}
	if passed < 80 {
		t.Errorf("only %d checks passed", passed)
	}
	t.Logf("%d checks passed, %d do not apply", passed, len(exempt))
}

// exemptChecks reads the list of checks that do not apply. Each line has a check
// and a reason.
func exemptChecks(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "mcp", "conformance.txt"))
	if err != nil {
		t.Fatal(err)
	}
	exempt := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		check, reason, found := strings.Cut(line, ": ")
		if !found || len(reason) < 10 || exempt[check] {
			t.Errorf("%q: want a check once, and a reason", line)
		}
		exempt[check] = true
	}
	return exempt
}

// runConformance runs all scenarios of a version. It returns the error of each
// check, and "" for a check that passes.
func runConformance(t *testing.T, version string) map[string]string {
	t.Helper()
	cmd := mcptest.NpxWithNode(t, "conformance", "node@22.23.3", "@modelcontextprotocol/conformance@0.2.0-alpha.12")
	s := newTestServer(t, t.TempDir())
	addNote(t, filepath.Dir(s.o.Path), "a", "b")
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+testToken) // the suite sends none
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	handler = s.httpHandler(newBearer(testToken), guard.NewHosts("127.0.0.1", port, nil), 64)
	dir := t.TempDir()
	cmd.Args = append(cmd.Args, "server", "--url", server.URL+mcpPath, "--suite", "all", "--spec-version", version, "--output-dir", dir)
	out, err := cmd.CombinedOutput() // fails if a check fails
	files, _ := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if len(files) < 20 {
		t.Fatalf("the suite ran %d scenarios: %v\n%.2000s", len(files), err, out)
	}
	found := make(map[string]string)
	for _, file := range files {
		var checks []struct{ ID, Status, ErrorMessage string }
		b, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(b, &checks)
		}
		if err != nil {
			t.Fatal(err)
		}
		// The name of the directory is that of the scenario with a time.
		scenario, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "server-"), "-20")
		if strings.HasPrefix(scenario, "json-schema") {
			scenario = "json-schema-2020-12"
		}
		for _, c := range checks {
			switch id := scenario + "/" + c.ID; c.Status {
			case "SUCCESS":
				if _, seen := found[id]; !seen {
					found[id] = ""
				}
			case "FAILURE":
				found[id] = "failed: " + c.ErrorMessage
			}
		}
	}
	return found
}
