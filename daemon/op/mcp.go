package op

import (
	"cmp"
	"encoding/json"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Tool is how clients of the Model Context Protocol see an operation.
type Tool struct {
	Name  string // such as get_memory
	Title string // for people
	Does  string // for models; empty: as the operation
	// Idempotent is set if a repeated call changes nothing more. Operations with Reads or
	// Retry need no mark.
	Idempotent bool
}

// Describe returns what the operation does, for models.
func (r *Row) Describe() string { return cmp.Or(r.Tool.Does, r.Does) }

// Idempotent reports whether a repeated call changes nothing more.
func (r *Row) Idempotent() bool { return r.Retry || r.Tool.Idempotent }

// ToolSchemas returns the schemas of the arguments and of the structured result.
func (r *Row) ToolSchemas() (in, out *jsonschema.Schema, err error) {
	if in, err = ToolSchema(ForClients(r.in)); err == nil {
		out, err = ToolSchema(ForClients(r.out))
	}
	return in, out, err
}

// ToolSchema returns the schema of a type for clients of the Model Context Protocol: a
// list is never null, and unknown keys are permitted.
func ToolSchema(t reflect.Type) (*jsonschema.Schema, error) {
	s, err := SchemaOf(t, nil)
	relax(s)
	return s, err
}

func relax(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	s.AdditionalProperties = nil
	refuseNull(s)
	relax(s.Items)
	for _, p := range s.Properties {
		relax(p)
	}
}

// ForClients returns a response without the fields that clients do not have.
func (r *Row) ForClients(out any) (any, error) {
	t := ForClients(r.out)
	if t == r.out {
		return out, nil
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	less := reflect.New(t).Interface()
	return less, json.Unmarshal(b, less)
}
