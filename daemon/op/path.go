package op

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// A Path is where a gateway serves an operation over HTTP.
type Path struct {
	Method, Pattern string // such as POST and /v1/spaces/{name}
	Status          int    // of a success
	Fails           []int  // statuses of its refusals, besides those of each operation
	Fields          []Field
	Body            reflect.Type // with the fields in the body; nil: none
	Response        reflect.Type // nil: none

	BodyName, ResponseName string // of the types; empty: they have none
}

// newPath returns the path of an operation with the types of a request and a response. It
// panics if the path is invalid.
func newPath(path string, status int, fails []int, in, out reflect.Type) *Path {
	p := &Path{Status: status, Fails: fails, Fields: slices.Clone(Fields(in))}
	p.Method, p.Pattern, _ = strings.Cut(path, " ")
	withBody := slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, p.Method)
	if !withBody && p.Method != http.MethodGet && p.Method != http.MethodDelete || !strings.HasPrefix(p.Pattern, "/") {
		panic(fmt.Sprintf("op: the path %q is invalid", path))
	}
	wildcards := p.Wildcards()
	for i := range p.Fields {
		f := &p.Fields[i]
		if f.Place == InBody && slices.Contains(wildcards, f.Name) {
			f.Place = InPath
		}
		if f.Place == InBody && !withBody {
			f.Place = InQuery
		}
		if f.Place != InBody && f.Place < OfKey && !f.isParameter() || f.Place == InPath && !slices.Contains(wildcards, f.Part) {
			panic(fmt.Sprintf("op: the path %q cannot contain the field %s", path, f.Name))
		}
	}
	for _, name := range wildcards {
		if !slices.ContainsFunc(p.Fields, func(f Field) bool { return f.Place == InPath && f.Part == name }) {
			panic(fmt.Sprintf("op: the path %q has no field %s", path, name))
		}
	}
	if slices.ContainsFunc(p.Fields, func(f Field) bool { return f.Place == InBody }) {
		p.BodyName = in.Name()
		p.Body = structOf(in, p.Fields, func(place Place) bool { return place == InBody })
	}
	if out.Kind() == reflect.Pointer {
		out = out.Elem()
	}
	if out != reflect.TypeFor[None]() {
		p.ResponseName = out.Name()
		p.Response = ForClients(out)
	}
	switch {
	case p.Status != 0:
	case p.Response == nil:
		p.Status = http.StatusNoContent
	default:
		p.Status = http.StatusOK
	}
	return p
}

// Wildcards returns the names in the pattern.
func (p *Path) Wildcards() (names []string) {
	for part := range strings.SplitSeq(p.Pattern, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}
