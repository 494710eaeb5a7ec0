package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/gateway/memstores"
	"crabmem/daemon/op"

	"github.com/google/jsonschema-go/jsonschema"
)

// protocolVersion is the version of the interface.
const protocolVersion = "0.1"

// object is a JSON object of the document. Its keys are sorted when it is encoded.
type object = map[string]any

// common are the statuses of refusals that every route with a key may have.
var common = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests,
	http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
}

// statuses returns the statuses of refusals of a route.
func (r *route) statuses() []int {
	if r.kind == socketKind {
		return []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusUpgradeRequired, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	}
	if r.open {
		return []int{http.StatusBadRequest, http.StatusForbidden}
	}
	list := slices.Concat(common, r.fails)
	if r.in != nil {
		list = append(list, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// operationID returns a name for a route, such as get_v1_memories_id.
func (r *route) operationID() string {
	words := strings.FieldsFunc(r.path, func(c rune) bool { return c == '/' || c == '{' || c == '}' || c == '-' || c == '.' })
	return strings.ToLower(r.method) + "_" + strings.Join(words, "_")
}

// schemas collects the schemas of types by their names.
type schemas map[string]*jsonschema.Schema

// ref returns a reference to the schema of a type. An empty name is the name of the type.
func (s schemas) ref(t reflect.Type, name string) (object, error) {
	if t.PkgPath() != "" {
		name = t.Name()
	}
	if name == "" { // a list or a map
		schema, err := schemaOf(t)
		return object{"schema": schema}, err
	}
	name = strings.ToUpper(name[:1]) + name[1:]
	if s[name] == nil {
		schema, err := schemaOf(t)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", name, err)
		}
		s[name] = schema
	}
	return object{"schema": object{"$ref": "#/components/schemas/" + name}}, nil
}

// schemaOf returns the schema of a type.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	texts := &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "array", Items: &jsonschema.Schema{
		Type: "object", Required: []string{"type", "text"}, Properties: map[string]*jsonschema.Schema{"type": {Const: jsonschema.Ptr[any]("text")}, "text": {Type: "string"}}}}}}
	schema, err := op.SchemaOf(t, op.Schemas{of[chatContent](): texts, of[raw](): {}})
	if err == nil && t == of[chatRequest]() {
		schema.AdditionalProperties = nil // they are ignored
	}
	return schema, err
}

// namedEvents are the data of the named events of a run.
var namedEvents = streamEvents()

func streamEvents() map[string]reflect.Type {
	events := map[string]reflect.Type{"gap": of[agent.Event](), "error": of[Problem](), errtable.Cancelled: of[Problem]()}
	for _, k := range agent.Kinds {
		switch k {
		case agent.TextDelta, agent.ToolsComplete, agent.Refused, agent.Done, agent.Lag:
		case agent.Usage:
			events["usage"] = of[agent.TokenUsage]()
		default:
			events[streamName(k)] = of[agent.Event]()
		}
	}
	return events
}

// openAPI returns the document that describes routes, in version 3.1 of OpenAPI.
func openAPI(routes []route) ([]byte, error) {
	all := schemas{}
	paths := make(map[string]object)
	for i := range routes {
		r := &routes[i]
		operation, err := r.describe(all)
		if err != nil {
			return nil, err
		}
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		paths[r.path][strings.ToLower(r.method)] = operation
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info":    object{"title": "crabmem", "version": protocolVersion, "description": "The memory, the sessions, and the agents of a crabmem daemon."},
		"paths":   paths,
		"components": object{
			"schemas": all,
			"securitySchemes": object{
				"bearer": object{"type": "http", "scheme": "bearer"},
				"header": object{"type": "apiKey", "in": "header", "name": "X-Api-Key"},
			},
		},
		"security": []object{{"bearer": []string{}}, {"header": []string{}}},
	})
}

// refusal returns the type of the body of a refusal, and its kind.
func (r *route) refusal() (reflect.Type, string) {
	switch r.style {
	case openaiStyle:
		return of[openaiError](), jsonKind
	case storeStyle:
		return memstores.Refusal, jsonKind
	}
	return of[Problem](), problemKind
}

// describe returns the operation of a route.
func (r *route) describe(all schemas) (object, error) {
	refused, kind := r.refusal()
	problem, err := all.ref(refused, "")
	if err != nil {
		return nil, err
	}
	responses := object{}
	for _, status := range r.statuses() {
		responses[fmt.Sprint(status)] = object{"description": statusText(status), "content": object{kind: problem}}
	}
	success := object{"description": r.summary}
	if r.out != nil {
		schema, err := all.ref(r.out, r.outName)
		if err != nil {
			return nil, err
		}
		kind = jsonKind
		if r.kind == textKind {
			kind, schema = "text/plain", object{"schema": object{"type": "string"}}
		}
		if r.kind == streamKind {
			kind = streamKind
			if schema, err = r.eventSchema(all, schema["schema"]); err != nil {
				return nil, err
			}
		}
		content := object{kind: schema}
		if r.kind == "" && r.events != nil { // also a stream of unnamed events
			content[streamKind] = object{"schema": object{"type": "object", "required": []string{"data"}, "properties": object{"data": object{"type": "string"}}}}
		}
		success["content"] = content
	}
	responses[fmt.Sprint(r.status)] = success
	o := object{"summary": r.summary, "operationId": r.operationID(), "responses": responses}
	if list := r.parameters(); len(list) > 0 {
		o["parameters"] = list
	}
	if r.in != nil {
		schema, err := all.ref(r.in, r.inName)
		if err != nil {
			return nil, err
		}
		if r.own() {
			r.body, err = schemaOf(r.in)
		}
		if err != nil {
			return nil, err
		}
		o["requestBody"] = object{"required": true, "content": object{jsonKind: schema}}
	}
	if r.open {
		o["security"] = []object{}
	}
	return o, nil
}

// eventSchema returns the schema of an event of a stream, as OpenAPI 3.2 defines it. An
// unnamed event has the schema first.
func (r *route) eventSchema(all schemas, first any) (object, error) {
	byName, every := object{}, []any{first}
	for name, t := range r.events {
		event, err := all.ref(t, "")
		if err != nil {
			return nil, err
		}
		byName[name] = event["schema"]
	}
	names := slices.Sorted(maps.Keys(byName))
	for _, name := range names {
		every = append(every, byName[name])
	}
	return object{"x-events": byName, "schema": object{"type": "object", "required": []string{"data"}, "properties": object{
		"id":    object{"type": "string"},
		"event": object{"type": "string", "enum": append(names, "message")}, // an unnamed event is a message
		"data":  object{"type": "string", "contentMediaType": jsonKind, "contentSchema": object{"anyOf": every}},
	}}}, nil
}

// parameters returns the parameters of path, query, and header.
func (r *route) parameters() (list []object) {
	for part := range strings.SplitSeq(r.path, "/") {
		if !strings.HasPrefix(part, "{") {
			continue
		}
		list = append(list, object{"name": strings.Trim(part, "{}"), "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for i := range r.query {
		f := &r.query[i]
		schema := object{"type": kindOf(f)}
		switch {
		case kindOf(f) == "integer":
			schema["minimum"] = 0
			schema["maximum"] = cmp.Or(int64(f.Max), 1<<53-1)
		case len(f.Words) > 0:
			schema["enum"] = f.Words
		}
		one := object{"name": f.Name, "in": "query", "description": f.Doc, "schema": schema}
		if mustSet(f) {
			one["required"] = true
		}
		list = append(list, one)
	}
	if r.match {
		list = append(list, object{"name": "If-Match", "in": "header", "required": true, "description": "etag of the entry, or *", "schema": object{"type": "string"}})
	}
	if r.once {
		list = append(list, object{"name": "Idempotency-Key", "in": "header", "description": "the request may be repeated with this key, and has one effect",
			"schema": object{"type": "string", "minLength": 1, "maxLength": maxOnceKey}})
	}
	return list
}
