package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"crabmem/daemon/agent"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const mcpScript = `
when user sum
call mcp {"name":"add","args":"{\"a\":2,\"b\":3}"}
reply
words The sum is five.
`

// serveCalculator serves an MCP server with one tool until stop is called.
func serveCalculator() (url string, stop func() error, err error) {
	type terms struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "calculator", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "Add two numbers."}, func(_ context.Context, _ *mcp.CallToolRequest, in terms) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strconv.Itoa(in.A + in.B)}}}, nil, nil
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil), ReadHeaderTimeout: time.Second}
	go server.Serve(l) //nolint:errcheck // it ends with stop
	return "http://" + l.Addr().String(), server.Close, nil
}

// runMCP gives an agent the tools of an MCP server.
func runMCP(ctx context.Context, w io.Writer, url string) (err error) {
	calculator, stop, err := serveCalculator()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	h, err := open(ctx, url, agent.Hooks{}, map[string]string{"config.toml": "[mcps.calculator]\nurl = \"" + calculator + "\"\n"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	return h.ask(ctx, w, "crab", "what is the sum of 2 and 3?")
}
