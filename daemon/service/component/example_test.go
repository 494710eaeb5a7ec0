package component_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"crabmem/daemon/service"
	"crabmem/daemon/service/component"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A component is a program with tools. Called crabmem-shout and put on the PATH,
// this one is installed by "crabmem shout start"; from then on agents have its
// tool.
func Example() {
	server := mcp.NewServer(&mcp.Implementation{Name: "shout", Version: "1.0.0"}, nil)
	type args struct {
		Text string `json:"text" jsonschema:"what is to be said"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "shout", Description: "Says it louder."},
		func(_ context.Context, _ *mcp.CallToolRequest, in args) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.ToUpper(in.Text)}}}, nil, nil
		})
	s := &component.McpService{
		Service: service.Service{Name: "shout", Description: "says things louder"},
		Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil),
	}
	// In a main: os.Exit(component.Main(s, os.Args[1:], os.Stdout, os.Stderr))
	component.Main(s, []string{"help"}, os.Stdout, os.Stderr)
	fmt.Println("service", s.Label())
	// Output:
	// usage: crabmem shout [COMMAND]
	// says things louder
	//
	//   run     serve in the foreground until a signal (default)
	//   start   install the program as a user service and start it
	//   stop    stop and uninstall the service
	//   logs    print the last lines of the log; -f also prints new lines
	//   print   print the service definition that start installs
	// service ai.crabtalk.shout
}
