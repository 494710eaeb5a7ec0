// Package servicetest is a component to test with: a real process with three
// tools. A test's TestMain calls [Main] first, and the test starts its own
// program as the component with [Start].
package servicetest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/service"
	"crabmem/daemon/service/component"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// name in the environment makes a program the component of that name.
const name = "CRABMEM_TEST_COMPONENT"

// Stdio in the environment makes a program a server of the same tools on its
// standard input and output: one that is configured by hand.
const Stdio = "CRABMEM_TEST_STDIO"

// Main runs the component, and exits, in a process that [Start] has started.
func Main(exit func(code int)) {
	if n := os.Getenv(Stdio); n != "" {
		server(n).Run(context.Background(), &mcp.StdioTransport{})
		exit(0)
	}
	if n := os.Getenv(name); n != "" {
		exit(component.Main(New(n), os.Args[1:], os.Stderr, os.Stderr))
	}
}

// server has the tools greet, pid and sleep.
func server(name string) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	type who struct {
		Name string `json:"name" jsonschema:"who is greeted"`
	}
	text := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	mcp.AddTool(server, &mcp.Tool{Name: "greet", Description: "Greets somebody."},
		func(_ context.Context, _ *mcp.CallToolRequest, in who) (*mcp.CallToolResult, any, error) {
			return text("hello, %s, from %s", in.Name, name), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "pid", Description: "Says which process answers."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return text("%d", os.Getpid()), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "sleep", Description: "Answers after a second."},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			select {
			case <-time.After(time.Second):
				return text("slept"), nil, nil
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		})
	return server
}

// New returns the component.
func New(name string) *component.McpService {
	server := server(name)
	return &component.McpService{
		Service: service.Service{Name: name, Description: "a component to test with"},
		Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil),
	}
}

// startLimit is how long Start waits before it reports a hang.
const startLimit = 5 * time.Minute

// Process is a component that runs.
type Process struct {
	*exec.Cmd
	Port string // content of its port file
	done bool
}

// Start starts the component of a home and waits until its port file is there,
// and not the one of a process before it.
func Start(t testing.TB, home, component string) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "run", component+".port")
	old, _ := vfs.ReadFile(vfs.OS{}, file, 32)
	p := &Process{Cmd: exec.Command(self, "run")}
	p.Env = append(os.Environ(), name+"="+component, "CRABTALK_HOME="+home)
	p.Stdout, p.Stderr = io.Discard, io.Discard
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill(t) })
	for began := time.Now(); time.Since(began) < startLimit; {
		if b, err := vfs.ReadFile(vfs.OS{}, file, 32); err == nil && string(b) != string(old) {
			p.Port = string(b)
			return p
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s has no port file", component)
	return nil
}

// Kill ends the component as kill -9 does.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	if !p.done {
		p.done = true
		p.Cmd.Process.Kill()
		p.Cmd.Wait()
	}
}

// Stop asks the component to exit, and waits for it.
func (p *Process) Stop(t testing.TB) error {
	t.Helper()
	p.done = true
	if err := p.Cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return p.Cmd.Wait()
}
