package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolHints returns the annotations of a tool. No tool uses the network.
func toolHints(title string, readOnly, destructive, idempotent bool) *mcp.ToolAnnotations {
	open := false
	return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: readOnly, DestructiveHint: &destructive, IdempotentHint: idempotent, OpenWorldHint: &open}
}

// addRows adds the operations that are tools.
func (s *Server) addRows() {
	for _, r := range op.All() {
		caller := s.callerOf(r)
		if r.Tool == nil || caller == nil || s.o.ReadOnly && r.Effect != op.Reads {
			continue
		}
		in, out, err := r.ToolSchemas()
		if err != nil {
			panic(err) // a bug: the types are fixed
		}
		out.Properties[notesField] = &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"},
			Description: "ignored or changed arguments; absent without such arguments"}
		reads := r.Effect == op.Reads
		t := &mcp.Tool{Name: r.Tool.Name, Description: r.Describe(), Annotations: toolHints(r.Tool.Title, reads, !reads, r.Idempotent()), OutputSchema: out}
		addTool(s, t, in, func(ctx context.Context, client *mcp.ServerSession, args json.RawMessage) (string, any, error) {
			return s.call(ctx, r, caller, client, args)
		})
	}
}

// callerOf returns what carries out an operation; nil: this server has none.
func (s *Server) callerOf(r *op.Row) op.Caller {
	switch {
	case r.OnStore || s.o.Remote != nil:
		return s.store
	case s.sessions != nil && r.Subject() == "sessions":
		return op.Local{On: op.Daemon{Parts: &op.Parts{Now: s.o.Now, SearchSessions: s.sessions.search}, As: owner}}
	}
	return nil
}

// owner makes the calls: who has the store's files, or the token, has all rights.
var owner = op.Identity{Owner: true}

// call carries out an operation, and returns its response as text and as a structure.
func (s *Server) call(ctx context.Context, r *op.Row, c op.Caller, client *mcp.ServerSession, args json.RawMessage) (text string, shown any, err error) {
	in, out := r.NewRequest(), r.NewResponse()
	if err := json.Unmarshal(args, in); err != nil {
		return "", nil, wrongArguments(strings.TrimPrefix(err.Error(), "json: "))
	}
	switch in := in.(type) {
	case *op.Removal:
		err = s.checkRemoval(ctx, in.Name)
	case *op.NoteArgs:
		in.Present = s.projectOf(ctx, client)
	case *op.EntrySearch:
		in.Present = s.projectOf(ctx, client)
	}
	if err == nil {
		err = r.Do(ctx, c, in, out)
	}
	if w, ok := out.(*op.Written); ok {
		w.Clip()
	}
	if err == nil {
		shown, err = r.ForClients(out)
	}
	if err == nil {
		text, err = textOf(in, out, shown)
	}
	return text, shown, err
}

// checkRemoval returns an error if the name is not that of a note. The error of the operation
// would contain names as a part of its message.
func (s *Server) checkRemoval(ctx context.Context, name string) error {
	e, err := s.entry(ctx, name)
	switch {
	case errors.Is(err, crmem.ErrNotFound):
		return &errtable.Error{Exit: errtable.ExitNotFound, Kind: "not_found", Message: "no entry " + display.Quoted(name), Err: err}
	case err != nil:
		return err
	case !crmem.SameName(e.Name, name):
		return &display.NamesError{Names: []string{e.Name}, Err: &errtable.Error{Exit: errtable.ExitNotFound, Kind: "alias",
			Message: "no note " + display.Quoted(name) + "; it is an alias of an entry", Fix: "to remove the note, pass its name"}}
	case e.Kind != crmem.Note:
		return &errtable.Error{Exit: errtable.ExitConflict, Kind: "kind", Err: crmem.ErrKind, Fix: "ask the user to run crabmem forget --archive",
			Message: display.ShownName(name) + " is the archive of a conversation; this tool never removes archives"}
	}
	return nil
}

// addTool adds a tool. Errors contain a fix that a model can apply.
func addTool[In, Out any](s *Server, t *mcp.Tool, in *jsonschema.Schema, f func(ctx context.Context, client *mcp.ServerSession, in In) (string, Out, error)) {
	s.inputs[t.Name], t.InputSchema = in, in
	if len(in.Properties) == 0 {
		// Clients need the empty object for a tool without parameters.
		t.InputSchema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	mcp.AddTool(s.sdk, t, func(ctx context.Context, req *mcp.CallToolRequest, args In) (*mcp.CallToolResult, Out, error) {
		text, o, err := f(ctx, req.Session, args)
		if err != nil {
			return nil, o, s.explained(err)
		}
		return textResult(text), o, nil
	})
}

func schemaOf[T any]() *jsonschema.Schema {
	s, err := op.ToolSchema(reflect.TypeFor[T]())
	if err != nil {
		panic(err) // a bug: the types are fixed
	}
	return s
}
