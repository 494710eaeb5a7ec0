package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
)

// schemasGolden lists the properties of the JSON output of each command, one per line, so
// that a review of a change sees it. A ? follows an optional property.
const schemasGolden = "testdata/schemas.txt"

// TestSchemas compares the schemas with the golden file, which go test -run TestSchemas
// -update rewrites.
func TestSchemas(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, name := range outputNames() {
		s, err := schemaOf(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s\n", name, typeText(s))
		listProperties(&b, "", s)
	}
	got := strings.TrimPrefix(b.String(), "\n")
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

// outputNames returns the commands in the table of outputs.
func outputNames() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(memoryOutputs())), maps.Keys(daemonOutputs()))
	slices.Sort(names)
	return names
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

// TestEveryOutputHasType fails for a command without a type in the table of outputs, and for a
// type without a command. Families, such as config, need no type.
func TestEveryOutputHasType(t *testing.T) {
	t.Parallel()
	known := []string{"bench query", "error"}
	for _, cmd := range manPages(rootCommand(newApp(nil, nil, nil))) {
		name := strings.TrimPrefix(cmd.CommandPath(), "crabmem ")
		known = append(known, name)
		s, err := schemaOf(name)
		if err != nil || s == nil && cmd.Runnable() && !cmd.HasSubCommands() {
			t.Errorf("%s has no type in the table of outputs: %v", name, err)
		}
	}
	for _, name := range slices.AppendSeq(outputNames(), maps.Values(sharedSchemas)) {
		if !slices.Contains(known, name) {
			t.Errorf("%s is no command", name)
		}
	}
}
