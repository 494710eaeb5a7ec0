package gateway

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"

	"github.com/google/jsonschema-go/jsonschema"
)

// document is the part of the OpenAPI document that describes the bodies of requests.
type document struct {
	Components struct{ Schemas map[string]*jsonschema.Schema }
	Paths      map[string]map[string]struct {
		RequestBody struct {
			Content map[string]struct {
				Schema struct {
					Ref string `json:"$ref"`
				}
			}
		}
		Responses map[string]struct{ Content map[string]any }
	}
}

// ownBodies calls f with each operation of the document whose body this program defines:
// its refusals are problems.
func (d *document) ownBodies(f func(method, path string, s *jsonschema.Schema)) {
	for path, methods := range d.Paths {
		for method, o := range methods {
			ref := o.RequestBody.Content[jsonKind].Schema.Ref
			if _, own := o.Responses["400"].Content[problemKind]; own && ref != "" && !strings.HasPrefix(path, hookPath) {
				f(strings.ToUpper(method), path, d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")])
			}
		}
	}
}

// accepted are values of required fields that every route accepts, by the name of the
// field. A field of another name gets x.
var accepted = map[string]any{"schedule": "0 9 * * *", "skill": "tidy"}

// example returns a valid value of a schema other than accepted.
func example(s *jsonschema.Schema) any {
	switch s.Type {
	case "string":
		return "x"
	case "integer":
		return 1
	case "boolean":
		return true
	}
	return []string{"x"}
}

// others returns values of other types than a schema has.
func others(s *jsonschema.Schema) (list []any) {
	for kind, v := range map[string]any{"string": "x", "integer": 7, "boolean": true, "array": []any{"x"}, "object": object{"a": "x"}} {
		if kind != s.Type && !slices.Contains(s.Types, kind) {
			list = append(list, v)
		}
	}
	if s.Type == "integer" || slices.Contains(s.Types, "integer") {
		list = append(list, 1.5, 1e30)
	}
	return append(list, []any{nil})
}

// badBodies returns bodies that each violate a schema in one field, by what is wrong.
func badBodies(s *jsonschema.Schema) map[string]string {
	valid := object{}
	for _, name := range s.Required {
		valid[name] = example(s.Properties[name])
		if v, ok := accepted[name]; ok {
			valid[name] = v
		}
	}
	text := func(o object) string {
		b, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	list := map[string]string{"": text(valid)}
	for name, p := range s.Properties {
		with := func(key string, v any) string {
			o := maps.Clone(valid)
			delete(o, name)
			o[key] = v
			return text(o)
		}
		if _, ok := valid[name]; ok {
			o := maps.Clone(valid)
			delete(o, name)
			list[name+" missing"] = text(o)
		}
		if !slices.Contains(p.Types, "null") {
			list[name+" null"] = with(name, nil)
		}
		for _, v := range others(p) {
			list[fmt.Sprintf("%s %T %v", name, v, v)] = with(name, v)
		}
		for _, other := range []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], strings.Replace(name, "s", "ſ", 1)} {
			if other != name {
				list[name+" as "+other] = with(other, example(p))
			}
		}
		again, _ := json.Marshal(object{name: example(p)})
		list[name+" twice"] = strings.TrimSuffix(with(name, example(p)), "}") + "," + string(again[1:])
	}
	list["unknown unknown"] = strings.TrimSuffix(text(valid), "}") + `,"unknown":1}`
	if len(valid) == 0 {
		list["unknown unknown"] = `{"unknown":1}`
	}
	return list
}

// contents returns a digest of the files that a request can change.
func (r *rig) contents() (sum [sha256.Size]byte) {
	r.t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(r.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Base(filepath.Dir(path)) == "run" {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(b), b)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// TestShapes sends, to each route of this program, bodies that the OpenAPI document
// excludes: each field missing, null, of another type, twice, or in other letters. The
// refusal names the field, and nothing changes.
func TestShapes(t *testing.T) {
	race.Skip(t)
	r := newRig(t)
	r.model.Func(func(modeltest.Request) modeltest.Reply { return modeltest.Say("x") })
	r.skill("tidy")
	memory, etag := r.create("root", "deploy", "by hand")
	r.create("root", "x", "to pin")
	task := fmt.Sprint(r.do("root", "POST", "/v1/tasks", object{"title": "deploy"}).field("number"))
	session, _ := r.do("root", "POST", "/v1/send", object{"content": "hi"}).field("session").(string)
	run := r.do("root", "POST", "/v1/runs", object{"content": "hi"}).Header.Get("Location")
	r.eventually("the run ends", func() bool { return r.do("root", "GET", run, nil).field("state") != running })
	r.want("title", r.do("root", "PATCH", "/v1/sessions/"+session, object{"title": "kept"}), 200, "")
	var d document
	if err := json.Unmarshal(r.do("root", "GET", "/api-docs/openapi.json", nil).body, &d); err != nil {
		t.Fatal(err)
	}
	operations, sent := 0, 0
	before := r.contents()
	var valid []func()
	d.ownBodies(func(method, path string, s *jsonschema.Schema) {
		operations++
		at := strings.Replace(path, "/v1/memories/{id}", memory, 1)
		at = strings.Replace(at, "/v1/runs/{id}", run, 1)
		at = strings.NewReplacer("{id}", session, "{number}", task, "{session}", session, "{work}", "w1").Replace(at)
		for what, body := range badBodies(s) {
			if what == "" {
				if path == "/v1/crons" { // the schema does not say that one of two is needed
					body = strings.Replace(body, "{", `{"prompt":"hi",`, 1)
				}
				valid = append(valid, func() {
					if p := r.do("root", method, at, body, "If-Match", etag); p.StatusCode == 400 || p.StatusCode == 404 && !strings.Contains(path, "{work}") { // there is no work
						t.Errorf("%s %s %s: %d %s", method, at, body, p.StatusCode, p.body)
					}
				})
				continue
			}
			sent++
			p := r.do("root", method, at, body, "If-Match", etag)
			name, _, _ := strings.Cut(what, " ")
			if detail, _ := p.field("detail").(string); p.StatusCode != 400 || !strings.Contains(strings.ToLower(detail), name) && !strings.Contains(what, "ſ") {
				t.Errorf("%s %s %s: %s: %d %s", method, at, what, body, p.StatusCode, p.body)
			}
		}
	})
	if r.contents() != before {
		t.Error("a refused body changed something")
	}
	for _, f := range valid { // else the test proves nothing
		r.do("root", "POST", "/v1/memories", object{"name": "x", "content": "to pin"}) // which another one may have removed
		f()
	}
	t.Logf("bodies: %d sent to %d operations", sent, operations)
	if operations < 10 || sent < 300 {
		t.Errorf("%d bodies to %d operations", sent, operations)
	}
}

// TestManyItems: a list of millions is refused at the first item too many.
func TestManyItems(t *testing.T) {
	schema, err := schemaOf(of[op.NewEntry]())
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"name":"a","content":"b","aliases":["a"` + strings.Repeat(`,"a"`, 2_300_000) + `]}`)
	allocated := testing.AllocsPerRun(1, func() {
		if err := op.CheckBody(body, schema); err == nil || !strings.Contains(err.Error(), "aliases: more than 1024 items") {
			t.Errorf("2.3 million aliases: %v", err)
		}
	})
	if allocated > 20*crmem.MaxAliases {
		t.Errorf("%.0f allocations", allocated)
	}
}

// TestParameters checks the values of parameters at their limits.
func TestParameters(t *testing.T) {
	for _, c := range []struct {
		f     op.Field
		value string
		want  string
	}{
		{op.Field{Type: of[string]()}, strings.Repeat("x", defaultSize), ""},
		{op.Field{Type: of[string]()}, strings.Repeat("x", defaultSize+1), "want UTF-8 of at most 1024 bytes"},
		{op.Field{Type: of[string](), Size: 2}, "xx", ""}, {op.Field{Type: of[string](), Size: 2}, "xxx", "want UTF-8 of at most 2 bytes"}, {op.Field{Type: of[string]()}, "\xff", "want UTF-8 of at most 1024 bytes"},
		{op.Field{Type: of[int](), Max: 5}, "0", ""}, {op.Field{Type: of[int](), Max: 5}, "5", ""}, {op.Field{Type: of[int](), Max: 5}, "6", "want a number from 0 to 5"},
		{op.Field{Type: of[int](), Max: 1}, "2", "want a number from 0 to 1"}, {op.Field{Type: of[int](), Max: 5}, "-1", "want a number from 0 to 5"},
		{op.Field{Type: of[int]()}, "9007199254740991", ""}, {op.Field{Type: of[int]()}, "9007199254740992", "want a number below 2^53"}, {op.Field{Type: of[int]()}, "x", "want a number below 2^53"},
		{op.Field{Type: of[bool]()}, "true", ""}, {op.Field{Type: of[bool]()}, "false", ""}, {op.Field{Type: of[bool]()}, "1", "want true or false"}, {op.Field{Type: of[bool]()}, "", "want true or false"},
		{op.Field{Type: of[string](), Words: []string{"a", "b"}}, "b", ""}, {op.Field{Type: of[string](), Words: []string{"a", "b"}}, "c", "want a or b"},
	} {
		got := ""
		if err := checkParam(&c.f, c.value); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v, %.20q: %q, want %q", c.f, c.value, got, c.want)
		}
	}
	for text, want := range map[string]uint64{"1": 1, "9007199254740991": 1<<53 - 1, "0": 0, "01": 0, "+1": 0, "-1": 0, "": 0, "9007199254740992": 0} {
		if n, ok := op.Positive(text); ok != (want > 0) || ok && n != want {
			t.Errorf("%q: %d, %v", text, n, ok)
		}
	}
}
