package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/crmem/vfs"
	"crabmem/daemon/gateway"
	"crabmem/daemon/mcpserver/mcptest"
	"crabmem/daemon/op"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestContextFaces compares crabmem context with the tool memory_context, the resource, and
// HTTP, for a home with a daemon after random writes. CRABMEM_CONTEXTS is the number of
// states.
func TestContextFaces(t *testing.T) {
	p := newPlace(t, false)
	p.write("sessions/crab_user_1.jsonl", `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00","title":"the tide table","uptime_secs":0,"project":"shop"}
{"role":"user","content":"when?"}
`)
	p.write("config.toml", "[origins.\"api:root\"]\ntrust = \"admin\"\n")
	key, _, err := gateway.AddKey(vfs.OS{}, p.home, gateway.Key{Name: "root"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p.begins()
	url := p.serveGateway()
	session := p.mcpSession()
	get := func(query string) (out op.ContextText) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/context"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&out); err != nil || res.StatusCode != 200 {
			t.Fatalf("status %d, %v", res.StatusCode, err)
		}
		return out
	}
	states, _ := strconv.Atoi(os.Getenv("CRABMEM_CONTEXTS"))
	rng := rand.New(rand.NewPCG(3, 4))
	c := p.client()
	defer c.Close()
	seen := make(map[string]bool)
	for range max(states, 25) {
		for range 1 + rng.IntN(4) {
			name := fmt.Sprint("note ", rng.IntN(30))
			fields := []metadata.Field{{Key: metadata.Type, Values: []string{[]string{"identity", "decision", "todo", "fact"}[rng.IntN(4)]}}}
			if rng.IntN(3) == 0 {
				fields = append(fields, metadata.Field{Key: metadata.Project, Values: []string{"shop"}})
			}
			note := crmem.Remember{Name: name, Content: fmt.Sprint("text ", rng.IntN(1e6)), Metadata: &metadata.Edit{Set: fields}}
			if _, err := op.Remember.Do(t.Context(), c, op.Note{Remember: note}); err != nil {
				t.Fatal(err)
			}
		}
		budget, project := 100+rng.IntN(1200), []string{"", "shop"}[rng.IntN(2)]
		text, stderr, code := p.runs("context", "--budget", strconv.Itoa(budget), "--project", project)
		if code != 0 || stderr != "" {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		if again, _, _ := p.runs("context", "--budget", strconv.Itoa(budget), "--project", project); again != text {
			t.Fatalf("%q, then %q", text, again)
		}
		_, tool := mcptest.Call(t, session, "memory_context", map[string]any{"budget_tokens": budget, "project": project})
		http := get(fmt.Sprintf("?budget_tokens=%d&project=%s", budget, project))
		if tool != text || http.Text != text {
			t.Fatalf("command %q\nMCP %q\nHTTP %q", text, tool, http.Text)
		}
		seen[text] = true
	}
	text, _, _ := p.runs("context")
	res, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "crabmem://context"})
	if err != nil || res.Contents[0].Text != text || get("").Text != text {
		t.Errorf("command %q, resource %+v, %v", text, res, err)
	}
	if len(seen) < 20 {
		t.Errorf("%d different contexts", len(seen))
	}
}

// serveGateway runs a gateway until the test ends, and returns its address.
func (p *place) serveGateway() string {
	p.t.Helper()
	conf := gateway.DefaultConfig()
	conf.Limits.Rate, conf.Limits.Burst = 1e5, 1e5
	g, err := gateway.New(gateway.Options{FS: vfs.OS{}, Home: p.home, Config: conf, Daemon: p.client().Addr,
		Log: slog.New(slog.DiscardHandler), Version: "test", Now: time.Now})
	if err != nil {
		p.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, l) }() // until cancel
	p.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
		g.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + l.Addr().String()
}

// mcpSession runs crabmem mcp until the test ends, and returns a session with it.
func (p *place) mcpSession() *mcp.ClientSession {
	p.t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	c := newApp(in, out, io.Discard)
	c.now = func() time.Time { return fixedNow }
	c.Getenv = func(k string) string { return map[string]string{"CRABTALK_HOME": p.home}[k] }
	ended := make(chan error, 1)
	go func() { // until the session closes the pipe
		ended <- c.execute(context.Background(), []string{"mcp"})
		out.Close()
	}()
	session, err := mcptest.Client().Connect(p.t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		session.Close()
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
	})
	return session
}
