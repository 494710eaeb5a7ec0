package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"crabmem/bm25/clip"
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

// addTool adds a tool. Errors contain a fix that a model can apply.
func addTool[In, Out any](s *Server, t *mcp.Tool, adjust func(in map[string]*jsonschema.Schema), f func(ctx context.Context, in In) (string, Out, error)) {
	in, out := plainSchema[In](), plainSchema[Out]()
	if adjust != nil {
		adjust(in.Properties)
	}
	t.InputSchema, t.OutputSchema = in, out
	s.inputs[t.Name] = in
	if len(in.Properties) == 0 {
		// Clients need the empty object for a tool without parameters.
		t.InputSchema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	mcp.AddTool(s.sdk, t, func(ctx context.Context, _ *mcp.CallToolRequest, args In) (*mcp.CallToolResult, Out, error) {
		text, o, err := f(ctx, args)
		if err != nil {
			return nil, o, s.explained(err)
		}
		return textResult(text), o, nil
	})
}

// plainSchema returns the schema of a type for all clients: a list is never null,
// and unknown keys are permitted.
func plainSchema[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // a bug: the types are fixed
	}
	relax(s)
	return s
}

func relax(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	s.AdditionalProperties = nil
	if i := slices.Index(s.Types, "null"); i >= 0 && len(s.Types) == 2 {
		s.Type, s.Types = s.Types[1-i], nil
	}
	relax(s.Items)
	for _, p := range s.Properties {
		relax(p)
	}
}

func atMostChars(s *jsonschema.Schema, n int) { s.MaxLength = &n }

func between(s *jsonschema.Schema, least, most, usual int) {
	l, m := float64(least), float64(most)
	s.Minimum, s.Maximum = &l, &m
	s.Default = json.RawMessage(fmt.Sprint(usual))
}

func oneOf(s *jsonschema.Schema, words ...string) {
	for _, w := range words {
		s.Enum = append(s.Enum, w)
	}
}

// addTools adds the tools of crabmem.
func (s *Server) addTools() {
	s.addRecall()
	addTool(s, &mcp.Tool{
		Name:        "get_memory",
		Description: "Read the full text of an entry, by its name or by an alias of exactly one entry. A long text is returned in parts: call again with offset = next_offset.",
		Annotations: toolHints("Read a memory", true, false, true),
	}, func(in map[string]*jsonschema.Schema) {
		atMostChars(in["name"], display.MaxShownName)
		between(in["max_bytes"], 256, display.MaxShownText, defaultPart)
		between(in["offset"], 0, 1<<30, 0)
	}, s.getMemory)
	addTool(s, &mcp.Tool{
		Name:        "list_memories",
		Description: "List the entries, oldest first, without their texts. For the next page, call again with cursor = next_cursor. To search, use recall.",
		Annotations: toolHints("List memories", true, false, true),
	}, func(in map[string]*jsonschema.Schema) {
		between(in["limit"], 1, 200, 50)
		oneOf(in["kind"], "note", "archive")
		atMostChars(in["cursor"], 64)
	}, s.listMemories)
	s.addHistory()
	if s.sessions != nil {
		s.addSessionSearch()
	}
	if s.o.ReadOnly {
		return
	}
	addTool(s, &mcp.Tool{
		Name: "remember",
		Description: "Save a note for later conversations. The note is on disk when the tool returns. An existing note with this name is replaced, including its text: " +
			"to extend a note, read it with get_memory first. Use one note per subject, with a short name that states the subject. " +
			"A note keeps the metadata that the call does not set, such as type and tags.",
		Annotations: toolHints("Remember a note", false, true, true),
	}, func(in map[string]*jsonschema.Schema) {
		atMostChars(in["name"], crmem.MaxName)
		most := 64
		in["aliases"].MaxItems = &most
	}, s.remember)
	addTool(s, &mcp.Tool{
		Name:        "forget",
		Description: "Remove a note permanently, by its exact name. forget never removes archives of conversations.",
		Annotations: toolHints("Forget a note", false, true, true),
	}, func(in map[string]*jsonschema.Schema) { atMostChars(in["name"], display.MaxShownName) }, s.forget)
}

type rememberIn struct {
	Name    string   `json:"name" jsonschema:"a short name for the subject of the note, such as deploy-steps"`
	Content string   `json:"content" jsonschema:"the text of the note, in Markdown"`
	Aliases []string `json:"aliases,omitempty" jsonschema:"other names of the note; if omitted, the note keeps its aliases"`
	Version uint64   `json:"if_version,omitempty" jsonschema:"replace the note only if this is its newest version in memory_history"`
	op.MetadataArgs
}

type rememberOut struct {
	ID      uint64   `json:"id"`
	Name    string   `json:"name"`
	Created bool     `json:"created" jsonschema:"true if the note is new; false if it replaced a note with that name"`
	Aliases []string `json:"aliases"`
	Similar []string `json:"similar" jsonschema:"names of other entries that may cover the same subject"`
}

func (s *Server) remember(ctx context.Context, in rememberIn) (string, rememberOut, error) {
	edit, err := in.Edit()
	if err != nil {
		return "", rememberOut{}, err
	}
	o := crmem.Remember{Name: in.Name, Content: in.Content, Aliases: in.Aliases, Metadata: edit}
	w, err := s.store.remember(ctx, o, op.Expected{Version: in.Version})
	if err != nil {
		if errors.Is(err, crmem.ErrKind) {
			err = &errtable.Error{Exit: errtable.ExitConflict, Kind: "kind", Err: err, Message: display.ShownName(in.Name) + " is the archive of a conversation; remember never overwrites archives",
				Fix: "choose another name"}
		}
		return "", rememberOut{}, err
	}
	out := rememberOut{ID: w.Entry.ID, Name: w.Entry.Name, Created: w.Created, Aliases: shownAliases(w.Entry.Aliases), Similar: []string{}}
	text := "replaced the note "
	if w.Created {
		text = "remembered the new note "
	}
	text += display.ShownName(w.Entry.Name) + ", " + display.Size(int64(len(in.Content)))
	for _, name := range w.Similar {
		out.Similar = append(out.Similar, clip.Bytes(name, display.MaxShownName))
	}
	if len(w.Similar) > 0 {
		text += "\nthese entries have similar names: if one covers the same subject, keep only one of the two\n" + display.FenceNames(w.Similar)
	}
	return text, out, nil
}

type forgetIn struct {
	Name string `json:"name" jsonschema:"the exact name of the note"`
}

type forgetOut struct {
	Forgot string `json:"forgot" jsonschema:"the name of the note that was removed"`
}

func (s *Server) forget(ctx context.Context, in forgetIn) (string, forgetOut, error) {
	err := s.store.forget(ctx, in.Name)
	if err == nil {
		return "forgot " + display.ShownName(in.Name), forgetOut{in.Name}, nil
	}
	if e, ok := errors.AsType[*aliasError](err); ok {
		err = &display.NamesError{Names: []string{e.name}, Err: &errtable.Error{Exit: errtable.ExitNotFound, Kind: "alias", Err: err,
			Message: "no note " + display.Quoted(e.alias) + "; it is an alias of an entry",
			Fix:     "to remove the note, pass its name"}}
	} else if errors.Is(err, crmem.ErrKind) {
		err = &errtable.Error{Exit: errtable.ExitConflict, Kind: "kind", Message: display.ShownName(in.Name) + " is the archive of a conversation; this tool never removes archives", Err: err,
			Fix: "ask the user to run crabmem forget --archive"}
	} else if errors.Is(err, crmem.ErrNotFound) {
		err = noEntry(in.Name, err)
	}
	return "", forgetOut{}, err
}

func noEntry(name string, err error) error {
	return &errtable.Error{Exit: errtable.ExitNotFound, Kind: "not_found", Message: "no entry " + display.Quoted(clip.Bytes(name, display.MaxShownName)), Err: err}
}

// shownAliases returns the first aliases, not nil, up to a limit of bytes.
func shownAliases(aliases []string) []string {
	shown := []string{}
	room := display.MaxShownName
	for _, a := range aliases {
		if room -= len(a); room < 0 {
			break
		}
		shown = append(shown, a)
	}
	return shown
}
