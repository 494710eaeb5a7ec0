package op

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// TestPaths checks that a path that does not fit its request is found when the program starts.
func TestPaths(t *testing.T) {
	type id struct {
		ID uint64 `json:"id"`
	}
	for _, c := range []struct {
		path string
		in   any
	}{
		{"HEAD /v1/x", None{}},
		{"GET", None{}},
		{"GET v1/x", None{}},
		{"GET /v1/x/{id}", None{}},
		{"GET /v1/x/{name}", id{}},
		{"GET /v1/x", struct {
			ID uint64 `json:"id" op:"path=id"`
		}{}},
		{"GET /v1/x", struct {
			IDs []uint64 `json:"ids"`
		}{}},
		{"GET /v1/x", struct {
			ID uint64 `json:"id" op:"biggest=7"`
		}{}},
		{"GET /v1/x", struct {
			ID uint64 `json:"id" op:"max=x"`
		}{}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s accepts %T", c.path, c.in)
				}
			}()
			newPath(c.path, 0, nil, reflect.TypeOf(c.in), reflect.TypeFor[None]())
		}()
	}
	if p := newPath("DELETE /v1/x/{id}", 0, nil, reflect.TypeFor[id](), reflect.TypeFor[None]()); p.Status != 204 || p.Body != nil || p.Response != nil {
		t.Errorf("%+v", p)
	}
}

// TestForClients checks that a type for clients has no field of the owner, at any depth, and
// that a type without such fields is the same.
func TestForClients(t *testing.T) {
	type item struct {
		Name string    `json:"name"`
		At   time.Time `json:"at"`
		Path string    `json:"path" op:"owner"`
	}
	type whole struct {
		item
		One  *item           `json:"one"`
		List []item          `json:"list"`
		Map  map[string]item `json:"map"`
	}
	a := item{Name: "a", Path: "/p"}
	body, err := Encode(whole{a, &a, []item{a}, map[string]item{"k": a}})
	if err != nil {
		t.Fatal(err)
	}
	out := reflect.New(ForClients(reflect.TypeFor[whole]()))
	if err := Decode(body, out.Interface()); err != nil {
		t.Fatal(err)
	}
	const one = `"name":"a","at":"0001-01-01T00:00:00Z"`
	const want = "{" + one + `,"one":{` + one + `},"list":[{` + one + `}],"map":{"k":{` + one + "}}}"
	if b, err := json.Marshal(out.Interface()); err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
	for _, same := range []reflect.Type{reflect.TypeFor[Cron](), reflect.TypeFor[[]Cron](), reflect.TypeFor[Space](), reflect.TypeFor[time.Time]()} {
		if got := ForClients(same); got != same {
			t.Errorf("%v became %v", same, got)
		}
	}
}
