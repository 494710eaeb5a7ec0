package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/importer"
	"crabmem/crmem/fusion"
	"crabmem/crmem/links"
	"crabmem/crmem/lint"
	"crabmem/crmem/recalleval"
	"crabmem/daemon/op"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"
)

// logRecord is a line of the daemon's log, which also has the attributes of its event.
type logRecord struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level" op:"words=DEBUG|INFO|WARN|ERROR"`
	Text  string    `json:"msg"`
}

// mcpResult is a response of crabmem mcp.
type mcpResult struct {
	Version string         `json:"jsonrpc" op:"words=2.0"`
	ID      *int64         `json:"id"`
	Result  map[string]any `json:"result"`
}

// mcpRefusal is an error response of crabmem mcp.
type mcpRefusal struct {
	Version string `json:"jsonrpc" op:"words=2.0"`
	ID      *int64 `json:"id"`
	Error   struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	} `json:"error"`
}

// outputsOf returns the types of a command's JSON output. A command without a type has
// those of its family.
func (c *app) outputsOf(cmd *cobra.Command) types {
	for ; cmd != nil; cmd = cmd.Parent() {
		if list := c.types[cmd]; list != nil {
			return list
		}
	}
	return nil
}

// outputsNamed returns the types of the output of a command, by its name below root, or nil.
func (c *app) outputsNamed(root *cobra.Command, name string) types {
	switch name {
	case "error": // which every command prints
		return types{of[failed]()}
	case "bench query": // which bench recall --per-query writes
		return types{of[recalleval.AnswerLine]()}
	}
	cmd, rest, err := root.Find(strings.Fields(name))
	if err != nil || len(rest) > 0 {
		return nil
	}
	return c.outputsOf(cmd)
}

// schemaOf returns the schema of an output of one of the types.
func schemaOf(title string, list types) (*jsonschema.Schema, error) {
	more := op.Schemas{
		of[importFormat](): op.OneOf(importer.Crabmem, importer.RFC0038, importer.BasicMemory, importer.Markdown, importer.Obsidian,
			importer.MemoryJSON, importer.Mem0, importer.ChatGPT, importer.Claude, importer.Transcripts, importer.Engram,
			importer.ClaudeMem, importer.Walrus, importer.Spacebot),
		of[fusion.Method]():   op.OneOf(fusion.Convex, fusion.ReciprocalRank),
		of[links.State]():     op.OneOf(links.ByName, links.ByAlias, links.Broken, links.Ambiguous),
		of[lint.Kind]():       op.OneOf(lint.Kinds...),
		of[recalleval.Mode](): op.OneOf(recalleval.Group, recalleval.Filter, recalleval.Pooled),
	}
	schema := &jsonschema.Schema{}
	for _, t := range list {
		s, err := op.OutputSchemaOf(t, more)
		if err != nil {
			return nil, err
		}
		if t == of[logRecord]() {
			s.AdditionalProperties = nil
		}
		schema.AnyOf = append(schema.AnyOf, s)
	}
	if len(schema.AnyOf) == 1 {
		schema = schema.AnyOf[0]
	}
	schema.Schema, schema.Title = "https://json-schema.org/draft/2020-12/schema", title
	return schema, nil
}

func schemaCommand(c *app) *cobra.Command {
	return c.outputs(&cobra.Command{
		Use:     "schema [COMMAND]",
		GroupID: groupShell,
		Short:   "print the JSON Schema of a command's output",
		Long: `Print the JSON Schema (2020-12) of the --json output of a command. Without
COMMAND, list the commands that have a schema. "schema error" prints the schema
of errors, which every command prints to standard error with --json.

Commands that print a stream, such as events, print one value per line.
Later versions may add properties. They do not remove or change them.`,
		Example: `  crabmem schema
  crabmem schema recall
  crabmem schema sessions list > sessions-list.json`,
		ValidArgsFunction: completeCommands,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.listSchemas(cmd.Root())
			}
			name := strings.Join(args, " ")
			list := c.outputsNamed(cmd.Root(), name)
			if list == nil {
				return wrongArgs(cmd, "no schema for %q", name)
			}
			schema, err := schemaOf(name, list)
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(schema)
			}
			text, err := json.MarshalIndent(schema, "", "  ")
			if err != nil {
				return err
			}
			_, err = c.Out.Write(append(text, '\n'))
			return err
		},
	}, of[[]string](), of[map[string]any]())
}

func (c *app) listSchemas(root *cobra.Command) error {
	names := []string{"error"}
	for _, cmd := range manPages(root) {
		if cmd.Runnable() && c.outputsOf(cmd) != nil {
			names = append(names, strings.TrimPrefix(cmd.CommandPath(), root.Name()+" "))
		}
	}
	slices.Sort(names)
	return c.printResult(names, func() { c.Out.WriteString(strings.Join(names, "\n") + "\n") })
}
