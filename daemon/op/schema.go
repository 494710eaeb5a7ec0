package op

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"crabmem/crmem"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schemas are the schemas of types whose JSON is not that of their Go kind.
type Schemas = map[reflect.Type]*jsonschema.Schema

// SchemaOf returns the JSON Schema of a type. The schemas in more are for types that are
// not in Go's library, crmem, or this package.
func SchemaOf(t reflect.Type, more Schemas) (*jsonschema.Schema, error) {
	types := Schemas{
		reflect.TypeFor[time.Time]():        {Type: "string", Format: "date-time"},
		reflect.TypeFor[json.RawMessage]():  {},
		reflect.TypeFor[crmem.UnixTime]():   {Type: "string", Description: "RFC 3339, or @SECONDS from the year 10000 on"},
		reflect.TypeFor[crmem.Kind]():       OneOf(crmem.Note.String(), crmem.Archive.String()),
		reflect.TypeFor[crmem.ChangeType](): OneOf(crmem.ChangeAdd, crmem.ChangeUpdate, crmem.ChangeAlias, crmem.ChangeRename, crmem.ChangeRemove),
	}
	maps.Copy(types, more)
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: types})
	if err == nil {
		refine(s, t, (*Field).limit)
	}
	return s, err
}

// limit adds what the tag op says of a field to its schema.
func (f *Field) limit(s *jsonschema.Schema) {
	for _, w := range f.Words {
		var v any = w
		if s.Type == "integer" {
			v, _ = strconv.Atoi(w)
		}
		s.Enum = append(s.Enum, v)
	}
	if f.Time {
		s.Format = "date-time"
	}
	if f.Default != "" {
		s.Default = json.RawMessage(f.Default)
	}
	if f.Min > 0 {
		s.Minimum = jsonschema.Ptr(float64(f.Min))
	}
	if f.Max > 0 {
		s.Maximum = jsonschema.Ptr(float64(f.Max))
	}
	if f.Chars > 0 {
		s.MaxLength = &f.Chars
	}
	if f.Items > 0 {
		s.MaxItems = &f.Items
	}
	if f.Filled {
		text := s
		if s.Items != nil {
			text = s.Items
		}
		text.MinLength = jsonschema.Ptr(1)
	}
}

// OutputSchemaOf returns the JSON Schema of a type that this program only writes: unlike
// in a request, a list is null only if its tag op says so, and an optional field is
// absent and not null.
func OutputSchemaOf(t reflect.Type, more Schemas) (*jsonschema.Schema, error) {
	s, err := SchemaOf(t, more)
	if err == nil {
		refuseNull(s)
		refine(s, t, func(f *Field, s *jsonschema.Schema) {
			if !f.Required || f.Type.Kind() != reflect.Pointer && !f.Null {
				refuseNull(s)
			}
			refuseNull(s.Items)
			refuseNull(s.AdditionalProperties)
		})
	}
	return s, err
}

// OneOf returns the schema of a string that is one of some words.
func OneOf[S ~string](words ...S) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, w := range words {
		s.Enum = append(s.Enum, string(w))
	}
	return s
}

// refine calls do with each field of a type, at any depth, and with its schema.
func refine(s *jsonschema.Schema, t reflect.Type, do func(*Field, *jsonschema.Schema)) {
	if s == nil {
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		refine(s, t.Elem(), do)
	case reflect.Slice, reflect.Array:
		refine(s.Items, t.Elem(), do)
	case reflect.Map:
		refine(s.AdditionalProperties, t.Elem(), do)
	}
	for _, f := range Fields(t) {
		if !f.Required {
			s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return name == f.Name })
		}
		if p := s.Properties[f.Name]; p != nil {
			do(&f, p)
			refine(p, f.Type, do)
		}
	}
}

// refuseNull changes a schema so that null is invalid.
func refuseNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if i := slices.Index(s.Types, "null"); i >= 0 && len(s.Types) == 2 {
		s.Type, s.Types = s.Types[1-i], nil
	}
}
