package gateway

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("gateway.update", false, "rewrite testdata/openapi.json")

// TestOpenAPI compares the document of the routes without an operation, which package daemon
// records, with the stored one.
func TestOpenAPI(t *testing.T) {
	const file = "testdata/openapi.json"
	b, err := openAPI(slices.DeleteFunc(everyRoute(), isOperation))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := json.Indent(&text, b, "", "  "); err != nil {
		t.Fatal(err)
	}
	text.WriteByte('\n')
	if *update {
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(want, text.Bytes()) {
		t.Errorf("%s differs, %v; run with -gateway.update to rewrite it:\n%s", file, err, cmp.Diff(string(want), text.String()))
	}
}

// TestOpenAPIReferences checks the references in the document of all routes. The server sends
// it only to clients with a key.
func TestOpenAPIReferences(t *testing.T) {
	all := everyRoute()
	b, err := openAPI(all)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct{ Schemas map[string]any }
		Paths      map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(b, &document); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"#/components/schemas/([A-Za-z]+)"`).FindAllSubmatch(b, -1) {
		if document.Components.Schemas[string(m[1])] == nil {
			t.Errorf("no schema %s", m[1])
		}
	}
	ids := make(map[string]bool)
	for _, methods := range document.Paths {
		for _, o := range methods {
			if ids[o.OperationID] {
				t.Errorf("operation %s occurs twice", o.OperationID)
			}
			ids[o.OperationID] = true
		}
	}
	if len(ids) != len(all) {
		t.Errorf("%d operations of %d routes", len(ids), len(all))
	}
	r := newRig(t)
	if p := r.want("without a key", r.do("", "GET", "/api-docs/openapi.json", nil), 200, ""); p.field("openapi") != "3.1.0" || p.field("info.version") != "0.1" {
		t.Errorf("document: %.200s", p.body)
	}
}

// TestBodiesOfRoutes: the type of a route's body in the table is the one that its
// function decodes.
func TestBodiesOfRoutes(t *testing.T) {
	for _, one := range everyRoute() {
		typed := one.in != nil
		if body := one.method == "POST" || one.method == "PUT" || one.method == "PATCH"; typed && !body || one.method == "PUT" && !typed {
			t.Errorf("%s %s: body %v", one.method, one.path, one.in)
		}
		if one.kind == socketKind {
			continue
		}
		if one.status < 200 || one.status > 299 || (one.out == nil) != (one.status == 204) || one.out != nil && one.out.Kind() == reflect.Pointer {
			t.Errorf("%s %s: status %d with %v", one.method, one.path, one.status, one.out)
		}
		if one.match && !slices.Contains(one.fails, 428) {
			t.Errorf("%s %s: no status 428", one.method, one.path)
		}
	}
}
