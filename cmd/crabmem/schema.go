package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"slices"
	"strings"

	"crabmem/testdata"

	"github.com/spf13/cobra"
)

// sharedSchemas maps a command to the name of its schema, if neither the command nor
// its parent commands have a schema with their name.
var sharedSchemas = map[string]string{
	"alias":        "entry",
	"append":       "entry",
	"config edit":  "config_set",
	"daemon logs":  "daemonlog",
	"edit":         "entry",
	"remember":     "entry",
	"rename":       "entry",
	"restore":      "entry",
	"service logs": "daemonlog",
	"show":         "entry",
}

// schemaOf returns the schema of a command's JSON output. A command without a schema
// has the schema of its parent command. If the output has several lines, the schema
// describes each line.
func schemaOf(command string) (schema []byte, ok bool) {
	for name := command; name != ""; name = name[:max(0, strings.LastIndexByte(name, ' '))] {
		file := strings.ReplaceAll(name, " ", "_")
		if shared, ok := sharedSchemas[name]; ok {
			file = shared
		}
		if b, err := fs.ReadFile(testdata.Schemas, "schema/"+file+".json"); err == nil {
			return b, true
		}
	}
	return nil, false
}

func (c *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
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
			schema, ok := schemaOf(strings.Join(args, " "))
			if !ok {
				return wrongArgs(cmd, "no schema for %q", strings.Join(args, " "))
			}
			if c.JSON {
				var line bytes.Buffer
				if err := json.Compact(&line, schema); err != nil {
					return err
				}
				schema = append(line.Bytes(), '\n')
			}
			_, err := c.Out.Write(schema)
			return err
		},
	}
}

func (c *app) listSchemas(root *cobra.Command) error {
	names := []string{"error"}
	for _, p := range manPages(root) {
		name := strings.TrimPrefix(p.CommandPath(), root.Name()+" ")
		if _, ok := schemaOf(name); ok && p.Runnable() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if c.JSON {
		return c.PrintJSON(names)
	}
	_, err := c.Out.WriteString(strings.Join(names, "\n") + "\n")
	return err
}
