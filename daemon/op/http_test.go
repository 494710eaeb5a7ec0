package op_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/daemontest"
	"crabmem/daemon/errtable"
	"crabmem/daemon/gateway"
	"crabmem/daemon/op"
)

// A toy is what the operations of this test are about. Nothing outside this file is about
// toys: the daemon and the gateway serve the rows as they are.
type toy struct {
	ID     uint64   `json:"id"`
	Color  string   `json:"color" jsonschema:"such as red"`
	ETag   string   `json:"etag" op:"header=ETag"`
	Keeper string   `json:"keeper" op:"owner"`
	Boxes  []toyBox `json:"boxes"`
}

type toyBox struct {
	Size int    `json:"size"`
	Path string `json:"path" op:"owner"`
}

type toyFilter struct {
	Shelf string   `json:"shelf" jsonschema:"where the toys are"`
	Color string   `json:"color,omitempty" op:"words=red|blue" jsonschema:"only toys of this color"`
	Limit int      `json:"limit" op:"default=5,min=1,max=9"`
	Big   bool     `json:"big,omitempty"`
	Only  []string `json:"only,omitempty" op:"key"`
}

type newToy struct {
	Color string    `json:"color"`
	Made  time.Time `json:"made,omitzero"`
	Dry   bool      `json:"dry,omitempty" op:"query"`
	As    string    `json:"as,omitempty" op:"owner"`
}

type toyState struct {
	ID    uint64 `json:"id"`
	Match string `json:"match" op:"header=If-Match"`
	Color string `json:"color,omitempty"`
}

type toyID struct {
	ID uint64 `json:"id"`
}

var _ = op.Add(errtable.Other, op.Op[op.Daemon, toyFilter, toyFilter]{
	Name: "toys.list", Does: "List the toys.", Effect: op.Reads, Need: op.NeedNothing, Path: "GET /v1/toys",
	Run: func(_ context.Context, _ op.Daemon, in *toyFilter) (toyFilter, error) { return *in, nil },
})

var _ = op.Add(errtable.Other, op.Op[op.Daemon, newToy, toy]{
	Name: "toys.add", Does: "Add a toy.", Effect: op.Writes, Path: "POST /v1/toys", Status: http.StatusCreated,
	Run: func(_ context.Context, _ op.Daemon, in *newToy) (toy, error) {
		return toy{ID: 7, Color: in.Color, ETag: `"7"`, Keeper: "k", Boxes: []toyBox{{1, "/p"}}}, nil
	},
})

var _ = op.Add(errtable.Other, op.Op[op.Daemon, toyID, toy]{
	Name: "toys.show", Does: "Describe a toy.", Effect: op.Reads, Need: op.NeedNothing, Path: "GET /v1/toys/{id}",
	Run: func(_ context.Context, _ op.Daemon, in *toyID) (toy, error) {
		if in.ID != 7 {
			return toy{}, &errtable.Error{HTTP: http.StatusNotFound, Kind: "not_found", Message: "no toy", Fix: "crabmem toys"}
		}
		return toy{ID: 7, Color: "red", ETag: `"7"`}, nil
	},
})

var _ = op.Add(errtable.Other, op.Op[op.Daemon, toyState, op.None]{
	Name: "toys.change", Does: "Change a toy.", Effect: op.Writes, Path: "PUT /v1/toys/{id}", Fails: []int{http.StatusPreconditionFailed},
	Run: func(_ context.Context, _ op.Daemon, in *toyState) (op.None, error) {
		if in.Match != `"7"` {
			return op.None{}, &errtable.Error{HTTP: http.StatusPreconditionFailed, Kind: "changed", Message: "the toy has changed"}
		}
		return op.None{}, nil
	},
})

type noteFilter struct {
	Prefix string `json:"prefix,omitempty" jsonschema:"only names with this prefix" op:"chars=8"`
	As     string `json:"as,omitempty" op:"owner"`
}

type noteCount struct {
	Notes int    `json:"notes"`
	By    string `json:"by" op:"owner"`
}

var _ = op.Add(errtable.Store, op.Op[op.Store, noteFilter, noteCount]{
	Name: "notes.count", Does: "Count the notes.", Effect: op.Reads, Need: op.NeedRead, Path: "GET /v1/notes",
	Tool: &op.Tool{Name: "count_notes", Title: "Count notes"},
	Run: func(_ context.Context, s op.Store, in *noteFilter) (out noteCount, err error) {
		out.By = in.As + "!"
		for e := range s.All() {
			if strings.HasPrefix(e.Name, in.Prefix) {
				out.Notes++
			}
		}
		return out, nil
	},
})

// TestRowsOverHTTP checks that a gateway serves a row with a path: its route, the checks
// of requests, the headers of responses, and the description in the OpenAPI document.
func TestRowsOverHTTP(t *testing.T) {
	g := serve(t)
	for _, c := range []struct {
		who, method, path, body string
		status                  int
		want                    string // in the response
	}{
		{"root", "GET", "/v1/toys?shelf=top", "", 200, `{"shelf":"top","limit":5}`},
		{"root", "GET", "/v1/toys?shelf=top&limit=0&color=red&big=true", "", 200, `{"shelf":"top","color":"red","limit":1,"big":true}`},
		{"root", "GET", "/v1/toys", "", 400, "the parameter shelf is missing"},
		{"root", "GET", "/v1/toys?shelf=top&limit=10", "", 400, "want a number from 0 to 9"},
		{"root", "GET", "/v1/toys?shelf=top&color=green", "", 400, "want red or blue"},
		{"root", "GET", "/v1/toys?shelf=top&big=1", "", 400, "want true or false"},
		{"root", "GET", "/v1/toys?shelf=top&only=x", "", 400, `unknown parameter \"only\"`},
		{"root", "POST", "/v1/toys", `{"color":"red"}`, 201, `{"id":7,"color":"red","etag":"\"7\"","boxes":[{"size":1}]}`},
		{"root", "POST", "/v1/toys?dry=true", `{"color":"red","made":"2026-01-02T03:04:05Z"}`, 201, `"id":7`},
		{"root", "POST", "/v1/toys", `{"color":"red","made":7}`, 400, "made must be text, and is a number"},
		{"root", "POST", "/v1/toys", `{}`, 400, "color is missing"},
		{"root", "POST", "/v1/toys", `{"color":null}`, 400, "color must be text, and is null"},
		{"root", "POST", "/v1/toys", `{"Color":"red"}`, 400, `unknown field \"Color\"; did you mean color?`},
		{"root", "POST", "/v1/toys", `{"color":"red","more":1}`, 400, `unknown field \"more\"`},
		{"root", "POST", "/v1/toys", `{"color":"red","as":"ann"}`, 400, `unknown field \"as\"`},
		{"root", "POST", "/v1/toys", `{"color":"red","dry":true}`, 400, `unknown field \"dry\"`},
		{"eve", "POST", "/v1/toys", `{"color":"red"}`, 403, "api:eve may not add toys"},
		{"eve", "GET", "/v1/toys/7", "", 200, `"color":"red"`},
		{"root", "GET", "/v1/toys/8", "", 404, `"remedy":"GET /v1/toys lists the toys"`},
		{"root", "GET", "/v1/toys/07", "", 404, "no item 07 in /v1/toys"},
		{"root", "GET", "/v1/toys/x", "", 404, "no item x in /v1/toys"},
		{"root", "DELETE", "/v1/toys/7", "", 405, "use GET or PUT"},
		{"root", "PUT", "/v1/toys/7", `{}`, 428, "If-Match is missing"},
		{"", "GET", "/v1/toys/7", "", 401, "exactly one key"},
		{"root", "POST", "/v1/memories", `{"name":"a1","content":"x"}`, 201, `"name":"a1"`},
		{"root", "POST", "/v1/memories", `{"name":"b1","content":"x"}`, 201, `"name":"b1"`},
		{"root", "GET", "/v1/notes", "", 200, `{"notes":2}`},
		{"root", "GET", "/v1/notes?prefix=a", "", 200, `{"notes":1}`},
		{"root", "GET", "/v1/notes?space=other", "", 404, `open space \"other\"`},
		{"eve", "GET", "/v1/notes?space=main", "", 403, `"kind":"scope"`},
	} {
		p, b := g.do(t, c.who, c.method, c.path, c.body)
		if p.StatusCode != c.status || !strings.Contains(b, c.want) {
			t.Errorf("%s %s %s as %s: %d %s\nwant %d %s", c.method, c.path, c.body, c.who, p.StatusCode, b, c.status, c.want)
		}
	}
	p, _ := g.do(t, "root", "POST", "/v1/toys", `{"color":"red"}`)
	if p.Header.Get("ETag") != `"7"` || p.Header.Get("Location") != "/v1/toys/7" {
		t.Errorf("headers: %v", p.Header)
	}
	for etag, status := range map[string]int{`"7"`: 204, `"8"`: 412} {
		if p, b := g.do(t, "root", "PUT", "/v1/toys/7", `{"color":"blue"}`, "If-Match", etag); p.StatusCode != status {
			t.Errorf("If-Match %s: %d %s, want %d", etag, p.StatusCode, b, status)
		}
	}
	g.checkDocument(t)
}

// served is a gateway with the keys root, an admin, and eve, who is not trusted.
type served struct {
	url  string
	keys map[string]string
}

func serve(t *testing.T) *served {
	home := t.TempDir()
	config := daemontest.Config("http://127.0.0.1:1") + "[origins.\"api:root\"]\ntrust = \"admin\"\n"
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &served{keys: make(map[string]string)}
	for _, name := range []string{"root", "eve"} {
		text, _, err := gateway.AddKey(vfs.OS{}, home, gateway.Key{Name: name}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		s.keys[name] = text
	}
	addr, _ := daemontest.Serve(t, home)
	g, err := gateway.New(gateway.Options{FS: vfs.OS{}, Home: home, Config: gateway.DefaultConfig(), Daemon: addr,
		Log: slog.New(slog.DiscardHandler), Version: "test", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		g.Close()
	})
	s.url = "http://" + l.Addr().String()
	return s
}

func (s *served) do(t *testing.T, who, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	q, err := http.NewRequestWithContext(t.Context(), method, s.url+path, in)
	if err != nil {
		t.Fatal(err)
	}
	q.Close = true
	if who != "" {
		q.Header.Set("X-Api-Key", s.keys[who])
	}
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Body.Close()
	b, err := io.ReadAll(p.Body)
	if err != nil {
		t.Fatal(err)
	}
	return p, string(b)
}

// checkDocument checks how the OpenAPI document describes the toys.
func (s *served) checkDocument(t *testing.T) {
	type parameter struct {
		Name, In, Description string
		Required              bool
		Schema                struct {
			Type    string
			Maximum int64
			Enum    []string
		}
	}
	type schema struct {
		Required   []string
		Properties map[string]json.RawMessage
	}
	var d struct {
		Paths map[string]map[string]struct {
			Summary    string
			Parameters []parameter
		}
		Components struct{ Schemas map[string]schema }
	}
	_, b := s.do(t, "root", "GET", "/api-docs/openapi.json", "")
	if err := json.Unmarshal([]byte(b), &d); err != nil {
		t.Fatal(err)
	}
	list := d.Paths["/v1/toys"]["get"]
	if list.Summary != "List the toys" || len(list.Parameters) != 4 || d.Paths["/v1/toys/{id}"]["put"].Summary != "Change a toy" {
		t.Fatalf("paths: %+v", d.Paths["/v1/toys"])
	}
	if p := list.Parameters[0]; p.Name != "shelf" || p.In != "query" || !p.Required || p.Description != "where the toys are" {
		t.Errorf("shelf: %+v", p)
	}
	if p := list.Parameters[1]; !slices.Equal(p.Schema.Enum, []string{"red", "blue"}) || p.Required {
		t.Errorf("color: %+v", p)
	}
	if p := list.Parameters[2]; p.Schema.Maximum != 9 || p.Schema.Type != "integer" || p.Required {
		t.Errorf("limit: %+v", p)
	}
	in, out := d.Components.Schemas["NewToy"], d.Components.Schemas["Toy"]
	if len(in.Properties) != 2 || !slices.Equal(in.Required, []string{"color"}) {
		t.Errorf("body: %v", in)
	}
	if _, ok := out.Properties["keeper"]; ok || len(out.Properties) != 4 || !strings.Contains(string(out.Properties["color"]), "such as red") {
		t.Errorf("response: %+v", out)
	}
}
