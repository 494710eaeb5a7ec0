package mcp

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits of the schema of a tool's arguments.
const (
	maxSource = 64 << 10 // bytes from the server; a larger schema is omitted
	maxSchema = 16 << 10 // bytes without references
	maxLevels = 32       // of schemas in schemas; deeper ones permit every value
)

// schemaOf returns the schema of a tool's arguments: an object without references.
// If it is too large with all levels, it has fewer. nil is unknown.
func schemaOf(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil || len(b) > maxSource || string(b) == "null" {
		return nil
	}
	for levels := maxLevels; levels > 1; levels /= 2 {
		in := inliner{root: v, levels: levels}
		object := asObject(in.schema(v, 0))
		if b, err := json.Marshal(object); in.size <= maxSchema && err == nil && len(b) <= maxSchema {
			return b
		}
	}
	return nil
}

// inliner copies a schema and replaces references by the schemas that they name.
type inliner struct {
	root   any
	levels int
	size   int      // bytes of the copy, about; the copy ends at the limit
	active []string // references whose schemas are being copied
}

// full counts the bytes of a value. It reports whether the copy is too large.
func (in *inliner) full(bytes int) bool {
	in.size += bytes + 2
	return in.size > maxSchema
}

// unused are the members of a schema that have no meaning in a copy.
var unused = []string{"$anchor", "$comment", "$defs", "$id", "$ref", "$schema", "definitions"}

func (in *inliner) schema(v any, level int) any {
	m, ok := v.(map[string]any)
	if !ok {
		return in.value(v)
	}
	out := map[string]any{}
	if level > in.levels || in.full(0) {
		return out
	}
	if ref, ok := m["$ref"].(string); ok {
		if target, ok := in.find(ref); ok && slices.Contains(in.active, ref) {
			// A schema that contains itself has its type alone.
			self, _ := target.(map[string]any)
			if kind, ok := self["type"].(string); ok {
				out["type"] = kind
			}
		} else if ok {
			in.active = append(in.active, ref)
			if target, ok := in.schema(target, level+1).(map[string]any); ok {
				out = target
			}
			in.active = in.active[:len(in.active)-1]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		v := m[name]
		if v == nil && name != "const" && name != "default" || slices.Contains(unused, name) || in.full(len(name)) {
			continue
		}
		switch name {
		case "properties", "patternProperties", "dependentSchemas":
			if named, ok := v.(map[string]any); ok {
				out[name] = in.named(named, level)
			}
		case "const", "default", "enum", "example", "examples":
			out[name] = in.value(v)
		case "description", "title":
			if text, ok := v.(string); ok {
				text = data(text, maxDescription)
				in.full(len(text))
				out[name] = text
			}
		default:
			if list, ok := v.([]any); ok {
				schemas := make([]any, len(list))
				for i, v := range list {
					schemas[i] = in.schema(v, level+1)
				}
				out[name] = schemas
			} else {
				out[name] = in.schema(v, level+1)
			}
		}
	}
	return out
}

// named copies schemas by the names of properties.
func (in *inliner) named(m map[string]any, level int) map[string]any {
	out := make(map[string]any, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if in.full(len(name)) {
			break
		}
		if out[name] = map[string]any{}; level < in.levels {
			if schema, ok := in.schema(m[name], level+1).(map[string]any); ok {
				out[name] = schema
			}
		}
	}
	return out
}

// value counts the bytes of a value that is not a schema.
func (in *inliner) value(v any) any {
	b, _ := json.Marshal(v) // v was decoded
	in.full(len(b))
	return v
}

// find returns the value in the schema that a reference names.
func (in *inliner) find(ref string) (any, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || path != "" && path[0] != '/' {
		return nil, false
	}
	v := in.root
	for _, name := range strings.Split(path, "/")[1:] {
		switch at := v.(type) {
		case map[string]any:
			v, ok = at[strings.NewReplacer("~1", "/", "~0", "~", "%24", "$").Replace(name)]
		case []any:
			i, err := strconv.Atoi(name)
			if ok = err == nil && i >= 0 && i < len(at); ok {
				v = at[i]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	return v, true
}

// asObject returns a schema as that of an object, with the properties of all its
// alternatives: model providers accept no other form for arguments.
func asObject(v any) map[string]any {
	m, _ := v.(map[string]any)
	if kind, ok := m["type"].(string); m == nil || ok && kind != "object" {
		m = map[string]any{}
	}
	m["type"] = "object"
	properties, _ := m["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
	}
	m["properties"] = properties
	required, _ := m["required"].([]any)
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := m[key].([]any)
		delete(m, key)
		for _, v := range list {
			part := asObject(v)
			for name, p := range part["properties"].(map[string]any) {
				if _, ok := properties[name]; !ok {
					properties[name] = p
				}
			}
			if more, ok := part["required"].([]any); ok && key == "allOf" {
				required = append(required, more...)
			}
		}
	}
	delete(m, "required")
	required = slices.DeleteFunc(required, func(v any) bool { _, ok := v.(string); return !ok })
	if len(required) > 0 {
		m["required"] = required
	}
	for _, key := range []string{"not", "enum", "const"} {
		delete(m, key)
	}
	return m
}
