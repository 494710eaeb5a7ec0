package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/tool"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// withNames returns text with the names of a NamesError in err, if it is one.
func withNames(text string, err error) string {
	if e, ok := errors.AsType[*display.NamesError](err); ok {
		text += "\n" + display.FenceNames(e.Names)
	}
	return text
}

// withoutOwners returns an ambiguous alias as a NamesError, and err otherwise.
func withoutOwners(err error) error {
	e, ok := errors.AsType[*crmem.AmbiguousError](err)
	if !ok {
		return err
	}
	return &display.NamesError{Names: e.Owners, Err: &errtable.Error{Exit: errtable.ExitConflict, Kind: "ambiguous", Err: err,
		Message: fmt.Sprintf("%s is an alias of %d entries", display.Quoted(e.Alias), len(e.Owners)), Fix: "use one of the names"}}
}

// indented returns text with four spaces before each line.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + strings.TrimRight(line, "\r\n") + "\n")
	}
	return b.String()
}

// textResult returns a result with text content.
func textResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.ToValidUTF8(text, "\uFFFD")}}}
}

// toolFixes are the fixes of a client of the protocol, by kind of error.
var toolFixes = map[string]string{
	"not_found":       "use list_memories to see the names, or recall to search the entries",
	"no_sessions":     "no conversations yet: continue without them",
	"changed":         "read the entry again with get_memory and memory_history, then retry",
	"locked":          "another process is writing: retry the call",
	"outcome_unknown": "use get_memory to see whether the write took effect; the disk failed, so inform the user",
	"read_only":       "inform the user: this server is read-only",
}

// callersFault lists the kinds of errors whose message is about the call alone.
var callersFault = []string{"not_found", "invalid", "kind", "ambiguous", "alias", "exists", "read_only", "usage", "cancelled", "changed", "no_version", "passage"}

// explained returns err with a fix that a model can apply. A message that is not
// about the call may quote the store or its files, so explained fences it.
func (s *Server) explained(err error) error {
	if err == nil {
		return nil
	}
	err = withoutOwners(err)
	row := errtable.Find(err)
	if errors.Is(err, crmem.ErrReadOnly) {
		row.Kind = "read_only"
	}
	fix := cmp.Or(toolFixes[row.Kind], row.Fix, errtable.FixFor(row.Kind))
	message, text := display.Printable(clip.Bytes(err.Error(), 8<<10)), ""
	aboutCall := slices.Contains(callersFault, row.Kind)
	plain := aboutCall && (s.o.Remote == nil || !errors.As(err, new(*op.Error))) // a gateway's message may contain names
	if plain {
		text = message
	} else {
		text = "the call failed: " + row.Kind
	}
	if !aboutCall {
		s.o.Log.Error("a call failed", "kind", row.Kind, "error", err.Error())
	}
	if fix != "" {
		text += ". Try: " + display.Printable(fix)
	}
	if !plain {
		text += "\n" + display.Fence(message)
	}
	text = withNames(text, err)
	return errors.New(strings.ToValidUTF8(text, "\uFFFD"))
}

// checkedCall checks the arguments of a tool call, and notifies the client of
// progress and of a changed list of resources. It refuses text that the decoder would
// alter: otherwise the store would acknowledge a text that the client did not send.
func (s *Server) checkedCall(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		call, ok := req.(*mcp.CallToolRequest)
		if !ok || call.Params == nil {
			return next(ctx, method, req)
		}
		notes, fault := s.fixArguments(call.Params)
		if fault != nil {
			// A list as arguments makes the SDK return an error result in the form
			// that the protocol version requires. Its text is replaced below.
			call.Params.Arguments = json.RawMessage("[]")
		}
		end := reportProgress(ctx, call)
		res, err := next(ctx, method, req)
		end()
		s.checkList()
		r, ok := res.(*mcp.CallToolResult)
		if err != nil || !ok {
			return res, err
		}
		if fault == nil && r.GetError() != nil {
			if why, ok := strings.CutPrefix(r.GetError().Error(), `validating "arguments": `); ok {
				fault = wrongArguments(clip.Bytes(why, 2<<10))
			}
		}
		if fault != nil {
			r.Content = nil
			r.SetError(fault)
		} else if len(notes) > 0 && s.o.Compat == "" {
			addNotes(r, notes)
		}
		return r, nil
	}
}

// withoutPrompts refuses requests for prompts. The MCP SDK would respond to them,
// although the server does not announce prompts.
func withoutPrompts(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if strings.HasPrefix(method, "prompts/") {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: the server has no prompts"}
		}
		return next(ctx, method, req)
	}
}

// fixArguments checks and corrects the arguments of a call, and returns notes about them.
func (s *Server) fixArguments(p *mcp.CallToolParamsRaw) (notes []string, err error) {
	if err := tool.CheckArguments(p.Arguments); err != nil {
		return nil, err
	}
	schema := s.inputs[p.Name]
	if schema == nil {
		return nil, nil // no such tool
	}
	fixed, notes, faults := op.FixArguments(p.Arguments, schema)
	if len(faults) > 0 {
		return nil, wrongArguments(faults...)
	}
	p.Arguments = fixed
	return notes, nil
}

func wrongArguments(faults ...string) error {
	more := ""
	if n := len(faults) - op.MaxFaults; n > 0 {
		faults, more = faults[:op.MaxFaults], fmt.Sprintf("; and %d more", n)
	}
	text := "wrong arguments: " + strings.Join(faults, "; ") + more
	if !strings.HasSuffix(text, "?") {
		text += "."
	}
	return errors.New(text + " Try: follow the input schema of the tool")
}

// notesField is the member of a structured result that contains notes about the arguments.
const notesField = "argument_notes"

// addNotes adds notes about the arguments to a result: to its text, and to its structure,
// because clients may show a model only one of them.
func addNotes(r *mcp.CallToolResult, notes []string) {
	if n := len(r.Content); n > 0 {
		if text, ok := r.Content[n-1].(*mcp.TextContent); ok {
			text.Text += "\n" + strings.Join(notes, "\n")
		}
	}
	var object map[string]any
	b, err := json.Marshal(r.StructuredContent)
	if err == nil && json.Unmarshal(b, &object) == nil && object != nil {
		object[notesField] = notes
		r.StructuredContent = object
	}
}

// noSuchResource is the protocol's error for a missing resource.
func noSuchResource(uri string) error {
	err := mcp.ResourceNotFoundError(clip.Bytes(uri, display.MaxShownName))
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		wire.Message += ": call resources/list to list the resources"
	}
	return err
}
