package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"crabmem/bm25/clip"
	"crabmem/daemon/tool"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const toolDescription = "Call a tool of an MCP server by name, with args. An empty name lists all tools with descriptions and arguments; " +
	"a server name, or a prefix followed by *, lists the matching tools."

type toolArgs struct {
	Name string `json:"name" jsonschema:"the name of the tool; empty for a list"`
	Args string `json:"args,omitempty" jsonschema:"the arguments of the tool: a JSON object, as text"`
}

// maxText limits a result, in bytes, with room for a note about it.
const maxText = tool.MaxOutput - 1<<10

// maxToldSchema limits the schema in an invalid-arguments error.
const maxToldSchema = 4 << 10

// Tool returns the tool through which agents call the servers' tools.
func (m *Manager) Tool() tool.Tool {
	t := tool.New(tool.MCP, toolDescription, func(context.Context, tool.Call, toolArgs) (string, error) { return "", nil })
	// Models pass args as a JSON string, as the schema requires, or as an
	// object.
	t.Run = func(ctx context.Context, c tool.Call) (string, error) {
		var args struct {
			Name string          `json:"name"`
			Args json.RawMessage `json:"args"`
		}
		if err := c.Decode(&args); err != nil {
			return "", err
		}
		return m.run(ctx, c, strings.TrimSpace(args.Name), args.Args)
	}
	return t
}

func (m *Manager) run(ctx context.Context, c tool.Call, name string, args json.RawMessage) (string, error) {
	if name == "" {
		m.settle(ctx, c.Scope.MCPs.Allows, func() bool { return false })
		return describe(m.view(c.Scope)), nil
	}
	var found []listed
	m.settle(ctx, c.Scope.MCPs.Allows, func() bool {
		found = resolve(m.view(c.Scope), name)
		return len(found) > 0
	})
	switch len(found) {
	case 0:
		return m.missing(c.Scope, name)
	case 1:
	default:
		names := make([]string, len(found))
		for i, t := range found {
			names[i] = t.qualified()
		}
		return "", fmt.Errorf("mcp tool '%s' not available: use %s", name, strings.Join(names, " or "))
	}
	t := found[0]
	if t.label != name && t.qualified() != name { // it has a name of the daemon's own
		return "", fmt.Errorf("mcp tool '%s' not available: use %s", name, t.qualified())
	}
	return t.call(ctx, args)
}

// Settle returns when every server is connected or has failed, or some seconds later.
func (m *Manager) Settle(ctx context.Context) {
	m.settle(ctx, func(string) bool { return true }, func() bool { return !slices.ContainsFunc(m.servers(), func(s *server) bool { return !s.settled() }) })
}

// settle returns when enough is true, or when every permitted server is
// connected or has failed. It first looks for new components, and tries each
// disconnected server again.
func (m *Manager) settle(ctx context.Context, permit func(server string) bool, enough func() bool) {
	if enough() {
		return
	}
	if of := cmp.Or(m.o.Over, m); of.o.Run != "" {
		of.scan()
	}
	for _, s := range m.servers() {
		if permit(s.Name) {
			s.retry(down)
		}
	}
	late := time.After(settle)
	for {
		next, over := m.changes(), m.o.Over.changes()
		waiting := slices.ContainsFunc(m.servers(), func(s *server) bool { return permit(s.Name) && !s.settled() })
		if enough() || !waiting {
			return
		}
		select {
		case <-next:
		case <-over:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

// missing is the answer where no tool is called so: a list, where the name is
// one to look for.
func (m *Manager) missing(scope tool.Scope, name string) (string, error) {
	all := m.view(scope)
	some := slices.DeleteFunc(slices.Clone(all), func(t listed) bool { return t.Name != name })
	if prefix, ok := strings.CutSuffix(name, "*"); ok {
		some = slices.DeleteFunc(all, func(t listed) bool { return !strings.HasPrefix(t.label, prefix) })
		return describe(some), nil
	}
	if len(some) > 0 {
		return describe(some), nil
	}
	if scope.AllRemote() {
		return "", fmt.Errorf("mcp tool '%s' not available", clipped(name, 256))
	}
	// A restricted agent gets the same error for a forbidden server and for a
	// missing one.
	refused := &refusedError{tool: clipped(name, 256)}
	why := func(t *listed) error { return scope.Remote(t.Name, t.name, t.alone) }
	if found := resolve(m.tools(func(t *listed) bool { return why(t) != nil }), name); len(found) > 0 {
		refused.because = why(&found[0])
	}
	for _, s := range m.servers() {
		if scope.Server(s.Name) != nil && (name == s.Name || strings.HasPrefix(name, s.Name+"__")) {
			refused.because = scope.Server(s.Name)
		}
	}
	return "", refused
}

// refusedError is a tool that is not there for an agent. It wraps a
// *tool.Violation where it is there for others.
type refusedError struct {
	tool    string
	because error
}

func (e *refusedError) Error() string { return "tool not available: " + e.tool }
func (e *refusedError) Unwrap() error { return e.because }

// objectOf returns the arguments of a call, which are an object or the text of
// one.
func objectOf(args json.RawMessage) (json.RawMessage, error) {
	var text string
	if json.Unmarshal(args, &text) == nil {
		args = json.RawMessage(text)
	}
	if s := strings.TrimSpace(string(args)); s == "" || s == "null" {
		return json.RawMessage("{}"), nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(args, &object); err != nil {
		return nil, err
	}
	return args, nil
}

// argumentsHint returns the argument schema to append to an invalid-arguments
// error, or "" if it is too long.
func (t *listed) argumentsHint() string {
	if len(t.schema) == 0 || len(t.schema) > maxToldSchema {
		return ""
	}
	return "\nThe arguments are described by " + string(t.schema)
}

func (t *listed) call(ctx context.Context, args json.RawMessage) (string, error) {
	args, err := objectOf(args)
	if err != nil {
		return "", fmt.Errorf("invalid tool arguments: %w%s", err, t.argumentsHint())
	}
	if check := t.m.o.Leaves; check != nil && !t.Secrets {
		if err := check(string(args)); err != nil {
			return "", fmt.Errorf("%w, or set secrets = \"allow\" of the server %s", err, t.Name)
		}
	}
	timeout := t.timeout()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%s did not respond within %s", t.Name, timeout))
	defer cancel()
	type answer struct {
		res *sdk.CallToolResult
		err error
	}
	answers := make(chan answer, 1)
	go func() { // ends with ctx, or when a server that does not read is closed
		params := &sdk.CallToolParams{Name: t.name, Arguments: args}
		session := t.session
		if session == nil {
			session = t.renewed(ctx, nil)
		}
		if session == nil {
			answers <- answer{err: errors.New(t.Name + " is disconnected")}
			return
		}
		res, err := session.CallTool(ctx, params)
		if errors.Is(err, sdk.ErrSessionMissing) { // the server refused the call
			if session = t.renewed(ctx, session); session != nil {
				res, err = session.CallTool(ctx, params)
			}
		}
		answers <- answer{res, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	}
	if a.err != nil {
		err := because(ctx, a.err)
		if errors.Is(err, sdk.ErrConnectionClosed) {
			err = fmt.Errorf("%s disconnected", t.Name)
		}
		text := "mcp call failed: " + clipped(err.Error(), 4<<10)
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code == jsonrpc.CodeInvalidParams {
			text += t.argumentsHint()
		}
		return "", errors.New(text)
	}
	text := textOf(a.res)
	if a.res.IsError {
		return "", errors.New("mcp tool error: " + text)
	}
	return text, nil
}

// textOf returns a result as text. It lists the types of other content.
func textOf(r *sdk.CallToolResult) string {
	var b strings.Builder
	left, more := maxText, 0
	add := func(text string) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		if b.Len() > 0 {
			text = "\n" + text
		}
		cut := clip.Bytes(text, left)
		more += len(text) - len(cut)
		text = cut
		left -= len(text)
		b.WriteString(text)
	}
	for _, c := range r.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			add(c.Text)
		case *sdk.ImageContent:
			add(named("image", c.MIMEType, "", len(c.Data)))
		case *sdk.AudioContent:
			add(named("audio", c.MIMEType, "", len(c.Data)))
		case *sdk.ResourceLink:
			size := -1
			if c.Size != nil {
				size = int(*c.Size)
			}
			add(named("link", c.MIMEType, c.URI, size))
		case *sdk.EmbeddedResource:
			switch r := c.Resource; {
			case r == nil:
			case r.Text != "":
				add(r.Text)
			default:
				add(named("resource", r.MIMEType, r.URI, len(r.Blob)))
			}
		default:
			add("[content of an unknown type]")
		}
	}
	if b.Len() == 0 && r.StructuredContent != nil {
		if js, err := json.Marshal(r.StructuredContent); err == nil {
			add(string(js))
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "\n... [%d bytes left out]", more)
	}
	return b.String()
}

func named(kind, mime, uri string, size int) string {
	text := "[" + kind
	if mime != "" {
		text += " " + clipped(oneLine(mime), 100)
	}
	if uri != "" {
		text += " " + clipped(oneLine(uri), 500)
	}
	if size >= 0 {
		text += fmt.Sprintf(", %d bytes", size)
	}
	return text + "]"
}
