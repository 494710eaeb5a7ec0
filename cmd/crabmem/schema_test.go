package main

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/op"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
)

// schemasGolden lists the properties of the JSON output of commands, one per line, so
// that a review of a change sees it. A ? follows an optional property. It omits commands
// that print the response of an operation.
const schemasGolden = "testdata/schemas.txt"

// TestSchemas compares the schemas with the golden file, which go test -run TestSchemas
// -update rewrites.
func TestSchemas(t *testing.T) {
	t.Parallel()
	c := newApp(nil, nil, nil)
	root := rootCommand(c)
	names := make(map[string][]string) // commands by the types of their output
	outputs := make(map[string]types)
	add := func(name string, list types) {
		key := fmt.Sprint(list)
		names[key], outputs[key] = append(names[key], name), list
	}
	for _, name := range []string{"bench query", "error"} {
		add(name, c.outputsNamed(root, name))
	}
	for _, cmd := range manPages(root) {
		if list := c.types[cmd]; list != nil && !printsResponse(list) {
			add(strings.TrimPrefix(cmd.CommandPath(), "crabmem "), list)
		}
	}
	var parts []string
	for key, list := range outputs {
		name := strings.Join(names[key], ", ")
		s, err := schemaOf(name, list)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s: %s\n", name, typeText(s))
		listProperties(&b, "", s)
		parts = append(parts, b.String())
	}
	slices.Sort(parts)
	got := strings.Join(parts, "\n")
	if *update {
		if err := os.WriteFile(schemasGolden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(schemasGolden)
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); err != nil || d != "" {
		t.Errorf("%s differs, %v; run with -update to rewrite it (-want +got):\n%s", schemasGolden, err, d)
	}
}

// printsResponse reports whether each type of an output is the response of an operation.
func printsResponse(list types) bool {
	responses := make(map[reflect.Type]bool)
	for _, row := range op.All() {
		if !row.Parts {
			responses[reflect.TypeOf(row.NewResponse()).Elem()] = true
		}
	}
	return len(list) > 0 && !slices.ContainsFunc(list, func(t reflect.Type) bool { return !responses[t] })
}

// listProperties lists the properties of a schema at any depth.
func listProperties(b *strings.Builder, at string, s *jsonschema.Schema) {
	for _, one := range s.AnyOf {
		fmt.Fprintf(b, "  %sor %s\n", at, typeText(one))
		listProperties(b, at+"  ", one)
	}
	for s.Items != nil {
		s = s.Items
	}
	for _, name := range s.PropertyOrder {
		p, mark := s.Properties[name], ""
		if !slices.Contains(s.Required, name) {
			mark = "?"
		}
		fmt.Fprintf(b, "  %s%s%s %s\n", at, name, mark, typeText(p))
		listProperties(b, at+name+".", p)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil {
		fmt.Fprintf(b, "  %s* %s\n", at, typeText(s.AdditionalProperties))
		listProperties(b, at+"*.", s.AdditionalProperties)
	}
}

// typeText returns the type of a schema's values.
func typeText(s *jsonschema.Schema) string {
	text := strings.Join(append(s.Types, s.Type), "|")
	text = strings.Trim(text, "|")
	if text == "" {
		text = "any"
	}
	if s.Format != "" {
		text += " " + s.Format
	}
	if s.Minimum != nil {
		text += fmt.Sprintf(" >= %v", *s.Minimum)
	}
	if len(s.Enum) > 0 {
		text += " " + strings.ReplaceAll(fmt.Sprint(s.Enum), " ", "|")
	}
	if s.Items != nil {
		text += " of " + typeText(s.Items)
	}
	return text
}

// TestEveryOutputHasType fails for a command that names no type of its JSON output.
// Families, such as config, need no type.
func TestEveryOutputHasType(t *testing.T) {
	t.Parallel()
	c := newApp(nil, nil, nil)
	for _, cmd := range manPages(rootCommand(c)) {
		if c.outputsOf(cmd) == nil && cmd.Runnable() && !cmd.HasSubCommands() {
			t.Errorf("%s names no type of its JSON output: build it with resultCommand, or call outputs", cmd.CommandPath())
		}
	}
}
