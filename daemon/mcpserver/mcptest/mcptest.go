// Package mcptest contains what the tests of the MCP server and of its command
// share: a client, calls of tools, programs of npm, and a buffer for logs.
package mcptest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// fetchTimeout limits the time in which npm fetches a program.
const fetchTimeout = 5 * time.Minute

// Buffer is a bytes.Buffer that a server writes while a test reads it.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Client returns a client of the protocol.
func Client() *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
}

// Serve connects a client to what serve does, until the test ends. serve returns after the end of
// in.
func Serve(t testing.TB, c *mcp.Client, o *mcp.ClientSessionOptions, serve func(ctx context.Context, in io.Reader, out io.Writer) error) *mcp.ClientSession {
	t.Helper()
	askR, askW := io.Pipe()
	answerR, answerW := io.Pipe()
	ended := make(chan error, 1)
	go func() { // ends with the client
		ended <- serve(context.WithoutCancel(t.Context()), askR, answerW)
		answerW.Close()
	}()
	s, err := c.Connect(t.Context(), &mcp.IOTransport{Reader: answerR, Writer: askW}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// HTTP returns the transport of a client that sends a bearer token.
func HTTP(url, token string) *mcp.StreamableClientTransport {
	return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}, MaxRetries: -1}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// Call calls a tool and returns its result, and the text of the result.
func Call(t testing.TB, s *mcp.ClientSession, tool string, args any) (*mcp.CallToolResult, string) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	return res, Text(t, res)
}

// Text returns the text of a result, which must have no other content.
func Text(t testing.TB, res *mcp.CallToolResult) string {
	t.Helper()
	if len(res.Content) != 1 {
		t.Fatalf("a result of %d parts", len(res.Content))
	}
	text, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("a result of type %T", res.Content[0])
	}
	return text.Text
}

// Refused calls a tool and checks that it returns an error whose text matches want.
func Refused(t testing.TB, s *mcp.ClientSession, tool string, args any, want string) {
	t.Helper()
	if res, text := Call(t, s, tool, args); !res.IsError || !regexp.MustCompile(want).MatchString(text) {
		t.Errorf("%s %v: error %t, %q; want %q", tool, args, res.IsError, text, want)
	}
}

// Npx returns the command that runs a program of npm: a package, and arguments. If
// npm cannot fetch it, Npx calls Skip.
func Npx(t testing.TB, name string, words ...string) *exec.Cmd {
	t.Helper()
	path := fetch(t, name, words[0])
	return exec.Command(path, append([]string{"--yes", "--prefer-offline"}, words...)...)
}

// NpxWithNode is Npx with a version of Node.js from npm: the package may need a
// newer one than that of the machine. The package must contain a program with the
// last part of its name.
func NpxWithNode(t testing.TB, name, node, pkg string, args ...string) *exec.Cmd {
	t.Helper()
	npm := fetch(t, name, node, pkg)
	program, _, _ := strings.Cut(path.Base(pkg), "@")
	return exec.Command(npm, append([]string{"--yes", "--prefer-offline", "--package", node, "--package", pkg, "--", program}, args...)...)
}

// fetch has npm fetch packages and returns the path of npx. It skips the test unless
// CRABMEM_REQUIRE names the program, because it needs the network.
func fetch(t testing.TB, name string, packages ...string) string {
	t.Helper()
	if !Required(name) {
		t.Skipf("SKIPPED: %s: CRABMEM_REQUIRE=%s runs it with npx", name, name)
	}
	npx, err := exec.LookPath("npx")
	if err != nil {
		Skip(t, name, "npx is not installed")
	}
	args := []string{"--yes", "--prefer-offline", "--fetch-retries=0"}
	for _, p := range packages {
		args = append(args, "--package", p)
	}
	ctx, cancel := context.WithTimeout(t.Context(), fetchTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, npx, append(args, "--", "node", "-e", "0")...)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		Skip(t, name, fmt.Sprintf("npm does not fetch it: %v: %.300s", err, out))
	}
	return npx
}

// Skip skips a test, or fails it if CRABMEM_REQUIRE names what is missing.
func Skip(t testing.TB, name, why string) {
	t.Helper()
	if Required(name) {
		t.Fatalf("%s is required: %s", name, why)
	}
	t.Skipf("SKIPPED: %s: %s", name, why)
}

// Required reports whether CRABMEM_REQUIRE names a program.
func Required(name string) bool {
	return slices.Contains(strings.FieldsFunc(os.Getenv("CRABMEM_REQUIRE"), func(r rune) bool { return r == ',' || r == ' ' }), name)
}
